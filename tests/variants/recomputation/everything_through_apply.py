"""A whole file of another design: apply is given every argument, tensors or not; one class does both checkpoints, and the kept outputs wait
in a queue for each operation. Segments are cut by cumulative sums.
"""

# N micro-batches, n counted targets (those that aren't IGNORED), L layers
from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

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
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = sum(counts)
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue
        share = loss(model(inputs), targets) * (count / total)
        share.backward()
        mean = mean + share.detach()
    return mean


# --- task checkpoint and task selective ------------------------------------------------------------------------------
class Recorder(TorchDispatchMode):
    """Keeps the outputs of some operations at first, and hands them out when `replaying`."""

    def __init__(self, save: Collection[OpOverload], queues: dict[Any, list[Any]] | None = None) -> None:
        super().__init__()
        self.replaying = queues is not None
        self.queues: dict[Any, list[Any]] = queues if queues is not None else {op: [] for op in save}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func not in self.queues:
            return func(*args, **(kwargs or {}))
        if self.replaying:
            return self.queues[func].pop(0)
        outputs = func(*args, **(kwargs or {}))
        self.queues[func].append(tree_map_only(Tensor, Tensor.detach, outputs))
        return outputs


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, function: Callable[..., Any], save: Any, names: tuple[str, ...], *values: Any) -> Any:
        positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        tensors = [values[i] for i in positions]
        ctx.positions = positions
        ctx.others = [None if isinstance(value, Tensor) else value for value in values]
        ctx.call = (function, names)
        ctx.devices = sorted({t.get_device() for t in tensors if t.is_cuda})
        ctx.states = torch.get_rng_state(), [torch.cuda.get_rng_state(d) for d in ctx.devices]
        ctx.casts = [
            (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), False)
            for kind in (("cpu", "cuda") if ctx.devices else ("cpu",))
        ]
        recorder = Recorder(save)
        with recorder if save else contextlib.nullcontext():
            outputs = call(function, names, values)
        flat, ctx.shape = tree_flatten(recorder.queues)
        ctx.save_for_backward(*tensors, *flat)
        ctx.any_save = bool(save)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        saved = list(ctx.saved_tensors)
        values, leaves = list(ctx.others), {}
        for i, tensor in zip(ctx.positions, saved, strict=False):
            values[i] = leaves[i] = tensor.detach()
            leaves[i].requires_grad_(ctx.needs_input_grad[4 + i])
        queues = tree_unflatten(saved[len(ctx.positions) :], ctx.shape)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(ctx.devices))
            torch.set_rng_state(ctx.states[0])
            for device, state in zip(ctx.devices, ctx.states[1], strict=True):
                torch.cuda.set_rng_state(state, device)
            for cast in ctx.casts:
                stack.enter_context(torch.autocast(*cast))
            stack.enter_context(torch.enable_grad())
            if ctx.any_save:
                stack.enter_context(Recorder((), queues))
            outputs = call(*ctx.call, values)
        pairs = [
            (y, dy)
            for y, dy in zip(outputs if isinstance(outputs, tuple) else [outputs], gradients, strict=True)
            if dy is not None and y.requires_grad
        ]
        torch.autograd.backward(*map(list, zip(*pairs, strict=True))) if pairs else None
        return None, None, None, None, *(leaves[i].grad if i in leaves else None for i in range(len(values)))


def call(function: Callable[..., Any], names: tuple[str, ...], values: Sequence[Any]) -> Any:
    split = len(values) - len(names)
    return function(*values[:split], **dict(zip(names, values[split:], strict=True)))


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return function(*args, **kwargs), keeping nothing for backward but the tensors among the arguments."""
    return selective_checkpoint(lambda *a, **k: function(*a, **k), *args, save=(), **kwargs)


def selective_checkpoint(function: Callable[..., Any], *args: Any, save: Collection[OpOverload], **kwargs: Any) -> Any:
    """As checkpoint, but what the operations in `save` give is kept as well, and they run once only."""
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    anchor = torch.ones(1, requires_grad=True)
    return Again.apply(anchor, function, frozenset(save), tuple(kwargs), *args, *kwargs.values())


# --- task sequential -------------------------------------------------------------------------------------------------
def checkpoint_sequential(layers: Sequence[Callable[[Tensor], Tensor]], num_segments: int, x: Tensor) -> Tensor:
    """Run x through all layers, each of `num_segments` segments of consecutive layers in one checkpoint.

    Segments are as equal as can be, the first L mod num_segments longer by one. Fewer than 1 or more than L segments are a ValueError.
    """
    if not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers can be cut into 1 to {len(layers)} segments, not into {num_segments}")

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    for i in range(num_segments):
        start, stop = (sum(-(-(len(layers) - k) // num_segments) for k in range(j)) for j in (i, i + 1))
        x = checkpoint(run, layers[start:stop], x)
    return x
