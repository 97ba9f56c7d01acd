"""Numbers rounded to a format."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rounded(at: Any, *, exponent_bits: int, mantissa_bits: int) -> dict[str, Tensor]:
    """round_to of "x", and x as it is afterwards."""
    y = at.submission.round_to(at.inputs["x"], exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    return {"y": y.clone(), "x": at.inputs["x"]}


def rounded_forms(at: Any) -> None:
    """Tensors of unusual forms, rounded to the format that they have already: what isn't the same numbers in new memory, and how."""
    x = at.inputs["x"]
    forms = {"a single number": x[0], "no numbers": x[:0], "a transposed matrix": x[:12].view(3, 4).T, "float32 numbers": x.float(), "x": x}
    wrong = {}
    for name, form in forms.items():
        exponent_bits, mantissa_bits = (8, 23) if form.dtype == torch.float32 else (11, 52)
        y = at.submission.round_to(form, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
        if y.shape != form.shape or y.dtype != form.dtype:
            wrong[name] = f"comes back as {tuple(y.shape)} in {y.dtype}"
        elif not torch.equal(y, form):
            wrong[name] = "is changed, though the format has all its numbers"
        elif y.numel() and y.untyped_storage().data_ptr() == form.untyped_storage().data_ptr():
            wrong[name] = "comes back in x's own memory"
    at.report(wrong=wrong)
