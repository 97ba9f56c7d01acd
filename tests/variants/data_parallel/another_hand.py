"""A whole file in another style: Python's random numbers, state broadcast as bytes in one message, buckets closed after the parameter
that fills them, gradients divided before they travel, an object per message, and no books but a queue of those that are still to leave.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MiB = 2**20


def shard_indices(
    num_samples: int,
    rank: int,
    world_size: int,
    *,
    epoch: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
) -> list[int]:
    order = list(range(num_samples))
    if shuffle:
        random.Random(f"seed {seed}, epoch {epoch}").shuffle(order)
    num_rounds, rest = divmod(num_samples, world_size)
    if rest and not drop_last:
        num_rounds += 1
    return list(islice(cycle(order), rank, num_rounds * world_size, world_size))


class Message:
    """Gradients of one dtype on their way: packed, divided and sent by the constructor, handed out by `land`."""

    def __init__(self, parameters: list[nn.Parameter], group: dist.ProcessGroup | None):
        self.parameters = parameters
        self.flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device)
        for parameter, place in self.places():
            if parameter.grad is not None:
                place.copy_(parameter.grad)
        self.flat /= dist.get_world_size(group)
        self.work = dist.all_reduce(self.flat, group=group, async_op=True)

    def places(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        pieces = self.flat.split([p.numel() for p in self.parameters])
        return ((p, piece.view(p.shape)) for p, piece in zip(self.parameters, pieces, strict=True))

    def land(self) -> None:
        self.work.wait()
        for parameter, place in self.places():
            if parameter.grad is None:
                parameter.grad = place.clone()
            else:
                parameter.grad.copy_(place)


def all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    for parameter in parameters:
        if parameter.requires_grad:
            Message([parameter], group).land()


def flat_all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    kinds: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            kinds.setdefault(parameter.dtype, []).append(parameter)
    for message in [Message(members, group) for members in kinds.values()]:
        message.land()


def broadcast_module_state(module: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    tensors = [tensor.detach() for source in (module.parameters(), module.buffers()) for tensor in source]
    if not tensors:
        return
    pieces = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    everything = torch.cat(pieces)
    dist.broadcast(everything, group=group, group_src=0)
    for tensor, piece in zip(tensors, everything.split([len(piece) for piece in pieces]), strict=True):
        tensor.copy_(piece.clone().view(tensor.dtype).view(tensor.shape))


def assign_buckets(parameters: Iterable[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    buckets: list[list[nn.Parameter]] = []
    filling: dict[torch.dtype, tuple[list[nn.Parameter], int]] = {}
    places: dict[nn.Parameter, int] = {}
    for parameter in reversed(list(parameters)):
        if not parameter.requires_grad:
            continue
        places[parameter] = len(places)
        members, num_bytes = filling.pop(parameter.dtype, ([], 0))
        members.append(parameter)
        num_bytes += parameter.nbytes
        if num_bytes >= bucket_bytes:
            buckets.append(members)
        else:
            filling[parameter.dtype] = members, num_bytes
    buckets += [members for members, _ in filling.values()]
    return sorted(buckets, key=lambda members: places[members[-1]])


class DistributedDataParallel(nn.Module):
    def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes: int = 25 * MiB) -> None:
        super().__init__()
        self.module = module
        self.group = group
        self.depth = 0
        broadcast_module_state(module, group)
        self.plan = assign_buckets(module.parameters(), bucket_bytes)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.complete)
        self.start_over()

    def start_over(self) -> None:
        self.to_leave = deque((members, {id(p) for p in members}) for members in self.plan)
        self.on_their_way: list[Message] = []

    def complete(self, parameter: nn.Parameter) -> None:
        if self.depth:
            return
        for _, incomplete in self.to_leave:
            incomplete.discard(id(parameter))
        while self.to_leave and not self.to_leave[0][1]:
            self.send_next()

    def send_next(self) -> None:
        members, _ = self.to_leave.popleft()
        self.on_their_way.append(Message(members, self.group))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.module(*inputs, **named)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def finish_gradient_synchronization(self) -> None:
        while self.to_leave:
            self.send_next()
        for message in self.on_their_way:
            message.land()
        self.start_over()


def mean_loss_scale(num_tokens: int, group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu") -> float:
    counts = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(counts, torch.tensor([num_tokens], dtype=torch.int64, device=device), group=group)
    return len(counts) / sum(int(count) for count in counts)
