"""Who runs in the race of a tuned training step: the submission's, and the usual one: sixteen bits, fused attention, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Views = dict[str, Tensor]
Call = Callable[[Views, Views], None]
MATRICES = ("attention.qkv", "attention.out", "mlp.up", "mlp.down")


def _model(at: Any, config: dict[str, Any], **changes: Any) -> Any:
    import torch._inductor.config

    from lm.gpt import GPT, GPTConfig

    torch._inductor.config.compile_threads = 1  # here, not in processes that would run on beside the race
    torch.manual_seed(0)
    with at.device:
        return GPT(GPTConfig(**config | changes))


def _training(gpt: Any, step: Callable[[Tensor, Tensor], Tensor]) -> Call:
    layers = {name: [block.get_submodule(name).weight for block in gpt.blocks] for name in MATRICES}
    embedding = gpt.token_embedding.weight

    def call(inputs: Views, outputs: Views) -> None:
        tokens = inputs["tokens"]
        outputs["loss"].copy_(step(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
        outputs["embedding"].copy_(embedding.grad)
        for name, some in layers.items():
            for number, weight in enumerate(some):
                outputs[name][number].copy_(weight.grad)
        for parameter in gpt.parameters():
            parameter.grad = None

    return call


def step_submission(at: Any, *, config: dict[str, Any], **parameters: Any) -> Call:
    """The student's, of a model whose attention is dense."""
    gpt = _model(at, config)
    return _training(gpt, at.submission.tuned_step(gpt))


def step_compiled(at: Any, *, config: dict[str, Any], **parameters: Any) -> Call:
    """The end of the milestone's ladder: sixteen bits, torch's attention, one compiled model. The host plays it in float32."""
    from lm.training import autocast

    gpt, precision = _model(at, config, attention="sdpa"), "fp32"
    if at.device.type == "cuda":
        precision = "bf16" if torch.cuda.get_device_capability(at.device) >= (8, 0) else "fp16"
        gpt.compile(dynamic=False)
    factor = 2.0**16 if precision == "fp16" else None  # its gradients are too small without

    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        with autocast(precision, at.device):
            loss = gpt(tokens, targets)
        loss.backward(torch.full_like(loss, factor) if factor else None)
        if factor:
            for weight in gpt.parameters():
                weight.grad /= factor
        return loss.detach()

    return _training(gpt, step)
