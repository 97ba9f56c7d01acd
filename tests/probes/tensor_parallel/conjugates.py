"""The functions whose backward is another's forward."""

from __future__ import annotations

from typing import Any

import torch

from .surroundings import gradient_of, group_of


def view(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """`memory` as it lies, or with its first and last dims swapped."""
    return memory.transpose(0, -1) if layout == "transposed" else memory


def functions(
    at: Any, *, names: list[str], layout: str = "plain", groups: list[list[int]] | None = None, dim: int | None = None
) -> dict[str, torch.Tensor]:
    """Each function forward and backward, inputs x/<name> and gradient/<name>; y, dx, and the inputs afterwards."""
    group = group_of(at, groups)
    answer: dict[str, torch.Tensor] = {}
    for name in names:
        memory, incoming = at.inputs[f"x/{name}"], view(at.inputs[f"gradient/{name}"], layout)
        x = view(memory, layout).detach().requires_grad_()
        options = {} if dim is None or not name.endswith("sequence") else {"dim": dim}
        with at.phase(f"{name} forward"):
            y = getattr(at.submission, name)(x, group, **options)
        with at.phase(f"{name} backward"):
            y.backward(incoming)
        answer |= {f"y/{name}": y.detach(), f"dx/{name}": gradient_of(x)}
        answer |= {f"x after/{name}": x.detach(), f"gradient after/{name}": incoming}
    return answer


def nested(at: Any, *, name: str) -> dict[str, torch.Tensor]:
    """Two calls of a sequence function, along dim 0 and dim 1, before the backward of either; the gradients of their inputs."""
    inputs = [at.inputs[f"x{dim}"].clone().requires_grad_() for dim in (0, 1)]
    outputs = [getattr(at.submission, name)(x, None, dim) for dim, x in enumerate(inputs)]
    for dim, y in enumerate(outputs):
        y.backward(at.inputs[f"gradient{dim}"])
    return {f"dx{dim}": gradient_of(x) for dim, x in enumerate(inputs)}
