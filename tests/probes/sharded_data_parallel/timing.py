"""In which order and at what time layers compute and the network carries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .surroundings import fsdp_of


def ordered(at: Any, *, stage: str, num_layers: int, forward_s: float = 0.0, backward_s: float = 0.0, **how: Any) -> None:
    """Two steps of a chain of equal layers of declared cost; in the second's phase "step", a mark as each layer's backward begins."""
    layers = [Timed(at, number, at.inputs[f"value/{number}"], forward_s, backward_s) for number in range(num_layers)]
    module = nn.Sequential(*layers)
    wrapped, finish = module, lambda: None
    if stage == "zero2":
        optimizer = at.submission.sharded_optimizer.ShardedOptimizer(
            module.parameters(), torch.optim.SGD, bucket_bytes=how["bucket_bytes"], lr=0.0
        )
        finish = at.submission.sharded_optimizer.GradientSharder(optimizer).finish
    else:
        wrapped = fsdp_of(at, module, None, how, Timed)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.0)
    for phase in ("learn", "step"):
        with at.phase(phase):
            wrapped(torch.ones((), requires_grad=True)).backward()
            finish()
            at.join()
        optimizer.step()
        optimizer.zero_grad()


class Timed(nn.Module):
    """A layer whose arithmetic is declared."""

    def __init__(self, at: Any, number: int, value: Tensor, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.at, self.number, self.costs_s = at, number, (forward_s, backward_s)
        self.weight = nn.Parameter(value.clone())

    def forward(self, flow: Tensor) -> Tensor:
        return Spend.apply(flow, self.weight, self.at, self.number, *self.costs_s)


class Spend(torch.autograd.Function):
    """flow + Σ weight²/2; marks and spends declared time as it begins, forward and backward."""

    @staticmethod
    def forward(ctx: Any, flow: Tensor, weight: Tensor, at: Any, number: int, forward_s: float, backward_s: float) -> Tensor:
        ctx.at, ctx.number, ctx.backward_s = at, number, backward_s
        ctx.save_for_backward(weight)
        at.mark(f"forward {number}")
        at.compute(forward_s, f"forward {number}")
        return flow + weight.square().sum() / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (weight,) = ctx.saved_tensors
        ctx.at.mark(f"backward {ctx.number}")
        ctx.at.compute(ctx.backward_s, f"backward {ctx.number}")
        return gradient, weight * gradient, None, None, None, None
