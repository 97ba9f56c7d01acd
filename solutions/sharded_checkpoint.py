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
    # region solution full_state_dict
    is_keeper = dist.get_rank(fsdp.group) == 0
    shards, states = fsdp.named_shards(), optimizer_states(fsdp, optimizer)

    def collect(pieces: dict[str, Tensor], into: Callable[[str, Tensor], None]) -> None:
        # All ranks gather, one keeps: a unit at a time, so that nobody's device needs room for the model.
        for name, whole in fsdp.gather_whole(pieces):
            if is_keeper:
                into(name, whole.detach().cpu().clone())

    model: dict[str, Tensor] = {}
    collect({name: shard.detach() for name, shard in shards.items()}, model.__setitem__)
    whole_states: States = {name: {} for name in states}
    for key in sorted({key for state in states.values() for key in state}):
        holders = {name: state[key] for name, state in states.items() if key in state}
        cut = {name: value for name, value in holders.items() if is_cut(value, shards[name])}
        collect(cut, lambda name, whole, key=key: whole_states[name].__setitem__(key, whole))
        for name in holders.keys() - cut.keys():
            value = holders[name]
            whole_states[name][key] = value.detach().cpu().clone() if isinstance(value, Tensor) else value
    return {"model": model, "optimizer": whole_states} if is_keeper else {}
    # endregion


def load_full_state_dict(fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take weights and optimizer state from what `full_state_dict` returned, on any number of ranks; all ranks have the same `state`."""
    # region solution load_full_state_dict
    for name, shard in fsdp.named_shards().items():
        shard.data.copy_(fsdp.cut(name, state["model"][name]))
        optimizer.state.pop(shard, None)  # moments of other weights: what was saved without any begins without any
        if name not in state["optimizer"]:
            continue
        shape = state["model"][name].shape
        mine = {}
        for key, value in state["optimizer"][name].items():
            if isinstance(value, Tensor) and value.shape == shape and key != "step":
                value = fsdp.cut(name, value).to(shard.device)
            mine[key] = value.clone() if isinstance(value, Tensor) else value
        optimizer.state[shard] = mine
    # endregion


# --- task pieces -----------------------------------------------------------------------------------------------------
def write_atomically(write: Callable[[Path], Any], path: Path) -> None:
    """Let `write` make the file, and give it its name only when its bytes are on the disk."""
    # region solution write_atomically
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)
    # endregion


def save_sharded(
    folder: Path, fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer, barrier: Callable[[], None] = dist.barrier
) -> None:
    """Save from all ranks together into a folder that all of them see, every rank its own pieces.

    Killed at any moment, on any rank, `folder` still holds the checkpoint of before, whole, or already the new one. `barrier()` returns
    when all ranks have called it, the same number of times each; it is the only call that waits for other ranks.
    """
    # region solution save_sharded
    rank, world_size = dist.get_rank(fsdp.group), dist.get_world_size(fsdp.group)
    # Nothing that exists is written to: the pieces go to a new folder, which counts only when the manifest names it.
    number = read_manifest(folder)["number"] + 1 if (folder / MANIFEST).exists() else 0
    pieces = folder / f"pieces-{number}"
    pieces.mkdir(parents=True, exist_ok=True)  # left by a save that was killed, or made by another rank
    model = {name: shard.detach().cpu() for name, shard in fsdp.named_shards().items()}
    saved = {"model": model, "optimizer": optimizer_states(fsdp, optimizer)}
    write_atomically(lambda path: torch.save(saved, path), pieces / f"rank-{rank}.pt")

    barrier()  # all pieces are on the disk ...
    if rank == 0:
        manifest = {"number": number, "folder": pieces.name, "world_size": world_size}
        write_atomically(lambda path: path.write_text(json.dumps(manifest)), folder / MANIFEST)  # ... and with this one file they count
        for other in folder.glob("pieces-*"):
            if other != pieces:
                shutil.rmtree(other)
    barrier()  # nobody believes in a checkpoint that rank 0 has not finished
    # endregion


def read_manifest(folder: Path) -> dict[str, Any]:
    """Which pieces make the checkpoint."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return manifest


def load_sharded(folder: Path, fsdp: FullyShardedDataParallel, optimizer: torch.optim.Optimizer) -> None:
    """Take weights and optimizer state from `folder`, on any number of ranks. Raises FileNotFoundError where no checkpoint is whole."""
    # region solution load_sharded
    manifest = read_manifest(folder)
    paths = [folder / manifest["folder"] / f"rank-{rank}.pt" for rank in range(manifest["world_size"])]
    # Mapped, not read: only what is cut out below is brought in from the disk.
    files = [torch.load(path, map_location="cpu", weights_only=True, mmap=True) for path in paths]
    for name, shard in fsdp.named_shards().items():
        # A tensor's pieces, in the order of the ranks, laid end to end are the tensor.
        parts = [file["model"][name] for file in files]
        shard.data.copy_(fsdp.cut(name, torch.cat([part.reshape(-1) for part in parts])))
        states = [file["optimizer"].get(name, {}) for file in files]
        mine = {}
        for key, value in states[0].items():
            if is_cut(value, parts[0]):
                value = fsdp.cut(name, torch.cat([state[key].reshape(-1) for state in states])).to(shard.device)
            mine[key] = value.clone() if isinstance(value, Tensor) else value
        optimizer.state.pop(shard, None)  # moments of other weights: what was saved without any begins without any
        if mine:
            optimizer.state[shard] = mine
    # endregion
