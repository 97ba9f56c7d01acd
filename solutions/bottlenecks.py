"""Which of three bottlenecks a program has, and what to do about each: the roofline, a block made ready for torch.compile, a profile read.

No Triton here, and no GPU: sums of bytes, a module that is rewritten, and the events of a trace.
"""

# B batch, T tokens, D width of the model, F width inside the block
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn


# --- task roofline ---------------------------------------------------------------------------------------------------
def arithmetic_intensity(num_flops: float, num_bytes: float) -> float:
    """Operations for each byte of memory traffic; inf where nothing is moved but something is done, 0.0 where neither."""
    # region solution arithmetic_intensity
    if num_bytes == 0:
        return float("inf") if num_flops > 0 else 0.0
    return num_flops / num_bytes
    # endregion


def attainable_flops(intensity: float, *, peak_flops_per_s: float, memory_bytes_per_s: float) -> float:
    """The roofline: the most FLOP/s that work of this intensity can reach."""
    # region solution attainable_flops
    if intensity == float("inf"):  # inf · 0 would be NaN on a machine without memory
        return peak_flops_per_s
    return min(peak_flops_per_s, intensity * memory_bytes_per_s)
    # endregion


def matmul_intensity(m: int, k: int, n: int, itemsize: int, *, batch: int = 1) -> float:
    """Intensity of `batch` products (m, k) @ (k, n), each matrix read or written once; 2 operations for a multiply-add."""
    # region solution matmul_intensity
    num_elements = m * k + k * n + m * n
    return arithmetic_intensity(2 * batch * m * k * n, batch * num_elements * itemsize)
    # endregion


def chain_bytes(others: Sequence[int], num_elements: int, itemsize: int, *, fused: bool) -> int:
    """Bytes that a chain of pointwise operations moves. Operation i takes the result of the one before (the first: the chain's input)
    and `others[i]` more tensors, and gives one; all tensors have `num_elements`. `fused`: one kernel does the whole chain.
    """
    # region solution chain_bytes
    if not others:
        return 0
    # Whether fused or not, the other operands are read once each. Fused, only the chain's input and its result travel besides.
    travels = 2 if fused else 2 * len(others)
    return (sum(others) + travels) * num_elements * itemsize
    # endregion


# --- given: a block as it was found -----------------------------------------------------------------------------------
class FoundBlock(nn.Module):
    """A gated feed-forward block with padding, as it was found: right, and full of what torch.compile can't see through.

    `largest_seen` is a statistic for somebody's dashboard: the largest magnitude of any input so far.
    """

    def __init__(self, dim: int, hidden: int, *, limit: float = 4.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.limit, self.eps = limit, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.up = nn.Linear(dim, 2 * hidden)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.register_buffer("largest_seen", torch.zeros(()))

    def forward(self, x_BTD: torch.Tensor, lengths_B: torch.Tensor) -> torch.Tensor:
        """x + down(silu(gate) · value), with 0 from each sequence's length on; inputs that are too large are scaled down."""
        largest = x_BTD.abs().max().item()
        if largest > self.limit:
            x_BTD = x_BTD * (self.limit / largest)
        if largest > self.largest_seen.item():
            self.largest_seen.fill_(largest)
        normed_BTD = x_BTD / (x_BTD.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight
        gate_BTF, value_BTF = self.up(normed_BTD).chunk(2, dim=-1)
        out_BTD = x_BTD + self.down(gate_BTF * torch.sigmoid(gate_BTF) * value_BTF)
        rows = []
        for row_TD, length in zip(out_BTD, lengths_B.tolist(), strict=True):
            rows.append(torch.cat([row_TD[:length], torch.zeros_like(row_TD[length:])]))
        return torch.stack(rows)


# --- task compile ----------------------------------------------------------------------------------------------------
class ReadyBlock(nn.Module):
    """A `FoundBlock`, whose parameters and statistic it shares, written so that torch.compile makes one graph of it."""

    def __init__(self, block: FoundBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x_BTD: torch.Tensor, lengths_B: torch.Tensor) -> torch.Tensor:
        """What the found block returns, does to its gradients, and notes in `largest_seen`."""
        # region solution ready_forward
        block = self.block
        # .item() brought the number to the host and cut the graph; it also took it out of the gradient, so detach it here.
        largest = x_BTD.detach().abs().max()
        # Both branches at once: limit / largest where that is below one, and one elsewhere (also where largest is 0).
        x_BTD = x_BTD * (block.limit / largest).clamp(max=1.0)
        block.largest_seen.copy_(torch.maximum(block.largest_seen, largest))
        normed_BTD = x_BTD / (x_BTD.pow(2).mean(-1, keepdim=True) + block.eps).sqrt() * block.weight
        gate_BTF, value_BTF = block.up(normed_BTD).chunk(2, dim=-1)
        out_BTD = x_BTD + block.down(gate_BTF * torch.sigmoid(gate_BTF) * value_BTF)
        # Lengths stay a tensor: a mask instead of a loop, the same graph for any lengths and any batch.
        is_token_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) < lengths_B[:, None]
        return torch.where(is_token_BT[:, :, None], out_BTD, 0.0)
        # endregion


def compile_ready(block: FoundBlock) -> nn.Module:
    """A module with `block`'s own parameters and buffer that computes the same as `block`, and of which torch.compile makes one graph."""
    # region solution compile_ready
    return ReadyBlock(block)
    # endregion


@dataclass(frozen=True)
class Op:
    """An operation of a chain. kind: "pointwise", "reduction" (over `dim`), "matmul", "view", or "break", where Python must take over."""

    name: str
    kind: str
    dim: int | None = None


def predicted_kernels(chain: Sequence[Op]) -> list[list[str]]:
    """The kernels that torch.compile makes of a chain in which each operation needs the one before: the names in each, in order."""
    # region solution predicted_kernels
    kernels: list[list[str]] = []
    is_open, reduced_dim = False, None  # whether the last kernel takes more, and over which dim it reduces
    for op in chain:
        if op.kind == "view":  # another way to see the same memory: no kernel, and in nobody's way
            continue
        if op.kind == "break":
            is_open = False
            continue
        fits = is_open and op.kind != "matmul" and (op.kind != "reduction" or reduced_dim in (None, op.dim))
        if not fits:
            kernels.append([])
            reduced_dim = None
        kernels[-1].append(op.name)
        is_open = op.kind != "matmul"  # the library's product is a kernel of its own
        if op.kind == "reduction":
            reduced_dim = op.dim
    return kernels
    # endregion


# --- task trace ------------------------------------------------------------------------------------------------------
# Kernels whose names contain one of these, in any case, are limited by arithmetic; all others by memory. Given.
COMPUTE_WORDS = ("gemm", "nvjet", "cutlass", "xmma", "conv", "flash", "fmha")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHING = ("cuda_runtime", "cuda_driver")


@dataclass(frozen=True)
class TraceSummary:
    """What a profile says about one GPU. Times are microseconds."""

    gpu_busy_fraction: float  # of the time from the device's first event to its last
    top_kernels: tuple[tuple[str, float, int], ...]  # (name, microseconds in all, launches), the longest first
    launch_gaps_us: tuple[float, ...]  # idle times for which the host is to blame, in order of time
    memory_bound_fraction: float  # of the time of all kernels
    bottleneck: str  # "overhead", "memory", "compute", or "none" for a trace without device events


def busy_intervals(events: Sequence[dict[str, Any]]) -> list[tuple[float, float, dict[str, Any]]]:
    """The stretches in which the device does anything: (start, end, the event that began it), in order of time."""
    # region solution busy_intervals
    busy: list[tuple[float, float, dict[str, Any]]] = []
    for event in sorted(events, key=lambda event: event["ts"]):
        start, end = event["ts"], event["ts"] + event["dur"]
        if busy and start <= busy[-1][1]:  # streams run side by side: time is counted once
            busy[-1] = (busy[-1][0], max(busy[-1][1], end), busy[-1][2])
        else:
            busy.append((start, end, event))
    return busy
    # endregion


def trace_summary(trace: dict[str, Any], *, device: int = 0, top: int = 5) -> TraceSummary:
    """Read a parsed Chrome trace of torch.profiler, of which only `device` counts."""
    # region solution trace_summary
    complete = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    on_device = [e for e in complete if e.get("cat") in ON_DEVICE and e["args"].get("device") == device]
    if not on_device:
        return TraceSummary(0.0, (), (), 0.0, "none")
    busy = busy_intervals(on_device)
    window_us = busy[-1][1] - busy[0][0]
    busy_us = sum(end - start for start, end, _ in busy)

    # The host's call and the device's event carry the same correlation number. A gap is the host's fault if the call that ends it
    # hadn't even begun when the device ran dry.
    launched = {e["args"]["correlation"]: e["ts"] for e in complete if e.get("cat") in LAUNCHING and "correlation" in e.get("args", {})}
    gaps_us = []
    for (_, idle_from, _), (start, _, first) in pairwise(busy):
        if launched.get(first["args"].get("correlation"), float("-inf")) > idle_from:
            gaps_us.append(start - idle_from)

    kernels = [event for event in on_device if event["cat"] == "kernel"]
    time_us: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for kernel in kernels:
        time_us[kernel["name"]] += kernel["dur"]
        count[kernel["name"]] += 1
    by_time = sorted(time_us, key=lambda name: (-time_us[name], name))
    bound_by_memory_us = sum(time_us[name] for name in by_time if not any(word in name.lower() for word in COMPUTE_WORDS))
    kernels_us = sum(time_us.values())
    fraction = bound_by_memory_us / kernels_us if kernels_us else 0.0

    bottleneck = "overhead" if 3 * sum(gaps_us) > window_us else "memory" if fraction >= 0.5 else "compute"
    top_kernels = tuple((name, time_us[name], count[name]) for name in by_time[:top])
    return TraceSummary(busy_us / window_us if window_us else 1.0, top_kernels, tuple(gaps_us), fraction, bottleneck)
    # endregion
