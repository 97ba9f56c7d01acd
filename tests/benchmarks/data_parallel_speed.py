"""Step time of data parallelism on the GPUs at hand: the reference beside torch's DDP, a flat all-reduce and none at all.

    python tests/benchmarks/data_parallel_speed.py --out data_parallel.json

All ways of one shape are timed in turn in one run, by events, and every rank's gradients are compared with torch DDP's before anything is
timed. `one_channel` holds NCCL to one channel, so that communication shows even between two GPUs that share NVLink.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import data_parallel as reference

from lm.gpt import GPT, PRESETS
from lm.measuring import machine

NUM_WARMUP, NUM_TIMED = 8, 20


@dataclass(frozen=True)
class Shape:
    """What is timed: sequences per GPU, whether the model is compiled, and what NCCL is told so that communication shows."""

    name: str
    sequences: int
    compiled: bool = False
    nccl: dict[str, str] = field(default_factory=dict)


def channels(num: int) -> dict[str, str]:
    """NCCL held to so many channels: so many blocks of a kernel move all bytes, and they share their SMs with the arithmetic."""
    return {"NCCL_MAX_NCHANNELS": str(num), "NCCL_MIN_NCHANNELS": str(num)}


THROUGH_THE_HOST = {"NCCL_P2P_DISABLE": "1"}  # by the memory of the host, as between GPUs without NVLink
SHAPES = (
    Shape("eager, one channel", 2, nccl=channels(1)),
    Shape("eager, one channel, 8 sequences", 8, nccl=channels(1)),
    Shape("eager, two channels, 8 sequences", 8, nccl=channels(2)),
    Shape("eager, two channels, 5 sequences", 5, nccl=channels(2)),
    Shape("eager, four channels, 8 sequences", 8, nccl=channels(4)),
    Shape("eager, four channels, 2 sequences", 2, nccl=channels(4)),
    Shape("eager, through the host, 8 sequences", 8, nccl=THROUGH_THE_HOST),
    Shape("eager, through the host, 16 sequences", 16, nccl=THROUGH_THE_HOST),
    Shape("eager", 8),
    Shape("compiled", 8, compiled=True),
)


def after_backward(reduce: Callable[..., None]) -> Callable[[nn.Module], tuple[nn.Module, Callable[[], None]]]:
    """A way that communicates when backward is over."""
    return lambda module: (module, lambda: reduce(list(module.parameters())))


def overlapped(module: nn.Module) -> tuple[nn.Module, Callable[[], None]]:
    """The reference: buckets that leave during backward."""
    wrapped = reference.DistributedDataParallel(module)
    return wrapped, wrapped.finish_gradient_synchronization


def torchs_own(module: nn.Module) -> tuple[nn.Module, Callable[[], None]]:
    """The peer."""
    return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True), lambda: None


WAYS: dict[str, Callable[[nn.Module], tuple[nn.Module, Callable[[], None]]]] = {
    "alone": lambda module: (module, lambda: None),
    "torch_ddp": torchs_own,
    "reference": overlapped,
    "flat": after_backward(reference.flat_all_reduce_gradients),
    "per_parameter": after_backward(reference.all_reduce_gradients),
}


def build(preset: str, compiled: bool, device: torch.device) -> GPT:
    """The same weights on every rank and for every way."""
    torch.manual_seed(0)
    with device:
        model = GPT(PRESETS[preset])
    if compiled:
        model.compile()
    return model


def time_way(way: str, options: argparse.Namespace, sequences: int, compiled: bool, device: torch.device) -> tuple[float, float]:
    """-> (median step in ms, a checksum of the first step's gradients)."""
    torch._dynamo.reset()
    module = build(options.preset, compiled, device)
    wrapped, finish = WAYS[way](module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=device.type == "cuda")
    generator = torch.Generator(device=device).manual_seed(dist.get_rank())
    config = PRESETS[options.preset]
    tokens = torch.randint(config.vocab_size, (sequences, config.max_tokens), device=device, generator=generator)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = wrapped(tokens, tokens)
        loss.backward()
        finish()

    step()
    checksum = sum(p.grad.double().square().sum().item() for p in module.parameters() if p.grad is not None) ** 0.5
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(NUM_TIMED + 1)]
    for number in range(-NUM_WARMUP, NUM_TIMED + 1):
        if number >= 0:
            marks[number].record()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step()
    torch.cuda.synchronize()
    steps_ms = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
    return statistics.median(steps_ms), checksum


def run(rank: int, world_size: int, shape: Shape, options: argparse.Namespace, port: int) -> None:
    """One rank: every way of one shape in turn, twice where nothing is compiled; the better median counts, both are kept."""
    os.environ.update(shape.nccl, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size, device_id=device)
    measured: dict[str, Any] = {"sequences_per_gpu": shape.sequences, "compiled": shape.compiled, "nccl": shape.nccl}
    measured |= {"step_ms": {}, "gradient_norm": {}}
    for way in [*WAYS] if shape.compiled else [*WAYS, *WAYS]:  # compiling five models is long enough
        step_ms, checksum = time_way(way, options, shape.sequences, shape.compiled, device)
        measured["step_ms"].setdefault(way, []).append(round(step_ms, 2))
        measured["gradient_norm"][way] = checksum
        torch.cuda.empty_cache()
        dist.barrier()
    if rank == 0:
        best = {way: min(both) for way, both in measured["step_ms"].items()}
        measured["reference_over_torch_ddp"] = round(best["reference"] / best["torch_ddp"], 3)
        measured["flat_over_reference"] = round(best["flat"] / best["reference"], 3)
        print(
            shape.name,
            best,
            "reference/torch",
            measured["reference_over_torch_ddp"],
            "flat/reference",
            measured["flat_over_reference"],
            flush=True,
        )
        document = json.loads(options.out.read_text())
        document["shapes"][shape.name] = measured
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    dist.destroy_process_group()


def main() -> None:
    """Time every shape on all GPUs present and write one JSON file, shape by shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "data_parallel.json")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="gpt2-355m")
    parser.add_argument("--shapes", nargs="*", default=[shape.name for shape in SHAPES], help="by name (default: all)")
    options = parser.parse_args()
    world_size = torch.cuda.device_count()
    header = machine(torch.device("cuda", 0)) | {"num_gpus": world_size, "preset": options.preset, "timed_steps": NUM_TIMED, "shapes": {}}
    options.out.write_text(json.dumps(header, indent=1) + "\n")
    for number, shape in enumerate(shape for shape in SHAPES if shape.name in options.shapes):
        mp.spawn(run, (world_size, shape, options, 29500 + number), nprocs=world_size)
    print("wrote", options.out, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))


if __name__ == "__main__":
    main()
