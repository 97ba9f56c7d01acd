"""Step time and peak memory of full sharding on the GPUs at hand: the reference beside torch's FSDP2, one model, one run.

    python tests/benchmarks/sharded_data_parallel_speed.py --out sharded_data_parallel.json

Both train the same weights on the same tokens, in bfloat16 with float32 masters and reductions; their losses after the timed steps are
compared. Without GPUs it runs a tiny model on two gloo ranks, to show that it works: those times mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lm.gpt import GPT, PRESETS, Block

NUM_WARMUP, NUM_TIMED = 6, 20
SEED = 0
Way = Callable[[nn.Module, argparse.Namespace, torch.device], nn.Module]


def reference(module: nn.Module, options: argparse.Namespace, device: torch.device) -> nn.Module:
    """The course's own."""
    from fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(
        module,
        wrap=Block,
        compute_dtype=torch.bfloat16,
        reduce_dtype=torch.float32,
        reshard_after_forward=options.reshard,
        prefetch=options.prefetch,
    )


def fsdp2(module: nn.Module, options: argparse.Namespace, device: torch.device) -> nn.Module:
    """The peer, as its documentation sets it up."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    how: dict[str, Any] = {
        "mesh": init_device_mesh(device.type, (dist.get_world_size(),)),
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "reshard_after_forward": options.reshard,
    }
    for block in module.modules():
        if isinstance(block, Block):
            fully_shard(block, **how)
    fully_shard(module, **how)
    return module


WAYS: dict[str, Way] = {"torch_fsdp2": fsdp2, "reference": reference}


def synchronize(device: torch.device) -> None:
    """Wait for the device, if it runs ahead at all."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(way: str, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Median step in ms, peak and standing memory of this rank, and the last loss over all ranks."""
    torch.manual_seed(SEED)
    config = PRESETS[options.preset]
    with device:
        module: nn.Module = GPT(config)
    wrapped = WAYS[way](module, options, device)
    del module
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-4, fused=device.type == "cuda")
    generator = torch.Generator(device=device).manual_seed(SEED + 1 + dist.get_rank())
    shape = (options.sequences, min(config.max_tokens, options.max_tokens))
    tokens = torch.randint(config.vocab_size, shape, device=device, generator=generator)

    def step() -> Tensor:
        loss = wrapped(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for _ in range(NUM_WARMUP):
        step()
    synchronize(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps_ms, losses = [], []
    for _ in range(options.steps):
        dist.barrier()
        synchronize(device)
        start_s = time.perf_counter()
        losses.append(step())
        synchronize(device)
        steps_ms.append((time.perf_counter() - start_s) * 1e3)
    loss = losses[-1].float()
    dist.all_reduce(loss)
    measured = {"step_ms": round(statistics.median(steps_ms), 3), "loss": loss.item() / dist.get_world_size()}
    if device.type == "cuda":
        measured |= {"peak_bytes": torch.cuda.max_memory_allocated(), "standing_bytes": torch.cuda.memory_allocated()}
    return measured


def run(rank: int, world_size: int, options: argparse.Namespace) -> None:
    """One rank: both ways in turn, `rounds` times; the better median and the larger peak of each count."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    device = torch.device("cuda", rank) if options.gpu else torch.device("cpu")
    if options.gpu:
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", rank=rank, world_size=world_size, device_id=device)
    else:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
    rounds: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            rounds[way].append(measure(way, options, device))
            gc.collect()  # a wrapped module and its hooks refer to each other
            if options.gpu:
                torch.cuda.empty_cache()
            dist.barrier()
    everybody: list[Any] = [None] * world_size
    dist.all_gather_object(everybody, rounds)
    if rank == 0:
        write(everybody, options)
    dist.destroy_process_group()


def write(everybody: list[dict[str, list[dict[str, Any]]]], options: argparse.Namespace) -> None:
    """The slowest rank and the largest peak of each way, their ratios, and every figure beside them, as one JSON file."""
    document: dict[str, Any] = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if options.gpu else "cpu",
        "num_ranks": len(everybody),
        **{name: getattr(options, name) for name in ("preset", "sequences", "steps", "rounds", "prefetch", "reshard")},
        "ranks": everybody,
    }
    best_ms = {way: max(min(each["step_ms"] for each in rank[way]) for rank in everybody) for way in WAYS}
    document["step_ms"] = best_ms
    document["reference_over_torch_fsdp2"] = round(best_ms["reference"] / best_ms["torch_fsdp2"], 4)
    losses = {way: everybody[0][way][-1]["loss"] for way in WAYS}
    document["loss"] = losses
    if options.gpu:
        peaks = {way: max(each["peak_bytes"] for rank in everybody for each in rank[way]) for way in WAYS}
        document["peak_bytes"] = peaks
        document["reference_over_torch_fsdp2_peak"] = round(peaks["reference"] / peaks["torch_fsdp2"], 4)
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    shown = ("step_ms", "peak_bytes", "loss", "reference_over_torch_fsdp2", "reference_over_torch_fsdp2_peak")
    print(json.dumps({name: document[name] for name in shown if name in document}, indent=1), flush=True)


def main() -> None:
    """Measure on all GPUs, or on two CPU ranks where there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "sharded_data_parallel.json")
    parser.add_argument("--preset", choices=sorted(PRESETS))
    parser.add_argument("--sequences", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=1)
    parser.add_argument("--port", type=int, default=29533)
    parser.add_argument("--no-reshard", dest="reshard", action="store_false")
    options = parser.parse_args()
    options.gpu = torch.cuda.is_available()
    usual = ("gpt2-355m", 8, NUM_TIMED, 1 << 20) if options.gpu else ("1m", 1, 2, 16)
    for name, value in zip(("preset", "sequences", "steps", "max_tokens"), usual, strict=True):
        setattr(options, name, getattr(options, name, None) or value)
    world_size = torch.cuda.device_count() if options.gpu else 2
    mp.spawn(run, (world_size, options), nprocs=world_size)


if __name__ == "__main__":
    main()
