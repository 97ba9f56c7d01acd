"""What several of the probes here need: groups, tensors that lie otherwise in memory, gradients, and what a module holds."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def group_of(at: Any, groups: list[list[int]] | None) -> Any:
    """None for the default group, or that one of `groups` to which this rank belongs; all ranks make all of them."""
    made = {rank: group for members in groups or [] for group in [dist.new_group(members)] for rank in members}
    return made.get(at.rank)


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in memory of their own, with the first dim innermost."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))


def gradient_of(parameter: torch.Tensor) -> torch.Tensor:
    """A parameter's gradient, zeros where there is none."""
    return torch.zeros_like(parameter.detach()) if parameter.grad is None else parameter.grad.detach()


def held_by(module: nn.Module, whole: nn.Module | None = None) -> dict[str, Any]:
    """What a module's parameters are: names, shapes, marks, bytes of the memory behind them (counted once), and which lie in `whole`'s."""
    named = dict(module.named_parameters())
    of_whole = {p.untyped_storage().data_ptr() for p in whole.parameters()} if whole else set()
    memory = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in named.values()}
    buffers = {b.untyped_storage().data_ptr(): b.untyped_storage().nbytes() for b in module.buffers()}
    return {
        "shapes": {name: list(p.shape) for name, p in named.items()},
        "cut": [name for name, p in named.items() if getattr(p, "is_cut", False)],
        "trained": [name for name, p in named.items() if p.requires_grad],
        "shared": [name for name, p in named.items() if p.untyped_storage().data_ptr() in of_whole],
        "held_bytes": sum((memory | buffers).values()),
    }
