"""Two tensors → where they differ, how many of how many, the largest difference, and what that suggests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.numerics.bounds import Bound, unit_roundoff
from grader.numerics.hints import Array, Hints
from grader.numerics.maps import map_of
from grader.numerics.suspects import Comparison, Suspect, suspect
from grader.records import Map, Message

ROUNDINGS_OF_A_GUESS = 8  # a factor and an addend put a few more roundings on a value than the bound allows for


@dataclass(frozen=True, slots=True)
class Difference:
    """How a tensor differs from what was expected; each part a sentence or empty."""

    seen: str
    allowed: str = ""
    where: str = ""
    diagnosis: str = ""
    suggestion: str = ""
    map: Map | None = None

    def message(self, what: str) -> Message:
        """The message for a student, about the tensor called `what`."""
        return Message(f"{what}: {self.seen}", self.allowed, self.where, self.diagnosis, self.suggestion, map=self.map)


def describe(got: Array, expected: Array, allowed: Bound = 0.0, hints: Hints | None = None) -> Difference | None:
    """None if no element of `got` is further than `allowed` (a number, or an array of their shape) from `expected`.

    Non-finite values first, then the shape, then values. A non-finite value that is expected there is right; bf16 and fp8 are compared in
    fp64, integers exactly.
    """
    hints = hints or Hints()
    got, expected = np.asarray(got), np.asarray(expected)
    same_shape = got.shape == expected.shape
    # Where shapes differ, a NaN tells only if the right answer holds none anywhere.
    if (same_shape or _is_finite(expected).all()) and (broken := _non_finite(got, expected if same_shape else None, hints)):
        return broken
    if not same_shape:
        return _shapes(got.shape, expected.shape, hints)
    wrong = _wrong(got, expected, allowed)
    return _values(got, expected, np.asarray(allowed, np.float64), wrong, hints) if wrong.any() else None


# --- non-finite ------------------------------------------------------------------------------------------------------
def _non_finite(got: Array, expected: Array | None, hints: Hints) -> Difference | None:
    wide = _wide(got)
    bad = ~_is_finite(got)
    if expected is not None:
        bad &= ~_same_non_finite(wide, _wide(expected))
    if not bad.any():
        return None
    kinds = [name for name, mask in (("NaN", np.isnan(wide)), ("infinite", np.isinf(wide))) if (mask & bad).any()]
    named = " or ".join(kinds)
    suggestion = (
        "Outputs start as NaN or uninitialised: is every element written? Else look for 0/0, ∞−∞, exp of a large number, log of a negative."
        if "NaN" in kinds
        else "Look for a division by 0, or a number beyond the dtype's range."
    )
    seen = f"{int(bad.sum())} of {got.size} values {_are(bad)} {named}."
    diagnosis = f"There are values that are {named}."
    alike = (
        name for name, other in hints.others.items() if expected is not None and _is_as_broken(wide, bad, _wide(other), _wide(expected))
    )
    if name := next(alike, ""):
        diagnosis, suggestion = f"There are values that are {named}, the same ones as in {name}.", hints.asks
    return Difference(seen, where=_where(bad, None), diagnosis=diagnosis, suggestion=suggestion, map=map_of(bad, hints.world_size))


def _is_as_broken(got: Array, bad: Array, other: Array, expected: Array) -> bool:
    """Whether what is not finite and shouldn't be is so in `other`, too, and nothing else is."""
    if other.shape != got.shape:
        return False
    bad_there = ~np.isfinite(other) & ~_same_non_finite(other, expected)
    return bool(np.array_equal(bad, bad_there) and np.all(_same_non_finite(got, other)[bad]))


def _same_non_finite(got: Array, expected: Array) -> Array:
    return np.asarray((np.isnan(got) & np.isnan(expected)) | (np.isinf(got) & (got == expected)))


# --- shapes ----------------------------------------------------------------------------------------------------------
def _shapes(got: tuple[int, ...], expected: tuple[int, ...], hints: Hints) -> Difference:
    diagnosis = suggestion = ""
    ratios = [a / b if b else 0.0 for a, b in zip(got, expected, strict=False)] if len(got) == len(expected) else []
    odd = [(dim, ratio) for dim, ratio in enumerate(ratios) if ratio != 1]
    if len(got) > 1 and got == expected[::-1]:
        diagnosis, suggestion = "The dims stand in reverse order.", "Is it transposed?"
    elif np.prod(got, dtype=int) == np.prod(expected, dtype=int):
        diagnosis, suggestion = "The number of elements is right.", "Is a reshape missing?"
    elif hints.world_size and len(odd) == 1 and odd[0][1] == hints.world_size:
        diagnosis, suggestion = f"Dim {odd[0][0]} is world size times too long.", "Is this the whole where one rank's shard is asked for?"
    elif hints.world_size and len(odd) == 1 and odd[0][1] * hints.world_size == 1:
        diagnosis, suggestion = f"Dim {odd[0][0]} is world size times too short.", "Is this one rank's shard where the whole is asked for?"
    seen = f"the shape is {list(got)}, expected {list(expected)}."
    return Difference(seen, diagnosis=diagnosis, suggestion=suggestion or hints.suggestion)


# --- values ----------------------------------------------------------------------------------------------------------
def _wrong(got: Array, expected: Array, allowed: Bound) -> Array:
    if _is_integer(got) and _is_integer(expected) and not np.any(allowed):
        return np.asarray(got != expected)  # in their own dtype: fp64 can't tell 2⁵³ from 2⁵³ + 1
    ours, theirs = _wide(got), _wide(expected)
    with np.errstate(invalid="ignore"):
        near = np.abs(ours - theirs) <= allowed
    return np.asarray(~(near | _same_non_finite(ours, theirs)))


def _values(got: Array, expected: Array, allowed: Array, wrong: Array, hints: Hints) -> Difference:
    ours, theirs = _wide(got), _wide(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        distances = np.where(wrong, np.abs(ours - theirs), -1.0)
    at = np.unravel_index(int(np.argmax(distances)), wrong.shape)
    largest = distances[at] if not (_is_integer(got) and _is_integer(expected)) else abs(int(got[at]) - int(expected[at]))
    ours_text, theirs_text = _pair(got[at], expected[at])
    place = f" at {[int(i) for i in at]}" if at else ""
    seen = f"{int(wrong.sum())} of {wrong.size} values {_differ(wrong)}; largest difference {_number(largest)}{place}: "
    limit = np.broadcast_to(allowed, wrong.shape)[at]
    guess = None
    if np.isfinite(ours[wrong]).all() and np.isfinite(theirs).all():
        guess = suspect(Comparison(ours, theirs, wrong, allowed, _slack(got, expected), hints))
    return Difference(
        seen=f"{seen}got {ours_text}, expected {theirs_text}.",
        allowed=f"Allowed there: {_number(limit)}." if np.any(allowed) else "They must be equal.",
        where=_where(wrong, hints.world_size),
        diagnosis=guess.diagnosis if guess else "",
        suggestion=_suggestion(guess, hints),
        map=map_of(wrong, hints.world_size),
    )


def _suggestion(guess: Suspect | None, hints: Hints) -> str:
    if guess is None:
        return hints.suggestion
    return f"{guess.suggestion} {hints.suggestion}".strip() if guess.is_broad else guess.suggestion


def _where(mask: Array, world_size: int | None) -> str:
    """The smallest box around the marked elements, and the chunk of the flattened tensor if they all lie in one."""
    if not mask.ndim or not mask.any():
        return ""
    spans = [(int(found.min()), int(found.max()) + 1) for found in np.nonzero(mask)]
    whole = all((start, stop) == (0, extent) for (start, stop), extent in zip(spans, mask.shape, strict=True))
    if whole:
        return ""
    box = ", ".join(f"{start}:{stop}" if stop - start > 1 else str(start) for start, stop in spans)
    places = np.flatnonzero(mask)
    chunk = -(-mask.size // world_size) if world_size and world_size > 1 else mask.size
    first, last = int(places[0]) // chunk, int(places[-1]) // chunk
    in_chunk = f", chunk {first} of {world_size} (counted from 0)" if chunk < mask.size and first == last else ""
    return f"{'It lies' if len(places) == 1 else 'All of them lie'} in [{box}] of {list(mask.shape)}{in_chunk}."


def _slack(got: Array, expected: Array) -> float:
    if _is_integer(got) and _is_integer(expected):
        return 0.0
    return ROUNDINGS_OF_A_GUESS * max(unit_roundoff(array.dtype.name) for array in (got, expected) if not _is_integer(array))


def _pair(got: Any, expected: Any) -> tuple[str, str]:
    short = _number(got), _number(expected)
    return short if short[0] != short[1] else (repr(got.item()), repr(expected.item()))


def _number(value: Any) -> str:
    plain = value.item() if hasattr(value, "item") else value
    return str(plain) if isinstance(plain, int) else f"{plain:.6g}"


def _are(mask: Array) -> str:
    return "is" if int(mask.sum()) == 1 else "are"


def _differ(mask: Array) -> str:
    return "differs" if int(mask.sum()) == 1 else "differ"


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iub"


def _is_finite(array: Array) -> Array:
    return np.asarray(np.isfinite(_wide(array)))


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
