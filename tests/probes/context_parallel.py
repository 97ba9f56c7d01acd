"""What runs beside a submission to `context_parallel`: it drives the functions and reports what they did. No opinions, no expected values."""

from __future__ import annotations

from typing import Any

import torch


def merge(at: Any) -> dict[str, torch.Tensor]:
    """merge_attention of the inputs o_a, lse_a, o_b, lse_b; and what the inputs are afterwards."""
    names = ("o_a", "lse_a", "o_b", "lse_b")
    given = [at.inputs[name].clone() for name in names]
    o, lse = at.submission.merge_attention(*given)
    return {"o": o, "lse": lse} | {f"{name} after": value for name, value in zip(names, given, strict=True)}
