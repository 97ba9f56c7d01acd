"""The given GPT with its context cut among ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lm.gpt import GPT, GPTConfig

from .kernels import Attention, kernel_of
from .surroundings import group_of, zeros_or


def built(at: Any, config: dict[str, Any]) -> GPT:
    """The whole GPT with the inputs w/<name> as its weights."""
    gpt = GPT(GPTConfig(**config))
    parameters = dict(gpt.named_parameters())
    gpt.to(at.inputs[f"w/{next(iter(parameters))}"].dtype)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(at.inputs[f"w/{name}"])
    return gpt


def plain(at: Any, *, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The whole model on the whole sequence, on one rank; nothing of the submission is used."""
    gpt = built(at, config)
    value = gpt(at.inputs["tokens"], at.inputs["targets"])
    value.backward()
    return {f"d/{name}": zeros_or(p.grad, p) for name, p in gpt.named_parameters()} | {"loss": value.detach()}


def model(at: Any, *, config: dict[str, Any], ways: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """For each way to parallelize: the loss of the rank's shard, and all gradients after sum_gradients."""
    group, _ = group_of(at, groups)
    answer, is_in_place, num_calls = {}, [], []
    for number, way in enumerate(ways):
        gpt = built(at, config)
        attention = Attention(at)
        made = at.submission.parallelize_context(gpt, group, kernel=kernel_of(at, attention), **way)
        zigzag = {"zigzag": True} if way.get("zigzag") else {}
        part = at.submission.shard_sequence(at.inputs["tokens"], at.inputs["labels"], None, group, **zigzag)
        value = made(part.tokens, part.targets, positions_T=part.positions)
        value.backward()
        at.submission.sum_gradients(gpt.parameters(), group)
        answer |= {f"{number}/d/{name}": zeros_or(p.grad, p) for name, p in gpt.named_parameters()} | {f"{number}/loss": value.detach()}
        is_in_place.append(made is gpt)
        num_calls.append(attention.num_calls)
    at.report(is_in_place=is_in_place, num_calls=num_calls)
    return answer


def sums(
    at: Any, *, missing: list[list[str]], frozen: list[str], layout: str, groups: list[list[int]] | None = None, stale: bool = False
) -> Any:  # fmt: skip
    """sum_gradients of parameters with the inputs as gradients.

    missing: by rank, those that have none. stale: frozen ones have one, too.
    """
    group, takes_part = group_of(at, groups)
    parameters = {}
    for name, gradient in at.inputs.items():
        parameters[name] = parameter = nn.Parameter(torch.ones_like(gradient), requires_grad=name not in frozen)
        if name not in missing[at.rank] and (stale or name not in frozen):
            parameter.grad = gradient.mT.contiguous().mT if layout == "transposed" else gradient.clone()
    before = {name: p.grad for name, p in parameters.items()}
    if takes_part:
        with at.phase("sum"):
            at.submission.sum_gradients(iter(parameters.values()), group)
    moved = [name for name, p in parameters.items() if before[name] is not None and p.grad is not before[name]]
    at.report(appeared=[name for name in frozen if before[name] is None and parameters[name].grad is not None], moved=moved)
    return {name: zeros_or(p.grad, p) for name, p in parameters.items()}
