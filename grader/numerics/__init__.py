"""How two tensors differ, in words; and how far they may."""

from grader.numerics.bounds import bound, mean_bound, rounding_bound, sum_bound, unit_roundoff
from grader.numerics.compare import assert_close, assert_equal
from grader.numerics.describe import Difference, describe
from grader.numerics.hints import Hints

__all__ = [
    "Difference",
    "Hints",
    "assert_close",
    "assert_equal",
    "bound",
    "describe",
    "mean_bound",
    "rounding_bound",
    "sum_bound",
    "unit_roundoff",
]
