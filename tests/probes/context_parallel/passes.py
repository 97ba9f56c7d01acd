"""Attention forward and backward, and what it merges."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch

from .kernels import Attention, Counting, Gated, kernel_of
from .surroundings import group_of, laid_out, zeros_or

M_MMAP_THRESHOLD = -3  # malloc.h


def merge(at: Any, *, names: list[str]) -> dict[str, torch.Tensor]:
    """merge_attention of each case's inputs <name>/o_a, lse_a, o_b, lse_b; and what these are afterwards."""
    answer = {}
    for name in names:
        given = {part: at.inputs[f"{name}/{part}"].clone() for part in ("o_a", "lse_a", "o_b", "lse_b")}
        answer[f"{name}/o"], answer[f"{name}/lse"] = at.submission.merge_attention(*given.values())
        answer |= {f"{name}/{part} after": value for part, value in given.items()}
    return answer


def attention(
    at: Any, *, function: str, masks: list[bool], zigzag: bool = False, groups: list[list[int]] | None = None, layout: str = "plain",
    hides: bool = False, rounds: bool = False, nested: bool = False,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Forward and backward of a call for each of `masks` (causal or not) with inputs q0, k0, v0, gradient0, q1, …

    nested: all forwards before the first backward.
    """
    group, takes_part = group_of(at, groups)
    words = {"zigzag": True} if zigzag else {}
    call = getattr(at.submission, function)
    kernel = kernel_of(at, Attention(at, hides=hides, rounds=rounds))
    answer: dict[str, torch.Tensor] = {}

    def forward(number: int) -> tuple[Any, ...]:
        q, k, v = (laid_out(at.inputs[f"{name}{number}"], layout).requires_grad_() for name in "qkv")
        if not takes_part:
            return number, q, k, v, torch.zeros_like(q)
        with at.phase(f"forward {number}"):
            return number, q, k, v, call(q, k, v, group, causal=masks[number], kernel=kernel, **words)

    def backward(number: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor) -> None:
        gradient = laid_out(at.inputs[f"gradient{number}"], layout)
        if takes_part:
            with at.phase(f"backward {number}"):
                o.backward(gradient)
        for name, x in (("q", q), ("k", k), ("v", v)):
            answer[f"d{name}{number}"] = torch.zeros_like(x) if x.grad is None else x.grad
            answer[f"{name}{number} after"] = x.detach()
        answer[f"o{number}"], answer[f"gradient{number} after"] = o.detach(), gradient

    if nested:
        for made in [forward(number) for number in range(len(masks))]:
            backward(*made)
    else:
        for number in range(len(masks)):
            backward(*forward(number))
    return answer


def gated(at: Any, *, direction: str) -> dict[str, torch.Tensor]:
    """One call of ring_attention whose kernel waits at gates in its forward, or in its backward; without a mask."""
    q, k, v = (at.inputs[name].clone().requires_grad_() for name in "qkv")
    kernel = kernel_of(at, Gated(at, direction))
    with at.phase("forward"):
        o = at.submission.ring_attention(q, k, v, causal=False, kernel=kernel)
    with at.phase("backward"):
        o.backward(at.inputs["gradient"])
    return {"o": o.detach(), "dq": zeros_or(q.grad, q)}


def counting(at: Any) -> dict[str, torch.Tensor]:
    """The gradients of one call of ring_attention whose kernel only counts, without a mask."""
    q, k, v = (at.inputs[name].clone().requires_grad_() for name in "qkv")
    at.submission.ring_attention(q, k, v, causal=False, kernel=kernel_of(at, Counting(at))).backward(at.inputs["gradient"])
    return {f"d{name}": zeros_or(x.grad, x) for name, x in (("q", q), ("k", k), ("v", v))}


def large(at: Any, *, has_backward: bool) -> dict[str, torch.Tensor]:
    """A call of ring_attention whose graph is kept, and its backward if asked for. The output, and row sums of dk and dv."""
    give_back_large_blocks()
    q, k, v = (at.inputs[name].requires_grad_() for name in "qkv")
    o = at.submission.ring_attention(q, k, v, causal=False, kernel=kernel_of(at, Attention(at)))
    if not has_backward:
        return {"o": o.detach()}
    o.backward(at.inputs["gradient"])
    return {"o": o.detach(), "dk": zeros_or(k.grad, k).sum(-1), "dv": zeros_or(v.grad, v).sum(-1)}


def give_back_large_blocks() -> None:
    """Have glibc map every block from 128 KiB on by itself, so that a limit counts what is alive and not how the heap is torn."""
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**17)
