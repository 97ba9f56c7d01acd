"""Checkpoints amid random numbers, under autocast, and without gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .surroundings import gradient, run

NOISES: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "normal": lambda x: x * (2 + torch.randn_like(x)),
    "uniform": lambda x: x * (0.5 + torch.rand(x.shape, dtype=x.dtype, device=x.device)),
}


def noisy(at: Any, *, noise: str, in_between: str, way: str = "checkpoint", save: list[str] | None = None) -> dict[str, Tensor]:
    """noise(x w), plain and checkpointed: outputs tell which noise forward drew, the gradients which the recomputation drew.

    Also the next random numbers: after a plain call and after the checkpointed one, and before and after backward.
    """
    x, w = (at.inputs[name].requires_grad_() for name in ("x", "w"))

    def function(x: Tensor, w: Tensor) -> Tensor:
        return NOISES[noise](x @ w)

    with torch.no_grad():
        begin(at.seed)
        y_plain = function(x, w)
    after_plain = peek(at)
    begin(at.seed)
    y = run(at, way, function, x, w, save=save)
    after_forward = peek(at)
    if in_between == "draw":
        run(at, way, function, x, w, save=save)  # whose backward never comes
    elif in_between == "seed":
        torch.manual_seed(int(at.inputs["seed"]))
    before_backward = peek(at)
    y.backward(at.inputs["dy"])
    return {"y_plain": y_plain, "y": y, "dx": gradient(x, "x"), "dw": gradient(w, "w"), "after_plain": after_plain,
            "after_forward": after_forward, "before_backward": before_backward, "after_backward": peek(at)}  # fmt: skip


def begin(seed: int) -> None:
    """A generator in the midst of its numbers: no seed alone brings its state back."""
    torch.manual_seed(seed % 2**31)
    torch.rand(23)


def peek(at: Any) -> Tensor:
    """The next random numbers of the device, without drawing them."""
    generator = torch.cuda if at.device.type == "cuda" else torch.random
    state = generator.get_rng_state()
    numbers = torch.rand(4, dtype=torch.float64, device=at.device)
    generator.set_rng_state(state)
    return numbers


def autocasted(at: Any, *, forward: str, backward: str) -> dict[str, Tensor]:
    """x w checkpointed, with forward and backward each under the autocast of a dtype, or "off" or under none: dtypes inside, gradients."""
    x, w = (at.inputs[name].requires_grad_() for name in ("x", "w"))
    inside: list[str] = []

    def function(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        inside.append(str(y.dtype).removeprefix("torch."))
        return y

    with cast(at, forward):
        y = at.submission.checkpoint(function, x, w)
    with cast(at, backward):
        y.backward(at.inputs["dy"].to(y.dtype))
    at.report(inside=inside)
    return {"dx": gradient(x, "x"), "dw": gradient(w, "w")}


def cast(at: Any, kind: str) -> Any:
    """An autocast for the device by the name of its dtype; "none" is no context at all."""
    return nullcontext() if kind == "none" else torch.autocast(at.device.type, dtype=getattr(torch, kind))


def without_gradients(at: Any, *, way: str = "checkpoint", save: list[str] | None = None) -> dict[str, Tensor]:
    """A checkpoint under no_grad, of keyword arguments too: how often the function was called, and whether its output requires grad."""
    x, calls = at.inputs["x"].requires_grad_(), []

    def function(x: Tensor, *, times: Tensor | None = None, power: int = 1) -> Tensor:
        calls.append(torch.is_grad_enabled())
        return torch.sin(x) ** power * (1 if times is None else times)

    with torch.no_grad():
        y = run(at, way, function, x, save=save, times=at.inputs["times"], power=2)
    at.report(num_calls=len(calls), requires_grad=y.requires_grad)
    return {"y": y}
