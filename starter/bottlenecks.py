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
    raise NotImplementedError("fused_kernels, task roofline: see sections 2 and 3 of the handout")


def attainable_flops(intensity: float, *, peak_flops_per_s: float, memory_bytes_per_s: float) -> float:
    """The roofline: the most FLOP/s that work of this intensity can reach."""
    raise NotImplementedError("fused_kernels, task roofline: see sections 2 and 3 of the handout")


def matmul_intensity(m: int, k: int, n: int, itemsize: int, *, batch: int = 1) -> float:
    """Intensity of `batch` products (m, k) @ (k, n), each matrix read or written once; 2 operations for a multiply-add."""
    raise NotImplementedError("fused_kernels, task roofline: see sections 2 and 3 of the handout")


def chain_bytes(others: Sequence[int], num_elements: int, itemsize: int, *, fused: bool) -> int:
    """Bytes that a chain of pointwise operations moves. Operation i takes the result of the one before (the first: the chain's input)
    and `others[i]` more tensors, and gives one; all tensors have `num_elements`. `fused`: one kernel does the whole chain.
    """
    raise NotImplementedError("fused_kernels, task roofline: see sections 2 and 3 of the handout")


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
        raise NotImplementedError("fused_kernels, task compile: see section 8 of the handout")


def compile_ready(block: FoundBlock) -> nn.Module:
    """A module with `block`'s own parameters and buffer that computes the same as `block`, and of which torch.compile makes one graph."""
    raise NotImplementedError("fused_kernels, task compile: see section 8 of the handout")


@dataclass(frozen=True)
class Op:
    """An operation of a chain. kind: "pointwise", "reduction" (over `dim`), "matmul", "view", or "break", where Python must take over."""

    name: str
    kind: str
    dim: int | None = None


def predicted_kernels(chain: Sequence[Op]) -> list[list[str]]:
    """The kernels that torch.compile makes of a chain in which each operation needs the one before: the names in each, in order."""
    raise NotImplementedError("fused_kernels, task compile: see section 8 of the handout")


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
    raise NotImplementedError("fused_kernels, task trace: see section 9 of the handout")


def trace_summary(trace: dict[str, Any], *, device: int = 0, top: int = 5) -> TraceSummary:
    """Read a parsed Chrome trace of torch.profiler, of which only `device` counts."""
    raise NotImplementedError("fused_kernels, task trace: see section 9 of the handout")
