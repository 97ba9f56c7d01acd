"""The given GPT in slices, its blocks, and the norm of its gradients."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from lm.gpt import GPT, GPTConfig

from .surroundings import gradient_of, group_of, held_by


def built(at: Any, config: dict[str, Any]) -> GPT:
    """The whole GPT with the inputs w/<name> as its weights."""
    gpt = GPT(GPTConfig(**config))
    parameters = dict(gpt.named_parameters())
    gpt.to(at.inputs[f"w/{next(iter(parameters))}"].dtype)
    with torch.no_grad():
        for name, parameter in gpt.named_parameters():
            parameter.copy_(at.inputs[f"w/{name}"])
    return gpt


def plain(at: Any, *, config: dict[str, Any], num_tokens: int) -> dict[str, torch.Tensor]:
    """The whole model on one rank; nothing of the submission is used."""
    gpt = built(at, config)
    words = packed(at)
    loss = gpt(at.inputs["tokens"], at.inputs["targets"], **words)
    loss.backward()
    answer = {f"d/{name}": gradient_of(p) for name, p in gpt.named_parameters()}
    return answer | {"loss": loss.detach(), "logits": gpt(at.inputs["tokens"], **words).detach()}


def packed(at: Any) -> dict[str, torch.Tensor]:
    """What a model is told of positions: nothing, if none are given."""
    return {"positions_T": at.inputs["positions"]} if "positions" in at.inputs else {}


def model(
    at: Any, *, config: dict[str, Any], shapes: dict[str, list[int]], sequence_parallel: bool = False,
    groups: list[list[int]] | None = None, num_backwards: int = 1,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """The model in slices: its parameters at first, loss, logits, gradients after `num_backwards` equal backwards.

    shapes: names of the whole model's parameters, and what stands for those that are missing.
    """
    group = group_of(at, groups)
    gpt = built(at, config)
    before = {name: StorageWeakRef(p.untyped_storage()) for name, p in gpt.named_parameters()}
    returned = at.submission.parallelize(gpt, group, sequence_parallel=sequence_parallel)
    gc.collect()
    at.report(**held_by(gpt), is_in_place=returned is gpt, alive=[name for name, memory in before.items() if not memory.expired()])
    missing = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    parameters = {name: p for name, p in (missing | dict(gpt.named_parameters())).items() if name in shapes}
    answer = {f"w/{name}": p.detach().clone() for name, p in parameters.items()}
    for _ in range(num_backwards):
        with at.phase("forward"):
            loss = gpt(at.inputs["tokens"], at.inputs["targets"], **packed(at))
        with at.phase("backward"):
            loss.backward()
    answer |= {f"d/{name}": gradient_of(p) for name, p in parameters.items()}
    return answer | {"loss": loss.detach(), "logits": gpt(at.inputs["tokens"], **packed(at)).detach()}


def block(at: Any, *, config: dict[str, Any], num_tokens: int, sequence_parallel: bool = False) -> dict[str, torch.Tensor]:
    """One block forward and backward, with the inputs x and gradient of the shape that its stream has; and what embed returns."""
    gpt = at.submission.parallelize(GPT(GPTConfig(**config)), sequence_parallel=sequence_parallel)
    positions = torch.arange(num_tokens)
    embedded = gpt.embed(torch.zeros(len(at.inputs["x"]), num_tokens, dtype=torch.int64), positions)
    x = at.inputs["x"].clone().requires_grad_()
    with at.phase("block forward"):
        y = gpt.blocks[0](x, gpt.angles(positions))
    with at.phase("block backward"):
        incoming = at.inputs["gradient"]
        y.backward(incoming if y.shape == incoming.shape else torch.ones_like(y))
    at.report(embedded=list(embedded.shape), carried_on=list(y.shape), normed=list(gpt.norm(y).shape))
    return {}


def large_model(at: Any, *, config: dict[str, Any], num_tokens: int, sequence_parallel: bool = False) -> dict[str, torch.Tensor]:
    """A step of a model with a large vocabulary and equal weights, so that its loss is that of a guess."""
    gpt = GPT(GPTConfig(**config))
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.fill_(0.01)
    gpt = at.submission.parallelize(gpt, sequence_parallel=sequence_parallel)
    tokens = torch.arange(num_tokens)[None] * 17 % config["vocab_size"]
    loss = gpt(tokens, tokens)
    loss.backward()
    return {"loss": loss.detach()}


def clip(
    at: Any, *, max_norm: float, cut: list[str], missing: list[str], groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """clip_grad_norm_ of parameters with the inputs as gradients, those in `cut` marked as parts; the norm, and the gradients after."""
    group = group_of(at, groups)
    parameters = {}
    for name, gradient in at.inputs.items():
        parameters[name] = parameter = nn.Parameter(torch.ones_like(gradient))
        parameter.grad = None if name in missing else gradient.clone()
        if name in cut or len(parameters) % 2:
            parameter.is_cut = name in cut
    given = {name: p.grad.data_ptr() for name, p in parameters.items() if p.grad is not None}
    norm = at.submission.clip_grad_norm_(iter(parameters.values()), max_norm, group)
    replaced = [name for name, place in given.items() if parameters[name].grad is None or parameters[name].grad.data_ptr() != place]
    at.report(appeared=[name for name in missing if parameters[name].grad is not None], replaced=replaced)
    return {"norm": norm.detach()} | {name: gradient_of(p) for name, p in parameters.items() if name not in missing}
