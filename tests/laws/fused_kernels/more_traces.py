"""Traces of the hidden cases: made ones for the corners of section 9's definitions, and those that torch.profiler recorded on a GPU.

Only hidden cases reach this file. The recorded ones lie in `recorded/`, as tests/benchmarks/record_traces.py left them, with what they were
recorded on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.laws.fused_kernels.traces import ADD, GEMM, NORM, Deed, Event, written


def corners() -> Event:
    """Touching events, calls at the very moment, no call but an operation of its number, a call by the driver, equal beginnings."""
    deeds = [
        Deed("Zeta_kernel", 0, 40, -5), Deed("alpha_kernel", 40, 10, 10),
        Deed("alpha_kernel", 60, 30, 50),  # the call began at the very moment at which the stretch did: not after it
        Deed("beta_CUTLASS_kernel", 100, 80, 90.5), Deed("alpha_kernel", 110, 10, 95, stream=9),  # inside another
        Deed("Memcpy HtoD (Pinned -> Device)", 200, 20, None, cat="gpu_memcpy"), Deed("no_call_kernel", 240, 10, None),
        Deed("ampere_Conv2d", 300, 20, 260, by="cuda_driver"), Deed("gamma", 300, 35, 100, stream=9),
        # In the trace's order the longer one is first above, and here the shorter.
        Deed("delta", 400, 15, 100, stream=9), Deed("epsilon", 400, 10, 399),
    ]  # fmt: skip
    trace = written(deeds, seed=11)
    unlaunched = next(event for event in trace["traceEvents"] if event["name"] == "no_call_kernel")
    args, asked = {"correlation": unlaunched["args"]["correlation"]}, unlaunched["ts"] - 5
    trace["traceEvents"].append({"ph": "X", "cat": "cpu_op", "name": "mul", "pid": 41, "tid": 41, "ts": asked, "dur": 1, "args": args})
    return trace


def second_device() -> Event:
    """Two devices; what is asked for is the second, whose kernels are mostly arithmetic."""
    deeds = [Deed(ADD, 10.0 * i, 7.5, 10.0 * i - 40, device=0) for i in range(20)]
    deeds += [Deed(f"flash_fwd_kernel_{i % 7}", 500 + 40.0 * i, 31.25, 100 + 30.0 * i, device=1, stream=13) for i in range(12)]
    deeds += [Deed(NORM, 480 + 120.0 * i, 5, 200 + 100.0 * i, device=1, stream=13) for i in range(3)]
    return written(deeds, seed=12)


def one_half_and_a_third() -> Event:
    """Memory-bound kernels have exactly half of the time; launch gaps are exactly a third: neither more than that."""
    deeds = [Deed(GEMM, 0, 32, -8), Deed(ADD, 48, 16, 40), Deed(ADD, 80, 16, 70)]
    return written(deeds, seed=13)


def drawn_by_lot(seed: int) -> Event:
    """Two hundred deeds on three streams, at times in eighths of a microsecond."""
    rng = np.random.default_rng(seed)
    names = [GEMM, ADD, NORM, "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN", "reduce_kernel", "Conv_dgrad", "softmax_warp_forward"]
    at, deeds = 0.0, []
    for _ in range(200):
        at += float(rng.integers(0, 160)) / 8
        dur = float(rng.integers(8, 200)) / 8
        asked = None if rng.random() < 0.1 else at - float(rng.integers(1, 240)) / 8
        cat = "kernel" if rng.random() < 0.85 else "gpu_memset"
        deeds.append(Deed(names[rng.integers(len(names))], at, dur, asked, stream=int(rng.choice([7, 20, 24])), cat=cat))
    return written(deeds, seed=seed)


def copies_alone() -> Event:
    """The device does nothing but copy."""
    return written([Deed("Memcpy DtoD (Device -> Device)", 30.0 * i, 20, 30.0 * i - 25, cat="gpu_memcpy") for i in range(5)], seed=15)


ALL: dict[str, tuple[str, Event, dict[str, Any]]] = {
    "corners": ("touching and simultaneous events, calls at the very moment, missing calls, names in other cases", corners(), {}),
    "second_device": ("the second device is asked for, and the three longest kernels", second_device(), {"device": 1, "top": 3}),
    "one_half": ("shares of exactly one half and exactly a third", one_half_and_a_third(), {}),
    "by_lot": ("two hundred events on three streams", drawn_by_lot(16), {"top": 20}),
    "copies": ("copies and no kernels", copies_alone(), {}),
    "absent_device": ("a device that does nothing", corners(), {"device": 3}),
}
ALL |= {
    path.stem: (f"a recorded trace: {path.stem.removeprefix('trace_').replace('_', ' ')}", json.loads(path.read_text(encoding="utf-8")), {})
    for path in sorted(Path(__file__).with_name("recorded").glob("trace_*.json"))
}
