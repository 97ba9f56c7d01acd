"""Attention's races: what a call gets, and whether a head of what it left is right. The submission never meets this file."""

# B batch, H heads, T tokens, D head dim
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BACKWARD_FORWARDS = 2.5  # five products for two


class forward:
    """o of causal attention. Float16, so that Turing takes part."""

    wanted: tuple[str, ...] = ("o",)
    forwards = 1.0

    def __init__(self, device: torch.device, batch: int, heads: int, tokens: int, head_dim: int, dtype: str = "float16") -> None:
        self.device, self.precision = device, dtype
        shape = (batch, heads, tokens, head_dim)
        self._heads = (batch, heads)
        self.inputs = dict.fromkeys((*"qkv", *(["do"] if len(self.wanted) > 1 else [])), (dtype, shape))
        self.outputs = dict.fromkeys(self.wanted, (dtype, shape))
        item_bytes = torch.finfo(getattr(torch, dtype)).bits // 8
        self.moved_bytes = (len(self.inputs) + len(self.outputs)) * batch * heads * tokens * head_dim * item_bytes
        self.flops = self.forwards * 2 * batch * heads * tokens * (tokens + 1) * head_dim  # two products of the visible half

    def fill(self, inputs: dict[str, Tensor], generator: torch.Generator) -> None:
        """Standard normal numbers."""
        for tensor in inputs.values():
            tensor.normal_(generator=generator)

    def places(self, generator: torch.Generator) -> tuple[int, int]:
        """One head of one sequence, all of it: a wrong block anywhere in it shows."""
        return tuple(int(torch.randint(extent, (), generator=generator)) for extent in self._heads)

    def taken(self, outputs: dict[str, Tensor], places: tuple[int, int]) -> dict[str, Tensor]:
        """Copies of that head."""
        return {name: tensor[places].clone() for name, tensor in outputs.items()}

    def exact(self, inputs: dict[str, Tensor], places: tuple[int, int]) -> dict[str, Tensor]:
        """In float64."""
        return self._dense({name: tensor[places].double() for name, tensor in inputs.items()})

    def plain(self, inputs: dict[str, Tensor], places: tuple[int, int]) -> dict[str, Tensor]:
        """Dense attention in the inputs' dtype."""
        return self._dense({name: tensor[places] for name, tensor in inputs.items()})

    def _dense(self, head: dict[str, Tensor]) -> dict[str, Tensor]:
        q_TD, k_TD, v_TD = (head[name].detach().requires_grad_() for name in "qkv")
        with torch.enable_grad():
            scores_TT = q_TD @ k_TD.mT * q_TD.shape[-1] ** -0.5
            hidden = torch.ones(scores_TT.shape, dtype=torch.bool, device=scores_TT.device).triu(1)
            o_TD = scores_TT.masked_fill(hidden, -torch.inf).softmax(-1) @ v_TD
        found: dict[str, Any] = {"o": o_TD.detach()}
        if "do" in head:
            found |= zip(("dq", "dk", "dv"), torch.autograd.grad(o_TD, (q_TD, k_TD, v_TD), head["do"]), strict=True)
        return found


class training(forward):
    """o, and from do the gradients of q, k and v."""

    wanted = ("o", "dq", "dk", "dv")
    forwards = 1 + BACKWARD_FORWARDS
