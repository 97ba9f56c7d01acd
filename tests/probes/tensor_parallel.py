"""What runs beside a submission to `tensor_parallel`: it drives functions, layers and models and reports what they did. No opinions."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def group_of(at: Any, members: list[int] | None) -> tuple[Any, bool]:
    """The default group (as None), or a group of `members`; and whether this rank belongs to it."""
    if members is None:
        return None, True
    return dist.new_group(members), at.rank in members


def view(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """`memory` as it lies, or with its first and last dims swapped."""
    return memory.transpose(0, -1) if layout == "transposed" else memory


# --- functions -------------------------------------------------------------------------------------------------------
def functions(
    at: Any, *, names: list[str], layout: str = "plain", members: list[int] | None = None, dim: int | None = None
) -> dict[str, torch.Tensor]:
    """Each function forward and backward, inputs x/<name> and gradient/<name>; y, dx, and the inputs afterwards (zeros outside the group)."""
    group, takes_part = group_of(at, members)
    answer: dict[str, torch.Tensor] = {}
    for name in names:
        memory, incoming = at.inputs[f"x/{name}"], view(at.inputs[f"gradient/{name}"], layout)
        x = view(memory, layout).detach().requires_grad_()
        options = {} if dim is None or not name.endswith("sequence") else {"dim": dim}
        if takes_part:
            with at.phase(f"{name} forward"):
                y = getattr(at.submission, name)(x, group, **options)
            with at.phase(f"{name} backward"):
                y.backward(incoming)
            answer |= {f"y/{name}": y.detach(), f"dx/{name}": x.grad}
        else:
            answer |= {f"y/{name}": torch.zeros_like(incoming), f"dx/{name}": torch.zeros_like(x)}
        answer |= {f"x after/{name}": x.detach(), f"gradient after/{name}": incoming}
    return answer
