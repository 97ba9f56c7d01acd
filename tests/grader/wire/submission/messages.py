"""Messages, groups, threads and tensors of all kinds, to be run over the wire and over gloo."""

from __future__ import annotations

import gc
import threading
import warnings

import torch
import torch.distributed as dist
from cases import Cases, values
from torch.distributed.device_mesh import init_device_mesh

warnings.filterwarnings("ignore", category=FutureWarning)  # some names are old in one supported torch and the only ones in another
CASES = Cases()
ANY, TWO, THREE, FOUR = (2, 3), (2,), (3,), (4,)


def everything(at, backend, folder):
    return CASES.run(at, backend, folder)


everything.takes_at = True


# --- messages
@CASES.of(*ANY)
def tags_tell_messages_apart(rank, world_size):
    if rank == 0:
        works = [dist.isend(values(tag, 5), 1, tag=tag) for tag in (7, 9)]
        return [work.wait() for work in works] and []
    if rank > 1:
        return []
    x, y = torch.empty(5), torch.empty(5)
    works = [dist.irecv(y, 0, tag=9), dist.irecv(x, 0, tag=7)]
    for work in works:
        work.wait()
    return [x, y]


@CASES.of(*ANY)
def rings(rank, world_size):
    x, y = torch.empty(5, 7), torch.empty(4)
    work = dist.isend(values(rank, 5, 7), (rank + 1) % world_size)
    dist.recv(x, (rank - 1) % world_size)
    work.wait()
    sends = dist.P2POp(dist.isend, values(rank, 4), (rank + 1) % world_size)
    for work in dist.batch_isend_irecv([sends, dist.P2POp(dist.irecv, y, (rank - 1) % world_size)]):
        work.wait()
    return [x, y]


@CASES.of(*THREE)
def whoever_comes_first_waits_for_the_receive_that_names_it(rank, world_size):
    x, y = torch.empty(5), torch.empty(5)
    if rank == 0:
        works = []
    elif rank == 1:
        works = [dist.isend(values(1, 5), 2)]
    else:
        works = [dist.irecv(x, 0), dist.irecv(y, 1)]
    dist.barrier()
    if rank == 0:
        dist.send(values(0, 5), 2)
    for work in works:
        work.wait()
    return [x, y] if rank == 2 else []


@CASES.of(*THREE)
def from_any_source(rank, world_size):
    if rank:
        dist.send(values(rank, 5), 0)
        return []
    got = {}
    for _ in range(world_size - 1):
        x = torch.empty(5)
        got[dist.recv(x)] = x
    return [got[source] for source in sorted(got)]


@CASES.of(*TWO)
def any_source_inside_a_reversed_subgroup(rank, world_size):
    group = dist.new_group([1, 0])
    x = torch.zeros(5)
    if rank == 0:
        dist.send(values(3, 5), 1, group=group)
    else:
        assert dist.recv(x, group=group) == 0
    return [x]


@CASES.of(*ANY)
def objects(rank, world_size):
    gathered, shared, mine = [None] * world_size, [rank, "k"], [None]
    dist.all_gather_object(gathered, {"rank": rank, "x": "y" * rank})
    dist.broadcast_object_list(shared, 0)
    dist.scatter_object_list(mine, list("abcdefgh")[:world_size] if rank == 0 else None, 0)
    assert gathered == [{"rank": index, "x": "y" * index} for index in range(world_size)]
    assert (shared, mine) == ([0, "k"], ["abcdefgh"[rank]])
    message = ["a", 1] if rank == 0 else [None, None]
    if rank < 2:
        (dist.send_object_list if rank == 0 else dist.recv_object_list)(message, 1 - rank)
        assert message == ["a", 1]


# --- groups, threads, tensors of all kinds
@CASES.of(*FOUR)
def subgroups(rank, world_size):
    low, high, three = dist.new_group([0, 1]), dist.new_group([2, 3]), dist.new_group([0, 2, 3])
    x, y = values(rank, 5), values(rank, 6)
    dist.all_reduce(x, group=low if rank < 2 else high)
    if rank != 1:
        dist.broadcast(x, 3, group=three)
    dist.all_reduce(y)
    pair, _ = dist.new_subgroups(2)
    z = values(rank, 7)
    dist.all_reduce(z, group=pair)
    return [x, y, z]


@CASES.of(*FOUR)
def mesh_of_two_dimensions(rank, world_size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x, y = values(rank, 5), values(rank, 6)
    dist.all_reduce(x, group=mesh.get_group("dp"))
    dist.all_reduce(y, group=mesh.get_group("tp"))
    return [x, y]


@CASES.of(*TWO)
def several_threads(rank, world_size):
    groups = [dist.new_group([0, 1]) for _ in range(4)]
    xs = [values(rank + 10 * index, 5) for index in range(4)]

    def reduce_often(index):
        for _ in range(10):
            dist.all_reduce(xs[index], group=groups[index])

    threads = [threading.Thread(target=reduce_often, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return xs


@CASES.of(*ANY)
def dropped_without_a_wait(rank, world_size):
    for _ in range(10):
        x = values(rank, 5)
        dist.all_reduce(x, async_op=True)
        del x
        gc.collect()
    y = values(rank, 5)
    dist.all_reduce(y)
    return [y]


@CASES.of(*TWO)
def transposed(rank, world_size):
    x = values(rank, 6, 8)
    dist.all_reduce(x.t())
    return [x]


@CASES.of(*ANY)
def views_of_one_buffer_in_flight(rank, world_size):
    x = values(rank, 4 * world_size)
    chunks = x.chunk(world_size)
    work = dist.isend(chunks[rank], (rank + 1) % world_size)
    chunks[(rank + 1) % world_size].mul_(2)  # another chunk: nobody's business
    dist.recv(chunks[rank - 1], (rank - 1) % world_size)
    work.wait()
    return [x]


@CASES.of(*TWO)
def inference_tensors_and_parameters(rank, world_size):
    with torch.inference_mode():
        x = values(rank, 5) * 1
        dist.all_reduce(x)
    p = torch.nn.Parameter(values(rank, 5))
    dist.broadcast(p.data, 0)
    dist.all_reduce(p.detach())
    return [x.clone(), p.detach()]


@CASES.of(*ANY)
def the_store(rank, world_size):
    store = dist.distributed_c10d._get_default_store()
    store.set(f"key {rank}", "v")
    store.wait([f"key {index}" for index in range(world_size)])
    assert store.get("key 1") == b"v" and store.check(["key 0"]) and not store.check(["no such key"])
    assert store.add("sum", 2) in [2 * count for count in range(1, world_size + 1)]
    store.compare_set("once", "", str(rank)) if rank == 0 else None
