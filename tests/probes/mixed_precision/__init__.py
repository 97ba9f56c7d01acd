"""What runs beside a submission to `mixed_precision`: it drives functions and classes and reports what came of it. No opinions.

A rank imports this package as `probes`, so its files name each other relatively.
"""

from .casts import logits, operations, product_gradients, untouched, without_bf16
from .formats import rounded, rounded_forms
from .masters import held_between_steps, many_small_steps, master_steps, resumed, scheduled, skipped_decay
from .scaling import overflown, scaled, tiny_gradients, trajectory, unscaled
from .steps import clipped, curves, overflowing_step, step_gradients, step_that_diverges

__all__ = [
    "clipped",
    "curves",
    "held_between_steps",
    "logits",
    "many_small_steps",
    "master_steps",
    "operations",
    "overflowing_step",
    "overflown",
    "product_gradients",
    "resumed",
    "rounded",
    "rounded_forms",
    "scaled",
    "scheduled",
    "skipped_decay",
    "step_gradients",
    "step_that_diverges",
    "tiny_gradients",
    "trajectory",
    "unscaled",
    "untouched",
    "without_bf16",
]
