"""What runs beside a submission to `context_parallel`: it drives the functions and reports what they did. No opinions.

A rank imports this package as `probes`, so its files name each other relatively.
"""

from .models import model, plain, sums
from .passes import attention, counting, gated, large, merge
from .refusing import refusals, wrong_ways
from .sequences import loss, shard, split

__all__ = [
    "attention",
    "counting",
    "gated",
    "large",
    "loss",
    "merge",
    "model",
    "plain",
    "refusals",
    "shard",
    "split",
    "sums",
    "wrong_ways",
]
