"""The judgements on formats, and what all judgements here share. Oracle: ml_dtypes' own rounding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import assert_equal
from tests.laws.sentences import broken

Array = np.ndarray[Any, Any]

FORMATS = {
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e5m2": (5, 2),
    "float8_e4m3": (4, 3),
    "float8_e3m4": (3, 4),
}  # exponent and mantissa bits
NUM_RANDOM = 400


def kind_of(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def as_format(x: Array, name: str) -> Array:
    """x rounded to a format by ml_dtypes, back in float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return rounded_to_odd(x).astype(kind_of(name)).astype(np.float64)


def rounded_to_odd(x: Array) -> Array:
    """x in float32; what lies between two float32 numbers becomes the one whose last bit is 1.

    ml_dtypes rounds float64 to float32 and then to the format, so what lies just beside a tie would become one. The odd neighbour is none.
    """
    nearest = x.astype(np.float32)
    is_odd = nearest.view(np.int32) % 2 == 1
    other = np.nextafter(nearest, np.where(nearest < x, np.inf, -np.inf).astype(np.float32))
    return np.where((nearest == x) | np.isnan(x) | is_odd, nearest, other)


# --- formats ---------------------------------------------------------------------------------------------------------
def normal_numbers(rng: np.random.Generator, name: str) -> Array:
    """Numbers all over the normal range; ties, half-way between two neighbours of the format, odd or even; and what lies beside ties."""
    limits = ml_dtypes.finfo(kind_of(name))
    low, high = np.log2(float(limits.smallest_normal)), np.log2(float(limits.max))
    x = rng.choice([-1, 1], NUM_RANDOM) * 2 ** rng.uniform(low, high - 1, NUM_RANDOM)
    below = as_format(x, name)
    spacing = 2.0 ** (np.floor(np.log2(np.abs(below))) - FORMATS[name][1])
    ties = below + spacing / 2
    beside = 1 + rng.choice([-1, 1], NUM_RANDOM) * 2.0**-40  # by less than float32 sees
    return np.concatenate([x, below, ties, ties * beside, below + spacing * rng.choice([0.4999, 0.5001], NUM_RANDOM)])


def tiny_numbers(rng: np.random.Generator, name: str) -> Array:
    """Numbers between zero and twice the smallest normal one, ties between subnormals, half the smallest, and zeros of both signs."""
    limits = ml_dtypes.finfo(kind_of(name))
    smallest, normal = float(limits.smallest_subnormal), float(limits.smallest_normal)
    x = rng.uniform(-2 * normal, 2 * normal, NUM_RANDOM)
    multiples = smallest * rng.integers(-20, 21, NUM_RANDOM)
    edges = smallest * np.asarray([0.5, 0.5001, 0.4999, 0.75, 1.5, 2.5, 1e-3])
    return np.concatenate([x, multiples, multiples + smallest / 2, edges, -edges, [0.0, -0.0]])


def huge_numbers(rng: np.random.Generator, name: str) -> Array:
    """The largest finite number, half-way to what would come next, beyond it, and what isn't finite at all."""
    largest = float(ml_dtypes.finfo(kind_of(name)).max)
    spacing = 2.0 ** (np.floor(np.log2(largest)) - FORMATS[name][1])
    x = np.concatenate([largest + spacing * np.asarray([-1, -0.5, 0, 0.25, 0.4999, 0.5, 0.5001, 1]), largest * rng.uniform(1, 8, 20)])
    return np.concatenate([x, -x, [np.inf, -np.inf, np.nan]])


NUMBERS = {"normal": normal_numbers, "tiny": tiny_numbers, "huge": huge_numbers}


def judge_rounded(observe: Any, name: str, numbers: str, *, dtype: str = "float64", **case: Any) -> None:
    """round_to gives the format's own rounding, bit by bit, and leaves x alone."""
    exponent_bits, mantissa_bits = FORMATS[name]
    x = NUMBERS[numbers](np.random.default_rng(0), name)  # how many there are; the values are drawn for each submission
    returns = {"y": (dtype, x.shape), "x": (dtype, x.shape)}
    seen = observe(
        "rounded",
        transport="none",
        inputs=lambda rng: {"x": NUMBERS[numbers](rng, name).astype(dtype)},
        returns=returns,
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
        **case,
    )
    given, got = seen.inputs["x"], seen.rank(0)["y"]
    right = as_format(given.astype(np.float64), name)
    assert_equal(seen.rank(0)["x"], given, what="x, which must stay as it was")
    wrong = ~((got == right) & (np.signbit(got) == np.signbit(right)) | np.isnan(got) & np.isnan(right))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise broken(
            f"round_to with {exponent_bits} exponent, {mantissa_bits} mantissa bits: "
            f"{int(wrong.sum())} of {wrong.size} numbers are rounded otherwise; "
            f"{float(given[at])!r} becomes {float(got[at])!r}.",
            f"Expected: {float(right[at])!r}.",
            how_it_errs(float(given[at]), float(got[at]), float(right[at])),
            "Which spacing have the format's numbers there, and which of the two neighbours is nearer, or even?",
        )


def judge_forms(observe: Any, **case: Any) -> None:
    """A single number, none, a view: rounded to the format that they have, they are the same numbers in new memory."""
    seen = observe("rounded_forms", transport="none", inputs=lambda rng: {"x": rng.standard_normal(20)}, **case)
    for name, told in seen.facts(0)["wrong"].items():
        raise broken(
            f"round_to of {name} {told}.",
            "Expected: the same numbers, as a new tensor of x's shape and dtype.",
            "A tensor of another form is not rounded as others are.",
            "Nothing depends on the shape; and what is returned is always new, also where there is nothing to round.",
        )


def how_it_errs(x: float, got: float, right: float) -> str:
    """What kind of rounding gives this."""
    if np.isinf(right) != np.isinf(got):
        return "It should be infinite." if np.isinf(right) else "It is infinite and should be finite."
    if got == right:
        return "The sign of the zero is lost."
    if abs(got - x) == abs(right - x):
        return "It is a tie, and goes to the odd neighbour."
    if got == 0 and right != 0:
        return "A subnormal number is flushed to zero."
    return "It is not the nearest number of the format."
