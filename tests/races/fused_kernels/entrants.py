"""Who runs in the races of fused operations: the submission, and what torch.compile makes of the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Views = dict[str, Tensor]
Call = Callable[[Views, Views], None]
Operation = Callable[[Tensor, Tensor], Tensor]


def _row_by_row(operation: Operation, parameter: str) -> Call:
    def call(inputs: Views, outputs: Views) -> None:
        with torch.no_grad():
            outputs["y"].copy_(operation(inputs["x"], inputs[parameter]))

    return call


def _with_gradient(operation: Operation) -> Call:
    def call(inputs: Views, outputs: Views) -> None:
        logits = inputs["logits"].detach().requires_grad_()
        loss = operation(logits, inputs["targets"])
        outputs["loss"].copy_(loss.detach())
        (gradient,) = torch.autograd.grad(loss, logits, torch.full_like(loss, len(logits)))
        outputs["dlogits"].copy_(gradient)

    return call


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight).to(x.dtype)


def _bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias, approximate="tanh")


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), targets)


def _compiled(operation: Operation) -> Operation:
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # here, not in processes that would run on beside the race
    return torch.compile(operation, dynamic=False)


def rms_norm_submission(at: Any, **parameters: Any) -> Call:
    """The student's."""
    return _row_by_row(lambda x, weight: at.submission.fused_kernels.rms_norm(x, weight), "weight")


def rms_norm_compiled(at: Any, **parameters: Any) -> Call:
    """The formula in float32, compiled."""
    return _row_by_row(_compiled(_rms_norm), "weight")


def rms_norm_eager(at: Any, **parameters: Any) -> Call:
    """The formula in float32, operation by operation."""
    return _row_by_row(_rms_norm, "weight")


def bias_gelu_submission(at: Any, **parameters: Any) -> Call:
    """The student's."""
    return _row_by_row(lambda x, bias: at.submission.fused_kernels.bias_gelu(x, bias), "bias")


def bias_gelu_compiled(at: Any, **parameters: Any) -> Call:
    """Two operations, compiled."""
    return _row_by_row(_compiled(_bias_gelu), "bias")


def bias_gelu_eager(at: Any, **parameters: Any) -> Call:
    """Two operations."""
    return _row_by_row(_bias_gelu, "bias")


def cross_entropy_submission(at: Any, **parameters: Any) -> Call:
    """The student's, in both directions."""
    return _with_gradient(lambda logits, targets: at.submission.fused_kernels.cross_entropy(logits, targets))


def cross_entropy_compiled(at: Any, **parameters: Any) -> Call:
    """As training programs write it, compiled, in both directions."""
    return _with_gradient(_compiled(_cross_entropy))


def cross_entropy_eager(at: Any, **parameters: Any) -> Call:
    """As training programs write it, in both directions."""
    return _with_gradient(_cross_entropy)
