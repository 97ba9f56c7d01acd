"""Who runs in the race of tensor parallelism: the submission's layers, and torch's own. One call is a forward and a backward."""

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


def _step(module: nn.Module, parts: dict[str, list[Tensor]], gradient: Callable[[str, int], Tensor]) -> Call:
    """`parts`: this rank's of each block's matrices, which a call gets anew; `gradient`: theirs."""

    def call(inputs: Views, outputs: Views) -> None:
        with torch.no_grad():
            for name in MATRICES:
                for number, part in enumerate(parts[name]):
                    part.copy_(inputs[name][number])
        x = inputs["x"].detach().requires_grad_()
        y = module(x)
        y.backward(inputs["dy"])
        outputs["y"].copy_(y.detach())
        outputs["dx"].copy_(x.grad)
        for name in MATRICES:
            for number, into in enumerate(outputs[f"d{name}"]):
                into.copy_(gradient(name, number))
        for parameter in module.parameters():
            parameter.grad = None

    return call


def step_submission(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """The student's layers in each block."""
    module = Blocks(blocks, width, hidden).to(at.device)
    for block in module.blocks:
        block.up, block.down = at.submission.ColumnParallelLinear(block.up), at.submission.RowParallelLinear(block.down)
    weights = {name: [getattr(block, name).weight for block in module.blocks] for name in MATRICES}
    return _step(module, {name: [each.detach() for each in some] for name, some in weights.items()},
                 lambda name, number: weights[name][number].grad)  # fmt: skip


def step_torch_parallelize(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """torch's, with its two styles."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = Blocks(blocks, width, hidden).to(at.device)
    mesh = init_device_mesh(at.device.type, (dist.get_world_size(),))
    for block in module.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    weights = {name: [getattr(block, name).weight for block in module.blocks] for name in MATRICES}
    return _step(module, {name: [each.to_local().detach() for each in some] for name, some in weights.items()},
                 lambda name, number: weights[name][number].grad.to_local())  # fmt: skip
