"""What runs beside a submission to `fused_kernels`: it drives the functions and reports what they did. No opinions, nothing expected."""

from __future__ import annotations

from typing import Any

import torch


def roofline(at: Any) -> dict[str, torch.Tensor]:
    """arithmetic_intensity of each pair of operations and bytes."""
    pairs = at.inputs["pairs"].tolist()
    told = [float(at.submission.bottlenecks.arithmetic_intensity(*pair)) for pair in pairs]
    return {"intensity": torch.tensor(told, dtype=torch.float64)}
