"""What torch passes to a process group, read once for all operations; and what gloo refuses, refused in the same places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from grader.records import Json
from grader.worker.work import num_bytes

Tensors = Any  # a tensor, or lists of tensors nested as torch nests them
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
GLOO_CANNOT_REDUCE = {torch.int16, torch.float8_e4m3fn, torch.float8_e5m2}


def flat(tensors: Tensors) -> list[torch.Tensor]:
    """All tensors of nested lists, in order."""
    return [tensors] if isinstance(tensors, torch.Tensor) else [tensor for inner in tensors for tensor in flat(inner)]


def describe(tensors: Sequence[torch.Tensor]) -> list[Json]:
    """[[dtype, shape], ...] as the judge reads them."""
    return [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]


def reduction_name(options: Any) -> str:
    """Name of the reduction in `options` (torch's, or a bare ReduceOp, or None for a sum); "" for one without a name, as PREMUL_SUM."""
    operator = getattr(options, "reduceOp", options if options is not None else dist.ReduceOp.SUM)
    return next((name for name in REDUCTIONS if operator == getattr(dist.ReduceOp, name)), "")


def reduction_of(options: Any, tensors: Sequence[torch.Tensor]) -> str:
    """Name of the reduction that `options` (torch's, or a bare ReduceOp, or None) asks for. RuntimeError where gloo refuses too."""
    name = reduction_name(options)
    dtypes = {tensor.dtype for tensor in tensors}
    if not name:
        raise RuntimeError("Cannot use this ReduceOp with Gloo")
    if dtypes & GLOO_CANNOT_REDUCE:
        raise RuntimeError(f"Invalid scalar type: Gloo does not reduce {', '.join(sorted(map(str, dtypes & GLOO_CANNOT_REDUCE)))}")
    if name in ("BAND", "BOR", "BXOR") and any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
        raise RuntimeError(f"Cannot use ReduceOp.{name} with non-integral dtype")
    if name == "AVG" and not all(dtype.is_floating_point for dtype in dtypes):
        raise RuntimeError("Cannot use ReduceOp.AVG with integers: the mean is no integer")
    return name


def row_splits(tensor: torch.Tensor, splits: Sequence[int], world_size: int) -> list[int]:
    """Bytes that go to, or come from, each rank when `tensor` is cut along its first dim by `splits` (empty: equally)."""
    if not splits:
        if tensor.dim() and len(tensor) % world_size:
            raise RuntimeError(f"Tensor's dim 0 ({len(tensor)}) does not divide equally across group size {world_size}")
        return [num_bytes(tensor) // world_size] * world_size
    if sum(splits) != len(tensor) or len(splits) != world_size:
        raise RuntimeError(f"Split sizes {list(splits)} don't match dim 0 ({len(tensor)}) on {world_size} ranks")
    row_bytes = num_bytes(tensor) // len(tensor) if len(tensor) else 0
    return [rows * row_bytes for rows in splits]


def refuse_unequal(op: str, part: torch.Tensor, places: Sequence[torch.Tensor]) -> None:
    """Gloo takes lists of one shape and dtype only; RuntimeError where it would raise one."""
    for index, place in enumerate(places):
        if (place.dtype, place.shape) != (part.dtype, part.shape):
            (mine,), (given,) = describe([part]), describe([place])
            raise RuntimeError(f"{op}: tensor {index} is {given[0]}{given[1]}, another one is {mine[0]}{mine[1]}; gloo wants them equal")


def root_of(options: Any) -> int:
    """Group rank of the root, from torch's options or a bare number."""
    return options if isinstance(options, int) else int(getattr(options, "rootRank", 0))
