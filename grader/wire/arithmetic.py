"""What the broker computes: raw bytes in, raw bytes out, in the tensors' own dtype, sums in rank order.

For two ranks that is bit for bit what gloo gives; beyond, gloo may add in another order. numpy and ml_dtypes only: the judge has no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from grader.frames import Bytes
from grader.records import TensorSpec
from grader.wire.calls import Call

Array = NDArray[Any]
BEYOND_NUMPY: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
STEP: dict[str, Callable[..., Any]] = {
    "SUM": np.add,
    "AVG": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}


def array_of(body: Bytes, dtype: str) -> Array:
    """`body` seen as a flat array; writable if the body is."""
    return np.frombuffer(body, dtype=BEYOND_NUMPY.get(dtype, dtype))


def pieces(body: Bytes, specs: Sequence[TensorSpec]) -> list[memoryview]:
    """`body` cut into the tensors that it carries one after the other."""
    view, start, cut = memoryview(body), 0, []
    for spec in specs:
        cut.append(view[start : start + spec.num_bytes])
        start += spec.num_bytes
    return cut


class Fold:
    """Reduces the members' bodies in group order while they arrive, so that no more of them are held than arrive out of order."""

    def __init__(self, specs: Sequence[TensorSpec], reduction: str, num_members: int) -> None:
        self._specs, self._reduction, self._num_members = specs, reduction, num_members
        self._sum: Bytes | None = None
        self._early: dict[int, Bytes] = {}
        self._next = 0

    def add(self, index: int, body: Bytes) -> None:
        """Take the body of group member `index`; the first becomes the accumulator and is overwritten."""
        self._early[index] = body
        while self._next in self._early:
            self._step(self._early.pop(self._next))
            self._next += 1

    def total(self) -> Bytes:
        """The reduced body, once every member's has come."""
        assert self._sum is not None and self._next == self._num_members
        if self._reduction == "AVG":
            for spec, piece in zip(self._specs, pieces(self._sum, self._specs), strict=True):
                values = array_of(piece, spec.dtype)
                np.divide(values, values.dtype.type(self._num_members), out=values)
        return self._sum

    def _step(self, body: Bytes) -> None:
        if self._sum is None:
            self._sum = body
            return
        sums, terms = pieces(self._sum, self._specs), pieces(body, self._specs)
        for spec, own, other in zip(self._specs, sums, terms, strict=True):
            values = array_of(own, spec.dtype)
            with np.errstate(all="ignore"):  # an overflow is the submission's, and travels as inf
                STEP[self._reduction](values, array_of(other, spec.dtype), out=values)


def perform(op: str, calls: Sequence[Call], fold: Fold | None) -> list[Bytes]:
    """The body of every member's answer, in group order. `fold` holds the reduced inputs of operations that reduce."""
    num_members, first = len(calls), calls[0]
    everyone = range(num_members)
    if fold is not None:
        total = fold.total()
        if op == "reduce_scatter":
            return _shares(total, first, num_members)
        return [total if op == "all_reduce" or index == first.root else b"" for index in everyone]
    if op == "broadcast":
        return [b"" if index == first.root else calls[first.root].body for index in everyone]
    if op in ("all_gather", "gather"):
        cut = [pieces(call.body, call.ins) for call in calls]
        whole = b"".join(cut[index][tensor] for tensor in range(len(first.ins)) for index in everyone)
        return [whole if op == "all_gather" or index == first.root else b"" for index in everyone]
    if op == "scatter":
        root = calls[first.root]
        return list(pieces(root.body, root.ins))
    if op == "all_to_all":
        rows = [_split(call.body, call.split) for call in calls]
        return [b"".join(row[index] for row in rows) for index in everyone]
    return [b""] * num_members


def _split(body: Bytes, sizes: Sequence[int]) -> list[memoryview]:
    view, start, cut = memoryview(body), 0, []
    for size in sizes:
        cut.append(view[start : start + size])
        start += size
    return cut


def _shares(total: Bytes, call: Call, num_members: int) -> list[Bytes]:
    """Member i's share of a reduced body: its i-th tensor where a list is scattered, else the i-th equal part of every tensor."""
    if len(call.ins) != len(call.outs):
        return list(pieces(total, call.ins))
    shares: list[list[memoryview]] = [[] for _ in range(num_members)]
    for piece in pieces(total, call.ins):
        size = len(piece) // num_members
        for index in range(num_members):
            shares[index].append(piece[index * size : (index + 1) * size])
    return [share[0] if len(share) == 1 else b"".join(share) for share in shares]
