"""Programs that go wrong on a network, each in its own way, and some that only look as if they would."""

from __future__ import annotations

import os
import signal
import threading
import time

import torch
import torch.distributed as dist

SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


# --- calls that don't belong together
def shape(rank, world_size):
    dist.all_reduce(torch.ones(8 + rank))


def shape_of_the_last(rank, world_size):
    dist.all_reduce(torch.ones(8 + (rank == 2)))


def dtype(rank, world_size):
    dist.all_reduce(torch.ones(8, dtype=[torch.float32, torch.float64][rank]))


def operation(rank, world_size):
    x = torch.ones(4)
    if rank == 0:
        dist.all_reduce(x)
    else:
        dist.broadcast(x, 0)


def reduction(rank, world_size):
    dist.all_reduce(torch.ones(4), [SUM, MAX][rank])


def root(rank, world_size):
    dist.broadcast(torch.ones(4), rank)


def short_send(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2), 1)
    else:
        dist.recv(torch.zeros(4), 0)


def broadcast_size(rank, world_size):
    dist.broadcast(torch.ones(4 + 2 * rank), 0)


def splits(rank, world_size):
    dist.all_to_all_single(torch.empty(4), torch.ones(4), [2, 2], [1, 3] if rank == 0 else [2, 2])


def gather_size(rank, world_size):
    dist.gather(torch.ones(3 + rank), [torch.empty(3) for _ in range(world_size)] if rank == 0 else None)


# --- ranks that wait for ever
def all_send_first(rank, world_size):
    dist.send(torch.ones(3), (rank + 1) % world_size)
    dist.recv(torch.ones(3), (rank - 1) % world_size)


def collective_against_receive(rank, world_size):
    if rank == 0:
        dist.all_reduce(torch.ones(2))
    else:
        dist.recv(torch.ones(3), 0)


def wrong_tag(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=3)
    else:
        dist.recv(torch.ones(2), 0, tag=4)


def left_out(rank, world_size):
    if rank != 2:
        dist.all_reduce(torch.ones(2))


def waits_elsewhere(rank, world_size):
    work = dist.all_reduce(torch.ones(2), async_op=True) if rank == 0 else None
    if work is not None:
        work.wait()


def one_call_more(rank, world_size):
    for _ in range(3 + rank):
        dist.all_reduce(torch.ones(2))


def groups_crossed(rank, world_size):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    for group in groups if rank == 0 else reversed(groups):
        dist.all_reduce(torch.ones(2), group=group)


def cycle_of_three_beside_a_busy_rank(rank, world_size):
    pairs = [(0, 1), (1, 2), (0, 2)]
    groups = {pair: dist.new_group(list(pair)) for pair in pairs}
    if rank == 3:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            torch.ones(50, 50) @ torch.ones(50, 50)
    for pair in {0: pairs[::2], 1: [pairs[1], pairs[0]], 2: [pairs[2], pairs[1]], 3: []}[rank]:
        dist.all_reduce(torch.ones(2), group=groups[pair])


def blocked_in_a_future(rank, world_size):
    if rank == 0:
        dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
    else:
        dist.recv(torch.ones(2), 0)


def woken_by_a_callback(rank, world_size):
    is_there = threading.Event()
    dist.all_reduce(torch.ones(2), async_op=True).get_future().add_done_callback(lambda _: is_there.set())
    is_there.wait()


def watches_its_memory(rank, world_size):
    x = torch.ones(2)
    work = dist.all_reduce(x, async_op=True)
    while x[0] == 1:
        time.sleep(0.01)
    work.wait()


def any_source_and_nobody_sends(rank, world_size):
    dist.recv(torch.ones(2))


def key_that_never_comes(rank, world_size):
    if rank == 0:
        dist.distributed_c10d._get_default_store().get("never")
    else:
        dist.barrier()


# --- ranks that fall
def raises(rank, world_size):
    if rank == 1:
        raise KeyError("student bug")
    dist.recv(torch.ones(2), 1)


def all_raise(rank, world_size):
    raise NotImplementedError(f"rank {rank} has not been written")


def crashes(rank, world_size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    dist.barrier()


def leaves_with_status_0(rank, world_size):
    if rank == 1:
        os._exit(0)
    dist.barrier()


def forks_and_leaves(rank, world_size):
    if rank == 1:
        if os.fork() == 0:
            time.sleep(20)  # holds a copy of the line open
            os._exit(0)
        os._exit(3)
    dist.barrier()


def closes_its_line(rank, world_size):
    if rank == 1:
        os.closerange(3, 64)
        time.sleep(20)
    dist.barrier()


def allocates_too_much(rank, world_size):
    torch.ones(64 * 2**20)


# --- ranks that say nothing
def spins(rank, world_size):
    if rank == 0:
        dist.barrier()
    while True:
        pass


def polls_for_ever(rank, world_size):
    if rank == 0:
        time.sleep(20)
    work = dist.all_reduce(torch.ones(2), async_op=True)
    while not work.is_completed():
        pass


def sleeps_on_a_lock(rank, world_size):
    if rank == 1:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    dist.barrier()


# --- tensors in flight
def changed_in_flight(rank, world_size):
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        x.mul_(2)
    work.wait()


def view_changed_in_flight(rank, world_size):
    x = torch.ones(8)
    if rank == 0:
        work = dist.isend(x[:4], 1)
        x[2] = 5
        work.wait()
    else:
        dist.recv(x[:4], 0)


def forgets_to_wait(rank, world_size):
    x = torch.full((4,), rank + 1.0)
    dist.all_reduce(x, async_op=True)
    dist.barrier()
    return {"x": x.clone()}


# --- what only warns
def unbatched_in_one_order(rank, world_size):
    x = torch.empty(3)
    works = [dist.isend(torch.ones(3), 1 - rank), dist.irecv(x, 1 - rank)]
    for work in works:
        work.wait()


def batched(rank, world_size):
    x = torch.empty(3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(3), 1 - rank), dist.P2POp(dist.irecv, x, 1 - rank)]):
        work.wait()


def strided(rank, world_size):
    dist.all_reduce(torch.ones(3, 4)[:, 1])


# --- right programs that look stuck for a while
def slow_arithmetic(rank, world_size):
    if rank == 1:
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            torch.ones(300, 300) @ torch.ones(300, 300)
    dist.barrier()


def sleeps_for_a_while(rank, world_size):
    if rank == 1:
        time.sleep(0.6)
    dist.barrier()


def another_thread_comes_to_the_rescue(rank, world_size):
    group = dist.new_group([0, 1])

    def later():
        time.sleep(0.5)
        dist.all_reduce(torch.ones(2), group=group)

    if rank == 0:
        thread = threading.Thread(target=later)
        thread.start()
        dist.barrier()
        thread.join()
    else:
        dist.all_reduce(torch.ones(2), group=group)
        dist.barrier()


def sends_to_itself(rank, world_size):
    x = torch.empty(2)
    work = dist.isend(torch.ones(2), rank)
    dist.irecv(x, rank).wait()
    work.wait()


# --- ranks that leave in their own way
def refuses_to_leave(rank, world_size):
    os._exit = lambda status: time.sleep(20)


def prints_without_end(rank, world_size):
    print("the first line")
    for _ in range(20_000):
        print("x" * 99)
    print("the last line")
