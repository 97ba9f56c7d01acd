"""What several of the probes here need: one call with or without the submission, memory that is given back, a leaf's gradient."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def run(at: Any, way: str, function: Callable[..., Any], *args: Any, save: list[str] | None = None, **kwargs: Any) -> Any:
    """Call the function plainly or through the submission; `save` names operations such as "mm.default"."""
    if way == "plain":
        return function(*args, **kwargs)
    if way == "checkpoint":
        return at.submission.checkpoint(function, *args, **kwargs)
    operations = {getattr(getattr(torch.ops.aten, name.split(".")[0]), name.split(".")[1]) for name in save or []}
    return at.submission.selective_checkpoint(function, *args, save=operations, **kwargs)


def free_at_once() -> None:
    """Let every tensor from 1 MiB on go back to the system when it is freed, so that a limit on memory counts what is alive.

    glibc otherwise keeps what was freed, in pieces that the next tensor may not fit into.
    """
    mmap_threshold = -3  # M_MMAP_THRESHOLD in malloc.h
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 20)


def gradient(leaf: Tensor, what: str) -> Tensor:
    """The leaf's gradient, if it has one."""
    if leaf.grad is None:
        raise RuntimeError(f"backward left no gradient on {what}")
    return leaf.grad
