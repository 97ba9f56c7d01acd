"""Checkpoints of a sharded model: whole on one rank, or in pieces that every rank writes and any number of ranks reads.

Both work through `named_shards`, `gather_whole` and `cut` of FullyShardedDataParallel, and on any optimizer of its parameters.
"""

# N ranks that save, M ranks that load
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from fsdp import FullyShardedDataParallel
from torch import Tensor

States = dict[str, dict[str, Any]]  # of an optimizer: parameter's name -> "exp_avg", "step", ... -> its value
MANIFEST = "manifest.json"


def optimizer_states(fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer) -> States:
    """This rank's optimizer state by the parameters' names; parameters without any are left out."""
    shards = fsdp.named_shards()
    return {name: dict(optimizer.state[shard]) for name, shard in shards.items() if shard in optimizer.state}


def is_cut(value: Any, shard: Tensor) -> bool:
    """Whether a value of an optimizer's state has the shard's elements, such as a moment, or is one for all ranks, such as the step."""
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == shard.shape


# --- task whole ------------------------------------------------------------------------------------------------------
def full_state_dict(fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return {"model": {name: whole tensor}, "optimizer": {name: {key: whole tensor or number}}} on group rank 0, {} on the others.

    Called by all ranks. Names and shapes are the module's own; everything is on the CPU and of the dtype in which it is kept.
    """
    raise NotImplementedError("sharded_data_parallel, task whole: see section 8 of the handout")


def load_full_state_dict(fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take weights and optimizer state from what `full_state_dict` returned, on any number of ranks; all ranks have the same `state`."""
    raise NotImplementedError("sharded_data_parallel, task whole: see section 8 of the handout")


# --- task pieces -----------------------------------------------------------------------------------------------------
def write_atomically(write: Callable[[Path], Any], path: Path) -> None:
    """Let `write` make the file, and give it its name only when its bytes are on the disk."""
    raise NotImplementedError("sharded_data_parallel, task pieces: see section 9 of the handout")


def save_sharded(
    folder: Path, fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer, barrier: Callable[[], None] = dist.barrier
) -> None:
    """Save from all ranks together into a folder that all of them see, every rank its own pieces.

    Killed at any moment, on any rank, `folder` still holds the checkpoint of before, whole, or already the new one. `barrier()` returns
    when all ranks have called it, the same number of times each; it is the only call that waits for other ranks.
    """
    raise NotImplementedError("sharded_data_parallel, task pieces: see section 9 of the handout")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Which pieces make the checkpoint."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return manifest


def load_sharded(folder: Path, fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    """Take weights and optimizer state from `folder`, on any number of ranks. Raises FileNotFoundError where no checkpoint is whole."""
    raise NotImplementedError("sharded_data_parallel, task pieces: see section 9 of the handout")
