"""What all probes here need of the run around them: its folder, its groups, its inputs by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def shared_folder() -> Path:
    """A folder that all ranks of this run see, and that goes with it: who asks for such a run says `shares_folder`."""
    return Path.cwd().parent / "shared"


def group_of(at: Any, members: list[int] | None) -> tuple[Any, bool]:
    """The group of these global ranks (None: everybody) and whether this rank is one of them. All ranks make it together."""
    if members is None:
        return None, True
    return dist.new_group(members), at.rank in members


def become(rank: int, num_ranks: int) -> None:
    """Be one rank of a world in which nobody else is."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=rank, world_size=num_ranks, store=FakeStore())


def fsdp_of(at: Any, module: nn.Module, group: Any, how: dict[str, Any], wrap: type[nn.Module]) -> Any:
    """The submission's FullyShardedDataParallel with a `wrap` as the unit."""
    words = {name: how[name] for name in ("reshard_after_forward", "prefetch") if name in how}
    words |= {name: getattr(torch, how[name]) for name in ("compute_dtype", "reduce_dtype") if name in how}
    return at.submission.fsdp.FullyShardedDataParallel(module, group, wrap=wrap, **words)


def parts_of(inputs: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Inputs called <prefix>/<name>, by name."""
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in inputs.items() if name.startswith(f"{prefix}/")}


def plain(tensor: Any) -> Tensor:
    """This rank's part of a distributed tensor, or the tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def word(dtype: torch.dtype) -> str:
    """float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")
