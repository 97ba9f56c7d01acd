"""Tokens/s of tensor parallelism: the reference beside torch's parallelize_module, on the GPUs at hand or, tiny, on gloo.

    python tests/benchmarks/tensor_parallel_speed.py --out tensor_parallel.json
    python tests/benchmarks/tensor_parallel_speed.py --device cpu --preset tiny --sequences 2 --timed 2 --out tiny.json

Both ways start from the same weights and see the same tokens; beside the times stand the first step's loss and how far any parameter's
gradient norm is from that of the whole model, relatively: what all ways must agree on.
`alone` is the whole model on one rank, for the same tokens.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tensor_parallel as reference

from lm.gpt import GPT, PRESETS, GPTConfig
from lm.measuring import machine

Step = Callable[[Tensor], Tensor]  # tokens -> loss, backward done
NUM_WARMUP = 3


def build(config: GPTConfig, device: torch.device) -> GPT:
    """The same weights on every rank and for every way."""
    torch.manual_seed(0)
    with device:
        return GPT(config)


def plain_step(gpt: GPT, device: torch.device) -> Step:
    """Forward and backward of a model that returns its loss."""

    def step(tokens_BT: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss: Tensor = gpt(tokens_BT, tokens_BT)
        loss.backward()
        return loss.detach()

    return step


def torchs_own(gpt: GPT, device: torch.device, *, sequence_parallel: bool) -> Step:
    """The peer: a plan of styles, and the loss on cut logits."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    stream = Shard(1) if sequence_parallel else Replicate()
    enter = PrepareModuleInput(input_layouts=(stream,), desired_input_layouts=(Replicate(),))
    for block in gpt.blocks:
        plan: dict[str, Any] = {
            # qkv is cut group by group, so that its local part is a complete attention of fewer heads, as in the reference.
            "attention.qkv": ColwiseParallel(input_layouts=stream),
            "attention.out": RowwiseParallel(output_layouts=stream),
            "mlp": enter,
            "mlp.up": ColwiseParallel(),
            "mlp.down": RowwiseParallel(output_layouts=stream),
        }
        plan |= {"mlp.gate": ColwiseParallel()} if block.mlp.gate is not None else {}
        plan |= {"attention_norm": SequenceParallel(), "mlp_norm": SequenceParallel()} if sequence_parallel else {}
        parallelize_module(block, mesh, plan)
    top: dict[str, Any] = {
        "token_embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream),
        "head": ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False),
    }
    if gpt.position_embedding is not None:
        positions = Shard(0) if sequence_parallel else Replicate()
        top["position_embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=positions)
    if sequence_parallel:
        top["norm"] = SequenceParallel()
    parallelize_module(gpt, mesh, top)
    step = plain_step(gpt, device)

    def with_cut_logits(tokens_BT: Tensor) -> Tensor:
        with loss_parallel():
            loss = step(tokens_BT)
        return loss.full_tensor() if isinstance(loss, DTensor) else loss

    return with_cut_logits


def make(way: str, config: GPTConfig, device: torch.device) -> tuple[GPT, Step]:
    """A model cut in one of the ways, and its step."""
    gpt = build(config, device)
    sequence_parallel = way.endswith("sequence")
    if way.startswith("reference"):
        return gpt, plain_step(reference.parallelize(gpt, sequence_parallel=sequence_parallel), device)
    if way.startswith("torch"):
        return gpt, torchs_own(gpt, device, sequence_parallel=sequence_parallel)
    return gpt, plain_step(gpt, device)


WAYS = ("alone", "reference", "torch", "reference_sequence", "torch_sequence")


def gradient_norms(gpt: GPT) -> dict[str, float]:
    """The norm of each whole parameter's gradient, in whichever way it is cut."""
    norms = {}
    for name, parameter in gpt.named_parameters():
        gradient = parameter.grad
        assert gradient is not None
        square = (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).double().square().sum()
        if getattr(parameter, "is_cut", False):
            dist.all_reduce(square)
        norms[name] = float(square.sqrt())
    return norms


def median_step_s(step: Step, gpt: nn.Module, tokens_BT: Tensor, num_timed: int) -> float:
    """Seconds of a forward and backward and of a step of AdamW."""
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-5, foreach=False)
    durations = []
    for number in range(-NUM_WARMUP, num_timed):
        if tokens_BT.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step(tokens_BT)
        if tokens_BT.is_cuda:
            torch.cuda.synchronize()
        if number >= 0:
            durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def measure(way: str, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Loss, gradient norms, step time, tokens/s and peak memory of one way."""
    config = dataclasses.replace(PRESETS[options.preset], **options.config)
    generator = torch.Generator(device=device).manual_seed(1)
    shape = (options.sequences, config.max_tokens)
    tokens_BT = torch.randint(config.vocab_size, shape, device=device, generator=generator)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    gpt, step = make(way, config, device)
    found: dict[str, Any] = {"loss": float(step(tokens_BT)), "gradient_norms": gradient_norms(gpt)}
    step_s = median_step_s(step, gpt, tokens_BT, options.timed)
    found |= {"step_ms": step_s * 1e3, "tokens_per_s": tokens_BT.numel() / step_s}
    if device.type == "cuda":
        found["peak_memory_bytes"] = torch.cuda.max_memory_allocated(device)
    return found


def run(rank: int, world_size: int, options: argparse.Namespace) -> None:
    """One rank: every way in turn, `repeats` times; the best median of each counts, all are kept."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    on_gpu = options.device == "cuda"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=world_size)
    measured: dict[str, list[dict[str, Any]]] = {}
    for way in WAYS * options.repeats:
        measured.setdefault(way, []).append(measure(way, options, device))
        dist.barrier()
    if rank == 0:
        whole = measured["alone"][0]["gradient_norms"]
        for found in (found for each in measured.values() for found in each):
            norms = found.pop("gradient_norms")
            found["largest_norm_difference"] = max(abs(norms[name] / whole[name] - 1) for name in whole if whole[name])
        best = {way: max(found["tokens_per_s"] for found in each) for way, each in measured.items()}
        document = machine(device) | {
            "world_size": world_size, "preset": options.preset, "sequences": options.sequences, "timed_steps": options.timed,
            "config": options.config, "ways": measured, "tokens_per_s": best,
            "reference_over_torch": best["reference"] / best["torch"],
            "reference_over_torch_sequence": best["reference_sequence"] / best["torch_sequence"],
        }  # fmt: skip
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(json.dumps({way: round(speed) for way, speed in best.items()}), flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Spawn a rank for each GPU, or two on gloo, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = functools.partial(parser.add_argument)
    add("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "tensor_parallel.json")
    add("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    add("--preset", choices=sorted(PRESETS), default="gpt3-1.3b")
    add("--sequences", type=int, default=4)
    add("--timed", type=int, default=10)
    add("--repeats", type=int, default=2)
    add("--port", type=int, default=29571)
    add("--config", type=json.loads, default={}, help='changes to the preset as JSON, such as {"vocab_size": 50304}')
    options = parser.parse_args()
    # Cut evenly, because torch's styles pad no vocabulary; and untied, because two styles can't share a parameter.
    options.config = {"tied": False, "vocab_size": -(-PRESETS[options.preset].vocab_size // 128) * 128} | options.config
    world_size = torch.cuda.device_count() if options.device == "cuda" else 2
    mp.spawn(run, (world_size, options), nprocs=world_size)
    print("wrote", options.out, datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))


if __name__ == "__main__":
    main()
