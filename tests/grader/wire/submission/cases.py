"""What both coverage files share: a case is a function of (rank, world_size) that gives tensors to be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

Case = Callable[[int, int], list[torch.Tensor] | None]


class Cases(dict[str, tuple[Case, tuple[int, ...]]]):
    """Cases by name, with the world sizes in which they make sense."""

    def of(self, *world_sizes: int) -> Callable[[Case], Case]:
        def add(case: Case) -> Case:
            self[case.__name__] = (case, world_sizes)
            return case

        return add

    def run(self, at: Any, backend: str, folder: str) -> dict[str, torch.Tensor]:
        """Report every case's tensors as [dtype, hex]; over gloo itself if `backend` says so."""
        if backend == "gloo":
            store = dist.FileStore(f"{folder}/store", at.world_size)
            dist.init_process_group("gloo", store=store, rank=at.rank, world_size=at.world_size)
        for name, (case, world_sizes) in self.items():
            if at.world_size in world_sizes:
                tensors = case(at.rank, at.world_size) or []
                at.report(**{name: [[str(t.dtype).removeprefix("torch."), raw_hex(t)] for t in tensors]})
        dist.barrier()
        return {}


def raw_hex(tensor: torch.Tensor) -> str:
    """A tensor's bytes, to the bit."""
    return bytes(tensor.detach().contiguous().view(-1).view(torch.uint8).tolist()).hex() if tensor.numel() else ""


def values(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that every rank can make for any other rank."""
    generator = torch.Generator().manual_seed(int(hashlib.sha256(str((seed, shape)).encode()).hexdigest()[:8], 16))
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 4).to(dtype)
