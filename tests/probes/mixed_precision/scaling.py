"""The loss scaler: what is scaled, unscaled and skipped, and how the scale moves."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .masters import OPTIMIZERS, tensors_in
from .surroundings import gradient


class Stepper:
    """An optimizer that counts its steps: w -= g."""

    def __init__(self, *tensors: Tensor) -> None:
        self.param_groups = [{"params": [tensor], "lr": 1.0} for tensor in tensors]
        self.num_steps = 0
        self.gradients: list[Tensor] = []

    def step(self) -> None:
        self.num_steps += 1
        learning = [group["params"][0] for group in self.param_groups if group["params"][0].grad is not None]
        self.gradients = [tensor.grad.detach().clone() for tensor in learning]
        for tensor in learning:
            tensor.data.sub_(tensor.grad)


def scaled(at: Any, *, scale: float) -> dict[str, Tensor]:
    """scale(loss) of a loss that is a sum over x², and the gradient that its backward leaves."""
    x = at.inputs["x"].requires_grad_()
    loss = at.submission.DynamicLossScaler(init_scale=scale).scale((x**2).sum())
    loss.backward()
    return {"loss": loss.detach().double(), "dx": gradient(x, "x").double()}


def unscaled(at: Any, *, scale: float, how: str) -> dict[str, Tensor]:
    """The gradients that the optimizer steps with: unscaled by step alone, or by unscale_ before.

    "twice" is what a second unscale_ does, and "after" what one after step does.
    """
    x, y = (nn.Parameter(at.inputs[name]) for name in ("x", "y"))
    idle = nn.Parameter(torch.zeros(3))  # which the loss doesn't depend on
    scaler, optimizer = at.submission.DynamicLossScaler(init_scale=scale), Stepper(x, idle, y)
    seen = []
    for _ in range(2):
        x.grad = y.grad = None
        scaler.scale((x * at.inputs["g"]).sum() + (y * at.inputs["g"]).sum()).backward()
        if how in ("unscale", "twice"):
            before = x.grad
            scaler.unscale_(optimizer)
            at.report(in_place=x.grad is before)
        if how == "twice":
            at.report(second=raised_by(scaler.unscale_, optimizer))
        scaler.step(optimizer)
        if how == "after":
            at.report(second=raised_by(scaler.unscale_, optimizer))
        scaler.update()
        seen.append(torch.stack(optimizer.gradients).double())
    at.report(num_steps=optimizer.num_steps, scale_is=type(scaler.get_scale()).__name__)
    return {"gradients": torch.stack(seen)}


def raised_by(call: Callable[..., Any], *args: Any) -> str:
    """The class of what call(*args) raises, or "nothing"."""
    try:
        call(*args)
    except Exception as raised:
        return type(raised).__name__
    return "nothing"


def overflown(at: Any, *, where: int, what: str, masters: bool, unscale_first: bool) -> dict[str, Tensor]:
    """A good step, one with a non-finite gradient in parameter `where`, and what was before and after it, as bits."""
    dtype = torch.float16 if masters else torch.float32
    weights = [nn.Parameter(row.to(dtype)) for row in at.inputs["w"]]
    optimizer = at.submission.MasterWeights(OPTIMIZERS["adamw"], weights) if masters else OPTIMIZERS["adamw"]([{"params": weights}])
    scaler = at.submission.DynamicLossScaler(init_scale=8.0)

    def one_step(bad: bool) -> bool:
        for index, (weight, row) in enumerate(zip(weights, at.inputs["g"], strict=True)):
            weight.grad = (row * 8).to(dtype)
            if bad and index == where and what == "huge":
                weight.grad.fill_(3e38)  # finite, each of them
            elif bad and index == where:
                weight.grad[-1] = float(what)
        if unscale_first:
            scaler.unscale_(optimizer)
        stepped = scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return bool(stepped)

    first = one_step(bad=False)
    before = bits(optimizer, weights)
    second = one_step(bad=True)
    after = bits(optimizer, weights)
    third = one_step(bad=False)
    at.report(stepped=[first, second, third], scale=float(scaler.get_scale()))
    return {"before": before, "after": after, "last": bits(optimizer, weights)}


def bits(optimizer: Any, weights: list[nn.Parameter]) -> Tensor:
    """Weights, masters and every number of the optimizer's state, in a row."""
    inner = optimizer.state_dict()
    numbers = [weight.detach().double().flatten() for weight in weights]
    state = {name: value for name, value in inner.items() if name != "param_groups"}
    numbers += [tensor.detach().double().flatten() for tensor in tensors_in(state)]
    for group in optimizer.param_groups:
        numbers += [parameter.detach().double().flatten() for parameter in group["params"]]
    row = torch.cat([each.cpu() for each in numbers])  # Adam counts its steps on the host
    return F.pad(row, (0, 400 - len(row)))  # one length, whatever a submission's state dict holds beside


def trajectory(at: Any, *, settings: dict[str, Any], resume_at: int, calls_unscale: bool) -> dict[str, Tensor]:
    """The scale after each update, for the overflows in "pattern" (1: a gradient is infinite); saved and reloaded before step resume_at."""
    make = at.submission.DynamicLossScaler
    scaler, weight = make(**settings), nn.Parameter(torch.zeros(3))
    optimizer, scales, stepped = Stepper(weight), [float(scaler.get_scale())], []
    for index, bad in enumerate(at.inputs["pattern"].tolist()):
        if index == resume_at:
            state, file = scaler.state_dict(), io.BytesIO()
            weight.grad = torch.full((3,), float("inf"))
            scaler.step(optimizer)
            scaler.update()  # what was saved must not change with this
            torch.save(state, file)
            file.seek(0)
            scaler = make(init_scale=3.0, growth_factor=5.0, backoff_factor=0.1, growth_interval=1)
            scaler.load_state_dict(torch.load(file, weights_only=False))
        weight.grad = torch.tensor([0.0, float("inf") if bad else 1.0, 0.0])
        if calls_unscale:
            scaler.unscale_(optimizer)
        stepped.append(bool(scaler.step(optimizer)))
        scaler.update()
        scales.append(float(scaler.get_scale()))
    at.report(stepped=stepped)
    return {"scales": torch.tensor(scales, dtype=torch.float64)}


def tiny_gradients(at: Any, *, scale: float) -> dict[str, Tensor]:
    """fp16 parameters with masters, and gradients below fp16's smallest number: what the optimizer is given."""
    weight = nn.Parameter(at.inputs["w"].half())
    given: list[Tensor] = []

    class Recorder(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            given.append(self.param_groups[0]["params"][0].grad.detach().double())

    optimizer = at.submission.MasterWeights(lambda groups: Recorder(groups, lr=1.0), [weight])
    scaler = at.submission.DynamicLossScaler(init_scale=scale)
    # Products in float32, so that it is the gradient of the fp16 weight that has to hold the small numbers.
    scaler.scale((weight.float() * at.inputs["g"]).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return {"given": given[0]}
