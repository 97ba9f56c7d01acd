"""What torch builds on torch.distributed, to be run over the wire and over gloo."""

from __future__ import annotations

import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from cases import Cases, values
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore", category=FutureWarning)  # some names are old in one supported torch and the only ones in another
CASES = Cases()
ANY, TWO, FOUR = (2, 3), (2,), (4,)


def everything(at, backend, folder):
    return CASES.run(at, backend, folder)


everything.takes_at = True


def network(num_layers=4):
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(num_layers) for layer in (nn.Linear(16, 16), nn.ReLU())))


def backward(module, rank, seed=0):
    module(values(10 * rank + seed, 4, 16)).square().sum().backward()


def gradients(module):
    return [p.grad for p in module.parameters()]


# --- operations as functions of tensors
@CASES.of(*ANY)
def functional_collectives(rank, world_size):
    group, x = dist.group.WORLD, values(rank, 2 * world_size, 4)
    out = [functional.all_reduce(x, "sum", group), functional.all_gather_tensor(x, 0, group)]
    out += [functional.reduce_scatter_tensor(x, "sum", 0, group), functional.all_to_all_single(x, None, None, group)]
    out += [functional.broadcast(x, 0, group), *functional.all_reduce_coalesced([x, x + 1], "sum", group)]
    out += functional.all_gather_into_tensor_coalesced([x, x * 2], group)
    out += functional.reduce_scatter_tensor_coalesced([x, x * 3], "sum", [0, 0], group)
    return [tensor + 0 for tensor in out]


@CASES.of(*TWO)
def differentiable_collectives(rank, world_size):
    x, y = values(rank, 4, 4).requires_grad_(), values(rank, 4, 4).requires_grad_()
    functional.all_gather_tensor_autograd(x, 0, dist.group.WORLD).square().sum().backward()
    differentiable.all_reduce(y).square().sum().backward()
    return [x.grad, y.grad]


# --- tensors that are sharded
@CASES.of(*TWO)
def sharded_tensors(rank, world_size):
    mesh = init_device_mesh("cpu", (world_size,))
    x = distribute_tensor(values(0, 6, 5), mesh, [Shard(0)])
    product = x @ x.redistribute(mesh, [Replicate()]).t()
    return [x.redistribute(mesh, [Shard(1)]).to_local().clone(), x.full_tensor(), product.full_tensor()]


@CASES.of(*TWO)
def tensor_parallel_layers(rank, world_size):
    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    for index, p in enumerate(module.parameters()):
        p.data.copy_(values(index, *p.shape))
    module = parallelize_module(module, init_device_mesh("cpu", (world_size,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    y = module(values(0, 4, 16))
    y.square().sum().backward()
    return [y.detach(), module[0].weight.grad.full_tensor()]


# --- data parallel
@CASES.of(*ANY)
def ddp_in_small_buckets(rank, world_size):
    module = DistributedDataParallel(network(), bucket_cap_mb=0.001)
    backward(module, rank)
    with module.no_sync():
        backward(module, rank, 1)
    backward(module, rank, 2)
    return gradients(module)


@CASES.of(*TWO)
def ddp_with_communication_hooks(rank, world_size):
    out = []
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        module = DistributedDataParallel(network(), bucket_cap_mb=0.001)
        module.register_comm_hook(None, hook)
        backward(module, rank)
        out += gradients(module)
    module = DistributedDataParallel(network())
    module.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    for seed in range(3):
        module.zero_grad()
        backward(module, rank, seed)
    return out + gradients(module)


@CASES.of(*TWO)
def ddp_with_unused_parameters_static_graph_and_join(rank, world_size):
    module = DistributedDataParallel(network(), find_unused_parameters=True)
    backward(module, rank)
    static = DistributedDataParallel(network(), static_graph=True)
    for seed in range(2):
        backward(static, rank, seed)
    with static.join():
        for seed in range(1 + rank):
            backward(static, rank, seed)
    return gradients(module)


@CASES.of(*TWO)
def hooks_that_reduce_in_backward(rank, world_size):
    module, works = network(), []
    for p in module.parameters():
        p.register_post_accumulate_grad_hook(lambda p: works.append(dist.all_reduce(p.grad, async_op=True)))
    backward(module, rank)
    for work in works:
        work.wait()
    return gradients(module)


@CASES.of(*ANY)
def optimizer_with_sharded_state(rank, world_size):
    module = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9)
    for seed in range(2):
        optimizer.zero_grad()
        backward(module, rank, seed)
        optimizer.step()
    optimizer.consolidate_state_dict(0)
    return [p.detach() for p in module.parameters()]


@CASES.of(*TWO)
def fully_sharded_with_prefetch(rank, world_size):
    module, mesh = network(), init_device_mesh("cpu", (world_size,))
    layers = [layer for layer in module if isinstance(layer, nn.Linear)]
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    for index, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[index + 1 : index + 2])
        layer.set_modules_to_backward_prefetch(layers[max(0, index - 1) : index])
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    for seed in range(2):
        optimizer.zero_grad()
        backward(module, rank, seed)
        optimizer.step()
    return [p.full_tensor().detach() for p in module.parameters()]


@CASES.of(*FOUR)
def fully_sharded_on_a_mesh_with_mixed_precision(rank, world_size):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    module, policy = network(3), MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in module:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(module, mesh=mesh)
    backward(module, rank)
    return [p.grad.full_tensor() for p in module.parameters()]


@CASES.of(*TWO)
def first_fully_sharded_api(rank, world_size):
    module = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    backward(module, rank)
    return [p.grad.clone() for p in module.parameters()]


# --- pipelines
def loss(y, target):
    return (y - target).square().sum()


@CASES.of(*ANY)
def pipeline_1f1b(rank, world_size):
    torch.manual_seed(rank)
    part = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    schedule = Schedule1F1B(PipelineStage(part, rank, world_size, torch.device("cpu")), 4, loss_fn=loss)
    if rank == 0:
        schedule.step(values(0, 8, 8))
    elif rank == world_size - 1:
        schedule.step(target=values(9, 8, 8), losses=[])
    else:
        schedule.step()
    return gradients(part)


@CASES.of(*TWO)
def pipeline_interleaved(rank, world_size):
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2 * world_size)]
    mine = (rank, rank + world_size)
    stages = [PipelineStage(parts[index], index, 2 * world_size, torch.device("cpu")) for index in mine]
    schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=loss)
    if rank == 0:
        schedule.step(values(0, 8, 8))
    else:
        schedule.step(target=values(9, 8, 8), losses=[])
    return [gradient for index in mine for gradient in gradients(parts[index])]
