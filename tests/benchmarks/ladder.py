"""Climb the milestone's ladder on one device, one change at a time, with the pieces of train.py and random tokens.

    python tests/benchmarks/ladder.py --out ladder.json

Every rung is timed over the same number of steps after a warm-up, by the GPU's own events. A rung that fails is recorded with its reason
and the climb goes on; the file is rewritten after every rung, so that a kill loses only the rung at hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import gc
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))

from lm.gpt import GPT, PRESETS
from lm.hardware import hardware_here
from lm.training import counted_flops_per_token, make_optimizer, peak_memory_bytes, set_precision, train_step

PEERS = Path(__file__).parent / "results" / "nanogpt_ladder_h200.json"
PADDED_MULTIPLE = 128


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: the one before it with one thing changed. batch_factor multiplies the batch of the first rung."""

    name: str
    precision: str = "fp32"
    attention: str = "dense"
    compiled: bool = False
    padded: bool = False
    batch_factor: int = 1


LADDER = (
    Rung("fp32"),
    Rung("tf32", "tf32"),
    Rung("bf16", "bf16"),
    Rung("fused_attention", "bf16", "sdpa"),
    Rung("compile", "bf16", "sdpa", True),
    Rung("padded_vocabulary", "bf16", "sdpa", True, True),
    Rung("batch_x4", "bf16", "sdpa", True, True, 4),
    Rung("compile_without_fused_attention", "bf16", "dense", True),
)


def timed_steps_s(step: Any, num_steps: int, device: torch.device) -> list[float]:
    """Return the duration of each step, from events on a GPU, so that the host is never waited for in between."""
    if device.type == "cpu":
        marks = [time.perf_counter()]
        for _ in range(num_steps):
            step()
            marks.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(num_steps + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(events)]


def climb(rung: Rung, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Train a fresh model for a few steps as the rung says; return what was measured."""
    set_precision(rung.precision, device)
    config = dataclasses.replace(PRESETS[options.preset], attention=rung.attention)
    if rung.padded:
        config = dataclasses.replace(config, vocab_size=-(-config.vocab_size // PADDED_MULTIPLE) * PADDED_MULTIPLE)
    batch_size = options.batch * rung.batch_factor
    torch.manual_seed(0)
    with device:
        model = GPT(config)
        tokens_BT, targets_BT = (torch.randint(config.vocab_size, (batch_size, config.max_tokens)) for _ in range(2))
    if rung.compiled:
        model.compile()
    optimizer = make_optimizer(model, learning_rate=1e-4, weight_decay=0.1)
    losses: list[torch.Tensor] = []

    def step() -> None:
        losses.append(train_step(model, optimizer, tokens_BT, targets_BT, precision=rung.precision)[0])

    start = time.perf_counter()
    timed_steps_s(step, options.warmup, device)
    warmup_s = time.perf_counter() - start
    steps_s = timed_steps_s(step, options.steps, device)
    step_s = statistics.median(steps_s)
    tokens_per_s = tokens_BT.numel() / step_s
    flops_per_token = counted_flops_per_token(config, config.max_tokens)
    return {
        "batch_size": batch_size,
        "vocab_size": config.vocab_size,
        "step_s": step_s,
        "slowest_step_s": max(steps_s),
        "warmup_s": warmup_s,
        "tokens_per_s": tokens_per_s,
        "flops_per_token": flops_per_token,
        "flops_per_s": tokens_per_s * flops_per_token,
        "peak_gib": peak_memory_bytes(device) / 2**30,
        "first_loss": losses[0].item(),
        "last_loss": losses[-1].item(),
    }


def release_memory(device: torch.device) -> None:
    """Give back what the last rung held, so that the next one's peak is its own."""
    torch._dynamo.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, None without one."""
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        return None


def machine(device: torch.device) -> dict[str, Any]:
    """Say where and with what this was measured."""
    try:
        from triton import __version__ as triton_version
    except ImportError:
        triton_version = None
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine(),
        "driver": driver_version() if device.type == "cuda" else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": triton_version,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def compared_with_peer(name: str, tokens_per_s: float, device_name: str, preset: str) -> float | None:
    """Return our tokens/s over the peer's on the same rung, if the peer was measured on this very device and model."""
    peer = json.loads(PEERS.read_text()) if PEERS.exists() else {}
    if (peer.get("device"), peer.get("preset")) != (device_name, preset) or name not in peer["tokens_per_s"]:
        return None
    return tokens_per_s / float(peer["tokens_per_s"][name])


def main() -> None:
    """Climb all rungs, or those named; write one JSON file. Ends with status 1 if a rung failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")) / "ladder.json")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=16, help="sequences of the first rung")
    parser.add_argument("--warmup", type=int, default=5, help="untimed steps, compilation among them")
    parser.add_argument("--steps", type=int, default=15, help="timed steps per rung")
    parser.add_argument("--rungs", nargs="*", choices=[rung.name for rung in LADDER], help="only these")
    parser.add_argument("--budget-s", type=float, default=330, help="begin no rung after this long")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    hardware = hardware_here(device, "bf16")
    peak_flops_per_s = hardware.peak_flops_per_s["bf16"] if hardware else None
    document: dict[str, Any] = machine(device) | {
        "preset": options.preset,
        "num_tokens": PRESETS[options.preset].max_tokens,
        "timed_steps": options.steps,
        "statistic": "median",
        "peak_flops_per_s": peak_flops_per_s,
        "peak_is": f"dense bf16, {hardware.name}: {hardware.source}" if hardware else None,
        "rungs": {},
    }
    start = time.perf_counter()
    for rung in LADDER:
        if options.rungs and rung.name not in options.rungs:
            continue
        release_memory(device)
        measured: dict[str, Any] = {"setting": dataclasses.asdict(rung)}
        if time.perf_counter() - start > options.budget_s:
            measured["skipped"] = f"the budget of {options.budget_s:.0f} s was spent"
        elif device.type == "cpu" and rung.precision == "tf32":
            measured["skipped"] = "a CPU has no tf32"
        else:
            try:
                measured |= climb(rung, options, device)
                measured["mfu"] = measured["flops_per_s"] / peak_flops_per_s if peak_flops_per_s else None
                measured["of_peer"] = compared_with_peer(rung.name, measured["tokens_per_s"], document["device"], options.preset)
            except Exception as error:  # the other rungs are still worth measuring
                measured["error"] = f"{type(error).__name__}: {error}"[:2000]
        document["rungs"][rung.name] = measured
        document["total_s"] = time.perf_counter() - start
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(sentence(rung.name, measured), flush=True)
    if any("error" in measured for measured in document["rungs"].values()):
        raise SystemExit(1)


def sentence(name: str, measured: dict[str, Any]) -> str:
    """Return one line for the terminal."""
    if "tokens_per_s" not in measured:
        return f"{name:32} {measured.get('error') or measured.get('skipped')}"
    mfu = "      –" if measured["mfu"] is None else f"{measured['mfu']:7.1%}"
    peer = "" if measured["of_peer"] is None else f"  {measured['of_peer']:.2f} × peer"
    return f"{name:32} {measured['tokens_per_s']:10,.0f} tokens/s {mfu} MFU {measured['peak_gib']:6.1f} GiB{peer}"


if __name__ == "__main__":
    main()
