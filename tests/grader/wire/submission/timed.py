"""Programs whose time on an ideal network is known from theory."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn.parallel import DistributedDataParallel

NUM_LAYERS, WIDTH = 6, 16
LAYER_BYTES = WIDTH * WIDTH * 4
FORWARD_S, BACKWARD_S = 1.0, 2.0
NUM_MICRO_BATCHES = 8


def takes_at(function):
    function.takes_at = True
    return function


# --- messages
@takes_at
def ring_all_reduce(at):
    x = torch.ones(at.world_size * 4)
    chunks, rank, size = list(x.chunk(at.world_size)), at.rank, at.world_size
    received = torch.empty(4)
    with at.phase("ring"):
        for step in range(2 * (size - 1)):
            outgoing, incoming = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
            works = [dist.isend(outgoing, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
            for work in works:
                work.wait()
            if step < size - 1:
                incoming.add_(received)
            else:
                incoming.copy_(received)


@takes_at
def recursive_doubling(at):
    x, received = torch.ones(4), torch.empty(4)
    distance = 1
    while distance < at.world_size:
        partner = at.rank ^ distance
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, partner), dist.P2POp(dist.irecv, received, partner)]):
            work.wait()
        x = x + received
        distance *= 2


@takes_at
def chain_in_chunks(at, num_chunks):
    chunks = torch.ones(num_chunks * 4).chunk(num_chunks)
    works = []
    for chunk in chunks:
        if at.rank:
            dist.recv(chunk, at.rank - 1)
        if at.rank + 1 < at.world_size:
            works.append(dist.isend(chunk, at.rank + 1))
    for work in works:
        work.wait()


@takes_at
def one_sends_to_all(at):
    if at.rank:
        dist.recv(torch.empty(4), 0)
    else:
        for work in [dist.isend(torch.ones(4), peer) for peer in range(1, at.world_size)]:
            work.wait()


@takes_at
def receives_in_another_order_than_they_come(at):
    """Rank 0 posts the receive from rank 1 first, but rank 1 sends only after rank 2 has been heard."""
    x, y = torch.empty(4), torch.empty(4)
    if at.rank == 0:
        first, second = dist.irecv(x, 1), dist.irecv(y, 2)
        second.wait()
        dist.send(y, 1)
        first.wait()
    elif at.rank == 1:
        dist.recv(y, 0)
        dist.send(y, 0)
    else:
        dist.send(torch.ones(4), 0)


# --- data parallel
class Cost(torch.autograd.Function):
    """Stands after a layer: its backward runs before the layer's own, so the clock moves before the layer's gradient hooks fire."""

    @staticmethod
    def forward(ctx, x, at, name):
        ctx.at, ctx.name = at, name
        at.compute(FORWARD_S, f"F{name}")
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.at.compute(BACKWARD_S, f"B{ctx.name}")
        return gradient, None, None


class Layer(nn.Module):
    """A linear layer with a declared cost."""

    def __init__(self, at, name, width=WIDTH):
        super().__init__()
        self.linear, self.at, self.name = nn.Linear(width, width, bias=False), at, name

    def forward(self, x):
        return Cost.apply(self.linear(x), self.at, self.name)


def network(at):
    torch.manual_seed(0)
    return nn.Sequential(*(Layer(at, str(index)) for index in range(NUM_LAYERS)))


def step(module):
    module(torch.ones(2, WIDTH)).sum().backward()


@takes_at
def flat_data_parallel(at):
    module = network(at)
    with at.phase("step"):
        step(module)
        for p in module.parameters():
            dist.all_reduce(p.grad)


@takes_at
def overlapped_data_parallel(at):
    module, works = network(at), []
    for p in module.parameters():
        p.register_post_accumulate_grad_hook(lambda p: works.append(dist.all_reduce(p.grad, async_op=True)))
    with at.phase("step"):
        step(module)
        for work in works:
            work.wait()


@takes_at
def looking_data_parallel(at):
    in_hooks(at, look_until_done)


@takes_at
def future_data_parallel(at):
    in_hooks(at, wait_for_what_follows)


def wait_for_what_follows(work):
    work.get_future().then(lambda done: done.value()).wait()


def look_until_done(work):
    while not work.is_completed():
        pass


def in_hooks(at, stand_still):
    """Each layer's all-reduce begins in its hook, which stands still until it is back."""
    module = network(at)

    def reduce(parameter):
        stand_still(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    with at.phase("step"):
        step(module)
        at.join()


@takes_at
def torch_data_parallel(at):
    module = DistributedDataParallel(network(at), bucket_cap_mb=LAYER_BYTES / 2**20, gradient_as_bucket_view=True)
    for _ in range(2):  # the first step is one bucket, for want of the gradients' order; the second tells the others of the new ones
        step(module)
    with at.phase("step"):
        step(module)
        at.join()


@takes_at
def fully_sharded_forward(at, prefetch):
    shards = [torch.ones(WIDTH * WIDTH // at.world_size) for _ in range(NUM_LAYERS)]
    whole = [torch.empty(WIDTH * WIDTH) for _ in shards]

    def gather(index):
        return dist.all_gather_into_tensor(whole[index], shards[index], async_op=True) if index < NUM_LAYERS else None

    with at.phase("step"):
        work = gather(0)
        for index in range(NUM_LAYERS):
            following = gather(index + 1) if prefetch else None
            work.wait()
            at.compute(FORWARD_S, f"F{index}")
            work = following if prefetch else gather(index + 1)


# --- pipelines
def loss(y, target):
    return (y - target).square().sum()


def run_schedule(at, schedule):
    for name in ("warm-up", "step"):
        at.join()
        with at.phase(name):
            if at.rank == 0:
                schedule.step(torch.ones(NUM_MICRO_BATCHES * 2, 8))
            elif at.rank == at.world_size - 1:
                schedule.step(target=torch.ones(NUM_MICRO_BATCHES * 2, 8), losses=[])
            else:
                schedule.step()


@takes_at
def pipeline_1f1b(at):
    stage = PipelineStage(Layer(at, str(at.rank), 8), at.rank, at.world_size, torch.device("cpu"))
    run_schedule(at, Schedule1F1B(stage, NUM_MICRO_BATCHES, loss_fn=loss))


@takes_at
def pipeline_interleaved(at):
    indices = (at.rank, at.rank + at.world_size)
    stages = [PipelineStage(Layer(at, str(index), 8), index, 2 * at.world_size, torch.device("cpu")) for index in indices]
    run_schedule(at, ScheduleInterleaved1F1B(stages, NUM_MICRO_BATCHES, loss_fn=loss))
