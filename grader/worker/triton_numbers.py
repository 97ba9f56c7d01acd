"""Arithmetic of Triton's interpreter made to mean what it means on a GPU.

- bfloat16: the interpreter of Triton 3.6 to 3.8 holds it as uint16 and multiplies bit patterns. Here it is ml_dtypes' numpy dtype, whose
  arithmetic rounds to nearest even. `broken_bfloat16` tests what came of it.
- A masked load without `other` gives NaN (integers: a large number), where a GPU gives anything.
- A float32 `tl.dot` rounds its operands to tf32 unless `input_precision` says otherwise, and needs 16 columns.

Importing this module imports Triton; TRITON_INTERPRET must be set before.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter

Builder, Handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TF32_DROPPED_BITS = 13  # of float32's 23 mantissa bits
GARBAGE = 0x5A5A5A5A
Touch = Callable[[str, NDArray[np.uint64], int, "NDArray[Any] | None"], None]


def repair(touch: Touch) -> None:
    """Change the interpreter of this process. `touch(deed, addresses, itemsize, values)` is called before memory is touched.

    It gets the lanes that aren't masked; deed is "load", "store" or "atomic". What it raises ends the kernel.
    """
    numpy_dtype = interpreter._get_np_dtype

    def get_np_dtype(dtype: Any) -> np.dtype[Any]:
        element = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
        return BFLOAT16 if element == tl.bfloat16 else numpy_dtype(dtype)

    interpreter._get_np_dtype = get_np_dtype
    _repair_casts(get_np_dtype)
    _repair_memory(get_np_dtype, touch)
    _repair_dot()
    _repair_scalars()
    _repair_splats()
    interpreter.range = range_of_kernels


def broken_bfloat16() -> list[str]:
    """The operations on bfloat16 that the interpreter of this process still gets wrong; empty: it may be used."""
    import torch

    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal((16, 16)).astype(np.float32).astype(BFLOAT16) for _ in range(2))
    given = [torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16) for x in (a, b)]
    out = torch.zeros(8, 16, 16, dtype=torch.float32)
    _bfloat16_kernel[(1,)](*given, out)
    wide, other = a.astype(np.float32), b.astype(np.float32)
    expected = {
        "load": wide,
        "addition": a + b,
        "multiplication": a * b,
        "division": (wide / other).astype(BFLOAT16),
        "comparison": np.where(a > b, a, b),
        "rounding": (wide * np.float32(1.001)).astype(BFLOAT16),
        "dot": wide @ other,
        "sum": np.broadcast_to(wide.sum(1, keepdims=True), wide.shape),
    }
    slack = {"dot": 1e-5, "sum": 2.0**-8 * 16 * float(np.abs(wide).max())}  # one order of summation of several; the sum rounds at each step
    pairs = zip(expected.items(), out.numpy(), strict=True)
    return [name for (name, x), got in pairs if not np.allclose(got, x.astype(np.float32), rtol=0, atol=slack.get(name, 0))]


@triton.jit
def _bfloat16_kernel(a_ptr, b_ptr, out_ptr):  # type: ignore[no-untyped-def]
    """Eight operations on two 16 × 16 tiles, each stored as float32."""
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a = tl.load(a_ptr + place)
    b = tl.load(b_ptr + place)
    tl.store(out_ptr + place, a.to(tl.float32))
    tl.store(out_ptr + 256 + place, (a + b).to(tl.float32))
    tl.store(out_ptr + 512 + place, (a * b).to(tl.float32))
    tl.store(out_ptr + 768 + place, (a / b).to(tl.bfloat16).to(tl.float32))
    tl.store(out_ptr + 1024 + place, tl.where(a > b, a, b).to(tl.float32))
    tl.store(out_ptr + 1280 + place, (a.to(tl.float32) * 1.001).to(tl.bfloat16).to(tl.float32))
    tl.store(out_ptr + 1536 + place, tl.dot(a, b))
    total = tl.sum(a, 1)
    tl.store(out_ptr + 1792 + place, (total[:, None] + tl.zeros([16, 16], tl.float32)).to(tl.float32))


# --- what is replaced ------------------------------------------------------------------------------------------------
def _repair_casts(get_np_dtype: Callable[[Any], np.dtype[Any]]) -> None:
    convert = Builder.create_fp_to_fp

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        return Handle(source.data.astype(get_np_dtype(target)), target.scalar)

    def create_fp_to_fp(self: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        nearest = rounding_mode is None or rounding_mode == interpreter._ir.ROUNDING_MODE.RTNE
        involved = {source.dtype.scalar, target.scalar}
        if nearest and tl.bfloat16 in involved and all(dtype.primitive_bitwidth >= 16 for dtype in involved):
            return cast_impl(self, source, target)
        return convert(self, source, target, rounding_mode)

    Builder.cast_impl, Builder.create_fp_to_fp = cast_impl, create_fp_to_fp
    Builder.get_bf16 = lambda self, value: Handle(np.array([value], dtype=BFLOAT16), tl.bfloat16)
    Builder.create_clampf = lambda self, x, low, high, propagate_nans: Handle(
        np.minimum(np.maximum(x.data, low.data), high.data), x.dtype.scalar
    )


def _repair_memory(get_np_dtype: Callable[[Any], np.dtype[Any]], touch: Touch) -> None:
    memory = interpreter._interpreter
    rmw, cas = Builder.create_atomic_rmw, Builder.create_atomic_cas

    def create_masked_load(self: Any, pointers: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
        element = pointers.get_element_ty()
        dtype = get_np_dtype(element)
        lanes = _lanes(mask, pointers)
        touch("load", pointers.data[lanes], dtype.itemsize, None)
        filler = _filler(pointers.data.shape, dtype) if other is None else other.data
        raw = np.dtype(np.uint16) if dtype == BFLOAT16 else dtype
        loaded = memory.load(pointers.data, lanes, np.ascontiguousarray(filler).view(raw), raw)
        return Handle(loaded.view(dtype), element)

    def create_masked_store(self: Any, pointers: Any, value: Any, mask: Any, *_: Any, **__: Any) -> Any:
        values = np.ascontiguousarray(np.broadcast_to(value.data, pointers.data.shape))
        lanes = _lanes(mask, pointers)
        touch("store", pointers.data[lanes], values.dtype.itemsize, values[lanes])
        return memory.store(pointers.data, values.view(np.uint16) if values.dtype == BFLOAT16 else values, lanes)

    def create_atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if value.data.dtype == BFLOAT16:
            raise TypeError("the interpreter has no atomics on bfloat16; accumulate in float32")
        lanes = _lanes(mask, pointers)
        touch("atomic", pointers.data[lanes], value.data.dtype.itemsize, None)
        return rmw(self, operation, pointers, value, mask, *rest)

    def create_atomic_cas(self: Any, pointers: Any, compared: Any, value: Any, *rest: Any) -> Any:
        touch("atomic", pointers.data.reshape(-1), value.data.dtype.itemsize, None)
        return cas(self, pointers, compared, value, *rest)

    Builder.create_masked_load, Builder.create_masked_store = create_masked_load, create_masked_store
    Builder.create_atomic_rmw, Builder.create_atomic_cas = create_atomic_rmw, create_atomic_cas


def _lanes(mask: Any, pointers: Any) -> NDArray[np.bool_]:
    """Which lanes a mask lets through."""
    return np.broadcast_to(np.asarray(mask.data).astype(np.bool_, copy=False), pointers.data.shape)


def _filler(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    is_float = dtype.kind == "f" or dtype == BFLOAT16
    return np.full(shape, np.nan, dtype) if is_float else np.full(shape, GARBAGE).astype(dtype)


def _repair_dot() -> None:
    multiply = Builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, sums: Any, input_precision: Any, *rest: Any) -> Any:
        if input_precision == interpreter._ir.INPUT_PRECISION.TF32:
            a, b = _rounded_to_tf32(a), _rounded_to_tf32(b)
        return multiply(self, _widened(a), _widened(b), sums, input_precision, *rest)

    Builder.create_dot = create_dot
    # NVIDIA's own: rows are padded, the summed dim is not.
    interpreter.interpreter_builder.codegen_fns["min_dot_size"] = lambda left, right: (
        (1, 1, 32) if left.scalar.primitive_bitwidth == 8 else (1, 1, 16)
    )


def _widened(handle: Any) -> Any:
    return Handle(handle.data.astype(np.float32), tl.float32) if handle.data.dtype == BFLOAT16 else handle


def _rounded_to_tf32(handle: Any) -> Any:
    if handle.data.dtype != np.float32:
        return handle
    bits = np.ascontiguousarray(handle.data).view(np.uint32)
    half, mask = np.uint32(1 << (TF32_DROPPED_BITS - 1)), np.uint32(0xFFFFFFFF << TF32_DROPPED_BITS & 0xFFFFFFFF)
    rounded = np.where(np.isfinite(handle.data), (bits + half) & mask, bits)
    return Handle(rounded.view(np.float32), handle.dtype)


def _repair_splats() -> None:
    """A scalar condition that becomes a block stays a condition: Triton's interpreter makes numbers of the compared type of it."""
    splat = Builder.create_splat

    def create_splat(self: Any, shape: Any, scalar: Any) -> Any:
        block = splat(self, shape, scalar)
        if scalar.data.dtype == np.bool_:
            block.data = block.data.astype(np.bool_)
        return block

    Builder.create_splat = create_splat


def range_of_kernels(*bounds: Any) -> Iterable[Any]:
    """What `range` is in a kernel, and within tl.range: a loop variable has 64 bits if a bound has, as when it is compiled.

    The interpreter's is a Python number, which counts as 32 bits where it meets a stride, and their product would overflow.
    """
    numbers = builtins.range(*bounds)
    if not any(isinstance(bound, tl.tensor) and bound.dtype == tl.int64 for bound in bounds):
        return numbers
    return (tl.tensor(Handle(np.array([number], np.int64), tl.int64), tl.int64) for number in numbers)


def _repair_scalars() -> None:
    """Triton 3.6 turns one-element arrays into Python numbers in a way that NumPy has refused since 2.4."""
    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)

        def index(self: Any) -> int:
            return int(self.handle.data.reshape(-1)[0])

        if scope:
            scope[0].set_attr(tensor, "__index__", index)
        else:
            tensor.__index__ = index

    interpreter._patch_lang_tensor = patch_lang_tensor
