"""What the ranks of many_gpus do: one point after the other, each beside the whole model on one rank, and a word on each to a file.

Ranks are laid out as in the simulator's plans: tensor-parallel neighbours innermost, then replicas, then pipeline stages.
"""

from __future__ import annotations

import datetime
import gc
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.soak.mesh_points import Point
from tests.soak.mesh_ways import Groups, as_one_model, made_trainee

from lm.gpt import GPT  # isort: skip  # mesh_points says where the solutions lie
from lm.measuring import timed_s  # isort: skip

NUM_WARMUP = 3
PATIENCE = datetime.timedelta(seconds=100)  # of a rank that waits, in a collective or for its turn


@dataclass(frozen=True)
class Orders:
    """What all ranks are told."""

    points: list[Point]
    folder: Path  # gets N.json for the N-th point, from rank 0
    store: Path  # where ranks meet; nobody has met there before
    on_gpu: bool
    num_timed: int
    until_s: float  # by time.time(): no point begins later


def be_a_rank(rank: int, num_ranks: int, orders: Orders) -> None:
    """Measure every point for which there is time."""
    device = torch.device("cuda", rank) if orders.on_gpu else torch.device("cpu")
    if orders.on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    # Whoever has no part in a point waits on the host: NCCL would wait on the GPU, and be seen.
    dist.init_process_group("gloo", init_method=f"file://{orders.store}", rank=rank, world_size=num_ranks, timeout=PATIENCE)
    made: dict[tuple[int, ...], Any] = {}
    for number, point in enumerate(orders.points):
        goes_on = [time.time() < orders.until_s]
        dist.broadcast_object_list(goes_on)
        if not goes_on[0]:
            break
        groups = groups_of(point, rank, made, "nccl" if orders.on_gpu else "gloo")
        found = measure(point, groups, rank, device, orders.num_timed) if rank < point.plan.num_gpus else None
        everybody: list[Any] = [None] * num_ranks
        dist.all_gather_object(everybody, found)
        if rank == 0:
            place = orders.folder / f"{number}.json"
            place.with_suffix(".part").write_text(json.dumps(joined([each for each in everybody if each])))
            os.replace(place.with_suffix(".part"), place)
        gc.collect()  # a wrapped module and its hooks refer to each other
        if orders.on_gpu:
            torch.cuda.empty_cache()
    dist.barrier()
    dist.destroy_process_group()


def groups_of(point: Point, rank: int, made: dict[tuple[int, ...], Any], backend: str) -> Groups:
    """The rank's groups; every rank makes all that are not in `made` yet."""
    plan = point.plan
    grid = torch.arange(plan.num_gpus).reshape(plan.pp, plan.dp, plan.tp)
    pipelines = grid.permute(1, 2, 0).reshape(-1, plan.pp).tolist()
    lists = {
        "tp": grid.reshape(-1, plan.tp).tolist(),
        "dp": grid.transpose(1, 2).reshape(-1, plan.dp).tolist(),
        "pp": pipelines, "gradients": pipelines, "tied": [[ranks[0], ranks[-1]] for ranks in pipelines if plan.pp > 1],
    }  # fmt: skip
    mine: Groups = {}
    for number, (axis, groups) in enumerate(lists.items()):
        for ranks in groups:
            if len(ranks) == 1 and axis != "dp":  # a replica of its own is still wrapped
                continue
            key = (number, *ranks)
            if key not in made:
                made[key] = dist.new_group(ranks, timeout=PATIENCE, backend=backend)
            if rank in ranks:
                mine[axis] = made[key]
    return mine


def measure(point: Point, groups: Groups, rank: int, device: torch.device, num_timed: int) -> dict[str, Any]:
    """One point on this rank: the whole model's loss and gradient norm, those of the trainee, and how long its steps take."""
    plan, on_gpu = point.plan, device.type == "cuda"
    standing_bytes = torch.cuda.memory_allocated() if on_gpu else 0  # of earlier points: a wrapped model's hooks may outlive it
    torch.manual_seed(0)  # the same weights on every rank and in every way
    with device:
        model = GPT(point.config)
    replica = rank // plan.tp % plan.dp
    generator = torch.Generator().manual_seed(1 + replica)
    tokens_BT = torch.randint(point.config.vocab_size, (point.sequences, point.tokens), generator=generator).to(device)
    whole_loss, whole_norm = as_one_model(point, model, tokens_BT, groups)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    trainee = made_trainee(point, model, tokens_BT, groups, rank)
    del model
    optimizer = torch.optim.AdamW(trainee.parameters, lr=1e-4, fused=on_gpu)
    losses = [trainee.backward()]
    norm = trainee.norm()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(trainee.backward())

    timed_s(step, NUM_WARMUP, device)  # after which the ranks keep step by themselves
    seconds = timed_s(step, num_timed, device)
    found: dict[str, Any] = {"whole_loss": whole_loss, "whole_norm": whole_norm, "norm": norm.item()}
    found |= {"losses": [loss.item() for loss in losses if loss is not None], "step_ms": [round(1e3 * each, 3) for each in seconds]}
    if on_gpu:
        found["peak_bytes"] = torch.cuda.max_memory_allocated() - standing_bytes
    return found


def joined(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """What the ranks of a point have seen, as one: the slowest median, the largest peak, losses as means over replicas."""
    with_loss = [each["losses"] for each in ranks if each["losses"]]
    told = {
        "step_ms": round(max(statistics.median(each["step_ms"]) for each in ranks), 3),
        "loss": statistics.mean(losses[0] for losses in with_loss),
        "last_loss": statistics.mean(losses[-1] for losses in with_loss),
        "whole_loss": statistics.mean(each["whole_loss"] for each in ranks),
        "gradient_norm": max(each["norm"] for each in ranks),
        "whole_gradient_norm": ranks[0]["whole_norm"],
        "steps_ms": [each["step_ms"] for each in ranks],
    }
    return told | ({"peak_bytes": max(each["peak_bytes"] for each in ranks)} if "peak_bytes" in ranks[0] else {})
