"""Gradients accumulated over micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .surroundings import free_at_once


def accumulated(at: Any, *, rows: list[int], loss: str, with_gradients: bool) -> dict[str, Tensor]:
    """accumulate_gradients of tanh(x A) B on micro-batches of so many rows; the gradients, and the loss that it returned."""
    first, second = (nn.Parameter(at.inputs[name]) for name in ("A", "B"))
    if with_gradients:
        first.grad, second.grad = at.inputs["A.grad"].clone(), at.inputs["B.grad"].clone()
    targets = at.inputs["targets"].T.contiguous().T  # as of a loader that puts tokens first
    micro_batches = list(zip(at.inputs["x"].split(rows), targets.split(rows), strict=True))
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(len(x))
        return torch.tanh(x @ first) @ second

    # A model may be any callable; as a module it could be told to zero its gradients, so those that are there are met as a module's.
    # Of its parameters one is frozen and one isn't used.
    frozen, idle = nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(torch.ones(2))
    model = Module(function, first, frozen, idle, second) if with_gradients else function
    mean = at.submission.accumulate_gradients(model, micro_batches, LOSSES[loss])
    is_tensor = isinstance(mean, Tensor)
    at.report(calls=calls, is_tensor=is_tensor, is_scalar=is_tensor and mean.ndim == 0, requires_grad=is_tensor and mean.requires_grad)
    gradients = {f"{name}.grad": leaf.new_zeros(()).expand_as(leaf) if leaf.grad is None else leaf.grad
                 for name, leaf in (("A", first), ("B", second))}  # fmt: skip
    return gradients | {"mean": torch.as_tensor(mean).detach().double().reshape(())}


class Module(nn.Module):
    """A function and its parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor], *parameters: nn.Parameter) -> None:
        super().__init__()
        self.function, self.weights = function, nn.ParameterList(parameters)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over the targets that aren't -100."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def squared(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance from the one-hot target, over the targets that aren't -100; without any, its gradients are NaN too."""
    counted = targets != -100
    distances = ((logits - F.one_hot(targets.clamp(min=0), logits.shape[-1])) ** 2).sum(-1)
    return (distances * counted).sum() / counted.sum()


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance of all outputs from a target that is a number, over the targets that aren't -100."""
    counted = targets != -100
    return ((outputs - targets.unsqueeze(-1)) ** 2).sum(-1)[counted].mean()


LOSSES = {"cross_entropy": cross_entropy, "squared": squared, "distance": distance}


def accumulated_large(at: Any, *, depth: int, repeat: int) -> dict[str, Tensor]:
    """accumulate_gradients where each micro-batch keeps `depth` tensors of `repeat` times the pattern "x"."""
    free_at_once()
    scale = at.inputs["scale"].requires_grad_()
    micro_batches = [(row, torch.zeros(1, dtype=torch.long)) for row in at.inputs["x"]]

    def model(pattern: Tensor) -> Tensor:
        h = pattern.repeat(repeat) * scale
        for _ in range(depth):
            h = torch.sin(h)
        return h

    at.submission.accumulate_gradients(model, micro_batches, lambda h, _: h.mean())
    return {"scale.grad": scale.grad}


def trained(at: Any, *, rows: list[int], num_steps: int, learning_rate: float) -> dict[str, Tensor]:
    """A small GPT trained by SGD in float64, on accumulated gradients and on the whole batch: losses and final weights of both."""
    from lm.gpt import GPT, GPTConfig

    config = GPTConfig(vocab_size=13, max_tokens=8, num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=2, mlp_size=24)
    answer = {}
    for name in ("accumulated", "whole"):
        torch.manual_seed(at.seed % 2**31)
        model = GPT(config).double()
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=learning_rate), []
        for tokens, targets in zip(at.inputs["tokens"][:num_steps], at.inputs["targets"][:num_steps], strict=True):
            optimizer.zero_grad()
            if name == "whole":
                loss = cross_entropy(model(tokens), targets)
                loss.backward()
            else:
                micro_batches = list(zip(tokens.split(rows), targets.split(rows), strict=True))
                loss = at.submission.accumulate_gradients(model, micro_batches, cross_entropy)
            optimizer.step()
            losses.append(float(loss.detach()))
        answer[f"{name}.losses"] = torch.tensor(losses, dtype=torch.float64)
        answer[f"{name}.weights"] = torch.cat([p.detach().flatten() for p in model.parameters()])
    return answer
