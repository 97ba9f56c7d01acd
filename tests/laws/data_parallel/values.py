"""What the ranks must hold. Oracles are numpy in fp64 on the ranks' inputs; never the reference solution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, assert_equal, mean_bound, unit_roundoff
from tests.laws.data_parallel.runs import Array, as_given
from tests.laws.groups import members_of
from tests.laws.sentences import broken

SMALLEST = {"float16": 2.0**-24}  # what is lost where a quotient falls among the subnormals; nothing of that size occurs in the others


def wide(array: Array) -> Array:
    """As float64."""
    return np.asarray(array).astype(np.float64)


# --- functions on gradients ------------------------------------------------------------------------------------------
def judge_means(seen: Any, names: Iterable[str] | None = None) -> None:
    """Members hold the mean, zeros counted for those without a gradient; frozen gradients and those of other ranks are as they were."""
    case, members = seen.request.parameters, members_of(seen)
    layout, missing, frozen = case.get("layout", "plain"), case.get("missing", {}), case.get("frozen", ())
    for name in names or seen.request.inputs:
        given = [as_given(seen.input(name, rank), layout) for rank in range(seen.world_size)]
        parts = [wide(given[rank]) * (rank not in missing.get(name, ())) for rank in members]
        for rank in range(seen.world_size):
            got = seen.rank(rank)[name]
            if name in frozen:
                assert_equal(got, given[rank], what=f"{name} on rank {rank}, which is frozen", hints=Hints(world_size=len(members)))
            elif rank in members:
                dtype = given[rank].dtype.name
                allowed = mean_bound(dtype, len(members), np.sum(np.abs(parts), axis=0))
                hints = Hints(
                    world_size=len(members),
                    untouched=given[rank],
                    parts={f"rank {r}'s share": part / len(members) for r, part in zip(members, parts, strict=True)},
                )
                assert_close(got, np.mean(parts, axis=0), allowed=allowed, what=f"{described(case, name)} on rank {rank}", hints=hints)
            else:
                assert_equal(got, given[rank], what=f"{name} on rank {rank}, which is no member of the group")


def described(case: dict[str, Any], name: str) -> str:
    """The mean of one gradient, and what is special about it."""
    layout, missing = case.get("layout", "plain"), case.get("missing", {}).get(name)
    special = [] if layout == "plain" else [f"not contiguous but {layout.replace('_', ' ')}"]
    if missing:
        special.append(f"grad was None on rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}")
    return f"{case['function']}: the mean gradient of {name}" + (f" ({'; '.join(special)})" if special else "")


def judge_state(seen: Any, prefix: str) -> None:
    """Every member's parameters ("value") or buffers ("buffer") are the first member's bits; those of other ranks are as they were."""
    members, layout = members_of(seen), seen.request.parameters.get("layout", "plain")
    names = [name for name in seen.request.returns if name.startswith(f"{prefix}/")]
    if not names:
        raise CourseError(f"this run has no {prefix}")
    for name in names:
        given = [as_given(seen.input(name, rank), layout) for rank in range(seen.world_size)]
        for rank in range(seen.world_size):
            source = members[0] if rank in members else rank
            hints = Hints(untouched=given[rank], others={f"rank {r}'s": value for r, value in enumerate(given) if r != source})
            got = seen.rank(rank)[name]
            assert_equal(got, given[source], what=f"{name} on rank {rank}, which must be rank {source}'s", hints=hints)
            if got.tobytes() != given[source].tobytes():
                raise broken(f"{name} on rank {rank} has rank {source}'s numbers, but other bits: a zero has lost its sign.",
                             "Expected: bit by bit.", "It came about by adding.",
                             "broadcast copies; a sum with zeros does not.")  # fmt: skip
            if name in seen.facts(rank).get("moved", ()):
                raise broken(f"{name} on rank {rank} has other memory than before.", "Expected: overwritten in place.",
                             "Whoever holds the tensor's memory, a view of it for instance, still sees the old values.",
                             "copy_ into tensor.detach().")  # fmt: skip


# --- steps -----------------------------------------------------------------------------------------------------------
def local_terms(seen: Any, number: int, name: str, rank: int) -> list[Array]:
    """What one rank's micro-batches of step `number` add to the gradient of a parameter, by all of its names."""
    case = seen.request.parameters
    step = case["steps"][number]
    aliases = [name, *(other for other, owner in case.get("shared", {}).items() if owner == name)]
    terms = []
    for micro_batch in range(step.get("micro_batches", 1)):
        unused = step.get("unused", {}).get(str(micro_batch), {}).get(str(rank), [])
        terms += [wide(seen.input(f"gradient/{number}/{micro_batch}/{alias}", rank)) for alias in aliases if alias not in unused]
    return terms


def judge_steps(seen: Any, only: int | None = None) -> None:
    """After each step every member's gradients are the mean over the members of all that each has accumulated."""
    case, members = seen.request.parameters, members_of(seen)
    names = [name.removeprefix("value/") for name in seen.request.returns if name.startswith("value/")]
    for name in names:
        kept, kept_allowed = np.zeros(()), np.zeros(())
        for number, step in enumerate(case["steps"]):
            by_rank = {rank: [] if name in case.get("frozen", ()) else local_terms(seen, number, name, rank) for rank in members}
            spec = seen.request.return_of(f"gradient/{number}/{name}", members[0])
            if step.get("between") != "keep":
                kept, kept_allowed = np.zeros(()), np.zeros(())
            expected, allowed = mean_of(by_rank, spec.shape, spec.dtype)
            # An old average is added to on every rank, and averaged again: an addition, N-1 more, and a division.
            expected, allowed = expected + kept, allowed + kept_allowed + (len(members) + 1) * unit_roundoff(spec.dtype) * np.abs(kept)
            if only in (None, number):
                for rank in members:
                    assert_gradient(seen, number, name, rank, expected, allowed, by_rank, kept)
            kept, kept_allowed = expected, allowed


def judge_interruption(seen: Any) -> None:
    """What was raised inside of no_sync has come out of it."""
    for rank in range(seen.world_size):
        if not seen.facts(rank).get("has_left"):
            raise broken(f"On rank {rank} an exception that was raised inside of no_sync didn't come out of it.",
                         "Expected: it leaves the block.", "no_sync catches what isn't meant for it.",
                         "try, yield, finally; no except.")  # fmt: skip


def mean_of(by_rank: dict[int, list[Array]], shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """-> (sum of all terms over the number of ranks, what additions in any order and one division can lose)."""
    terms = [term for each in by_rank.values() for term in each]
    total, magnitude = (np.sum([np.zeros(shape), *pieces], axis=0) for pieces in (terms, [np.abs(term) for term in terms]))
    roundings = max(len(terms), len(by_rank)) + 1
    return total / len(by_rank), roundings * (unit_roundoff(dtype) * magnitude / len(by_rank) + SMALLEST.get(dtype, 0.0))


def circumstances(seen: Any, number: int, name: str) -> str:
    """What is special about a step, and about a parameter in it."""
    case = seen.request.parameters
    step = case["steps"][number]
    before = {"none": "set to None", "zero": "set to zero", "keep": "kept"}[step.get("between", "none")]
    special = [f"gradients {before} before it"]
    if step.get("micro_batches", 1) > 1:
        special.append(f"{step['micro_batches']} micro-batches, all but the last under no_sync")
    shared = [other for other, owner in case.get("shared", {}).items() if owner == name]
    special += [f"{name} is shared with {' and '.join(shared)}"] if shared else []
    special += ["results land when they are waited for"] if seen.request.network.late else []
    return f" ({'; '.join(special)})" if special else ""


def assert_gradient(
    seen: Any, number: int, name: str, rank: int, expected: Array, allowed: Array, by_rank: dict[int, list[Array]], kept: Array
) -> None:
    """One gradient of one rank after one step."""
    zeros = np.zeros(expected.shape)
    sums = {r: np.sum([zeros, *terms], axis=0) for r, terms in by_rank.items()}
    is_split = seen.request.parameters["steps"][number].get("micro_batches", 1) > 1
    others = {"the average of the step before": kept + zeros} if np.any(kept) else {}
    if is_split:
        others["the mean without what the last micro-batch adds"] = kept + np.mean(
            [np.sum([zeros, *terms[:-1]], axis=0) for terms in by_rank.values()], axis=0
        )
    hints = Hints(
        world_size=len(by_rank),
        factors={"micro-batches": seen.request.parameters["steps"][number].get("micro_batches", 1)},
        untouched=sums[rank] + kept,
        parts={f"rank {r}'s share": total / len(by_rank) for r, total in sums.items()},
        others=others,
        suggestion="Inside no_sync the hook neither counts nor launches; what leaves later is all that was added up." if is_split else "",
    )
    what = f"step {number + 1}{circumstances(seen, number, name)}: the mean gradient of {name} on rank {rank}"
    assert_close(seen.rank(rank)[f"gradient/{number}/{name}"], expected, allowed=allowed, what=what, hints=hints)


# --- a chain of linear layers ----------------------------------------------------------------------------------------
def judge_chain(seen: Any) -> None:
    """Every rank holds the gradients of one process on the whole batch, with rank 0's weights."""
    num_layers, world_size = seen.request.parameters["num_layers"], seen.world_size
    names = [f"{kind}_{layer}" for layer in range(num_layers) for kind in ("weight", "bias")]
    weights = {name: wide(seen.input(name, 0)) for name in names}
    batches = [(wide(seen.input("x", rank)), wide(seen.input("y", rank))) for rank in range(world_size)]
    num_rows = sum(len(x) for x, _ in batches)
    shares = [chain_gradients(weights, x, y, num_layers, num_rows) for x, y in batches]
    sizes = {name: np.abs(weight) for name, weight in weights.items()}
    magnitudes = [chain_gradients(sizes, np.abs(x), -np.abs(y), num_layers, num_rows) for x, y in batches]
    # Every number on the way to a gradient is a sum of products; the longest path through them rounds once per term of each sum.
    num_roundings = 2 * sum(sum(weights[f"weight_{layer}"].shape) for layer in range(num_layers)) + num_rows + world_size + 8
    for name in names:
        expected = np.sum([share[name] for share in shares], axis=0)
        allowed = num_roundings * unit_roundoff("float32") * np.sum([each[name] for each in magnitudes], axis=0)
        parts = {f"rank {r}'s rows": share[name] for r, share in enumerate(shares)}
        suggestion = "Do all ranks begin with rank 0's weights, and is each gradient averaged once, when it is complete?"
        hints = Hints(world_size=world_size, parts=parts, suggestion=suggestion)
        for rank in range(world_size):
            assert_close(seen.rank(rank)[name], expected, allowed=allowed, what=f"the gradient of {name} on rank {rank}", hints=hints)


def chain_gradients(weights: dict[str, Array], x: Array, y: Array, num_layers: int, num_rows: int) -> dict[str, Array]:
    """Gradients of the squared errors of `x`'s rows over `num_rows`. With |weights|, |x| and -|y|: the sums of all terms' magnitudes."""
    inputs = [x]
    for layer in range(num_layers):
        inputs.append(inputs[-1] @ weights[f"weight_{layer}"].T + weights[f"bias_{layer}"])
    gradient, gradients = 2 * (inputs[-1] - y) / num_rows, {}
    for layer in reversed(range(num_layers)):
        gradients |= {f"weight_{layer}": gradient.T @ inputs[layer], f"bias_{layer}": gradient.sum(0)}
        gradient = gradient @ weights[f"weight_{layer}"]
    return gradients


def judge_loss_scale(seen: Any) -> None:
    """N over the tokens of the group, to the last digits of a float64."""
    members = members_of(seen)
    total = sum(seen.request.parameters["num_tokens"][rank] for rank in members)
    for rank in members:
        expected = np.asarray(len(members) / total)
        hints = Hints(world_size=len(members), suggestion="Are the tokens counted in a float32, which has 24 bits? Over which ranks?")
        what = f"mean_loss_scale on rank {rank}, of exactly {total} tokens in all"
        assert_close(seen.rank(rank)["scale"], expected, allowed=4 * unit_roundoff("float64") * expected, what=what, hints=hints)
