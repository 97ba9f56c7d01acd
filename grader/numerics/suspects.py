"""Known ways to be wrong, each recognised from the values alone. A suspect is a guess with its reason, never a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics.hints import Array, Hints

MIN_VALUES_FOR_UNNAMED_RATIO = 3  # any two values have some ratio and some offset in common by chance
MAX_ANCHORS = 8
NARROWER = (("float32", 2.0**-24), ("float16", 2.0**-11), ("bfloat16", 2.0**-8))  # unit roundoffs
ROUNDINGS = 4  # of the narrower dtype on a value
NEARLY = 4  # times the allowed error
BEYOND_ALL = 1e15  # times the largest value that is expected


@dataclass(frozen=True, slots=True)
class Suspect:
    """What the wrong values look like, and what to look at."""

    diagnosis: str
    suggestion: str
    is_broad: bool = False  # many mistakes look like this: what the test suggests is told as well


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two finite tensors of one shape in a wide dtype, and where they differ by more than is allowed."""

    got: Array
    expected: Array
    wrong: Array  # bool
    allowed: Array  # broadcastable to the shape
    slack: float  # relative rounding of the narrower of the two dtypes, a few times; 0 for integers
    hints: Hints

    def wrong_values_match(self, candidate: Array, factor: float = 1.0) -> bool:
        """Whether every wrong value is `candidate`'s, within `factor` times the allowed error and a few roundings.

        Where most of the wrong values would be right in `candidate`, it explains nothing: it is only as near as roundings are.
        """
        if candidate.shape != self.got.shape or np.mean((np.abs(candidate - self.expected) > self.allowed)[self.wrong]) <= 0.5:
            return False
        allowed = (1 + abs(factor)) * self.allowed + self.slack * np.abs(candidate)
        return bool(np.all((np.abs(self.got - candidate) <= allowed)[self.wrong]))

    def pieces_match(self, got: Array, candidate: Array) -> bool:
        """Whether two pieces of equal shape agree, for values that stand elsewhere than they should."""
        allowed = 2 * float(np.max(self.allowed)) + self.slack * np.abs(candidate)
        return got.shape == candidate.shape and bool(np.all(np.abs(got - candidate) <= allowed))


def suspect(seen: Comparison) -> Suspect | None:
    """The first suspect that explains every wrong value."""
    searches: tuple[Callable[[Comparison], Suspect | None], ...] = (
        _other_value, _zero, _untouched, _narrow, _never_written, _known_ratio, _part, _chunk_order, _transposed, _moved_along_an_axis,
        _offset, _unnamed_ratio, _nearly,
    )  # fmt: skip
    return next((found for search in searches if (found := search(seen))), None)


# --- value by value --------------------------------------------------------------------------------------------------
def _zero(seen: Comparison) -> Suspect | None:
    if np.any(seen.got[seen.wrong]):
        return None
    if seen.wrong.all() and seen.wrong.size > 1:
        question = "None of it is right: is it ever written, or written to a copy, or overwritten by zeros that came from elsewhere?"
        return Suspect("Every wrong value is 0.", question, is_broad=True)
    return Suspect("Every wrong value is 0.", "Is this part ever written, or is it written to a copy?", is_broad=True)


def _untouched(seen: Comparison) -> Suspect | None:
    before = seen.hints.untouched
    if before is None or not seen.wrong_values_match(_wide(before)):
        return None
    question = "Is the answer written to a copy, returned before it has arrived, or never sent?"
    return Suspect("Every wrong value is what stood there before.", question)


def _other_value(seen: Comparison) -> Suspect | None:
    for name, value in seen.hints.others.items():
        if seen.wrong_values_match(_wide(value)):
            return Suspect(f"Every wrong value is {name}.", seen.hints.asks)
    return None


def _narrow(seen: Comparison) -> Suspect | None:
    """Right to the precision of a narrower dtype, and no further."""
    if not seen.slack:
        return None
    distances = np.abs(seen.got - seen.expected)[seen.wrong]
    sizes = np.maximum(np.abs(seen.expected), np.mean(np.abs(seen.expected)))[seen.wrong]
    for name, roundoff in NARROWER:
        is_as_far = np.all(distances <= ROUNDINGS * roundoff * sizes) and np.any(distances >= roundoff / ROUNDINGS * sizes)
        if seen.slack < roundoff and is_as_far and (name == "float32" or _is_held_in(name, seen)):
            return Suspect(f"The values are right to {name}'s precision only.", f"What is computed, added or kept in {name} here?", True)
    return None


def _is_held_in(name: str, seen: Comparison) -> bool:
    """Whether every wrong value is a number of that dtype, as chance would hardly have it."""
    got = seen.got[seen.wrong]
    return not np.iscomplexobj(got) and bool(np.all(got.astype(getattr(ml_dtypes, name, name)).astype(np.float64) == got))


def _never_written(seen: Comparison) -> Suspect | None:
    """Numbers of another order than anything here are what happened to stand in memory."""
    if np.max(np.abs(seen.got[seen.wrong])) <= BEYOND_ALL * max(1.0, float(np.max(np.abs(seen.expected)))):
        return None
    return Suspect(
        "There are values of a size that nothing here has: memory that was never written.",
        "torch.empty fills nothing: is every element written, or received and waited for, before it is read or sent on?",
        is_broad=True,
    )


def _part(seen: Comparison) -> Suspect | None:
    for name, part in seen.hints.parts.items():
        addend = _wide(part)
        if addend.shape != seen.got.shape:
            continue
        if seen.wrong_values_match(seen.expected - addend):
            return Suspect(f"Every wrong value lacks {name}.", "Is one step or one neighbour left out?")
        if seen.wrong_values_match(seen.expected + addend):
            return Suspect(f"Every wrong value counts {name} twice.", "Is it there before the first step already, or added once too often?")
    return None


def _known_ratio(seen: Comparison) -> Suspect | None:
    if not np.any(seen.expected[seen.wrong]):
        return None
    matching: list[tuple[float, str, str]] = []
    for factor, name, question in _factors(seen.hints):
        if factor != 1 and seen.wrong_values_match(seen.expected * factor, factor) and (not matching or matching[0][0] == factor):
            matching.append((factor, name, question))
    if not matching:
        return None
    factor, _, question = matching[0]
    names = " = ".join(dict.fromkeys(name for _, name, _ in matching if name))
    return Suspect(f"Every wrong value is the expected one times {factor:.4g}" + (f" = {names}." if names else "."), question)


def _factors(hints: Hints) -> Iterator[tuple[float, str, str]]:
    """(ratio, its name, what to ask); the likeliest first, because in a world of two N, 2 and 4 = N² mean different things."""
    if (n := hints.world_size) and n > 1:
        yield n, "world size", "A sum where a mean is meant, or joined once too often: where is it divided by the world size?"
        yield 1 / n, "1 / world size", "A mean where a sum is meant, or divided by the world size once too often?"
        yield n * n, "world size²", "Is it summed over the ranks twice?"
        yield 1 / (n * n), "1 / world size²", "Is it divided by the world size twice?"
    for name, factor in hints.factors.items():
        yield factor, name, f"Is it divided by {name}, and once?"
        yield 1 / factor, f"1 / {name}", f"Is it divided by {name} once too often?"
    if d := hints.head_dim:
        yield math.sqrt(d), "√head_dim", "Is the scale 1/√head_dim applied?"
        yield 1 / math.sqrt(d), "1 / √head_dim", "Is the scale 1/√head_dim applied once only?"
    yield 2, "", "Is something counted twice?"
    yield 0.5, "", "Is something halved, or one of two parts left out?"
    yield -1, "", "The sign is flipped: which of the two is subtracted?"


def _offset(seen: Comparison) -> Suspect | None:
    if not _varies(seen):
        return None
    differences = (seen.got - seen.expected)[seen.wrong]
    middle = complex(np.median(differences)) if np.iscomplexobj(differences) else float(np.median(differences))
    if np.any(np.abs(differences - middle) > 0.5 * abs(middle)) or not seen.wrong_values_match(seen.expected + middle):
        return None  # errors that only hide within what is allowed are no constant
    return Suspect(
        "Every wrong value is off by the same amount.", "Is a constant (a bias, padding, an index base) added too often?", is_broad=True
    )


def _unnamed_ratio(seen: Comparison) -> Suspect | None:
    if not _varies(seen) or _is_nearly_right(seen):
        return None  # what little more than rounding is allows for some factor near 1
    largest = np.argmax(np.where(seen.wrong, np.abs(seen.expected), -1.0))
    ratio = (seen.got.flat[largest] / seen.expected.flat[largest]).item()
    if np.all(np.abs(seen.got) <= seen.allowed, where=seen.wrong):
        return None  # nothing but what is allowed is left of them: any small factor would do
    if not seen.wrong_values_match(seen.expected * ratio, abs(ratio)):
        return None
    return Suspect(f"Every wrong value is the expected one times {ratio:.4g}.", "Which factor has this value here?", is_broad=True)


def _nearly(seen: Comparison) -> Suspect | None:
    """A little more than rounding may be."""
    if not _is_nearly_right(seen):
        return None
    told = f"Nearly right: no error is more than {NEARLY} times what rounding may cost."
    return Suspect(told, "Is a sum, or what goes into it, held in a narrower dtype than it should be?", is_broad=True)


def _is_nearly_right(seen: Comparison) -> bool:
    allowed = np.broadcast_to(seen.allowed, seen.wrong.shape)[seen.wrong]
    return bool(np.all(allowed) and np.all(np.abs(seen.got - seen.expected)[seen.wrong] <= NEARLY * allowed))


def _varies(seen: Comparison) -> bool:
    values = seen.expected[seen.wrong]
    return values.size >= MIN_VALUES_FOR_UNNAMED_RATIO and bool(np.any(values != values[0]))


# --- right values in the wrong place ---------------------------------------------------------------------------------
def _chunk_order(seen: Comparison) -> Suspect | None:
    n = seen.hints.world_size or 1
    if n < 2 or seen.got.size < n:
        return None
    chunk = -(-seen.got.size // n)
    cuts = range(chunk, seen.got.size, chunk)
    got, expected = (np.split(array.reshape(-1), cuts) for array in (seen.got, seen.expected))
    order = []
    for i, piece in enumerate(got):
        # Where chunks are alike, the one that belongs here explains it best.
        places = sorted(range(len(expected)), key=lambda j: j != i)
        order.append(next((j for j in places if seen.pieces_match(piece, expected[j])), None))
    if None in order or order == list(range(len(order))):
        return None
    if len(set(order)) < len(order):
        return Suspect(
            f"Each chunk is right somewhere: chunks {order} stand where {list(range(len(order)))} belong.",
            "Which chunk does a rank send at step s, and where does it put what it gets?",
        )
    return Suspect(
        f"The chunks are right and stand in the order {order}.",
        "Is the index of a chunk counted from the rank that owns it, in the group's own order?",
    )


def _transposed(seen: Comparison) -> Suspect | None:
    for a in range(seen.got.ndim):
        for b in range(a + 1, seen.got.ndim):
            if seen.pieces_match(seen.got, np.swapaxes(seen.expected, a, b)):
                return Suspect(f"It is the expected one with dims {a} and {b} transposed.", "Which dim comes first in this layout?")
    return None


def _moved_along_an_axis(seen: Comparison) -> Suspect | None:
    for axis in range(seen.got.ndim):
        got, expected = np.moveaxis(seen.got, axis, 0), np.moveaxis(seen.expected, axis, 0)
        if len(got) > 1 and seen.pieces_match(got, expected[::-1]):
            return Suspect(f"It is the expected one in reverse order along dim {axis}.", "Does the loop, or the ring, run the other way?")
        for steps in _anchors(seen, got, expected):
            lost = "" if seen.pieces_match(got, np.roll(expected, steps, axis=0)) else "; what fell off the end is lost"
            return Suspect(f"It is the expected one shifted by {steps} along dim {axis}{lost}.", "Which index is off by this much?")
    return None


def _anchors(seen: Comparison, got: Array, expected: Array) -> Iterator[int]:
    """Shifts along the first dim under which at least half of the rows, and two values, agree; the shortest first."""
    later, earlier = _rows_like(seen, expected[0], got), _rows_like(seen, got[0], expected)
    for steps in sorted([*later, *(-s for s in earlier)], key=abs):
        ours, theirs = (got[steps:], expected[:-steps]) if steps > 0 else (got[:steps], expected[-steps:])
        if ours.size >= 2 and seen.pieces_match(ours, theirs) and np.any(theirs != theirs.flat[0]):
            yield steps


def _rows_like(seen: Comparison, row: Array, rows: Array) -> list[int]:
    """Where in the first half of `rows` one like `row` stands, not counting the first; the nearest few."""
    half = rows[: len(rows) // 2 + 1]
    near = np.abs(half - row) <= 2 * float(np.max(seen.allowed)) + seen.slack * np.abs(row)
    alike = near.reshape(len(half), -1).all(axis=1)
    return [int(place) for place in np.flatnonzero(alike) if place][:MAX_ANCHORS]


def _wide(array: Array | Any) -> Array:
    values = np.asarray(array)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
