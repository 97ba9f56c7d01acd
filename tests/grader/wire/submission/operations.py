"""Every collective of torch.distributed, to be run over the wire and over gloo."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
from cases import Cases, values
from torch.distributed import ReduceOp

warnings.filterwarnings("ignore", category=FutureWarning)  # some names are old in one supported torch and the only ones in another
CASES = Cases()
ANY, TWO, THREE, FOUR = (2, 3), (2,), (3,), (4,)


def everything(at, backend, folder):
    return CASES.run(at, backend, folder)


everything.takes_at = True


# --- collectives
@CASES.of(*ANY)
def all_reduce_every_dtype_and_reduction(rank, world_size):
    out = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32):
        for op in (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT):
            x = values(rank, 5, 7, dtype=dtype)
            dist.all_reduce(x, op)
            out.append(x)
    return out


@CASES.of(*ANY)
def all_reduce_mean(rank, world_size):
    xs = [values(rank, 5, 7), values(rank, 9, dtype=torch.bfloat16), values(rank, 9, dtype=torch.float16)]
    for x in xs:
        dist.all_reduce(x, ReduceOp.AVG)
    return xs


@CASES.of(*TWO)
def all_reduce_bits_and_booleans(rank, world_size):
    x, y = torch.arange(8, dtype=torch.int32) + rank, torch.tensor([True, False, rank == 0])
    dist.all_reduce(x, ReduceOp.BOR)
    dist.all_reduce(y, ReduceOp.MAX)
    return [x, y]


@CASES.of(*TWO)
def all_reduce_complex(rank, world_size):
    x = torch.view_as_complex(values(rank, 4, 2))
    dist.all_reduce(x)
    return [torch.view_as_real(x)]


@CASES.of(*ANY)
def all_reduce_empty_and_scalar(rank, world_size):
    x, y = torch.empty(0), torch.tensor(float(rank + 1))
    dist.all_reduce(x)
    dist.all_reduce(y)
    return [x, y]


@CASES.of(*ANY)
def async_wait_future_and_polling(rank, world_size):
    x, y, z = values(rank, 5), values(rank, 6), values(rank, 7)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert work.is_completed()
    future = dist.all_reduce(y, async_op=True).get_future().then(lambda done: done.value()[0] / world_size)
    polled = dist.all_reduce(z, async_op=True)
    while not polled.is_completed():
        pass
    return [x, future.wait(), z]


@CASES.of(*ANY)
def futures_together_looked_at_and_passed_over(rank, world_size):
    a, b, c, d, e = (values(rank, size) for size in range(3, 8))
    futures = [dist.all_reduce(x, async_op=True).get_future() for x in (a, b)]
    torch.futures.wait_all(futures)
    torch.futures.collect_all([dist.all_reduce(c, async_op=True).get_future()]).wait()
    looked_at = dist.all_reduce(d, async_op=True).get_future()
    while not looked_at.done():
        pass
    work = dist.all_reduce(e, async_op=True)
    work.get_future()
    work.wait()
    return [a, b, c, d, e]


@CASES.of(*ANY)
def broadcast(rank, world_size):
    x = values(rank, 5, 7)
    dist.broadcast(x, world_size - 1)
    return [x]


@CASES.of(*ANY)
def reduce(rank, world_size):
    x = values(rank, 5, 7)
    dist.reduce(x, world_size - 1)
    return [x] if rank == world_size - 1 else []


@CASES.of(*ANY)
def gather_and_scatter(rank, world_size):
    parts = [torch.empty(5, 7) for _ in range(world_size)] if rank == 0 else None
    dist.gather(values(rank, 5, 7), parts, 0)
    x = torch.empty(5, 7)
    dist.scatter(x, [values(index, 5, 7) for index in range(world_size)] if rank == world_size - 1 else None, world_size - 1)
    return [*(parts or []), x]


@CASES.of(*ANY)
def all_gather(rank, world_size):
    parts = [torch.empty(5, 7) for _ in range(world_size)]
    dist.all_gather(parts, values(rank, 5, 7))
    flat = torch.empty(world_size * 5, 7)
    dist.all_gather_into_tensor(flat, values(rank, 5, 7))
    return [*parts, flat]


@CASES.of(*ANY)
def what_gloo_refuses(rank, world_size):
    """Each of these is a RuntimeError over gloo, and must be one here."""
    refused = []
    attempts = [
        lambda: dist.all_gather([torch.empty(index + 1) for index in range(world_size)], torch.empty(rank + 1)),
        lambda: dist.all_gather_into_tensor(torch.empty(world_size, 5, 7), torch.empty(5, 7)),
        lambda: dist.all_to_all(*([torch.ones(3 + index + rank) for index in range(world_size)] for _ in range(2))),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16)),
        lambda: dist.all_reduce(torch.ones(3), ReduceOp.BAND),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64), ReduceOp.AVG),
        lambda: dist.all_to_all_single(torch.empty(2 * world_size), torch.ones(2 * world_size), None, [1] * world_size),
    ]
    for attempt in attempts:
        try:
            attempt()
            refused.append(False)
        except (RuntimeError, ValueError):
            refused.append(True)
    return [torch.tensor(refused, dtype=torch.int32)]


@CASES.of(*ANY)
def reduce_scatter(rank, world_size):
    x, y = torch.empty(5, 7), torch.empty(3)
    dist.reduce_scatter(x, [values(10 * rank + index, 5, 7) for index in range(world_size)])
    dist.reduce_scatter_tensor(y, values(rank, 3 * world_size))
    return [x, y]


@CASES.of(*ANY)
def all_to_all(rank, world_size):
    even = [torch.empty(3) for _ in range(world_size)]
    dist.all_to_all(even, [values(10 * rank + index, 3) for index in range(world_size)])
    single = torch.empty(2 * world_size, 3)
    dist.all_to_all_single(single, values(rank, 2 * world_size, 3))
    return [*even, single]


@CASES.of(*ANY)
def all_to_all_single_with_uneven_and_empty_splits(rank, world_size):
    sent = [(index * (rank + 1)) % 3 for index in range(world_size)]
    received = [(rank * (index + 1)) % 3 for index in range(world_size)]
    x = torch.empty(sum(received), 2)
    dist.all_to_all_single(x, values(rank, sum(sent), 2), received, sent)
    return [x]


@CASES.of(*ANY)
def barriers(rank, world_size):
    dist.barrier()
    dist.monitored_barrier()


@CASES.of(*ANY)
def coalesced(rank, world_size):
    xs = [values(rank, 4), values(rank + 10, 3)]
    dist.all_reduce_coalesced(xs)
    parts = [[torch.empty(4), torch.empty(3)] for _ in range(world_size)]
    dist.all_gather_coalesced(parts, [values(rank, 4), values(rank, 3)])
    return [*xs, *(tensor for part in parts for tensor in part)]


@CASES.of(*TWO)
def coalescing_manager(rank, world_size):
    xs = [values(rank, 5), values(rank + 10, 6)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    return xs


@CASES.of(*ANY)
def large_tensors(rank, world_size):
    x, y = torch.arange(2**21, dtype=torch.int32) + rank, torch.arange(2**20 + 3, dtype=torch.int64) * (rank + 1)
    dist.all_reduce(x)
    if rank == 0:
        dist.send(y, 1)
    elif rank == 1:
        dist.recv(y, 0)
    return [x[::4099].clone(), x.sum(), y[::4099].clone(), y.sum()]
