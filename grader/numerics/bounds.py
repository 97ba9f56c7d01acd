"""Allowed errors with their arguments. Everything is absolute, per element, against fp64, whose own rounding is allowed for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from grader.errors import CourseError

Bound = float | NDArray[np.float64]

# The plain implementation in the same dtypes makes one error; a right one that rounds elsewhere may make another of its size.
PLAIN_ERROR_FACTOR = 2.0


def unit_roundoff(dtype: str) -> float:
    """u: the largest relative error of rounding one number to `dtype`; half the gap above 1. 0 for integers and bool.

    Raises CourseError for a name that is no dtype.
    """
    kind = _dtype(dtype)
    return float(ml_dtypes.finfo(kind).eps) / 2 if _is_floating(kind) else 0.0


def rounding_bound(dtype: str, value: Bound) -> Bound:
    """Allowed error of `value` rounded once to `dtype`: u relative to it, among the subnormals half of their gap. 0 for integers."""
    tiny = float(ml_dtypes.finfo(_dtype(dtype)).smallest_subnormal) / 2 if unit_roundoff(dtype) else 0.0
    return _non_negative(unit_roundoff(dtype) * np.abs(np.asarray(value, np.float64)) + tiny)


def sum_bound(dtype: str, num_terms: int, magnitude: Bound) -> Bound:
    """Allowed error of a sum of `num_terms` numbers, held in `dtype` throughout and added in any order.

    `magnitude` is the sum of the terms' absolute values (a number, or an array for a sum per element).

    Each of the n−1 additions rounds once, by at most u relative to what it computed. Whatever the order, the error is at most
    (n−1)·u·Σ|x|, for round-to-nearest and with no condition on n (C.-P. Jeannerod and S. M. Rump, "Improved error bounds for inner products
    in floating-point arithmetic", 2013). An addition whose value is subnormal is exact, so underflow adds nothing.
    What it is compared with was added in fp64, so that sum's error comes on top: of a float64 sum it is as large as its own.
    """
    return _non_negative((_count(num_terms) - 1) * _with_oracle(unit_roundoff(dtype)) * np.asarray(magnitude, np.float64))


def mean_bound(dtype: str, num_terms: int, magnitude: Bound) -> Bound:
    """Allowed error of a mean of `num_terms` numbers in `dtype`: divided before or after the additions, which may have any order.

    `magnitude` is the sum of the terms' absolute values, not divided.

    As `sum_bound`, with one more rounding on the way of every term: ((n−1)·u·(1+u) + u)·Σ|x| / n. A quotient may fall among the subnormals,
    where it is off by at most half their spacing; n of them when the terms are divided first.
    """
    u, n = unit_roundoff(dtype), _count(num_terms)
    tiny = float(ml_dtypes.finfo(_dtype(dtype)).smallest_subnormal) / 2 if u else 0.0
    return _non_negative(((n - 1) * (1 + u) + 1) * _with_oracle(u) * np.asarray(magnitude, np.float64) / n + n * tiny)


def bound(dtype: str, *, plain_error: Bound, derived: Bound) -> Bound:
    """The error budget: the larger of twice a plain implementation's error and a bound derived from dtype, length and magnitudes.

    `plain_error` is |plain − fp64| of a plain implementation in the same dtypes on the same inputs; of an array its largest element counts,
    because where the plain one happens to be exact, a right one may still round. `derived` is a number or an array.
    The first alone would reject right answers where the plain one is lucky; the second alone is loose.

    Raises CourseError for integers, which are compared exactly, and for a plain error that is no number.
    """
    if not _is_floating(_dtype(dtype)):
        raise CourseError(f"There is no error budget for {dtype}: integers are exact, compare them with assert_equal.")
    worst = float(np.max(np.asarray(plain_error, np.float64), initial=0.0))
    if not np.isfinite(worst):
        raise CourseError(f"The plain implementation's error is {worst}: it has no answer on these inputs, so it can't set a budget.")
    return _non_negative(np.maximum(PLAIN_ERROR_FACTOR * worst, np.asarray(derived, np.float64)))


def _with_oracle(u: float) -> float:
    """u and that of the fp64 it is compared with; 0 for integers, whose oracle is exact."""
    return u + unit_roundoff("float64") if u else 0.0


def _non_negative(allowed: Any) -> Bound:
    array = np.asarray(allowed, np.float64)
    if not np.all(array >= 0):
        raise CourseError("A bound came out negative or not a number; magnitudes are sums of absolute values, all finite.")
    return array if array.ndim else float(array)


def _count(num_terms: int) -> int:
    if num_terms < 1:
        raise CourseError(f"A sum of {num_terms} terms has no bound; expected at least 1.")
    return num_terms


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise CourseError(f"{name!r} is no dtype; expected a name such as 'float32' or 'bfloat16'.") from None


def _is_floating(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.startswith(("bfloat", "float")))
