"""Less memory for more arithmetic: gradients of a large batch piece by piece, and activations made a second time instead of kept.

torch.utils.checkpoint does what this file does, and more; here it is built from an autograd function and two dispatch modes.
"""

# N micro-batches, n counted targets (those that aren't IGNORED), L layers
from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

IGNORED = -100  # a target that no loss counts: padding, a prompt


# --- task accumulate -------------------------------------------------------------------------------------------------
def accumulate_gradients(
    model: Callable[[Tensor], Tensor],
    micro_batches: Sequence[tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Add to every parameter's grad the gradient of the mean loss over all counted targets of all micro-batches; return that mean.

    micro_batches are (inputs, targets). `loss(model(inputs), targets)` is the *mean* over the targets that aren't IGNORED, and NaN where
    there is none. What is returned is detached. With no counted target anywhere nothing is added, and 0 is returned.
    """
    raise NotImplementedError("recomputation, task accumulate: see section 2 of the handout")


# --- task checkpoint -------------------------------------------------------------------------------------------------
def remember_surroundings(tensors: Sequence[Tensor]) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what makes a context in which random numbers and autocast are as they are now. Never graded by itself.

    The generators are those of the CPU and of every CUDA device that `tensors` are on. After the context they are as they were before it.
    """
    raise NotImplementedError("recomputation, task checkpoint: see section 3 of the handout")


class CheckpointFunction(torch.autograd.Function):
    """Forward without a graph; backward makes the graph, runs through it, and forgets it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], save: frozenset[OpOverload], anchor: Tensor, *tensors: Tensor) -> Any:
        """Return function(*tensors), remembering the tensors and the surroundings. autograd runs this without recording.

        save     operations whose outputs are kept as well (task selective); empty: none
        anchor   a tensor that requires grad and enters no arithmetic
        """
        raise NotImplementedError("recomputation, task checkpoint: see section 3 of the handout")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Recompute, and return the gradients of forward's arguments: None for the first three."""
        raise NotImplementedError("recomputation, task checkpoint: see section 3 of the handout")


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return function(*args, **kwargs), keeping nothing for backward but the tensors among the arguments.

    Arguments are anything; tensors stand among them by themselves, not inside lists. `function` returns a tensor or a tuple of tensors.
    Without gradients being recorded, the function is just called.
    """
    raise NotImplementedError("recomputation, task checkpoint: see section 3 of the handout")


def _checkpointed(function: Callable[..., Any], save: frozenset[OpOverload], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call CheckpointFunction with the tensors among the arguments. Never graded by itself."""
    raise NotImplementedError("recomputation, task checkpoint: see section 3 of the handout")


# --- task sequential -------------------------------------------------------------------------------------------------
def checkpoint_sequential(layers: Sequence[Callable[[Tensor], Tensor]], num_segments: int, x: Tensor) -> Tensor:
    """Run x through all layers, each of `num_segments` segments of consecutive layers in one checkpoint.

    Segments are as equal as can be, the first L mod num_segments longer by one. Fewer than 1 or more than L segments are a ValueError.
    """
    raise NotImplementedError("recomputation, task sequential: see section 4 of the handout")


# --- task selective --------------------------------------------------------------------------------------------------
class Keeper(TorchDispatchMode):
    """While it is active, the outputs of the operations in `save` are collected in `outputs`, in the order of the calls."""

    def __init__(self, save: Collection[OpOverload]) -> None:
        super().__init__()
        self.save = save
        self.outputs: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Every operation that runs below autograd comes through here; `func` is one like torch.ops.aten.mm.default."""
        raise NotImplementedError("recomputation, task selective: see section 5 of the handout")


class Replayer(TorchDispatchMode):
    """While it is active, the operations in `save` are not run: they give the next of `outputs`."""

    def __init__(self, save: Collection[OpOverload], outputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.save = save
        self.outputs = list(outputs)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """As Keeper's; autograd, which is above, records the operation whether it is run or not."""
        raise NotImplementedError("recomputation, task selective: see section 5 of the handout")


def selective_checkpoint(function: Callable[..., Any], *args: Any, save: Collection[OpOverload], **kwargs: Any) -> Any:
    """As checkpoint, but what the operations in `save` give is kept as well, and they run once only.

    save: such as {torch.ops.aten.mm.default}. They aren't random, their outputs are tensors, and nobody changes those in place.
    """
    raise NotImplementedError("recomputation, task selective: see section 5 of the handout")
