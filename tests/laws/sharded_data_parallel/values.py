"""What the ranks must compute: the weights, norms and dtypes of one process. Oracles are numpy in fp64, never the reference solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from tests.laws.groups import members_of
from tests.laws.sentences import broken
from tests.laws.sharded_data_parallel import oracle
from tests.laws.sharded_data_parallel.oracle import Array, aliases_of, values_of

# float64 throughout: a step is some dozens of operations on numbers around 1 and sums over at most tens of terms, and AdamW's quotient can
# enlarge a relative error by its condition, below 1e3 here. Mistakes that matter are larger than 1e-5.
STEP_ERROR = 2.0**-53 * 2**15
STEP_ERROR_IN_FLOAT32 = 2.0**-24 * 2**7  # the same operations, but the sums are short and the condition is near 1


# --- spans -----------------------------------------------------------------------------------------------------------
def judge_cover(seen: Any) -> None:
    """Each element of each tensor has one owner."""
    for number, (sizes, world_size) in enumerate(seen.request.parameters["cases"]):
        rows = seen.rank(0)[f"case_{number}"]
        for place, size in enumerate(sizes):
            owners = np.zeros(size, np.int64)
            for rank in range(world_size):
                start, stop = map(int, rows[rank, place])
                if not 0 <= start <= stop <= size:
                    raise broken(
                        f"shard_spans({sizes}, rank={rank}, world_size={world_size}): tensor {place} gets ({start}, {stop}).",
                        f"Expected: 0 <= start <= stop <= {size}.",
                        "A span reaches outside its tensor, or is missing.",
                        "Hold both edges inside the tensor, also for ranks that own nothing of it.",
                    )
                owners[start:stop] += 1
            if (owners != 1).any():
                element = int(np.argmax(owners != 1))
                raise broken(
                    f"shard_spans({sizes}, world_size={world_size}): element {element} of tensor {place} has {owners[element]} owners.",
                    "Expected: every element of every tensor has one owner.",
                    "Elements are lost at the end of a range." if owners[element] == 0 else "Elements belong to two ranks at once.",
                    "Is w = ceil(n/N), and does a range go on in the next tensor?",
                )


def judge_widths(seen: Any) -> None:
    """Rank r has line elements r·w to (r+1)·w."""
    for number, (sizes, world_size) in enumerate(seen.request.parameters["cases"]):
        rows, total = seen.rank(0)[f"case_{number}"], sum(sizes)
        width = -(-total // world_size)
        for rank in range(world_size):
            begins_at = np.cumsum([0, *sizes])[:-1]
            spans = [(b + int(start), b + int(stop)) for b, (start, stop) in zip(begins_at, rows[rank], strict=True) if start < stop]
            got = sum(stop - start for start, stop in spans)
            first, last = min(rank * width, total), min((rank + 1) * width, total)
            if got != last - first or (spans and (spans[0][0], spans[-1][1]) != (first, last)):
                raise broken(
                    f"shard_spans({sizes}, rank={rank}, world_size={world_size}): {got} elements of the line"
                    + (f", from {spans[0][0]} to {spans[-1][1]}." if spans else "."),
                    f"Expected: {last - first} elements, from {first} to {last}: a width of {width} for each rank.",
                    "The ranges are not those of section 3: they are not balanced, or not in the ranks' order.",
                    "Lay all tensors on one line first; is the width rounded up?",
                )


# --- weights ---------------------------------------------------------------------------------------------------------
def judge_training(seen: Any, only: list[str] | None = None) -> None:
    """After every step all members' weights are those of one process; those of other ranks are as they were."""
    if seen.fault is not None and seen.request.parameters.get("members"):
        raise fallen(seen, "In a subgroup everything has the size of the group, and travels through it: its rank, its size.")
    if seen.fault is not None and seen.request.parameters.get("shared"):
        raise fallen(seen, "A weight that is shared by several units must be whole in all of them: it belongs to the root. Frozen weights "
                           "stay gathered until the unit's inputs have their gradient.")  # fmt: skip
    members, before = members_of(seen), values_of(seen, members_of(seen)[0])
    right = oracle.train(seen)
    for number, weights in enumerate(right):
        for name, value in weights.items():
            if only is not None and name not in only:
                continue
            others = {}
            for alias in aliases_of(seen, name):
                for rank in range(seen.world_size):
                    got = seen.rank(rank)[f"after/{number}/{alias}"]
                    if rank not in members:
                        assert_equal(got, before[name], what=f"{alias} on rank {rank}, which is no member of the group")
                        continue
                    rounding = STEP_ERROR if got.dtype == np.float64 else STEP_ERROR_IN_FLOAT32
                    allowed = rounding * (number + 1) * (1 + np.abs(value))
                    if not others and not np.all(np.abs(got - value) <= allowed):
                        others = {what: run()[number][name] for what, run in oracle.suspects(seen).items()}
                    hints = Hints(world_size=len(members), untouched=before[name], others=others)
                    assert_close(got, value, allowed=allowed, what=words(seen, number, alias, rank), hints=hints)


def words(seen: Any, number: int, name: str, rank: int) -> str:
    """What is compared, and under which circumstances."""
    case = seen.request.parameters
    step = case["steps"][number]
    special = [f"{step['micro_batches']} micro-batches"] if step.get("micro_batches", 1) > 1 else []
    special += ["not used by some ranks"] if any(name in each for each in step.get("unused", {}).values()) else []
    special += ["frozen"] if name in (case.get("frozen") or ()) else []
    shared = case.get("shared") or {}
    special += ["shared by several layers"] if name in shared or name in shared.values() else []
    special += ["results land when they are waited for"] if seen.request.network.late else []
    special += ["gradients that were reduced before had been forgotten by zero_grad()"] if step.get("forgets") else []
    special += [f"clipped to {step['clip']:g}"] if "clip" in step else []
    special += ["what it has lost is its mean gradient"] if case["optimizer"] == "SGD" and case["defaults"] == {"lr": 1.0} else []
    special += [f"in the subgroup of ranks {case['members']}"] if case.get("members") else []
    special += ["settings were written into param_groups"] if any("write" in s or "decay" in s for s in case["steps"]) else []
    inside = f" ({'; '.join(special)})" if special else ""
    return f"{case['stage']}, {case['optimizer']}, step {number + 1}{inside}: the weight {name} on rank {rank} of {seen.world_size}"


def fallen(seen: Any, diagnosis: str) -> LawBroken:
    """A run that did not end well, and what that means here."""
    return broken(seen.fault.sentence, "Expected: every rank ends its run.", diagnosis, where="\n".join(seen.fault.lines))


def judge_filled_in(seen: Any, keys: list[str]) -> None:
    """param_groups shows what the optimizer has filled in itself."""
    for rank in members_of(seen):
        missing = [key for key in keys if key not in seen.facts(rank)["group_keys"]]
        if missing:
            raise broken(
                f"rank {rank}: param_groups[0] has no {', '.join(missing)}.",
                "Expected: all settings of the optimizer, also those that nobody named.",
                "Schedulers such as OneCycleLR look for momentum or betas in param_groups, and write to them.",
                "Copy what the local optimizer has filled in into the groups that are seen.",
            )


def judge_zeros(seen: Any) -> None:
    """zero_grad(set_to_none=False) has left zeros, and the step after it is right."""
    judge_training(seen)
    for rank in members_of(seen):
        lacking = [name for name in values_of(seen, rank) if name not in seen.facts(rank)["zeros"]]
        if lacking:
            raise broken(
                f"rank {rank}: after zero_grad(set_to_none=False) the gradient of {', '.join(lacking)} is None, or isn't zero.",
                "Expected: zeros in each parameter.grad, as of every torch.optim.Optimizer.",
                "The argument set_to_none is not passed on.",
                "Whatever torch's zero_grad does, yours does too; beside that it forgets the reduced shards.",
            )


def judge_equal_replicas(seen: Any) -> None:
    """All members have the same bits after every step."""
    members = members_of(seen)
    for name in seen.request.returns:
        if name.startswith("after/"):
            for rank in members[1:]:
                assert_equal(
                    seen.rank(rank)[name], seen.rank(members[0])[name], what=f"{name} on rank {rank}, beside rank {members[0]}'s bits"
                )


def judge_closure(seen: Any) -> None:
    """One call with gradients on, its value returned, and the step right."""
    if seen.fault is not None:
        raise fallen(seen, "The closure is called inside step(), which runs without gradients: it needs torch.enable_grad().")
    number = next(number for number, step in enumerate(seen.request.parameters["steps"]) if step.get("closure"))
    before = oracle.train(seen)[number - 1] if number else values_of(seen)
    for rank in range(seen.world_size):
        calls = seen.facts(rank).get("closure_calls")
        if calls != [1]:
            raise broken(
                f"rank {rank}: step(closure) called it {len(calls or [])} times{', with gradients disabled' if calls == [0] else ''}.",
                "Expected: once, with gradients enabled.",
                "The closure must recompute the loss and its gradients before they are reduced.",
                "step() itself runs under torch.no_grad(); what does the closure need?",
            )
        factors = {name: seen.input(f"factor/{number}/0/{name}", rank) for name in before}
        expected = sum(float(np.sum(value**2 * factors[name])) / 2 for name, value in before.items())
        assert_close(
            seen.rank(rank)[f"loss/{number}"], np.asarray(expected), allowed=1e-9, what=f"what step(closure) returned on rank {rank}"
        )
    judge_training(seen)


# --- clipping --------------------------------------------------------------------------------------------------------
def wide(array: Array) -> Array:
    """As float64."""
    return np.asarray(array).astype(np.float64)


def norms_of(seen: Any) -> tuple[float, list[float]]:
    """-> (the norm of all ranks' tensors together, each rank's own)."""
    names = seen.request.parameters["names"]
    squares = [sum(float(np.sum(wide(seen.input(name, rank)) ** 2)) for name in names) for rank in members_of(seen)]
    return float(np.sqrt(sum(squares))), [float(np.sqrt(square)) for square in squares]


def judge_norm(seen: Any) -> None:
    """The norm of everything."""
    norm, own = norms_of(seen)
    members = members_of(seen)
    others = {f"rank {rank}'s own norm": np.asarray(each) for rank, each in zip(members, own, strict=True)}
    others |= {"the sum of the ranks' norms": np.asarray(sum(own)), "the norm over √N": np.asarray(norm / len(own) ** 0.5)}
    others |= {"the square of the norm": np.asarray(norm**2)}
    for rank in members:
        # Each rank's norms may be taken in the tensors' float32, whose sum of so many squares rounds once per term at most.
        allowed = norm * 2.0**-23 * 64
        what = f"the global norm that clip_grad_norm_ returned on rank {rank}"
        hints = Hints(world_size=len(members), others=others, suggestion="Squares add up over tensors and ranks, in float64.")
        assert_close(seen.rank(rank)["norm"], np.asarray(norm), allowed=allowed, what=what, hints=hints)


def judge_scaling(seen: Any) -> None:
    """Every tensor times the same factor."""
    case, (norm, own) = seen.request.parameters, norms_of(seen)
    factor = min(1.0, case["max_norm"] / (norm + 1e-6))
    for place, rank in enumerate(members_of(seen)):
        for name in case["names"]:
            given, got = wide(seen.input(name, rank)), seen.rank(rank)[name]
            roundoff = unit_roundoff(got.dtype.name)
            # The norm's error, then the factor and a product round once each.
            allowed = np.abs(given) * factor * (2.0**-23 * 64 + 2 * roundoff)
            others = {
                f"scaled by rank {rank}'s own norm": given * min(1.0, case["max_norm"] / (own[place] + 1e-6)),
                "scaled up to the limit": given * case["max_norm"] / norm,
                "divided by the norm": given / norm,
            }
            hints = Hints(untouched=given, others=others, suggestion="The factor is min(1, max_norm / (norm + 1e-6)).")
            what = f"{name} on rank {rank}, clipped by the factor {factor:.6g}"
            assert_close(got, given * factor, allowed=allowed, what=what, hints=hints)


def judge_reported_norms(seen: Any) -> None:
    """The classes' clip_grad_norm_ returned the norm of the whole mean gradient in each step."""
    weights = [values_of(seen), *oracle.train(seen)]
    for rank in members_of(seen):
        got = seen.facts(rank)["norms"]
        for number in range(len(seen.request.parameters["steps"])):
            expected = oracle.norm_of(oracle.gradients_at(seen, number, weights[number], oracle.Mistake()))
            what = f"step {number + 1}: the global norm that clip_grad_norm_ returned on rank {rank}"
            hints = Hints(world_size=seen.world_size, suggestion="Is it the norm over the shards of all ranks, each element once?")
            assert_close(np.asarray(got[number]), np.asarray(expected), allowed=1e-9 * expected, what=what, hints=hints)


# --- precision -------------------------------------------------------------------------------------------------------
def judge_dtypes(seen: Any) -> None:
    """Masters and their gradients are float32, inputs of the module the compute dtype."""
    compute = seen.request.parameters["compute_dtype"]
    for rank in range(seen.world_size):
        dtypes = seen.facts(rank)["dtypes"]
        expectations = {"shard": "float32", "gradient": "float32", "input": compute, "buffer": "float32", "output": "float64"}
        for kind, expected in expectations.items():
            found = {what: dtype for what, dtype in dtypes.items() if what.split()[0] == kind}
            wrong = {what: dtype for what, dtype in found.items() if dtype != expected}
            if wrong or not found:
                what, dtype = next(iter(wrong.items()), (kind, "nothing"))
                raise broken(
                    f"rank {rank}: {what} is {dtype}.",
                    f"Expected: {expected}.",
                    "Shards and gradients keep the masters' dtype; inputs come in the compute dtype, buffers and outputs as they are.",
                    "Where is the cast: on the way into the gather, and on the way out of the reduction?",
                )
        num_rounded, num_gradients = seen.facts(rank)["num_rounded"], seen.facts(rank)["num_gradients"]
        # A mean over three ranks has more bits than the compute dtype; some elements need no more, by chance.
        if seen.request.parameters.get("reduce_dtype") == "float32" and num_rounded == num_gradients:
            raise broken(
                f"rank {rank}: {num_rounded} of {num_gradients} elements of the shards' mean gradients are {compute} numbers in float32.",
                "Expected: means with float32's precision: gradients are reduced in float32.",
                "What has arrived is rounded before it is added to the masters' gradients.",
                "Cast what has arrived to the masters' dtype, and to nothing narrower on the way.",
            )


def judge_masters(seen: Any, lr: float) -> None:
    """float32 masters after steps too small for the compute dtype; layers saw them rounded."""
    case = seen.request.parameters
    half, n = unit_roundoff(case["compute_dtype"]), seen.world_size
    for name in [name.removeprefix("value/") for name in seen.request.inputs if name.startswith("value/")]:
        value = wide(seen.input(f"value/{name}", 0))
        allowed, begin = np.zeros_like(value), value
        for number in range(case["num_steps"]):
            factors = [wide(seen.input(f"factor/{number}/{name}", rank)) for rank in range(n)]
            if number == case["num_steps"] - 1:
                expected_seen = value
            # Weight, factor and product are rounded to the compute dtype, their sum rounds n times in the reduce dtype at worst.
            magnitude = np.abs(value) * np.sum(np.abs(factors), axis=0) / n
            allowed = allowed + lr * magnitude * half * (n + 6) + np.abs(value) * 2.0**-22
            value = value - lr * value * np.mean(factors, axis=0)
        for rank in range(n):
            hints = Hints(
                untouched=begin,
                world_size=n,
                suggestion="An update smaller than 1/256 of a bfloat16 weight is rounded away: step on float32 masters.",
            )
            what = f"the float32 master of {name} on rank {rank}, after {case['num_steps']} small steps"
            assert_close(seen.rank(rank)[f"master/{name}"], value, allowed=allowed, what=what, hints=hints)
            what = f"{name} as its layer sees it on rank {rank}, in {case['compute_dtype']}"
            bound = allowed + np.abs(expected_seen) * half * 1.01
            assert_close(wide(seen.rank(rank)[f"seen/{name}"]), expected_seen, allowed=bound, what=what, hints=hints)
