"""The two judgements on values that tests use."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.errors import CourseError, LawBroken
from grader.numerics.bounds import Bound
from grader.numerics.describe import describe
from grader.numerics.hints import Hints


def assert_equal(got: Any, expected: Any, *, what: str, hints: Hints | None = None) -> None:
    """`got` has the shape and exactly the values of `expected`; a NaN is equal to a NaN, and −0 to 0.

    Raises LawBroken with a message about the tensor called `what`.
    """
    if difference := describe(np.asarray(got), np.asarray(expected), 0.0, hints):
        raise LawBroken(difference.message(what))


def assert_close(got: Any, expected: Any, *, allowed: Bound, what: str, hints: Hints | None = None) -> None:
    """`got` has the shape of `expected` and no element is further from it than `allowed`: absolute, a number or an array of its shape.

    Raises LawBroken with a message about the tensor called `what`; CourseError if `allowed` is no bound.
    """
    limit, reference = np.asarray(allowed, np.float64), np.asarray(expected)
    if not np.all(np.isfinite(limit) & (limit >= 0)):
        raise CourseError(f"{what}: the allowed error must be finite and not negative everywhere; seen {limit.min()} to {limit.max()}.")
    if limit.shape not in ((), reference.shape):
        raise CourseError(f"{what}: the allowed error has shape {list(limit.shape)}; expected one number or shape {list(reference.shape)}.")
    if difference := describe(np.asarray(got), reference, limit, hints):
        raise LawBroken(difference.message(what))
