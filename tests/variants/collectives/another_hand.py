"""A whole file in another style: a small class knows the neighbours and posts messages by global rank, every function is a few lines
on top of it, loops are generators of (send, receive) plans, and the given helpers are written anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import log2
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

Op = Literal["sum", "mean", "max"]


def reduce_into(total: Tensor, incoming: Tensor, op: Op) -> None:
    if op not in ("sum", "mean", "max"):
        raise ValueError(f"op must be 'sum', 'mean' or 'max', not {op!r}")
    if op == "max":
        torch.maximum(total, incoming, out=total)
    else:
        total.add_(incoming)


def divide(total: Tensor, count: int) -> None:
    if total.is_floating_point():
        total /= count
    else:
        total //= count


def wait_for_device() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@dataclass(frozen=True)
class BandwidthPoint:
    num_bytes: int
    seconds: float
    bus_bandwidth_bytes_per_s: float


class Circle:
    """The members of a group as a circle, seen by one of them."""

    def __init__(self, group: dist.ProcessGroup | None):
        self.group = group
        self.members = dist.get_process_group_ranks(group)
        self.me = self.members.index(dist.get_rank())

    def __len__(self) -> int:
        return len(self.members)

    def at(self, position: int) -> int:
        return self.members[position % len(self)]

    @contextmanager
    def moving(self, outgoing: Iterable[tuple[Tensor, int]], incoming: Iterable[tuple[Tensor, int]]) -> Iterator[None]:
        """All these messages are under way inside the block and have ended after it. Both sides leave out empty ones."""
        works = [dist.irecv(tensor, src=self.at(origin), group=self.group) for tensor, origin in incoming if tensor.numel()]
        works += [dist.isend(tensor, dst=self.at(target), group=self.group) for tensor, target in outgoing if tensor.numel()]
        yield
        while works:
            works.pop().wait()

    def move(self, outgoing: Iterable[tuple[Tensor, int]] = (), incoming: Iterable[tuple[Tensor, int]] = ()) -> None:
        with self.moving(outgoing, incoming):
            pass


def bounds(num_elements: int, parts: int) -> list[slice]:
    ends = list(accumulate(num_elements // parts + (i < num_elements % parts) for i in range(parts)))
    return [slice(begin, end) for begin, end in zip([0, *ends], ends)]


def packed(tensor: Tensor) -> Tensor:
    """A new, flat, contiguous copy."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor).view(-1)


def exchange(
    outgoing: Tensor, send_to: int, incoming: Tensor, receive_from: int, group: dist.ProcessGroup | None = None
) -> None:
    Circle(group).move([(outgoing, send_to)], [(incoming, receive_from)])


def ring_reduce_scatter(tensor: Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> Tensor:
    circle = Circle(group)
    mine = packed(tensor)
    cuts = bounds(mine.numel(), len(circle))
    walking = mine[cuts[circle.me - 1]]
    for position in range(circle.me - 2, circle.me - 1 - len(circle), -1):
        own = mine[cuts[position % len(circle)]]
        arriving = torch.empty_like(own)
        circle.move([(walking, circle.me + 1)], [(arriving, circle.me - 1)])
        reduce_into(arriving, own, op)
        walking = arriving
    if len(circle) == 1:
        walking = mine
    if op == "mean":
        divide(walking, len(circle))
    return walking


def ring_all_gather(chunk: Tensor, num_elements: int, group: dist.ProcessGroup | None = None) -> Tensor:
    circle = Circle(group)
    whole = torch.zeros(num_elements, dtype=chunk.dtype, device=chunk.device)
    part = [whole[cut] for cut in bounds(num_elements, len(circle))]
    part[circle.me].copy_(chunk)
    for position in range(circle.me, circle.me - len(circle) + 1, -1):
        circle.move([(part[position], circle.me + 1)], [(part[position - 1], circle.me - 1)])
    return whole


def ring_all_reduce(tensor: Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    tensor.copy_(ring_all_gather(ring_reduce_scatter(tensor, op, group), tensor.numel(), group).view(tensor.shape))


def broadcast(tensor: Tensor, src: int, num_chunks: int = 8, group: dist.ProcessGroup | None = None) -> None:
    circle = Circle(group)
    place = (circle.me - circle.members.index(src)) % len(circle)
    first, last = place == 0, place == len(circle) - 1
    buffer = packed(tensor)
    pieces = [buffer[cut] for cut in bounds(buffer.numel(), num_chunks)]
    for old, new in zip([None, *pieces], [*pieces, None]):
        circle.move(
            [] if last or old is None else [(old, circle.me + 1)],
            [] if first or new is None else [(new, circle.me - 1)],
        )
    if not first:
        tensor.copy_(buffer.view(tensor.shape))


def all_to_all(
    tensor: Tensor,
    input_splits: Sequence[int] | None = None,
    output_splits: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    circle = Circle(group)
    equal = [tensor.shape[0] // len(circle)] * len(circle)
    outgoing = [packed(block) for block in torch.split(tensor, list(equal if input_splits is None else input_splits))]
    counts = list(equal if output_splits is None else output_splits)
    incoming = [tensor.new_empty((count, *tensor.shape[1:])) for count in counts]
    others = [r for r in range(len(circle)) if r != circle.me]
    with circle.moving([(outgoing[r], r) for r in others], [(incoming[r], r) for r in others]):
        incoming[circle.me].copy_(outgoing[circle.me].view_as(incoming[circle.me]))
    return torch.cat(incoming)


def recursive_doubling_all_reduce(tensor: Tensor, op: Op = "sum", group: dist.ProcessGroup | None = None) -> None:
    circle = Circle(group)
    rounds = int(log2(len(circle)))
    extra_of_me, host_of_me = circle.me + 2**rounds, circle.me - 2**rounds
    total = packed(tensor)
    if host_of_me >= 0:
        circle.move([(total, host_of_me)])
        circle.move((), [(total, host_of_me)])
    else:
        has_extra = extra_of_me < len(circle)
        incoming = torch.zeros_like(total)
        if has_extra:
            circle.move((), [(incoming, extra_of_me)])
            reduce_into(total, incoming, op)
        for k in range(rounds):
            circle.move([(total, circle.me ^ 1 << k)], [(incoming, circle.me ^ 1 << k)])
            reduce_into(total, incoming, op)
        if op == "mean":
            divide(total, len(circle))
        if has_extra:
            circle.move([(total, extra_of_me)])
    tensor.copy_(total.view(tensor.shape))


def all_reduce_seconds(num_bytes: float, world_size: int, latency_s: float, bandwidth_bytes_per_s: float, algorithm: str) -> float:
    def rounds_of(message: float, rounds: int) -> float:
        return sum(latency_s + message / bandwidth_bytes_per_s for _ in range(rounds)) if rounds else 0.0

    match algorithm:
        case "ring":
            return rounds_of(num_bytes / world_size, 2 * world_size - 2)
        case "recursive_doubling":
            return rounds_of(num_bytes, int(log2(world_size)) + 2 * (world_size.bit_count() != 1))
        case "central":
            return rounds_of(num_bytes, 2 * world_size - 2)
    raise ValueError(f"unknown algorithm {algorithm!r}: choose 'ring', 'recursive_doubling' or 'central'")


def bus_bandwidth(num_bytes: float, seconds: float, world_size: int) -> float:
    return num_bytes / seconds * (2 - 2 / world_size)


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
    durations = torch.empty((len(sizes_bytes), num_timed), dtype=torch.float64, device=device)
    for row, num_bytes in zip(durations, sizes_bytes):
        tensor = torch.ones(num_bytes // 4, device=device)
        for call in range(-num_warmup, num_timed):
            if call < 0:
                all_reduce(tensor, group=group)
                continue
            dist.barrier(group)
            synchronize()
            begin = clock()
            all_reduce(tensor, group=group)
            synchronize()
            row[call] = clock() - begin
    ring_all_reduce(durations, "max", group)
    ordered = durations.sort(dim=1).values
    medians = (ordered[:, (num_timed - 1) // 2] + ordered[:, num_timed // 2]) / 2
    world_size = dist.get_world_size(group)
    return [BandwidthPoint(size, s, bus_bandwidth(size, s, world_size)) for size, s in zip(sizes_bytes, medians.tolist())]
