"""What several of the probes here need: groups, tensors that lie otherwise in memory, a gradient where there is none."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def group_of(at: Any, groups: list[list[int]] | None) -> tuple[Any, bool]:
    """This rank's group (None: all ranks), and whether it has one; all ranks make all of them."""
    if groups is None:
        return None, True
    made = {rank: group for members in groups for group in [dist.new_group(members)] for rank in members}
    return made.get(at.rank), at.rank in made


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in memory of their own: as they lie, with tokens outside of heads as a projection has them, or heads innermost."""
    if layout == "heads innermost":
        return x.contiguous(memory_format=torch.channels_last)
    return x.transpose(1, 2).contiguous().transpose(1, 2) if layout == "transposed" else x.clone()


def turned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in memory of their own, with the first dim innermost."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))


def zeros_or(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """A gradient; zeros where there is none."""
    return torch.zeros_like(like) if gradient is None else gradient
