"""Programs that go wrong on a network, each in its own way."""

import torch
import torch.distributed as dist


def sums(rank, world_size):
    x = torch.ones(4) * (rank + 1)
    dist.all_reduce(x)
    return {"x": x}


def shape(rank, world_size):
    dist.all_reduce(torch.ones(8 + rank))


def send_send(rank, world_size):
    dist.send(torch.ones(3), (rank + 1) % world_size)
    dist.recv(torch.ones(3), (rank - 1) % world_size)
