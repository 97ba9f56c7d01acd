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
    # region solution exchange
    # `group_peer` counts within the group; torch's plain `peer` is a global rank: rank 1 of the group [2, 5, 7] is global rank 5.
    send = dist.P2POp(dist.isend, outgoing, group=group, group_peer=send_to)
    receive = dist.P2POp(dist.irecv, incoming, group=group, group_peer=receive_from)
    # Both are under way before either is waited for: a ring in which everybody first finishes a send stands still.
    # gloo returns a work for each operation, NCCL one for the whole batch: wait for however many there are.
    for work in dist.batch_isend_irecv([send, receive]):
        work.wait()
    # endregion


def ring_reduce_scatter(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Reduce `tensor` over the group and keep one chunk: group rank r returns chunk r of the reduction.

    Chunks are those of `tensor.flatten().tensor_split(N)`: the first S mod N have ceil(S/N) elements, the others floor(S/N).
    `tensor` has any shape, layout and size (also none) and is left as it was; the chunk is new, contiguous and 1-D.
    """
    # region solution ring_reduce_scatter
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    chunks = tensor.contiguous().view(-1).tensor_split(world_size)

    # A partial sum of chunk c starts at rank c + 1, walks right once around the ring, and takes in one rank's share at every
    # stop. After N - 1 steps it arrives, complete, at rank c. So at each step I pass on the chunk that I was handed before.
    # The copy matters when N = 1: what is returned must not be the caller's memory.
    partial = chunks[left].clone()
    for step in range(world_size - 1):
        mine = chunks[(rank - step - 2) % world_size]
        incoming = torch.empty_like(mine)
        exchange(partial, right, incoming, left, group)
        reduce_into(incoming, mine, op)
        partial = incoming

    # Here alone is the sum complete, and here alone does anybody divide: once, S/N elements on each rank.
    if op == "mean":
        divide(partial, world_size)
    return partial
    # endregion


def ring_all_gather(chunk: torch.Tensor, num_elements: int, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Put everybody's chunks together: the inverse of the scatter in `ring_reduce_scatter`.

    Group rank r brings chunk r of a flat tensor of `num_elements`, in the sizes of `tensor_split`; all return the whole, new and
    1-D. `chunk` is 1-D of any layout and is left as it was.
    """
    # region solution ring_all_gather
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    whole = torch.empty(num_elements, dtype=chunk.dtype, device=chunk.device)
    chunks = whole.tensor_split(world_size)  # views: what is received lands in its place, nothing is joined afterwards
    chunks[rank].copy_(chunk)

    # Pass on what came in the step before; the first to go is my own. Nothing is added, so every rank ends with equal bits.
    for step in range(world_size - 1):
        exchange(chunks[(rank - step) % world_size], right, chunks[(rank - step - 1) % world_size], left, group)
    return whole
    # endregion


def ring_all_reduce(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    """Reduce `tensor` over the group, in place, on every rank: reduce-scatter, then all-gather.

    `tensor` has any shape, layout and size. Each rank sends 2(N-1)/N of it, in 2(N-1) rounds, to its neighbours only.
    """
    # region solution ring_all_reduce
    chunk = ring_reduce_scatter(tensor, op, group)
    whole = ring_all_gather(chunk, tensor.numel(), group)
    # copy_ writes through any strides; assigning to the name `tensor` would change nothing for the caller.
    tensor.copy_(whole.view_as(tensor))
    # endregion


# --- task broadcast --------------------------------------------------------------------------------------------------
def broadcast(tensor: torch.Tensor, src: int, num_chunks: int = 8, group: dist.ProcessGroup | None = None) -> None:
    """Copy `tensor` from *global* rank `src` to all ranks of the group, in place, pipelined along a chain.

    The chain follows the group's ring: src's right neighbour, then the next, and so on. The flat tensor travels in the `num_chunks`
    pieces of `tensor_split`, so that rank k forwards one piece while it receives the next. Empty pieces need not travel.
    """
    # region solution broadcast
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    place = (rank - dist.get_group_rank(group or dist.group.WORLD, src)) % world_size  # in the chain: 0 is the source
    flat = tensor.contiguous().view(-1)
    pieces = [piece for piece in flat.tensor_split(num_chunks) if piece.numel()]

    # All receives are posted at once, each into its own piece, so that the rank before never waits for us to be ready. A send
    # is not waited for until the end: waiting here would keep the next piece from coming in, and the pipeline would halve.
    receives = [dist.irecv(piece, group=group, group_src=left) for piece in pieces] if place > 0 else []
    sends = []
    for index, piece in enumerate(pieces):
        if place > 0:
            receives[index].wait()
        if place < world_size - 1:
            sends.append(dist.isend(piece, group=group, group_dst=right))
    for work in sends:
        work.wait()
    if not tensor.is_contiguous():  # then `flat` is a copy, and what has arrived there must still go home
        tensor.copy_(flat.view_as(tensor))
    # endregion


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
    # region solution all_to_all
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    equal = [tensor.size(0) // world_size] * world_size
    rows_to, rows_from = list(input_splits or equal), list(output_splits or equal)
    received = tensor.new_empty((sum(rows_from), *tensor.shape[1:]))
    outgoing, incoming = tensor.contiguous().split(rows_to), received.split(rows_from)

    incoming[rank].copy_(outgoing[rank])  # my own block is here already; it never travels
    operations = []
    # Everybody starts with another peer (rank + 1, rank + 2, ...), or all would knock at rank 0 first.
    for distance in range(1, world_size):
        to, origin = (rank + distance) % world_size, (rank - distance) % world_size
        # An empty block is left out by its sender and by its receiver: both know the size, so they agree.
        if outgoing[to].numel():
            operations.append(dist.P2POp(dist.isend, outgoing[to], group=group, group_peer=to))
        if incoming[origin].numel():
            operations.append(dist.P2POp(dist.irecv, incoming[origin], group=group, group_peer=origin))
    for work in dist.batch_isend_irecv(operations) if operations else []:
        work.wait()
    return received
    # endregion


# --- task recursive_doubling -----------------------------------------------------------------------------------------
def recursive_doubling_all_reduce(tensor: torch.Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    """Reduce `tensor` over the group, in place, in the fewest rounds: log2 N, or floor(log2 N) + 2 if N is no power of two.

    `tensor` has any shape, layout and size. All ranks end with the same bits.
    """
    # region solution recursive_doubling_all_reduce
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    power = 1 << (world_size.bit_length() - 1)  # the largest power of two that is not above N
    num_extra = world_size - power
    total = tensor.contiguous().view(-1).clone()
    incoming = torch.empty_like(total)

    # Ranks beyond the power of two hand their share to a partner and sit out; N < 2 * power, so each partner gets one at most.
    if rank >= power:
        dist.send(total, group=group, group_dst=rank - power)
    elif rank < num_extra:
        dist.recv(incoming, group=group, group_src=rank + power)
        reduce_into(total, incoming, op)

    if rank < power:
        # Before distance d, the d ranks whose numbers agree above bit log2 d hold the same partial sum; after it 2d do.
        # Partners compute a + b and b + a, which are the same bits: so all ranks agree although each adds for itself.
        distance = 1
        while distance < power:
            exchange(total, rank ^ distance, incoming, rank ^ distance, group)
            reduce_into(total, incoming, op)
            distance *= 2
        if op == "mean":
            divide(total, world_size)  # by N, not by the power of two: the folded ranks count as well

    if rank >= power:
        dist.recv(total, group=group, group_src=rank - power)
    elif rank < num_extra:
        dist.send(total, group=group, group_dst=rank + power)
    tensor.copy_(total.view_as(tensor))
    # endregion


# --- task cost_model -------------------------------------------------------------------------------------------------
def all_reduce_seconds(num_bytes: float, world_size: int, latency_s: float, bandwidth_bytes_per_s: float, algorithm: str) -> float:
    """Time of an all-reduce of `num_bytes` if a message of m bytes takes latency_s + m / bandwidth_bytes_per_s.

    algorithm: "ring", "recursive_doubling" (whole tensor in each round), or "central" (rank 0 receives the others' tensors one after
    the other and sends each the total, one after the other). One rank needs no time. Any other name is a ValueError.
    """
    # region solution all_reduce_seconds
    log2 = world_size.bit_length() - 1
    num_rounds_and_share = {
        "ring": (2 * (world_size - 1), 1 / world_size),  # many rounds, each with an N-th: best where bytes cost most
        "recursive_doubling": (log2 if world_size == 2**log2 else log2 + 2, 1),  # few rounds: best where latency does
        "central": (2 * (world_size - 1), 1),  # the worst of both
    }
    if algorithm not in num_rounds_and_share:
        raise ValueError(f"algorithm must be one of {', '.join(num_rounds_and_share)}, not {algorithm!r}")
    num_rounds, share = num_rounds_and_share[algorithm]
    return num_rounds * (latency_s + num_bytes * share / bandwidth_bytes_per_s)
    # endregion


def bus_bandwidth(num_bytes: float, seconds: float, world_size: int) -> float:
    """Bytes per second that each link carried if an all-reduce of `num_bytes` took `seconds`: 2(N-1)/N times num_bytes / seconds.

    Comparable between world sizes and with the link's own figure; 0.0 for one rank, which uses no link.
    """
    # region solution bus_bandwidth
    return 2 * (world_size - 1) / world_size * num_bytes / seconds
    # endregion


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
    # region solution measure_bus_bandwidth
    points = []
    for num_bytes in sizes_bytes:
        tensor = torch.zeros(num_bytes // 4, dtype=torch.float32, device=device)
        # First calls pay for connections, allocations and caches that later calls find ready.
        for _ in range(num_warmup):
            all_reduce(tensor, group=group)

        durations_s = torch.zeros(num_timed, dtype=torch.float64, device=device)
        for call in range(num_timed):
            synchronize()  # or the rest of the call before is timed with this one
            dist.barrier(group)  # or a rank that comes late makes the network look slow on all others
            start_s = clock()
            all_reduce(tensor, group=group)
            synchronize()  # on a GPU the call returns when the work is launched, not when it is done
            durations_s[call] = clock() - start_s

        # A training step goes on when the last rank has its sum. The median shrugs at one call that the machine disturbed.
        ring_all_reduce(durations_s, op="max", group=group)
        seconds = statistics.median(durations_s.tolist())
        points.append(BandwidthPoint(num_bytes, seconds, bus_bandwidth(num_bytes, seconds, dist.get_world_size(group))))
    return points
    # endregion
