"""Who runs in attention's races: the submission, and torch's own attentions. Each leaves its outputs where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Views = dict[str, Tensor]
Call = Callable[[Views, Views], None]


def _forward(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Call:
    def call(inputs: Views, outputs: Views) -> None:
        with torch.no_grad():
            outputs["o"].copy_(attend(inputs["q"], inputs["k"], inputs["v"]))

    return call


def _training(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Call:
    def call(inputs: Views, outputs: Views) -> None:
        q, k, v = (inputs[name].detach().requires_grad_() for name in "qkv")
        o = attend(q, k, v)
        outputs["o"].copy_(o.detach())
        for name, gradient in zip(("dq", "dk", "dv"), torch.autograd.grad(o, (q, k, v), inputs["do"]), strict=True):
            outputs[name].copy_(gradient)

    return call


def _submission(at: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda q, k, v: at.submission.flash_attention(q, k, v, causal=True)


def _sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill_(hidden, -torch.inf).softmax(-1) @ v


def forward_submission(at: Any, **parameters: Any) -> Call:
    """The student's, as it is called in a model."""
    return _forward(_submission(at))


def training_submission(at: Any, **parameters: Any) -> Call:
    """Its two directions."""
    return _training(_submission(at))


def forward_sdpa(at: Any, **parameters: Any) -> Call:
    """torch's scaled_dot_product_attention, with the backend that torch itself picks on this device."""
    return _forward(_sdpa)


def training_sdpa(at: Any, **parameters: Any) -> Call:
    """Its two directions."""
    return _training(_sdpa)


def forward_dense(at: Any, **parameters: Any) -> Call:
    """Attention as its formula says it, operation by operation."""
    return _forward(_dense)


def forward_flex(at: Any, *, tokens: int, **parameters: Any) -> Call:
    """FlexAttention, compiled for a causal block mask."""
    import torch._inductor.config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._inductor.config.compile_threads = 1  # here, not in processes that would run on beside the race
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens, device=at.device)
    compiled = torch.compile(flex_attention, dynamic=False)
    return _forward(lambda q, k, v: compiled(q, k, v, block_mask=mask))
