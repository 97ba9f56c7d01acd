"""Record small profiles on a GPU for the laws of fused_kernels' task trace: torch.profiler's own Chrome traces, trimmed.

    python tests/benchmarks/record_traces.py --out folder

Four programs: a GPT block's training steps in eager mode and compiled, one that waits for its host, and one that waits for memory. Trimming
drops whole events and arguments and changes none: device events, the calls that launched them, and a few of every other kind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "solutions"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lm.measuring import machine

LIMIT_BYTES = 100_000
NUM_DEVICE_EVENTS_LIMIT = 150  # the first so many, in order of time
NUM_OF_OTHER_KINDS = 12
ON_DEVICE, LAUNCHING = ("kernel", "gpu_memcpy", "gpu_memset"), ("cuda_runtime", "cuda_driver")
KEPT_ARGUMENTS = ("device", "stream", "correlation", "grid", "block", "External id")
Step = Callable[[], Any]


def training_step(compiled: bool) -> Step:
    """A transformer layer forward and backward, bf16."""
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True, device="cuda", dtype=torch.bfloat16)
    layer = torch.compile(layer) if compiled else layer
    x = torch.randn(16, 1024, 1024, device="cuda", dtype=torch.bfloat16)
    return lambda: layer(x).square().mean().backward()


def launch_bound_step() -> Step:
    """Many operations on small tensors, and a number that the host asks for."""
    x = torch.randn(64, 64, device="cuda")

    def step() -> float:
        y = x
        for _ in range(12):
            y = torch.tanh(y @ x) * 0.5 + x
        return y.sum().item()

    return step


def memory_bound_step() -> Step:
    """Chains of pointwise operations and a norm on large tensors, a small product, and a copy to the host on another stream."""
    x, w = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16), torch.randn(4096, 64, device="cuda", dtype=torch.bfloat16)
    side, pinned = torch.cuda.Stream(), torch.empty(1024, 4096, dtype=torch.bfloat16, pin_memory=True)

    def step() -> Any:
        y = torch.relu(x * 2 + 1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            pinned.copy_(y[:1024], non_blocking=True)
        y = y / (y.float().pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
        torch.cuda.current_stream().wait_stream(side)
        return (y.bfloat16() @ w).sum()

    return step


PROGRAMS: dict[str, tuple[Callable[[], Step], int]] = {  # name -> what makes a step, steps recorded
    "eager": (lambda: training_step(False), 1),
    "compiled": (lambda: training_step(True), 2),
    "launch_bound": (launch_bound_step, 2),
    "memory_bound": (memory_bound_step, 3),
}


def recorded(make: Callable[[], Step], num_steps: int) -> dict[str, Any]:
    """What torch.profiler writes of so many steps, after some that warm up."""
    step = make()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(num_steps):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return dict(json.loads(path.read_text()))


def trimmed(trace: dict[str, Any]) -> dict[str, Any]:
    """The same trace with fewer events and arguments."""
    events = trace["traceEvents"]
    on_device = sorted((e for e in events if e.get("cat") in ON_DEVICE), key=lambda e: e["ts"])[:NUM_DEVICE_EVENTS_LIMIT]
    wanted = {id(e) for e in on_device}
    launched = {e["args"]["correlation"] for e in on_device}
    seen: Counter[Any] = Counter()
    kept = []
    for event in events:
        is_call = event.get("cat") in LAUNCHING and event.get("args", {}).get("correlation") in launched
        kind = (event.get("ph"), event.get("cat"))
        if id(event) not in wanted and not is_call:
            seen[kind] += 1
            if event.get("cat") in ON_DEVICE or seen[kind] > NUM_OF_OTHER_KINDS:
                continue
        if "args" in event and event.get("ph") == "X":
            event = event | {"args": {name: value for name, value in event["args"].items() if name in KEPT_ARGUMENTS}}
        kept.append(event)
    return {name: value for name, value in trace.items() if name not in ("traceEvents", "traceName")} | {"traceEvents": kept}


def main() -> None:
    """Record, trim, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    options = parser.parse_args()
    torch.manual_seed(0)
    for name, (make, num_steps) in PROGRAMS.items():
        document = {"recorded_on": machine(torch.device("cuda", 0)), "program": name} | trimmed(recorded(make, num_steps))
        text = json.dumps(document, separators=(",", ":"))
        assert len(text) < LIMIT_BYTES, f"{name}: {len(text)} bytes"
        (options.out / f"trace_{name}.json").write_text(text + "\n")
        categories = Counter(event.get("cat") for event in document["traceEvents"])
        print(f"{name}: {len(text)} bytes, {dict(categories)}", flush=True)


if __name__ == "__main__":
    main()
