"""numpy arrays <-> records.Tensor. bf16 and fp8 are numpy dtypes by way of ml_dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from grader.errors import CourseError
from grader.records import ITEMSIZE, Tensor, TensorSpec

Array = NDArray[Any]
Inputs = Mapping[str, Array | Sequence[Array]]
Declared = tuple[str, Sequence[int]]  # dtype, shape
Returns = Mapping[str, Declared | list[Declared]]

_EXTRA = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}


def dtype_of(name: str) -> np.dtype[Any]:
    """torch's dtype name -> numpy's dtype."""
    return _EXTRA.get(name) or np.dtype(name)


def to_tensor(array: Array) -> Tensor:
    """A copy of an array as raw bytes; CourseError for a dtype that torch has not."""
    array = np.asarray(array)
    if array.dtype.name not in ITEMSIZE:
        raise CourseError(f"an input has dtype {array.dtype.name}; it must be one of {', '.join(ITEMSIZE)}")
    return Tensor(array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes())


def to_array(tensor: Tensor) -> Array:
    """A read-only view of a tensor's bytes."""
    return np.frombuffer(tensor.data, dtype=dtype_of(tensor.dtype)).reshape(tensor.shape)


def pack_inputs(inputs: Inputs, world_size: int) -> dict[str, tuple[Tensor, ...]]:
    """One array: every rank gets it. A list: one per rank."""
    packed = {}
    for name, value in inputs.items():
        if isinstance(value, (list, tuple)):
            if len(value) != world_size:
                raise CourseError(f"input {name!r} is a list of {len(value)} arrays for {world_size} ranks")
            packed[name] = tuple(to_tensor(array) for array in value)
        else:
            packed[name] = (to_tensor(np.asarray(value)),)
    return packed


def pack_returns(returns: Returns, world_size: int) -> dict[str, tuple[TensorSpec, ...]]:
    """(dtype, shape) for all ranks, or a list of one per rank."""
    packed = {}
    for name, value in returns.items():
        each: list[Declared] = value if isinstance(value, list) else [value]
        if len(each) not in (1, world_size):
            raise CourseError(f"returned {name!r} is declared for {len(each)} ranks of {world_size}")
        packed[name] = tuple(TensorSpec(dtype, tuple(int(n) for n in shape)) for dtype, shape in each)
    return packed
