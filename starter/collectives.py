"""Collectives from point-to-point messages: what all_reduce, all_gather and their kin do underneath, and what they cost.

Everything here is built on torch.distributed's isend, irecv, send, recv and batch_isend_irecv; no library collective moves the
student's tensors. `group=None` means the default group, as in torch.
"""

# N ranks in the group, S elements (or bytes) of a tensor, alpha seconds of latency, beta bytes per second
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist

Op = Literal["sum", "mean", "max"]


# --- given: arithmetic that is the same in every algorithm -----------------------------------------------------------
def reduce_into(total: torch.Tensor, incoming: torch.Tensor, op: Op) -> None:
    """Fold `incoming` into `total`, in place and in `total`'s dtype. A mean is a sum until somebody divides."""
    if op in ("sum", "mean"):
        total.add_(incoming)
    elif op == "max":
        torch.maximum(total, incoming, out=total)
    else:
        raise ValueError(f"op must be 'sum', 'mean' or 'max', not {op!r}")


def divide(total: torch.Tensor, count: int) -> None:
    """Divide in place; integers are rounded down (floor), so that -3 over 2 ranks is -2."""
    total.div_(count, rounding_mode=None if total.is_floating_point() else "floor")


def wait_for_device() -> None:
    """Return when the GPU, if one is in use, has finished all that was launched on it."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@dataclass(frozen=True)
class BandwidthPoint:
    """One point of the curve: a tensor of `num_bytes` took `seconds`, which is `bus_bandwidth_bytes_per_s` on the links."""

    num_bytes: int
    seconds: float
    bus_bandwidth_bytes_per_s: float


# --- task ring -------------------------------------------------------------------------------------------------------
def exchange(
    outgoing: torch.Tensor, send_to: int, incoming: torch.Tensor, receive_from: int, group: dist.ProcessGroup | None = None
) -> None:
    """Send `outgoing` and fill `incoming` at the same time; both are complete on return. Never graded by itself.

    `send_to` and `receive_from` are ranks *within the group*; both tensors are contiguous.
    """
    raise NotImplementedError("collectives, task ring: see sections 2 and 3 of the handout")


def ring_reduce_scatter(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Reduce `tensor` over the group and keep one chunk: group rank r returns chunk r of the reduction.

    Chunks are those of `tensor.flatten().tensor_split(N)`: the first S mod N have ceil(S/N) elements, the others floor(S/N).
    `tensor` has any shape, layout and size (also none) and is left as it was; the chunk is new, contiguous and 1-D.
    """
    raise NotImplementedError("collectives, task ring: see sections 2 and 3 of the handout")


def ring_all_gather(chunk: torch.Tensor, num_elements: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Put everybody's chunks together: the inverse of the scatter in `ring_reduce_scatter`.

    Group rank r brings chunk r of a flat tensor of `num_elements`, in the sizes of `tensor_split`; all return the whole, new and
    1-D. `chunk` is 1-D of any layout and is left as it was.
    """
    raise NotImplementedError("collectives, task ring: see sections 2 and 3 of the handout")


def ring_all_reduce(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    """Reduce `tensor` over the group, in place, on every rank: reduce-scatter, then all-gather.

    `tensor` has any shape, layout and size. Each rank sends 2(N-1)/N of it, in 2(N-1) rounds, to its neighbours only.
    """
    raise NotImplementedError("collectives, task ring: see sections 2 and 3 of the handout")


# --- task broadcast --------------------------------------------------------------------------------------------------
def broadcast(tensor: torch.Tensor, src: int, num_chunks: int = 8, group: dist.ProcessGroup | None = None) -> None:
    """Copy `tensor` from *global* rank `src` to all ranks of the group, in place, pipelined along a chain.

    The chain follows the group's ring: src's right neighbour, then the next, and so on. The flat tensor travels in the `num_chunks`
    pieces of `tensor_split`, so that rank k forwards one piece while it receives the next. Empty pieces need not travel.
    """
    raise NotImplementedError("collectives, task broadcast: see section 4 of the handout")


# --- task all_to_all -------------------------------------------------------------------------------------------------
def all_to_all(
    tensor: torch.Tensor,
    input_splits: Sequence[int] | None = None,
    output_splits: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Send block i of `tensor`'s rows (dim 0) to group rank i and return the blocks received, in the order of the ranks.

    `input_splits[i]` rows go to group rank i, `output_splits[i]` rows come from it; None: N equal blocks. Blocks may be empty.
    `tensor` has any layout and is left as it was; what is returned is new and contiguous.
    """
    raise NotImplementedError("collectives, task all_to_all: see section 5 of the handout")


# --- task recursive_doubling -----------------------------------------------------------------------------------------
def recursive_doubling_all_reduce(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    """Reduce `tensor` over the group, in place, in the fewest rounds: log2 N, or floor(log2 N) + 2 if N is no power of two.

    `tensor` has any shape, layout and size. All ranks end with the same bits.
    """
    raise NotImplementedError("collectives, task recursive_doubling: see section 6 of the handout")


# --- task cost_model -------------------------------------------------------------------------------------------------
def all_reduce_seconds(num_bytes: float, world_size: int, latency_s: float, bandwidth_bytes_per_s: float, algorithm: str) -> float:
    """Time of an all-reduce of `num_bytes` if a message of m bytes takes latency_s + m / bandwidth_bytes_per_s.

    algorithm: "ring", "recursive_doubling" (whole tensor in each round), or "central" (rank 0 receives the others' tensors one after
    the other and sends each the total, one after the other). One rank needs no time. Any other name is a ValueError.
    """
    raise NotImplementedError("collectives, task cost_model: see section 7 of the handout")


def bus_bandwidth(num_bytes: float, seconds: float, world_size: int) -> float:
    """Bytes per second that each link carried if an all-reduce of `num_bytes` took `seconds`: 2(N-1)/N times num_bytes / seconds.

    Comparable between world sizes and with the link's own figure; 0.0 for one rank, which uses no link.
    """
    raise NotImplementedError("collectives, task cost_model: see section 7 of the handout")


# --- task measurement ------------------------------------------------------------------------------------------------
def measure_bus_bandwidth(
    sizes_bytes: Sequence[int],
    *,
    all_reduce: Callable[..., None] = ring_all_reduce,
    num_warmup: int = 2,
    num_timed: int = 5,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], None] = wait_for_device,
    group: dist.ProcessGroup | None = None,
) -> list[BandwidthPoint]:
    """Time `all_reduce(tensor, group=group)` on float32 tensors of the given sizes (multiples of 4); one point per size, in order.

    Per size: `num_warmup` calls that are not timed, then `num_timed` calls, each timed alone by `clock` (seconds) with everything
    launched before it, and itself, finished by `synchronize`. A call took as long as on its slowest rank; the point is the median
    over the calls. All ranks return equal points. `dist.barrier` is allowed here.
    """
    raise NotImplementedError("collectives, task measurement: see section 8 of the handout")
