"""What the ranks must hold. Oracles are numpy's sums in fp64, integers exact; never the reference solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.errors import LawBroken, SubmissionError
from grader.numerics import Hints, assert_close, assert_equal, mean_bound, sum_bound, unit_roundoff
from grader.records import Message
from tests.laws.collectives.runs import Array, Rows, Tensors, as_given

ROUNDINGS_OF_A_SUM = 32  # of the largest value, between two orders of adding up to sixteen numbers of its size
WRONG_ANYWAY = "It is wrong where messages land at once, too, so the waits may be right: mend the law on the values first."
LATE = "Here a message lands only when its receive is waited for: is every wait() made before its tensor is read?"


def advice(seen: Any) -> str:
    """What to try when nothing better is known about a wrong value of this run."""
    return LATE if seen.request.network.late else ""


def judge_late(judge: Callable[[Any, Any], None], seen: Any, asked: Any, plain: Callable[[], Any]) -> None:
    """`judge` of a run in which messages land late; where it is wrong, and in the `plain` run too, the waits are not what to look at."""
    try:
        judge(seen, asked)
    except LawBroken as broken:
        if LATE in broken.message.suggestion and _is_wrong(judge, plain, asked):
            raise LawBroken(replace(broken.message, suggestion=broken.message.suggestion.replace(LATE, WRONG_ANYWAY))) from None
        raise


def _is_wrong(judge: Callable[[Any, Any], None], run: Callable[[], Any], asked: Any) -> bool:
    try:
        judge(run(), asked)
    except LawBroken:
        return True
    except SubmissionError:  # it stands still there, or falls: that says nothing of the values
        return False
    return False


def circumstances(seen: Any) -> str:
    """What is special about this run, as the end of a tensor's description."""
    layout, members = (seen.request.parameters.get(name) for name in ("layout", "members"))
    said = [
        *(["where a message lands only when it is waited for"] if seen.request.network.late else []),
        *(["not contiguous"] if layout else []),
        *([f"in the group of ranks {', '.join(map(str, members))}"] if members else []),
    ]
    return "".join(f", {words}" for words in said)


def assert_reduced(
    got: Array, parts: Sequence[Array], op: str, *, what: str, untouched: Array | None = None, suggestion: str = "",
    elsewhere: dict[str, list[Array]] | None = None,
) -> None:  # fmt: skip
    """`got` is the sum, mean or maximum of `parts`, one part for each member; floats within what their dtype can lose in N-1 additions.

    elsewhere   parts of what another place holds, by its name, for the message
    """
    dtype, world_size = parts[0].dtype.name, len(parts)
    is_integer = dtype.startswith("int")
    wide = [part.astype(np.int64 if is_integer else np.float64) for part in parts]
    total = np.sum(wide, axis=0)
    hints = Hints(
        world_size=world_size,
        untouched=untouched,
        others={f"rank {r}'s value": part for r, part in enumerate(wide)}
        | {name: _reduced(each, op) for name, each in (elsewhere or {}).items()},
        parts={f"rank {r}'s part": part for r, part in enumerate(wide)},
        suggestion=suggestion,
    )
    if op == "max":
        assert_equal(got, np.max(wide, axis=0).astype(parts[0].dtype), what=what, hints=hints)
    elif is_integer:
        rounded = ", rounded down" if op == "mean" else ""
        assert_equal(got, (total // world_size if op == "mean" else total).astype(parts[0].dtype), what=f"{what}{rounded}", hints=hints)
    else:
        magnitude = np.sum(np.abs(wide), axis=0)
        bound = mean_bound if op == "mean" else sum_bound
        assert_close(
            got, total / world_size if op == "mean" else total, allowed=bound(dtype, world_size, magnitude), what=what, hints=hints
        )


def _reduced(parts: Sequence[Array], op: str) -> Array:
    """The reduction in fp64."""
    wide = np.stack([part.astype(np.float64) for part in parts])
    return np.asarray({"sum": np.sum, "mean": np.mean, "max": np.max}[op](wide, axis=0))


def chunk_of(flat: Array, index: int, world_size: int) -> Array:
    """Chunk `index` as the handout cuts: the first S mod N chunks have one element more."""
    return np.array_split(flat, world_size)[index]


def judge_all_reduce(seen: Any, tensors: Tensors) -> None:
    """Every member holds the reduction, and nothing else of any rank's memory has changed."""
    case = seen.request.parameters
    members, op, layout = case.get("members") or list(range(seen.world_size)), case["op"], case.get("layout", "plain")
    for name in tensors:
        parts = [as_given(seen.input(name, rank), layout) for rank in members]
        for rank in range(seen.world_size):
            before, after = seen.input(name, rank), seen.rank(rank)[name]
            if rank in members:
                mine = as_given(before, layout)
                assert_reduced(
                    as_given(after, layout),
                    parts,
                    op,
                    what=f"{name}: the {op} in place on rank {rank}{circumstances(seen)}",
                    untouched=mine,
                    suggestion=advice(seen),
                )
                judge_gaps(before, after, layout, what=f"{name} on rank {rank}")
            else:
                assert_equal(after, before, what=f"{name} on rank {rank}, which is no member of the group")


def judge_gaps(before: Array, after: Array, layout: str, *, what: str) -> None:
    """What lies between the elements of a strided tensor is as it was."""
    if layout == "every_second":
        assert_equal(after[1::2], before[1::2], what=f"{what}: the memory between the tensor's elements")


def judge_reduce_scatter(seen: Any, tensors: Tensors) -> None:
    """Group rank r returned chunk r of the reduction."""
    case = seen.request.parameters
    members, op, layout = case.get("members") or list(range(seen.world_size)), case["op"], case.get("layout", "plain")
    for name in tensors:
        flat = [as_given(seen.input(name, rank), layout).reshape(-1) for rank in members]
        for place, rank in enumerate(members):
            parts = [chunk_of(part, place, len(members)) for part in flat]
            what = f"{name}: chunk {place} of the {op} on rank {rank}{circumstances(seen)}"
            assert_reduced(
                seen.rank(rank)[name], parts, op, what=what, untouched=parts[place], suggestion=advice(seen),
                elsewhere=_other_chunks(flat, place, len(members)),
            )  # fmt: skip


def _other_chunks(flat: Sequence[Array], place: int, world_size: int) -> dict[str, list[Array]]:
    """The other chunks of the same size, by what they are."""
    size = chunk_of(flat[0], place, world_size).shape
    cut = {other: [chunk_of(part, other, world_size) for part in flat] for other in range(world_size) if other != place}
    return {f"chunk {other} of the reduction": parts for other, parts in cut.items() if parts[0].shape == size}


def judge_all_gather(seen: Any, tensors: Tensors) -> None:
    """Every member returned all chunks in the order of the group ranks."""
    case = seen.request.parameters
    members, layout = case.get("members") or list(range(seen.world_size)), case.get("layout", "plain")
    for name in tensors:
        whole = np.concatenate([as_given(seen.input(name, rank), layout) for rank in members])
        for rank in members:
            hints = Hints(world_size=len(members), suggestion=advice(seen))
            assert_equal(seen.rank(rank)[name], whole, what=f"{name}: all chunks on rank {rank}{circumstances(seen)}", hints=hints)


def judge_inputs_unchanged(seen: Any, names: Sequence[str], *, what: str = "the input") -> None:
    """The input's memory is as it was, also after what was returned has been overwritten."""
    for name in names:
        for rank in range(seen.world_size):
            before, after = seen.input(name, rank), seen.rank(rank)[f"{name}.input"]
            suggestion = "Is the input used as a buffer, or is what you return a view of it? (The probe zeroes what you return.)"
            assert_equal(
                after, before, what=f"{name}: {what} on rank {rank}, which must stay as it was", hints=Hints(suggestion=suggestion)
            )


def judge_broadcast(seen: Any, tensors: Tensors) -> None:
    """Every member holds the source's bits; others, and what lies between the elements, are as they were."""
    case = seen.request.parameters
    members, layout = case.get("members") or list(range(seen.world_size)), case.get("layout", "plain")
    for name in tensors:
        source = as_given(seen.input(name, case["src"]), layout)
        for rank in range(seen.world_size):
            before, after = seen.input(name, rank), seen.rank(rank)[name]
            if rank in members:
                hints = Hints(world_size=len(members), untouched=as_given(before, layout), suggestion=advice(seen))
                what = f"{name} on rank {rank}, from global rank {case['src']}{circumstances(seen)}"
                assert_equal(as_given(after, layout), source, what=what, hints=hints)
                assert_same_bits(
                    as_given(after, layout), source, what=what, whose="the source", suggestion="A broadcast copies; it does not add."
                )
                judge_gaps(before, after, layout, what=f"{name} on rank {rank}")
            else:
                assert_equal(after, before, what=f"{name} on rank {rank}, which is no member of the group")


def judge_all_to_all(seen: Any, rows: Rows) -> None:
    """Group rank r returned block r of every member, in the order of the members."""
    members = seen.request.parameters.get("members") or list(range(seen.world_size))
    layout = seen.request.parameters.get("layout", "plain")
    for name, table in rows.items():
        blocks = [np.split(as_given(seen.input(name, rank), layout), np.cumsum(row)[:-1]) for rank, row in zip(members, table, strict=True)]
        for place, rank in enumerate(members):
            expected = np.concatenate([block[place] for block in blocks])
            others = {f"what rank {other} should get": np.concatenate([block[p] for block in blocks]) for p, other in enumerate(members)}
            alike = {whose: value for whose, value in others.items() if value.shape == expected.shape}
            hints = Hints(world_size=len(members), others=alike, suggestion=advice(seen))
            assert_equal(
                seen.rank(rank)[name],
                expected,
                what=f"{name}: the rows on rank {rank}, one block from each rank{circumstances(seen)}",
                hints=hints,
            )


def judge_same_bits(seen: Any, names: Sequence[str]) -> None:
    """All ranks' tensors agree to the last bit."""
    advice = "Are the same numbers added or divided in two ways? One rank computes and the others copy, or all compute alike."
    for name in names:
        for rank in range(1, seen.world_size):
            first, mine = seen.rank(0)[name], seen.rank(rank)[name]
            assert_same_bits(mine, first, what=f"{name} on rank {rank}", whose="rank 0", suggestion=advice)


def assert_same_bits(mine: Array, other: Array, *, what: str, whose: str, suggestion: str) -> None:
    """Two tensors of one dtype and size have the same bits."""
    ours, theirs = (np.ascontiguousarray(tensor).reshape(-1) for tensor in (mine, other))
    differing = np.flatnonzero((ours.view(np.uint8) != theirs.view(np.uint8)).reshape(ours.size, -1).any(-1)) if ours.size else []
    if not len(differing):
        return
    at = int(differing[0])
    is_far = _is_beyond_rounding(ours, theirs)
    raise LawBroken(
        Message(
            seen=f"{what}: {len(differing)} of {ours.size} values differ in their bits; element {at} is {float(ours[at])!r},"
            f" and {float(theirs[at])!r} on {whose}.",
            allowed="Allowed: no difference, not in the last bit.",
            diagnosis="The ranks' tensors differ by more than rounding." if is_far else "The ranks' tensors differ in their bits.",
            suggestion="Values are wrong here, and not only their last bits: mend the law on the values first." if is_far else suggestion,
        )
    )


def _is_beyond_rounding(ours: Array, theirs: Array) -> bool:
    """Whether they differ by more than two sums of a few numbers in their dtype may; another sign of 0 is no difference."""
    roundoff = unit_roundoff(ours.dtype.name)
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.where(ours == theirs, 0.0, np.abs(ours - theirs))  # of equal infinities, too
        size = np.maximum(np.abs(ours), np.abs(theirs)).max(initial=0.0, where=np.isfinite(ours) & np.isfinite(theirs))
    return not bool(np.all(distance <= ROUNDINGS_OF_A_SUM * roundoff * size))


def judge_large(seen: Any) -> None:
    """At each place of the repeated pattern the smallest and the largest value are what they should be."""
    case, parts = seen.request.parameters, [seen.input("x", rank) for rank in range(seen.world_size)]
    function = case["function"]
    for rank in range(seen.world_size):
        for name, extreme in (("smallest", np.minimum), ("largest", np.maximum)):
            got, what = seen.rank(rank)[name], f"{function} on rank {rank}: the {name} value at each place of a pattern that repeats"
            if function == "broadcast":
                assert_equal(got, parts[case["src"]], what=what, hints=Hints(untouched=parts[rank]))
            elif function in ("ring_all_gather", "all_to_all"):
                assert_equal(got, extreme.reduce(parts), what=what, hints=Hints(untouched=parts[rank]))
            else:
                assert_reduced(got, parts, "sum", what=what, untouched=parts[rank])
