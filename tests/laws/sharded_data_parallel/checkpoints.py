"""Checkpoints: what one process would have saved, read by any number of ranks, and what survives a kill."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal
from tests.laws.sentences import broken
from tests.laws.sharded_data_parallel import oracle
from tests.laws.sharded_data_parallel.runs import ODD, SGD, Shapes, draw
from tests.laws.sharded_data_parallel.values import STEP_ERROR

MOMENTS = {"AdamW": ("exp_avg", "exp_avg_sq"), "SGD": ("momentum_buffer",)}
ADAMW_DEFAULTS = {"lr": 0.05, "weight_decay": 0.1}


def run_trained_state(observe: Any, world_size: int, *, optimizer: str, num_steps: int, shapes: Shapes = ODD, **case: Any) -> Any:
    """full_state_dict after `num_steps` steps."""
    shared, frozen = case.get("shared", {}), case.get("frozen", ())
    places = shapes | {alias: shapes[source] for alias, source in shared.items()}
    defaults = ADAMW_DEFAULTS if optimizer == "AdamW" else SGD["defaults"]

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given: dict[str, Any] = {f"value/{name}": draw(rng, shape) for name, shape in shapes.items()}
        for number in range(num_steps + 1):
            given |= {f"factor/{number}/0/{name}": [draw(rng, shape) for _ in range(world_size)] for name, shape in places.items()}
        return given

    tensors = {f"value/{name}": ("float64", shape) for name, shape in shapes.items()}
    trained = {name: shape for name, shape in shapes.items() if name not in frozen}
    tensors |= {f"state/{key}/{name}": ("float64", shape) for key in MOMENTS[optimizer] for name, shape in trained.items()}
    if optimizer == "AdamW":
        tensors |= {f"state/step/{name}": ("float32", ()) for name in trained}
    return observe(
        "trained_state",
        world_size=world_size,
        inputs=inputs,
        returns={name: on_the_first(spec, world_size) for name, spec in tensors.items()},
        shapes={name: list(shape) for name, (_, shape) in tensors.items()},
        optimizer=optimizer,
        defaults=defaults,
        num_steps=num_steps,
        **case,
    )


def on_the_first(spec: tuple[str, tuple[int, ...]], world_size: int, first: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    """A tensor on one rank, an empty one on the others."""
    return [spec if rank == first else ("float64", (0,)) for rank in range(world_size)]


def judge_trained_state(seen: Any) -> None:
    """Names, and weights and moments of one process, on rank 0; nothing elsewhere."""
    require(seen, "full_state_dict")  # a wrong shape; what is missing is NaN, and its names are known
    case = seen.request.parameters
    names = [name.removeprefix("value/") for name in seen.request.inputs if name.startswith("value/")]
    trained = [name for name in names if name not in case.get("frozen", ())]
    keys = sorted([*MOMENTS[case["optimizer"]], *(["step"] if case["optimizer"] == "AdamW" else [])])
    for rank in range(seen.world_size):
        facts = seen.facts(rank)
        got = {"model": sorted(facts["model"]), "optimizer": sorted(facts["optimizer"])}
        wanted = {"model": sorted(names), "optimizer": sorted(trained)} if rank == 0 else {"model": [], "optimizer": []}
        for what in ("model", "optimizer"):
            if got[what] != wanted[what]:
                raise broken(
                    f"rank {rank}: full_state_dict's {what} has the names {', '.join(got[what]) or 'none'}.",
                    f"Expected: {', '.join(wanted[what]) or 'nothing, only rank 0 keeps a state dict'}.",
                    "The names of the state dict are not those of the module, or not on the rank that keeps it.",
                    "A parameter is named as in module.named_parameters(), without the wrapper's prefix; other ranks return {}.",
                )
        for name, held in facts["optimizer"].items():
            if held != keys:
                raise broken(
                    f"rank {rank}: the state of {name} has {', '.join(held) or 'nothing'}.",
                    f"Expected: {', '.join(keys)}.",
                    "The optimizer's state in the state dict is not what the optimizer has.",
                    "Take every key of optimizer.state[shard], tensors of any kind and numbers too.",
                )
    process = oracle.OneProcess(case["optimizer"], dict.fromkeys(trained, case["defaults"]))
    weights = oracle.values_of(seen)
    for number in range(case["num_steps"]):
        weights = process.step(weights, oracle.gradients_at(seen, number, weights, oracle.Mistake()))
    for name in names:
        near(seen, f"value/{name}", weights[name], f"the weight {name}", {"world_size": seen.world_size})
        for key in MOMENTS[case["optimizer"]] if name in trained else ():
            near(seen, f"state/{key}/{name}", process.state[name][key], f"{key} of {name}", {"world_size": seen.world_size})
        if case["optimizer"] == "AdamW" and name in trained:
            assert_equal(seen.rank(0)[f"state/step/{name}"], np.float32(case["num_steps"]), what=f"full_state_dict: the step of {name}")


def require(seen: Any, what: str) -> None:
    """Every rank has answered, with tensors of the right names and shapes."""
    if seen.fault is not None:
        raise broken(
            f"{what}: {seen.fault.sentence}.",
            "Expected: every name, with the shape that one process has; a tensor of no elements is one that is missing.",
            "A weight, a moment or the step is missing from the optimizer's state, or has the shape of a shard.",
            "Moments have the parameter's shape and are cut like it; a step is one number for all ranks, and no shard.",
            where="\n".join(seen.fault.lines),
        )


def near(seen: Any, name: str, expected: Any, what: str, hints: dict[str, Any]) -> None:
    """A tensor of the state dict, to float64's precision."""
    allowed = STEP_ERROR * seen.request.parameters["num_steps"] * (1 + np.abs(expected))
    suggestion = "Is it a copy, of the moment of the call? Are the pieces in the ranks' order, without padding?"
    hinted = Hints(**hints, suggestion=suggestion)
    assert_close(seen.rank(0)[name], expected, allowed=allowed, what=f"full_state_dict: {what}", hints=hinted)


# --- from one world into another -------------------------------------------------------------------------------------
def run_moved(observe: Any, way: str, *, savers: list[int], loaders: list[int], dtype: str = "float64", **words: Any) -> Any:
    """Given weights and moments go through one world into another, which makes one step more."""
    world_size = max(*savers, *loaders) + 1

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, shape in ODD.items():
            given[f"value/{name}"] = draw(rng, shape, dtype)
            given[f"state/exp_avg/{name}"] = draw(rng, shape, dtype)
            given[f"state/exp_avg_sq/{name}"] = np.square(draw(rng, shape, dtype))
            given[f"factor/0/0/{name}"] = [draw(rng, shape, dtype) for _ in range(world_size)]
        return given

    tensors: dict[str, Any] = {}
    for name, shape in ODD.items():
        tensors |= {f"{kind}/{name}": (dtype, shape) for kind in ("value", "state/exp_avg", "state/exp_avg_sq")}
        tensors[f"state/step/{name}"] = ("float32", ())
    returns: dict[str, Any] = {name: on_the_first(spec, world_size, loaders[0]) for name, spec in tensors.items()}
    returns |= {f"after/{name}": ("float64", shape) for name, shape in ODD.items()}
    return observe(
        "moved",
        world_size=world_size,
        inputs=inputs,
        returns=returns,
        names=list(tensors),
        way=way,
        savers=savers,
        loaders=loaders,
        shares_folder=True,
        steps=[{}],
        defaults=ADAMW_DEFAULTS,
        **words,
    )


def judge_moved(seen: Any) -> None:
    """Weights and moments bit by bit, and a step that goes on from there."""
    for event in seen.events(kind="mark"):
        if event.name == "full_state_dict has nothing":
            raise broken(
                f"full_state_dict returned an empty dict on rank {event.rank}, which is rank 0 of its group.",
                "Expected: the state dict on group rank 0.",
                "Another rank keeps it, or none: rank 0 of the default group need not be a member.",
                "dist.get_rank(group) is the rank within the group.",
            )
    require(seen, "loading a checkpoint")
    case = seen.request.parameters
    first, route = case["loaders"][0], f"saved by {len(case['savers'])} and loaded by {len(case['loaders'])} ranks"
    names = [name.removeprefix("value/") for name in seen.request.inputs if name.startswith("value/")]
    for name in names:
        for kind in ("value", "state/exp_avg", "state/exp_avg_sq"):
            got, given = seen.rank(first)[f"{kind}/{name}"], seen.input(f"{kind}/{name}", 0)
            what = f"{kind.removeprefix('state/').replace('value', 'the weight')} of {name}, {route}"
            rounded = {"what was saved, rounded to bfloat16": given.astype(ml_dtypes.bfloat16).astype(given.dtype)}
            order = "A tensor's pieces in the order of the ranks, end to end, are the tensor; cut it for the new world."
            hints = Hints(others=rounded, suggestion=order)
            assert_equal(got, given, what=what, hints=hints)
        assert_equal(seen.rank(first)[f"state/step/{name}"], np.float32(3), what=f"the step of {name}, {route}")
    run = oracle.OneProcess("AdamW", dict.fromkeys(names, case["defaults"]))
    weights = oracle.values_of(seen)
    for name in names:
        run.state[name] = {key: seen.input(f"state/{key}/{name}", 0) for key in MOMENTS["AdamW"]}
        run.num_steps[name] = 3
    factors = {n: np.mean([seen.input(f"factor/0/0/{n}", rank) for rank in case["loaders"]], axis=0) for n in names}
    after = run.step(weights, {name: weights[name] * factors[name] for name in names})
    for rank in case["loaders"]:
        if not seen.facts(rank)["is_same_shards"]:
            raise broken(
                f"rank {rank}: after loading, named_shards() gives other parameters than before.",
                "Expected: the same parameters, with new values: the optimizer holds on to them.",
                "The shards were replaced instead of filled.",
                "Copy into shard.data.",
            )
        if not seen.facts(rank)["is_state_untouched"]:
            raise broken(f"rank {rank}: a training step after loading has changed the state dict that was loaded.",
                         "Expected: the caller's state stays as it is.", "The optimizer has the caller's tensors, not copies.",
                         "Clone what goes into optimizer.state.")  # fmt: skip
        for name in names:
            allowed = STEP_ERROR * (1 + np.abs(after[name]))
            what = f"{name} on rank {rank} after one more step, {route}"
            hints = Hints(untouched=weights[name], suggestion="Are moments and step really in optimizer.state, under the shards?")
            assert_close(seen.rank(rank)[f"after/{name}"], after[name], allowed=allowed, what=what, hints=hints)


def judge_taken_back(observe: Any, way: str, num_ranks: int) -> None:
    """After a checkpoint from before it the first step is the first again. With momentum: Adam's second one would be as large."""

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given: dict[str, Any] = {f"value/{name}": draw(rng, shape) for name, shape in ODD.items()}
        return given | {f"factor/0/0/{name}": [draw(rng, shape) for _ in range(num_ranks)] for name, shape in ODD.items()}

    returns = {f"{kind}/{name}": ("float64", shape) for name, shape in ODD.items() for kind in ("first", "again")}
    case = {"way": way, "shares_folder": True, "defaults": SGD["defaults"]}
    seen = observe("taken_back", world_size=num_ranks, inputs=inputs, returns=returns, **case)
    for rank, name in itertools.product(range(num_ranks), ODD):
        what = f"{name} on rank {rank} after a step, a checkpoint from before it, and the same step again"
        assert_equal(seen.rank(rank)[f"again/{name}"], seen.rank(rank)[f"first/{name}"], what=what)


def run_many_savers(observe: Any, num_savers: int, **words: Any) -> Any:
    """Weights and momenta, saved by so many ranks and loaded by one."""

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        return {f"{kind}/{name}": draw(rng, shape) for name, shape in ODD.items() for kind in ("value", "momentum")}

    returns = {f"{kind}/{name}": ("float64", shape) for name, shape in ODD.items() for kind in ("value", "momentum")}
    host = "ranks that take turns in one process"
    return observe("many_savers", transport="none", host=host, inputs=inputs, returns=returns, num_savers=num_savers,
                   shares_folder=True, **words)  # fmt: skip


def judge_many_savers(seen: Any) -> None:
    """Bit by bit."""
    for name, got in seen.rank(0).items():
        kind, path = name.split("/")
        what = f"{kind} of {path}, saved by {seen.request.parameters['num_savers']} ranks and loaded by one"
        hints = Hints(suggestion="Are the pieces in the order of the ranks? Sorted by name, rank-10 comes before rank-2.")
        assert_equal(got, seen.input(name, 0), what=what, hints=hints)


# --- killed ----------------------------------------------------------------------------------------------------------
def run_killed(observe: Any, world_size: int, victims: list[int], *, max_deaths: int = 10, **words: Any) -> Any:
    """Each of `victims` is killed at each place of a save."""
    num_versions = 2 * max_deaths * len(victims) + 2

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        shapes = {"first": (3, 2), "layers.0.weight": (7, 3), "layers.1.weight": (5,)}
        values = {f"value/{name}": draw(rng, shape) for name, shape in shapes.items()}
        return values | {"versions": rng.permutation(10 * num_versions)[:num_versions].astype(np.float64)}

    returns = {"rows": ("float64", (2 * max_deaths * len(victims), 7))}
    case = {"max_deaths": max_deaths, "victims": victims, "shares_folder": True} | words
    return observe("killed", world_size=world_size, host="what is on the disk", inputs=inputs, returns=returns, **case)


def judge_killed(seen: Any) -> None:
    """After each death all ranks load one version, whole: the one before, or the one that was being saved."""
    tables = [seen.rank(rank)["rows"][: seen.facts(rank)["num_rows"]] for rank in range(seen.world_size)]
    num_deaths = int(sum(row[2] for row in tables[0]))
    for number in range(len(tables[0])):
        victim, place, died, before, version = tables[0][number][:5]
        circumstances = f"rank {victim:.0f} is killed at its write or rename number {place + 1:.0f} of a save"
        if not died:
            circumstances = f"a save after rank {victim:.0f} was killed at number {place + 1:.0f} of the one before"
        extents = [tuple(table[number][5:]) for table in tables]
        loaded = {value for extent in extents for value in extent}
        if any(np.isnan(value) for value in loaded):
            raise broken(
                f"{circumstances}: then nothing can be loaded ({'; '.join(seen.facts(0)['errors'][:1])}).",
                "Expected: the earlier checkpoint, whole, or the new one.",
                "The earlier checkpoint does not stand: the save has destroyed or unnamed it before the new one was complete.",
                "Write new pieces under new names; rename the manifest last; delete the old ones only after that.",
            )
        allowed = {before, version} if died else {version}
        if len(loaded) != 1 or not loaded <= allowed:
            named = {before: "the earlier one", version: "the new one"}
            got = ", ".join(sorted({named.get(value, "neither") for value in loaded}))
            raise broken(
                f"{circumstances}: then ranks load weights and moments of {got}{' mixed' if len(loaded) > 1 else ''}.",
                "Expected: the earlier checkpoint, whole, or the new one." if died else "Expected: the new checkpoint.",
                "What is loaded is a mixture of two checkpoints, or not one of the two.",
                "One small file, renamed last, must decide which pieces count; it must not be renamed before all ranks have written.",
            )
    if not num_deaths:
        raise broken(
            "No rank was ever killed: save_sharded writes nothing by torch.save, open, write_text, os.replace or os.rename.",
            "Expected: pieces written with torch.save, on every rank.",
            "The checkpoint is written by ways that the tests don't see, or not at all.",
        )
    judge_afterwards(seen)


def judge_afterwards(seen: Any) -> None:
    """Other files stay, and where there is no checkpoint FileNotFoundError is raised."""
    for rank in range(seen.world_size):
        facts = seen.facts(rank)
        if not facts["is_note_there"]:
            raise broken("A file in the folder that is no part of the checkpoint is gone.", "Expected: other files are left alone.",
                         "More was deleted than old pieces.", "Delete what you have written, by name.")  # fmt: skip
        if facts.get("without_checkpoint") != "FileNotFoundError":
            raise broken(
                f"load_sharded of a folder without a checkpoint: {facts.get('without_checkpoint', 'nothing is raised')}.",
                "Expected: FileNotFoundError.",
                "Loading must say when there is no checkpoint.",
            )
