"""Who runs in the race of data parallelism: the submission, and torch's DistributedDataParallel. One call is a forward and a backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from grader.worker.racing_blocks import Blocks

Views = dict[str, Tensor]
Call = Callable[[Views, Views], None]


def _step(module: Blocks, wrapped: nn.Module, finish: Callable[[], None]) -> Call:
    def call(inputs: Views, outputs: Views) -> None:
        with torch.no_grad():
            for number, block in enumerate(module.blocks):
                block.up.weight.copy_(inputs["up"][number])
                block.down.weight.copy_(inputs["down"][number])
        x = inputs["x"].detach().requires_grad_()
        y = wrapped(x)
        y.backward(inputs["dy"])
        finish()
        outputs["y"].copy_(y.detach())
        outputs["dx"].copy_(x.grad)
        for number, block in enumerate(module.blocks):
            outputs["dup"][number].copy_(block.up.weight.grad)
            outputs["ddown"][number].copy_(block.down.weight.grad)
        for parameter in module.parameters():
            parameter.grad = None

    return call


def _module(at: Any, blocks: int, width: int, hidden: int) -> Blocks:
    return Blocks(blocks, width, hidden).to(at.device)


def step_submission(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """The student's, with its usual buckets."""
    module = _module(at, blocks, width, hidden)
    wrapped = at.submission.DistributedDataParallel(module)
    return _step(module, wrapped, wrapped.finish_gradient_synchronization)


def step_torch_ddp(at: Any, *, blocks: int, width: int, hidden: int, **parameters: Any) -> Call:
    """torch's, its gradients views of its buckets."""
    module = _module(at, blocks, width, hidden)
    return _step(module, nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True), lambda: None)
