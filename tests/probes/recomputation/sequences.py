"""Sequences of layers, checkpointed by segments."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .keeping import Ledger
from .surroundings import free_at_once, gradient


def sequence(at: Any, *, num_segments: int) -> dict[str, Tensor]:
    """checkpoint_sequential of layers h -> tanh(h w_l): output, gradients, and the layers in the order in which they ran."""
    x, matrices = at.inputs["x"].requires_grad_(), [matrix.requires_grad_() for matrix in at.inputs["w"].unbind()]
    order: list[int] = []

    def layer(index: int) -> Callable[[Tensor], Tensor]:
        def forward(h: Tensor) -> Tensor:
            order.append(index)
            return torch.tanh(h @ matrices[index])

        return forward

    y = at.submission.checkpoint_sequential([layer(index) for index in range(len(matrices))], num_segments, x)
    num_in_forward = len(order)
    y.backward(at.inputs["dy"])
    at.report(order=order, num_in_forward=num_in_forward)
    return {"y": y, "dx": gradient(x, "x"), "dw": torch.stack([gradient(matrix, "a layer's matrix") for matrix in matrices])}


def peaks(at: Any, *, shapes: list[list[int]]) -> None:
    """What is held after forward and at most, in tensors of x's size, for each (layers, segments); and by kind after each change."""
    held, courses = [], []
    for num_layers, num_segments in shapes:
        x = at.inputs["x"].detach().requires_grad_()
        ledger = Ledger()
        with ledger.open():
            y = at.submission.checkpoint_sequential([torch.sin] * num_layers, num_segments, x)
            gc.collect()
            after_forward = ledger.held_bytes()
            ledger.is_backward = True
            y.backward(torch.ones_like(y))
        unit = x.untyped_storage().nbytes()
        held.append([after_forward / unit, ledger.most_bytes / unit])
        courses.append([[first / unit, second / unit] for first, second in ledger.course])
    at.report(held=held, courses=courses)


def sequence_large(at: Any, *, num_layers: int, num_segments: int, repeat: int) -> dict[str, Tensor]:
    """checkpoint_sequential of sines on `repeat` times the pattern "x"."""
    free_at_once()
    scale = at.inputs["scale"].requires_grad_()
    h = at.inputs["x"].repeat(repeat) * scale
    at.submission.checkpoint_sequential([torch.sin] * num_layers, num_segments, h).mean().backward()
    return {"scale.grad": scale.grad}


def impossible_segments(at: Any, *, num_layers: int, num_segments: list[int]) -> None:
    """What checkpoint_sequential does with these numbers of segments, with a graph or without: the exception's type, or "nothing"."""
    outcomes = []
    for count, is_recording in itertools.product(num_segments, (True, False)):
        try:
            with torch.set_grad_enabled(is_recording):
                at.submission.checkpoint_sequential([torch.sin] * num_layers, count, torch.ones(2, requires_grad=True))
            outcomes.append("nothing")
        except NotImplementedError:
            raise
        except Exception as raised:
            outcomes.append(type(raised).__name__)
    at.report(outcomes=outcomes)
