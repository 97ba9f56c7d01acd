"""Linear layers and the embedding, each made from a whole one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .surroundings import gradient_of, group_of, held_by, turned


def linear(
    at: Any, *, kind_of_layer: str, options: dict[str, bool], has_bias: bool, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """A layer made from the whole one of the inputs weight and bias, forward and backward with x and gradient, neither contiguous."""
    group = group_of(at, groups)
    weight, incoming = at.inputs["weight"], turned(at.inputs["gradient"])
    whole = nn.Linear(weight.shape[1], weight.shape[0], bias=has_bias, dtype=weight.dtype)
    with torch.no_grad():
        whole.weight.copy_(weight)
        if has_bias:
            whole.bias.copy_(at.inputs["bias"])
    layer = getattr(at.submission, f"{kind_of_layer}ParallelLinear")(whole, group, **options)
    initial = {name: p.detach().clone() for name, p in layer.named_parameters()}
    x = turned(at.inputs["x"]).requires_grad_()
    with at.phase("forward"):
        y = layer(x)
    with at.phase("backward"):
        y.backward(incoming)
    is_bias_intact = not has_bias or torch.equal(whole.bias, at.inputs["bias"])
    at.report(**held_by(layer, whole), is_whole_intact=torch.equal(whole.weight, weight) and is_bias_intact)
    return {"y": y.detach(), "dx": gradient_of(x)} | initial | {f"d{name}": gradient_of(p) for name, p in layer.named_parameters()}


def embedding(
    at: Any, *, vocab_size: int, sequence_parallel: bool = False, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """The embedding made from the whole one of the input weight, forward on tokens and backward with gradient, neither contiguous."""
    group = group_of(at, groups)
    weight = at.inputs["weight"]
    whole = nn.Embedding(vocab_size, weight.shape[1], dtype=weight.dtype)
    with torch.no_grad():
        whole.weight.copy_(weight)
    layer = at.submission.VocabParallelEmbedding(whole, group, sequence_parallel=sequence_parallel)
    initial = layer.weight.detach().clone()
    with at.phase("forward"):
        y = layer(turned(at.inputs["tokens"]))
    with at.phase("backward"):
        y.backward(turned(at.inputs["gradient"]))
    at.report(**held_by(layer, whole), is_whole_intact=torch.equal(whole.weight, weight))
    return {"y": y.detach(), "weight": initial, "dweight": gradient_of(layer.weight)}
