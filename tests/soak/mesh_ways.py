"""Ways to train the given GPT that many_gpus measures: torch's and the course's wrappers, and the course's pieces around one another."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.soak.mesh_points import Point  # isort: skip  # it says where the solutions lie

import data_parallel
import pipeline_parallel
import tensor_parallel
from fsdp import FullyShardedDataParallel

from lm.gpt import GPT, Block

Groups = dict[str, Any]  # by axis: tp, dp, pp; "gradients": the pipeline's second; "tied": its first and last stage


@dataclass(frozen=True)
class Trainee:
    """A model that is trained in some way."""

    parameters: list[nn.Parameter]
    backward: Callable[[], Tensor | None]  # forward, backward, gradients joined; this rank's loss, if it has one
    norm: Callable[[], Tensor]  # of the joined gradient of the whole model


def autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """bfloat16 on a GPU, where the ways' own arithmetic isn't set."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def as_one_model(point: Point, model: GPT, tokens_BT: Tensor, groups: Groups) -> tuple[float, float]:
    """Loss of this replica's tokens and norm of the mean gradient, by the whole model and torch alone: what every layout must come to."""
    loss = torch.zeros((), device=tokens_BT.device)
    for part_BT in tokens_BT.chunk(point.plan.num_micro_batches):
        with autocast(tokens_BT.device):
            share = model(part_BT, part_BT) / point.plan.num_micro_batches
        share.backward()
        loss += share.detach()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for gradient in gradients if point.plan.dp > 1 else ():
        dist.all_reduce(gradient, group=groups["dp"])
        gradient /= point.plan.dp
    norm = nn.utils.get_total_norm(gradients)
    model.zero_grad(set_to_none=True)
    return loss.item(), norm.item()


def made_trainee(point: Point, model: GPT, tokens_BT: Tensor, groups: Groups, rank: int) -> Trainee:
    """The model, trained in the point's way."""
    if point.way == "mesh":
        return on_a_mesh(point, model, tokens_BT, groups, rank)
    if "fsdp" in point.way:
        return sharded(point, model, tokens_BT, groups["dp"])
    module: nn.Module = model
    if point.way == "course_ddp":
        module = data_parallel.DistributedDataParallel(model, groups["dp"])
    elif point.way == "torch_ddp":
        module = nn.parallel.DistributedDataParallel(model, process_group=groups["dp"], gradient_as_bucket_view=True)
    parameters = list(model.parameters())
    return Trainee(parameters, one_backward(module, tokens_BT), lambda: nn.utils.get_total_norm([p.grad for p in parameters]))


def one_backward(module: nn.Module, tokens_BT: Tensor) -> Callable[[], Tensor]:
    """Forward and backward of the whole batch; what joins gradients does so meanwhile."""

    def backward() -> Tensor:
        with autocast(tokens_BT.device):
            loss: Tensor = module(tokens_BT, tokens_BT)
        loss.backward()
        getattr(module, "finish_gradient_synchronization", lambda: None)()
        return loss.detach()

    return backward


def sharded(point: Point, model: GPT, tokens_BT: Tensor, group: Any) -> Trainee:
    """Weights, gradients and states divided among the replicas: by the course's FSDP or torch's, in bfloat16 with float32 sums."""
    module: Any = model
    if point.way == "course_fsdp":
        module = FullyShardedDataParallel(model, group, wrap=Block, compute_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    else:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = DeviceMesh.from_group(group, tokens_BT.device.type)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for part in (*model.blocks, model):
            fully_shard(part, mesh=mesh, mp_policy=policy)
    parameters = list(module.parameters())

    def backward() -> Tensor:
        loss: Tensor = module(tokens_BT, tokens_BT)
        loss.backward()
        return loss.detach()

    def norm() -> Tensor:
        if point.way == "course_fsdp":
            return module.clip_grad_norm_(math.inf)  # type: ignore[no-any-return]
        total: Any = nn.utils.get_total_norm([p.grad for p in parameters])
        return total.full_tensor()  # type: ignore[no-any-return]

    return Trainee(parameters, backward, norm)


# --- tensor, pipeline and data parallelism together ------------------------------------------------------------------
def on_a_mesh(point: Point, model: GPT, tokens_BT: Tensor, groups: Groups, rank: int) -> Trainee:
    """The course's pieces around one another: layers cut first, then stages, then replicas."""
    plan = point.plan
    if plan.tp > 1:
        tensor_parallel.parallelize(model, groups["tp"])
    place = rank // (plan.tp * plan.dp)
    tied = model.head.weight if plan.pp > 1 and point.config.tied and place in (0, plan.pp - 1) else None
    stage = Stage(model, place, plan.pp) if plan.pp > 1 else model
    parameters = list(stage.parameters())
    backward = one_pipeline(point, stage, tokens_BT, groups, place, tied) if isinstance(stage, Stage) else None
    if backward is None:
        module = data_parallel.DistributedDataParallel(model, groups["dp"]) if plan.dp > 1 else model
        backward = one_backward(module, tokens_BT)

    def norm() -> Tensor:
        counted = [p for p in parameters if not (p is tied and place > 0)]  # one weight, of which two stages have a copy
        square = torch.zeros((), device=tokens_BT.device)
        for is_cut in (True, False):
            squares = [p.grad.float().square().sum() for p in counted if p.grad is not None and getattr(p, "is_cut", False) is is_cut]
            part = torch.stack([square.new_zeros(()), *squares]).sum()
            if is_cut and plan.tp > 1:
                dist.all_reduce(part, group=groups["tp"])
            square += part
        if plan.pp > 1:
            dist.all_reduce(square, group=groups["pp"])
        return square.sqrt()

    return Trainee(parameters, backward, norm)


def one_pipeline(
    point: Point, stage: Stage, tokens_BT: Tensor, groups: Groups, place: int, tied: nn.Parameter | None
) -> Callable[[], Tensor | None]:
    """1F1B over the micro-batches; then the tied weight's gradients, then the replicas', in one message each."""
    plan = point.plan
    micro_batches = tokens_BT.chunk(plan.num_micro_batches)
    boundary = torch.empty(plan.micro_batch, point.tokens, point.config.hidden_size, device=tokens_BT.device)  # float32: the stream's
    pipeline = pipeline_parallel.PipelineStage({place: stage}, plan.pp, boundary, stage.loss, groups["pp"], groups["gradients"])
    schedule = pipeline_parallel.one_f_one_b(plan.pp, plan.num_micro_batches)

    def backward() -> Tensor | None:
        loss: Tensor | None = pipeline.run(schedule, micro_batches, micro_batches)
        if tied is not None:
            pipeline_parallel.all_reduce_tied_gradient(tied, groups["tied"])
        if plan.dp > 1:
            data_parallel.flat_all_reduce_gradients(stage.parameters(), groups["dp"])
        return loss

    return backward


class Stage(nn.Module):
    """A GPT's part between two boundaries; what belongs to other stages is let go."""

    def __init__(self, model: GPT, place: int, num_stages: int) -> None:
        super().__init__()
        first, last = (number * len(model.blocks) // num_stages for number in (place, place + 1))
        self.is_first, self.is_last = place == 0, place == num_stages - 1
        model.blocks = model.blocks[first:last]
        if not self.is_first:
            model.token_embedding = model.position_embedding = None
        if not self.is_last:
            model.head = model.norm = None
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """From tokens or the residual stream to the residual stream or logits."""
        positions_T = torch.arange(x.shape[1], device=x.device)
        with autocast(x.device):
            x = self.model.embed(x, positions_T) if self.is_first else x
            for block in self.model.blocks:
                x = block(x, self.model.angles(positions_T))
            return self.model.logits(x) if self.is_last else x

    def loss(self, logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
        """The mean over the targets."""
        with autocast(logits_BTV.device):
            return self.model.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())
