"""Checkpointed functions: their arguments, outputs and gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .surroundings import free_at_once, gradient, run


def chain(at: Any, *, nested: bool = False, in_between: str = "nothing") -> dict[str, Tensor]:
    """tanh(x w) v checkpointed; v is the function's own parameter. `nested`: tanh(x w) has a checkpoint of its own."""
    x, w, v = (at.inputs[name].requires_grad_() for name in ("x", "w", "v"))
    num_calls = 0

    def inner(x: Tensor, w: Tensor) -> Tensor:
        nonlocal num_calls
        num_calls += 1
        return torch.tanh(x @ w)

    def function(x: Tensor, w: Tensor) -> Tensor:
        return (at.submission.checkpoint(inner, x, w) if nested else inner(x, w)) @ v

    y = at.submission.checkpoint(function, x, w)
    if in_between == "overwrite":
        with torch.no_grad():
            x.add_(1.0)
        return overwritten(at, y)
    num_in_forward = num_calls
    y.backward(at.inputs["dy"])
    at.report(calls=[num_in_forward, num_calls])
    return {"y": y, "dx": gradient(x, "x"), "dw": gradient(w, "w"), "dv": gradient(v, "v, a parameter of the function")}


def given_twice(at: Any) -> dict[str, Tensor]:
    """tanh(a) sin(b) checkpointed, where both are x."""
    x = at.inputs["x"].requires_grad_()
    y = at.submission.checkpoint(lambda a, b: torch.tanh(a) * torch.sin(b), x, x)
    y.backward(at.inputs["dy"])
    return {"y": y, "dx": gradient(x, "x")}


def overwritten(at: Any, y: Tensor) -> dict[str, Tensor]:
    """What backward does after an input was changed in place: the exception's type, or "nothing"."""
    try:
        y.backward(at.inputs["dy"])
        at.report(raised="nothing")
    except RuntimeError as raised:
        at.report(raised=type(raised).__name__)
    return {}


def several_outputs(at: Any, *, used: list[int], way: str = "checkpoint", save: list[str] | None = None) -> dict[str, Tensor]:
    """(x w, sin x, cos x without a graph, argmax of x, √0) checkpointed, of which those in `used` go on; how often the function ran."""
    x, w = (at.inputs[name].requires_grad_() for name in ("x", "w"))
    num_calls = 0

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        nonlocal num_calls
        num_calls += 1
        return x @ w, torch.sin(x), torch.cos(x.detach()), x.argmax(-1), torch.sqrt(x * 0.0)

    outputs = run(at, way, function, x, w, save=save)
    if not isinstance(outputs, tuple):
        raise TypeError(f"the function returned a tuple of 5 tensors, the checkpoint {type(outputs).__name__}")
    alone = run(at, way, lambda x: (torch.sin(x),), x, save=save)
    if not isinstance(alone, tuple):
        raise TypeError(f"the function returned a tuple of 1 tensor, the checkpoint {type(alone).__name__}")
    num_in_forward = num_calls
    total = sum((outputs[index] * at.inputs[f"dy{index}"]).sum() for index in used)
    if total.requires_grad:  # open where no used output has a graph
        total.backward()
    at.report(calls=[num_in_forward, num_calls])
    names = ("product", "sine", "cosine", "largest")
    made = {name: output.detach() for name, output in zip(names, outputs[:4], strict=True)}
    # An input that no used output depends on may have no gradient, or zeros.
    grads = {f"d{name}": torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in (("x", x), ("w", w))}
    return made | grads


def many_arguments(at: Any, *, way: str = "checkpoint", save: list[str] | None = None) -> dict[str, Tensor]:
    """A function of None, False, a number, a string, integers and tensors by position and by keyword; one has a graph of its own."""
    x, scale, table = at.inputs["x"].requires_grad_(), at.inputs["scale"].requires_grad_(), at.inputs["table"]

    def function(
        nothing: None, x: Tensor, factor: float, rows: Tensor, causal: bool, *, kind: str, scale: Tensor, table: Tensor, mask: None = None
    ) -> Tensor:
        assert nothing is None and mask is None and causal is False
        return {"sine": torch.sin, "cosine": torch.cos}[kind](x) * scale + factor * table[rows] * x

    squared = scale * scale
    keywords = {"kind": "sine", "scale": squared, "table": table, "mask": None}
    y = run(at, way, function, None, x, 1.5, at.inputs["rows"], False, save=save, **keywords)
    # Used outside as well: whoever runs backward through its graph from inside the checkpoint has used that graph up.
    ((y * at.inputs["dy"]).sum() + squared.sum()).backward()
    at.report(table_has_gradient=table.grad is not None)
    return {"y": y, "dx": gradient(x, "x"), "dscale": gradient(scale, "the keyword argument scale")}


def token_inputs(at: Any, *, arguments: int = 1) -> dict[str, Tensor]:
    """Rows of a table, times a matrix: both are the function's own parameters, and its only argument is token numbers, or it has none."""
    table, v = at.inputs["table"].requires_grad_(), at.inputs["v"].requires_grad_()
    rows = at.inputs["rows"]
    y = at.submission.checkpoint(lambda rows=rows: table[rows] @ v, *[rows][:arguments])
    if not y.requires_grad:
        raise RuntimeError("the output does not require grad, although the function's parameters do: backward would not reach them")
    y.backward(at.inputs["dy"])
    return {"y": y, "dtable": gradient(table, "the table"), "dv": gradient(v, "v")}


def checkpointed_large(at: Any, *, num_functions: int, depth: int, repeat: int) -> dict[str, Tensor]:
    """A chain of checkpoints, each of `depth` sines on `repeat` times the pattern "x"."""
    free_at_once()
    scale = at.inputs["scale"].requires_grad_()

    def function(h: Tensor) -> Tensor:
        for _ in range(depth):
            h = torch.sin(h)
        return h

    h = at.inputs["x"].repeat(repeat) * scale
    for _ in range(num_functions):
        h = at.submission.checkpoint(function, h)
    h.mean().backward()
    return {"scale.grad": scale.grad}
