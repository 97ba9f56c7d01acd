"""The layer on several ranks: against the dense mixture in numpy, fp64, one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from grader.records import ITEMSIZE
from tests.laws.expert_parallel.carrying import assert_all_took_part, judge_clean, judge_rows, require, where
from tests.laws.expert_parallel.oracle import NAMES, Array, Mixed, chosen, counts_of, mixture
from tests.laws.expert_parallel.routers import as_dtype
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

# fp64 has 2^-53. A number is the end of a chain of sums of at most some hundred terms each, so another order moves it by thousands of that;
# float32 anywhere on the way moves it by 2^-24, and a forgotten row by far more. Relative to the tensor's largest.
FP64_ERROR = 2.0**-38
C, WIDTH, BALANCE = 4, 5, 0.5
ROUTER = ("router.weight", "router.bias")


@dataclass(frozen=True)
class World:
    """Who has how many tokens, and how the router is made. wanted: experts that get nearly all first choices."""

    num_experts: int
    tokens: tuple[tuple[int, ...], ...]  # of each rank: the leading dims of x
    wanted: tuple[int, ...] = ()


def run_layer(
    observe: Any, world: World, *, top_k: int = 2, factor: float | None = None, renormalize: bool = False,
    groups: list[list[int]] | None = None, num_calls: int = 1, is_input_trained: bool = True, dtype: str = "float64", layout: str = "plain",
    **case: Any,
) -> Any:  # fmt: skip
    """Outputs and all gradients. dtype: of x and the experts; the router is float32 beside 16 bits. layout: of x."""
    e, world_size = world.num_experts, len(world.tokens)
    of_router = "float64" if dtype == "float64" else "float32"
    teams = groups or [list(range(world_size))]
    shapes = {"up.weight": (e, WIDTH, C), "up.bias": (e, WIDTH), "down.weight": (e, C, WIDTH), "down.bias": (e, C)}

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        drawn: dict[str, Any] = {name: as_dtype(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}
        # Beside 16 bits the experts' logits are closer to each other than 16 bits can tell.
        scale, offset = (1.0, 0.0) if dtype == "float64" else (2.0**-8, 1.0)
        drawn["router.weight"] = as_dtype(rng.standard_normal((e, C)) * scale, of_router)
        bias = rng.standard_normal(e) * scale + offset
        bias[list(world.wanted)] += 40.0
        drawn["router.bias"] = as_dtype(bias, of_router)
        for call in range(num_calls):
            drawn[f"x{call}"] = [as_dtype(rng.standard_normal((*lead, C)), dtype) for lead in world.tokens]
            drawn[f"gradient{call}"] = [as_dtype(rng.standard_normal((*lead, C)), dtype) for lead in world.tokens]
        return drawn

    here = e // len(teams[0])
    returns: dict[str, Any] = {f"d{name}": (dtype, (here, *shape[1:])) for name, shape in shapes.items()}
    returns |= {"drouter.weight": (of_router, (e, C)), "drouter.bias": (of_router, (e,))}
    for call in range(num_calls):
        of_x = [(dtype, (*lead, C)) for lead in world.tokens]
        returns |= {f"y{call}": of_x, f"dx{call}": of_x, f"x{call} after": of_x, f"loss{call}": (of_router, ())}
    options = {"top_k": top_k} | ({} if factor is None else {"capacity_factor": factor}) | ({"renormalize": True} if renormalize else {})
    words: dict[str, Any] = ({"groups": groups} if groups else {}) | ({} if is_input_trained else {"is_input_trained": False})
    words |= ({"num_calls": num_calls} if num_calls > 1 else {}) | ({} if layout == "plain" else {"layout": layout})
    return observe("layer", world_size=world_size, inputs=inputs, returns=returns, options=options, **words, **case)


def calls_of(seen: Any) -> int:
    """How many forwards there were."""
    return int(seen.request.parameters.get("num_calls", 1))


def whole(seen: Any, rank: int) -> list[Mixed]:
    """What one process with all experts makes of one rank's calls."""
    weights = {name: seen.input(name, rank).astype(np.float64) for name in (*NAMES, *ROUTER)}
    options, found = seen.request.parameters["options"], []
    for call in range(calls_of(seen)):
        x, gradient = (seen.input(f"{name}{call}", rank).astype(np.float64).reshape(-1, C) for name in ("x", "gradient"))
        found.append(mixture(weights, x, gradient, options, BALANCE))
    return found


def near(right: Array) -> float:
    """What rounding in fp64 allows."""
    return float(FP64_ERROR * (1 + np.abs(right).max(initial=0)))


# --- values ----------------------------------------------------------------------------------------------------------
def judge_outputs(seen: Any) -> None:
    """y and the balance loss of every rank and call."""
    for rank in range(seen.world_size):
        for call, mixed in enumerate(whole(seen, rank)):
            shape = seen.request.return_of(f"y{call}", rank).shape
            suggestion = "Each token's own experts, its own weights, in its own place; try experts that are the identity (section 10)."
            hints = Hints(world_size=seen.world_size, suggestion=suggestion)
            what = f"the layer's output on rank {rank}"
            assert_close(seen.rank(rank)[f"y{call}"], mixed.y.reshape(shape), allowed=near(mixed.y), what=what, hints=hints)
            hints = Hints(world_size=seen.world_size, suggestion="The loss is load_balancing_loss of this rank's own tokens.")
            what, loss = f"the balance loss on rank {rank}", np.asarray(mixed.loss)
            assert_close(seen.rank(rank)[f"loss{call}"], loss, allowed=near(loss), what=what, hints=hints)


def judge_gradients(seen: Any) -> None:
    """Of x, of the router, and of the experts, over all calls and over all ranks of the group."""
    is_trained = seen.request.parameters.get("is_input_trained", True)
    for members in groups_of(seen):
        n, mixed = len(members), {rank: whole(seen, rank) for rank in members}
        for place, rank in enumerate(members):
            got = seen.rank(rank)
            for call, one in enumerate(mixed[rank]):
                right = one.dx if is_trained else np.zeros_like(one.dx)
                shape = seen.request.return_of(f"dx{call}", rank).shape
                others = {"what comes by the experts alone; x moves the weights and the balance loss, too": right - one.dx_of_router}
                others = {words: value.reshape(shape) for words, value in others.items()} | overwritten(got, mixed[rank], call)
                suggestion = "x has an effect by its experts, by the router's weights, and by the balance loss."
                hints = Hints(world_size=n, others=others, suggestion=suggestion)
                what = f"the gradient of x on rank {rank}"
                assert_close(got[f"dx{call}"], right.reshape(shape), allowed=near(right), what=what, hints=hints)
            for name in ROUTER:
                right = np.sum([one.gradients[name] for one in mixed[rank]], axis=0)
                of_all = np.sum([one.gradients[name] for each in mixed.values() for one in each], axis=0)
                others = {"the sum over the ranks": of_all, "the mean over the ranks": of_all / n} if n > 1 else {}
                hints = Hints(world_size=n, others=others, suggestion="The router learns by the weights, at home, and by the balance loss.")
                what = f"the gradient of {name} on rank {rank}"
                assert_close(got[f"d{name}"], right, allowed=near(right), what=what, hints=hints)
            judge_experts(seen, rank, place, n, mixed)


def overwritten(got: dict[str, Array], mixed: list[Mixed], call: int) -> dict[str, Array]:
    """A call's gradient of x, whatever it is, if a later call's is right and this one's isn't: by its words."""
    last = len(mixed) - 1
    right = mixed[last].dx.reshape(got[f"dx{last}"].shape)
    if call == last or not np.allclose(got[f"dx{last}"], right, rtol=0, atol=near(right)):
        return {}
    return {"of an earlier call, and the last call's are right: the next call writes over what one keeps for backward": got[f"dx{call}"]}


def judge_experts(seen: Any, rank: int, place: int, n: int, mixed: dict[int, list[Mixed]]) -> None:
    """The gradients of one rank's experts: sums over the whole group's tokens."""
    here = seen.request.return_of("dup.weight", 0).shape[0]
    own = slice(place * here, (place + 1) * here)
    for name in NAMES:
        right = np.sum([one.gradients[name] for each in mixed.values() for one in each], axis=0)[own]
        alone = np.sum([one.gradients[name] for one in mixed[rank]], axis=0)[own]
        others = {"the mean over the ranks, an N-th of the sum": right / n, "that of this rank's own tokens": alone} if n > 1 else {}
        others = {words: value for words, value in others.items() if not np.allclose(value, right)}
        suggestion = "An expert's gradient is the sum over all ranks' tokens, and nothing is divided here (section 7.4)."
        hints = Hints(world_size=n, others=others, suggestion=suggestion)
        what = f"the gradient of the experts' {name} on rank {rank}"
        assert_close(seen.rank(rank)[f"d{name}"], right, allowed=near(right), what=what, hints=hints)


def judge_empty(seen: Any) -> None:
    """Nobody waits for ever, no parameter lacks a gradient, and what there is is right."""
    assert_all_took_part(seen)
    for rank in range(seen.world_size):
        if missing := seen.facts(rank)["missing"]:
            raise broken(
                f"After backward, {', '.join(missing)} of rank {rank} have no gradient.",
                "Expected: a gradient for every parameter, zeros where no token came.",
                "An expert without rows is not run, so its parameters stay outside of the graph: their grad is None.",
                "Call every expert, also with none: expert(rows[:0]) is a tensor like any other.",
            )
    judge_outputs(seen)
    judge_gradients(seen)


def judge_inputs(seen: Any) -> None:
    """x afterwards, and two calls that don't know of each other."""
    for rank in range(seen.world_size):
        for call in range(calls_of(seen)):
            assert_equal(seen.rank(rank)[f"x{call} after"], seen.input(f"x{call}", rank), what=f"x of rank {rank} afterwards")


# --- 16 bits ---------------------------------------------------------------------------------------------------------
def judge_narrow(seen: Any) -> None:
    """16-bit tokens and experts beside a float32 router whose logits 16 bits can't tell apart."""
    for rank in range(seen.world_size):
        right, allowed = narrow(seen, rank)
        hints = Hints(suggestion="Does the router get x in its weight's dtype, float32? In 16 bits its logits would be equal.")
        assert_close(seen.rank(rank)["y0"], right, allowed=allowed, what=f"the layer's output of 16 bits on rank {rank}", hints=hints)


def narrow(seen: Any, rank: int) -> tuple[Array, Array]:
    """-> (the mixture in fp64, what 16 bits allow: all terms, tanh and the weighted sum round; a step's errors enter the next)."""
    weights = {name: seen.input(name, rank).astype(np.float64) for name in (*NAMES, *ROUTER)}
    x, options = seen.input("x0", rank).astype(np.float64).reshape(-1, C), seen.request.parameters["options"]
    u = unit_roundoff(seen.request.return_of("y0", rank).dtype)
    mixed = mixture(weights, x, np.zeros_like(x), options, 0.0)
    logits = x @ weights["router.weight"].T + weights["router.bias"]
    powers = np.exp(logits)
    allowed = np.zeros_like(x)
    for token, experts in enumerate(chosen(logits, options["top_k"])):
        for expert in experts:
            up, up_bias, down, down_bias = (weights[name][expert] for name in NAMES)
            error = (C + 2) * u * (np.abs(up) @ np.abs(x[token]) + np.abs(up_bias))  # of the argument; tanh makes no more of it
            hidden = np.abs(np.tanh(up @ x[token] + up_bias))
            error = np.abs(down) @ (error + 2 * u * hidden) + (WIDTH + 2) * u * (np.abs(down) @ hidden + np.abs(down_bias))
            allowed[token] += powers[token, expert] / powers[token].sum() * error
    shape = seen.request.return_of("y0", rank).shape
    return mixed.y.reshape(shape), (allowed + 2 * u * np.abs(mixed.y)).reshape(shape)


# --- structure -------------------------------------------------------------------------------------------------------
def judge_volume(seen: Any) -> None:
    """Three exchanges forward and two backward, with the rows that were kept."""
    row_bytes = C * ITEMSIZE["float64"]
    e = seen.request.return_of("drouter.bias", 0).shape[0]
    is_trained = seen.request.parameters.get("is_input_trained", True)
    for members in groups_of(seen):
        mixed = {rank: whole(seen, rank) for rank in members}
        for call in range(calls_of(seen)):
            sent = [counts_of(mixed[rank][call].experts, mixed[rank][call].kept, e, len(members)) for rank in members]
            for place, rank in enumerate(members):
                there, back = sent[place], [row[place] for row in sent]
                judge_rows(seen, f"forward {call}", rank, rows=[there, back], row_bytes=row_bytes, dtype="float64", num_counts=e)
                rows = [there, back] if is_trained else [there]
                judge_rows(seen, f"backward {call}", rank, rows=rows, row_bytes=row_bytes, dtype="float64")
    judge_clean(seen, [f"{way} {call}" for way in ("forward", "backward") for call in range(calls_of(seen))])


def judge_held(seen: Any) -> None:
    """Names, marks, and which of the given experts are there."""
    diagnosis = "The layer can't be made with this rank's own experts, or it can't run."
    if len(groups_of(seen)) > 1:
        diagnosis += f" The groups are {groups_of(seen)}: is a rank's place, and the number of ranks, asked of the group?"
    require(seen, "a layer with its own experts", diagnosis)
    e = seen.request.return_of("drouter.bias", 0).shape[0]
    for members in groups_of(seen):
        here = e // len(members)
        for place, rank in enumerate(members):
            facts, first = seen.facts(rank), place * here
            names = [*ROUTER, *(f"experts.{own}.{name}" for own in range(here) for name in NAMES)]
            if sorted(facts["names"]) != sorted(names):
                raise broken(f"rank {rank}'s parameters are {', '.join(facts['names'])}.", f"Expected: {', '.join(names)}.",
                             "The layer has other parameters than the router's and its own experts'.", "Section 7.1.")  # fmt: skip
            given = [f"{first + own}.{name}" for own in range(here) for name in NAMES]
            if sorted(facts["are"]) != sorted(given) or not facts["is_router"]:
                raise broken(f"rank {rank} has {', '.join(facts['are'])} of the given experts.", f"Expected: {', '.join(given)}.",
                             "The experts here, or the router, are not the given modules, or others than this rank's own.",
                             "Expert e lives on rank e // L; take the given modules, no copies.")  # fmt: skip
            if sorted(facts["marked"]) != sorted(names[len(ROUTER):]):
                marked = ", ".join(facts["marked"]) or "nothing"
                raise broken(f"rank {rank} marks {marked} as is_expert.", f"Expected: {', '.join(names[len(ROUTER):])}.",
                             "The mark is_expert is not on exactly the experts' parameters.")  # fmt: skip
            alive, own = facts["alive"], list(range(first, first + here))
            if alive != own:
                raise broken(f"On rank {rank}, of all experts {alive} are alive after the constructor.", f"Expected: {own}.",
                             "Experts of other ranks are kept in memory.", "Keep no list of all experts.")  # fmt: skip
            judge_seen(seen, rank, facts["seen"], members, first)


def judge_seen(seen: Any, rank: int, rows: list[list[int]], members: list[int], first: int) -> None:
    """Each expert was called once in each forward, with its own rows."""
    mixed = {member: whole(seen, member) for member in members}
    right = [[sum(int(((each[call].experts == first + own) & each[call].kept).sum()) for each in mixed.values())
              for call in range(calls_of(seen))] for own in range(len(rows))]  # fmt: skip
    if rows != right:
        raise broken(
            f"The experts of rank {rank} were called with {rows} rows.",
            f"Expected: {right}: one call in each forward, with all rows.",
            "An expert is not called once with exactly its own rows.",
            "Split Dispatched.rows by num_rows (section 7.3).",
        )


# --- refusals --------------------------------------------------------------------------------------------------------
def run_refusals(observe: Any, world_size: int, num_experts: int, **case: Any) -> Any:
    """E experts on ranks that don't divide E."""
    assert num_experts % world_size, "these experts can be spread evenly"
    return observe("refusals", world_size=world_size, returns={}, num_experts=num_experts, **case)


def judge_refusals(seen: Any) -> None:
    """A ValueError with both numbers, from both, on every rank, and nothing was sent."""
    n, e = seen.world_size, seen.request.parameters["num_experts"]
    if seen.fault and seen.fault.kind != "raised":
        raise broken(f"Instead of a ValueError: {seen.fault.sentence}", "Expected: a ValueError on every rank.",
                     "Experts that can't be spread evenly are not refused.", "Check first.", "\n".join(seen.fault.lines))  # fmt: skip
    for rank in range(n):
        for what, (kind, message) in seen.facts(rank)["raised"].items():
            words = f"{what} of {e} experts on {n} ranks"
            if kind != "ValueError":
                got = f"{kind}: {message}" if kind else "no error"
                raise broken(f"{words}: rank {rank} got {got}.", "Expected: a ValueError.",
                             "Experts that can't be spread evenly are not refused with a ValueError.", "Section 2, rule 2.")  # fmt: skip
            if not all(str(number) in message for number in (e, n)):
                raise broken(f"{words}: the ValueError says {message!r}.", f"Expected: a message with {e} and {n}.",
                             "The ValueError does not name both numbers.", "Say how many experts and ranks there are.")  # fmt: skip
        if calls := seen.wire.calls(rank, phase="refusal"):
            raise broken(f"rank {rank} calls {calls[0].op} before it refuses{where(calls[0])}.", "Expected: nothing is sent.",
                         "Something is sent before the ValueError.", "Check first.")  # fmt: skip
