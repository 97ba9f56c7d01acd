"""Who runs in the race of full sharding: the submission, and torch's FSDP2. One call is a forward and a backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grader.worker.racing_blocks import Blocks

Views = dict[str, Tensor]
Call = Callable[[Views, Views], None]
MATRICES = ("up", "down")


def _step(wrapped: nn.Module, shards: dict[str, list[Tensor]], gradient: Callable[[str, int], Tensor], forget: Callable[[], None]) -> Call:
    """`shards`: this rank's rows of each block's matrices, which a call gets anew; `gradient`: theirs."""

    def call(inputs: Views, outputs: Views) -> None:
        with torch.no_grad():
            for name in MATRICES:
                for number, shard in enumerate(shards[name]):
                    shard.copy_(inputs[name][number].view(shard.shape))
        x = inputs["x"].detach().requires_grad_()
        y = wrapped(x)
        y.backward(inputs["dy"])
        outputs["y"].copy_(y.detach())
        outputs["dx"].copy_(x.grad)
        for name in MATRICES:
            for number, into in enumerate(outputs[f"d{name}"]):
                into.copy_(gradient(name, number).view(into.shape))
        forget()

    return call


def step_submission(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """The student's; every matrix is a unit, whose shards are therefore rows."""
    module = Blocks(blocks, width, hidden).to(at.device)
    wrapped = at.submission.fsdp.FullyShardedDataParallel(module, wrap=nn.Linear)
    named = wrapped.named_shards()
    shards = {name: [named[f"blocks.{number}.{name}.weight"] for number in range(blocks)] for name in MATRICES}

    def forget() -> None:
        for shard in named.values():
            shard.grad = None

    return _step(wrapped, {name: [each.detach() for each in some] for name, some in shards.items()},
                 lambda name, number: shards[name][number].grad, forget)  # fmt: skip


def step_torch_fsdp2(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """torch's, as its documentation sets it up, with the same units."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    module = Blocks(blocks, width, hidden).to(at.device)
    mesh = init_device_mesh(at.device.type, (dist.get_world_size(),))
    for linear in [each for each in module.modules() if isinstance(each, nn.Linear)]:
        fully_shard(linear, mesh=mesh)
    fully_shard(module, mesh=mesh)
    weights = {name: [getattr(block, name).weight for block in module.blocks] for name in MATRICES}

    def forget() -> None:
        for parameter in module.parameters():
            parameter.grad = None

    return _step(module, {name: [each.to_local().detach() for each in some] for name, some in weights.items()},
                 lambda name, number: weights[name][number].grad.to_local(), forget)  # fmt: skip
