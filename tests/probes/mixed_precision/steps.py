"""Whole training steps: a linear model's and a GPT's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from .surroundings import cross_entropy, small_gpt


def squared(predicted: Tensor, wanted: Tensor) -> Tensor:
    """The sum of squared errors."""
    return ((predicted - wanted) ** 2).sum()


class GradientsSeen(torch.optim.SGD):
    """SGD that keeps what gradients it was given."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr)
        self.given: list[Tensor] = []

    def step(self, closure: Any = None) -> None:
        self.given = [p.grad.detach().double().clone() for group in self.param_groups for p in group["params"]]
        super().step()


def clipped(at: Any, *, max_norm: float | None, scale: float | None, masters: bool) -> dict[str, Tensor]:
    """One step of a linear model in float32 or with bf16 masters: the gradient that the optimizer was given, the report.

    max_norm: None leaves it out.
    """
    dtype = torch.bfloat16 if masters else torch.float32
    # Two groups, one of a vector: the norm is that of all parameters.
    upper, lower = (nn.Parameter(part) for part in (at.inputs["w"][:3].to(dtype), at.inputs["w"][3:].to(dtype).flatten()))
    groups = [{"params": [upper]}, {"params": [lower]}]
    made: list[GradientsSeen] = []

    def make(groups: Any) -> GradientsSeen:
        made.append(GradientsSeen(groups, lr=0.1))
        return made[0]

    optimizer = at.submission.MasterWeights(make, groups) if masters else make(groups)
    scaler = None if scale is None else at.submission.DynamicLossScaler(init_scale=scale)

    def predict(x: Tensor) -> Tensor:
        return x @ torch.cat([upper, lower.view(2, 3)]).float()

    clipping = {} if max_norm is None else {"max_norm": max_norm}
    report = at.submission.train_step(predict, optimizer, at.inputs["x"], at.inputs["y"], squared, scaler=scaler, **clipping)
    at.report(stepped=bool(report.stepped), gradient_left=any(weight.grad is not None for weight in (upper, lower)))
    at.report(figures_are=[type(figure).__name__ for figure in (report.loss, report.gradient_norm)])
    figures = torch.tensor([report.loss, report.gradient_norm], dtype=torch.float64)
    whole = [torch.cat([each.flatten() for each in parts]).view(5, 3) for parts in (made[0].given, (upper, lower))]
    return {"given": whole[0], "figures": figures, "w": whole[1].detach().double()}


def step_gradients(at: Any, *, policy: str, scale: float | None) -> dict[str, Tensor]:
    """The gradients of one step of a GPT: through the submission, with torch's autocast, and in float64; flat."""
    dtype, tokens, targets = getattr(torch, policy), at.inputs["tokens"], at.inputs["targets"]
    model = small_gpt(at)
    made: list[str] = []
    model.head.register_forward_hook(lambda _module, _inputs, logits: made.append(str(logits.dtype).removeprefix("torch.")))
    optimizer = GradientsSeen(model.parameters(), lr=0.1)
    scaler = None if scale is None else at.submission.DynamicLossScaler(init_scale=scale)
    products: list[str] = []

    def watched(logits: Tensor, targets: Tensor) -> Tensor:
        products.append(str((at.inputs["one"] @ at.inputs["one"]).dtype).removeprefix("torch."))
        return cross_entropy(logits, targets)

    at.submission.train_step(model, optimizer, tokens, targets, watched, policy=at.submission.CastPolicy(dtype), scaler=scaler)
    answer = {"ours": torch.cat([each.flatten() for each in optimizer.given])}
    autocast = torch.autocast(at.device.type, dtype=dtype)
    for name, kind, surroundings in (("plain", torch.float32, autocast), ("exact", torch.float64, nullcontext())):
        answer[name] = plain_gradients(small_gpt(at, torch.float32).to(kind), tokens, targets, surroundings, scale or 1.0)
    at.report(sizes=[p.numel() for p in model.parameters()], logits=made, products=products)
    return answer


def plain_gradients(model: Any, tokens: Tensor, targets: Tensor, surroundings: AbstractContextManager[Any], scale: float) -> Tensor:
    """The gradients of a GPT's loss, flat, computed without the submission."""
    with surroundings:
        loss = cross_entropy(model(tokens), targets)
    (loss * scale).backward()
    return torch.cat([p.grad.double().flatten() / scale for p in model.parameters()])


def curves(at: Any, *, way: str, num_steps: int, learning_rate: float) -> dict[str, Tensor]:
    """A GPT's losses over some steps of SGD: in float32 without the submission, and by its train_step."""
    losses: dict[str, list[float]] = {"plain": [], "ours": []}
    model = small_gpt(at)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for tokens, targets in zip(at.inputs["tokens"], at.inputs["targets"], strict=True):
        loss = cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses["plain"].append(float(loss.detach()))
    make = at.submission
    dtype = torch.float16 if "fp16" in way else torch.bfloat16
    scaler = make.DynamicLossScaler(init_scale=1024.0) if "fp16" in way else None
    model = small_gpt(at, dtype if "masters" in way else torch.float32)
    groups = [{"params": list(model.parameters())}]
    sgd: Callable[[Any], torch.optim.Optimizer] = lambda given: torch.optim.SGD(given, lr=learning_rate)  # noqa: E731
    optimizer = make.MasterWeights(sgd, groups) if "masters" in way else sgd(groups)
    policy = make.CastPolicy(dtype)
    for tokens, targets in zip(at.inputs["tokens"][:num_steps], at.inputs["targets"][:num_steps], strict=True):
        report = make.train_step(model, optimizer, tokens, targets, cross_entropy, policy=policy, scaler=scaler)
        losses["ours"].append(float(report.loss))
    return {name: torch.tensor(each, dtype=torch.float64) for name, each in losses.items()}


def step_that_diverges(at: Any) -> None:
    """A step of a linear model whose loss is infinite, without a scaler: the report, and whether the weights are finite after it."""
    weight = nn.Parameter(at.inputs["w"])
    optimizer = torch.optim.SGD([weight], lr=0.01)
    report = at.submission.train_step(lambda x: x @ weight * float("inf"), optimizer, at.inputs["x"], at.inputs["y"], squared)
    at.report(stepped=bool(report.stepped), is_finite=bool(weight.isfinite().all()))


def overflowing_step(at: Any) -> dict[str, Tensor]:
    """Three steps of a linear model, the second with a loss whose gradient overflows: reports, weights and scales after each."""
    weight = nn.Parameter(at.inputs["w"])
    optimizer, scaler = torch.optim.SGD([weight], lr=0.01), at.submission.DynamicLossScaler(init_scale=64.0)
    weights, stepped, scales = [weight.detach().clone().double()], [], []
    for factor in (1.0, float("inf"), 1.0):
        report = at.submission.train_step(
            lambda x, factor=factor: x @ weight * factor, optimizer, at.inputs["x"], at.inputs["y"], squared, scaler=scaler
        )
        weights.append(weight.detach().clone().double())
        stepped.append(bool(report.stepped))
        scales.append(float(scaler.get_scale()))
    at.report(stepped=stepped, gradient_left=weight.grad is not None)
    return {"weights": torch.stack(weights), "scales": torch.tensor(scales, dtype=torch.float64)}
