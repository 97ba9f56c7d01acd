"""What an operation over the wire costs."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist


def median_s(call, repeats):
    for _ in range(3):
        call()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def latencies(at):
    small, large = torch.ones(10), torch.ones(2**20)

    def ping():
        if at.rank == 0:
            dist.send(small, 1)
            dist.recv(small, 1)
        else:
            dist.recv(small, 0)
            dist.send(small, 0)

    at.report(all_reduce_s=median_s(lambda: dist.all_reduce(small), 200))
    at.report(all_reduce_4_mib_s=median_s(lambda: dist.all_reduce(large), 12))
    at.report(all_reduce_4_mib_bf16_s=median_s(lambda: dist.all_reduce(torch.ones(2**21, dtype=torch.bfloat16)), 8))
    if at.world_size == 2:
        at.report(message_s=median_s(ping, 100) / 2)


latencies.takes_at = True


def one_small(rank, world_size):
    dist.all_reduce(torch.ones(1000))


def eight_large(rank, world_size):
    dist.all_reduce(torch.ones(2**24))
