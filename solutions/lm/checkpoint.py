"""Checkpoints that survive a kill at any moment and continue to the bit: weights, moments, random states, place in the data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

# Whole tensors on the CPU, also where FSDP keeps shards: a checkpoint can be read by any number of ranks.
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def save_atomically(state: dict[str, Any], path: Path) -> None:
    """Write `state` to `path` so that, killed at any moment, either the old file or the new one is there, whole."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # the bytes must be on the disk before the name is
    os.replace(partial, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # and then the name
    finally:
        os.close(directory)


def random_states() -> dict[str, Tensor]:
    """Return this rank's generators: CPU and, if there is one, the current GPU."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random_states(states: dict[str, Tensor]) -> None:
    """Put the generators back; a GPU state without a GPU is left alone."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def save_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, **rest: Any) -> None:
    """Save from all ranks together (rank 0 writes). `rest` is what else training must know again."""
    weights, moments = get_state_dict(model, optimizer, options=WHOLE)
    states = [random_states()]
    if dist.is_initialized():
        states = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(states, random_states())
    if not dist.is_initialized() or dist.get_rank() == 0:
        save_atomically({"model": weights, "optimizer": moments, "random": states, **rest}, path)
    if dist.is_initialized():
        dist.barrier()  # no rank runs ahead of a checkpoint that may still fail


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what save_checkpoint saved, mapped rather than read."""
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return saved


def restore(saved: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put weights, moments and random states back in place. Ranks may be more or fewer than when it was saved."""
    set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"], options=WHOLE)
    rank = dist.get_rank() if dist.is_initialized() else 0
    if rank < len(saved["random"]):  # a rank that did not exist then keeps the state of its own seed
        restore_random_states(saved["random"][rank])
