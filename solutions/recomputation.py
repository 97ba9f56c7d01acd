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
    # region solution accumulate_gradients
    # All that matters is in the weights: the whole batch's mean is the sum of n_i / n times each micro-batch's mean. So n must be
    # known before the first backward, and dividing by the number of micro-batches is right only where all n_i are equal.
    counts = [int((targets != IGNORED).sum()) for _, targets in micro_batches]
    total = max(1, sum(counts))
    mean = torch.zeros(())
    for (inputs, targets), count in zip(micro_batches, counts, strict=True):
        if count == 0:
            continue  # its mean is 0/0, and NaN times a weight of 0 is NaN
        share = loss(model(inputs), targets) * (count / total)
        # Backward now and not after the loop: it frees this micro-batch's graph before the next one is built, and adds to .grad.
        share.backward()
        mean = mean.to(share) + share.detach()
    return mean
    # endregion


# --- task checkpoint -------------------------------------------------------------------------------------------------
def remember_surroundings(tensors: Sequence[Tensor]) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what makes a context in which random numbers and autocast are as they are now. Never graded by itself.

    The generators are those of the CPU and of every CUDA device that `tensors` are on. After the context they are as they were before it.
    """
    # region solution remember_surroundings
    devices = sorted({tensor.device.index for tensor in tensors if tensor.device.type == "cuda"})
    cpu_state, cuda_states = torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in devices]
    kinds = ["cpu", "cuda"] if devices else ["cpu"]
    settings = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
    cache_enabled = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def again() -> Iterator[None]:
        # fork_rng puts the generators back afterwards: a backward pass must not change which numbers the next step draws.
        with torch.random.fork_rng(devices), contextlib.ExitStack() as stack:
            torch.set_rng_state(cpu_state)
            for device, state in zip(devices, cuda_states, strict=True):
                torch.cuda.set_rng_state(state, device)
            # Also where it was off: backward may be called inside somebody's autocast.
            for kind, enabled, dtype in settings:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled))
            yield

    return again
    # endregion


class CheckpointFunction(torch.autograd.Function):
    """Forward without a graph; backward makes the graph, runs through it, and forgets it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], save: frozenset[OpOverload], anchor: Tensor, *tensors: Tensor) -> Any:
        """Return function(*tensors), remembering the tensors and the surroundings. autograd runs this without recording.

        save     operations whose outputs are kept as well (task selective); empty: none
        anchor   a tensor that requires grad and enters no arithmetic
        """
        # region solution checkpoint_forward
        ctx.set_materialize_grads(False)  # what isn't used: None, not zeros, which an infinite slope would make NaN
        ctx.function, ctx.save, ctx.num_tensors = function, save, len(tensors)
        ctx.surroundings = remember_surroundings(tensors)
        keeper = Keeper(save)
        with keeper if save else contextlib.nullcontext():
            outputs = function(*tensors)
        # Not `ctx.tensors = tensors`: save_for_backward notices when somebody changes one of them in place before backward, frees
        # them when backward is done, and lets hooks (offloading, counting) see them. Outputs are not saved: they are for others to keep.
        ctx.save_for_backward(*tensors, *keeper.outputs)
        return outputs
        # endregion

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        """Recompute, and return the gradients of forward's arguments: None for the first three."""
        # region solution checkpoint_backward
        saved = ctx.saved_tensors
        tensors, kept = saved[: ctx.num_tensors], list(saved[ctx.num_tensors :])
        # Leaves of a graph of their own, so that the inner backward ends here and not in the caller's graph.
        leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        # autograd runs backward without recording; this time we want the graph.
        with torch.enable_grad(), ctx.surroundings(), Replayer(ctx.save, kept) if ctx.save else contextlib.nullcontext():
            outputs = ctx.function(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        # An output that nobody used has no gradient, and one of integers never has.
        used = [(o, g) for o, g in zip(outputs, gradients, strict=True) if g is not None and isinstance(o, Tensor) and o.requires_grad]
        if used:
            # Parameters that the function closes over get their gradients here, added to .grad; the leaves' are handed back.
            torch.autograd.backward(*zip(*used, strict=True))
        return None, None, None, *(leaf.grad for leaf in leaves)
        # endregion


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return function(*args, **kwargs), keeping nothing for backward but the tensors among the arguments.

    Arguments are anything; tensors stand among them by themselves, not inside lists. `function` returns a tensor or a tuple of tensors.
    Without gradients being recorded, the function is just called.
    """
    # region solution checkpoint
    return _checkpointed(function, frozenset(), args, kwargs)
    # endregion


def _checkpointed(function: Callable[..., Any], save: frozenset[OpOverload], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call CheckpointFunction with the tensors among the arguments. Never graded by itself."""
    # region solution split_arguments
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    # autograd sees only tensors that are arguments of apply themselves: so they are taken out of args and kwargs, and put back inside.
    is_tensor = [isinstance(arg, Tensor) for arg in args]
    names = [name for name, value in kwargs.items() if isinstance(value, Tensor)]
    tensors = [arg for arg, taken in zip(args, is_tensor, strict=True) if taken] + [kwargs[name] for name in names]
    rest = tuple(None if taken else arg for arg, taken in zip(args, is_tensor, strict=True))  # keeps no tensor alive
    other_kwargs = {name: value for name, value in kwargs.items() if name not in names}

    def call(*given: Tensor) -> Any:
        left = iter(given)
        put_back = [next(left) if taken else arg for arg, taken in zip(rest, is_tensor, strict=True)]
        return function(*put_back, **other_kwargs, **dict(zip(names, left, strict=True)))

    # An autograd function is recorded only if one of its inputs requires grad; token numbers don't, the parameters inside do.
    anchor = torch.zeros((), requires_grad=True)
    return CheckpointFunction.apply(call, save, anchor, *tensors)
    # endregion


# --- task sequential -------------------------------------------------------------------------------------------------
def checkpoint_sequential(layers: Sequence[Callable[[Tensor], Tensor]], num_segments: int, x: Tensor) -> Tensor:
    """Run x through all layers, each of `num_segments` segments of consecutive layers in one checkpoint.

    Segments are as equal as can be, the first L mod num_segments longer by one. Fewer than 1 or more than L segments are a ValueError.
    """
    # region solution checkpoint_sequential
    if not 1 <= num_segments <= len(layers):
        raise ValueError(f"{len(layers)} layers make 1 to {len(layers)} segments, not {num_segments}")

    def run(segment: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        for layer in segment:
            x = layer(x)
        return x

    length, num_longer = divmod(len(layers), num_segments)
    start = 0
    for index in range(num_segments):
        stop = start + length + (index < num_longer)
        # Kept are num_segments inputs, and during backward the inside of one segment: s + L/s is least at s = √L.
        x = checkpoint(run, layers[start:stop], x)
        start = stop
    return x
    # endregion


# --- task selective --------------------------------------------------------------------------------------------------
class Keeper(TorchDispatchMode):
    """While it is active, the outputs of the operations in `save` are collected in `outputs`, in the order of the calls."""

    def __init__(self, save: Collection[OpOverload]) -> None:
        super().__init__()
        self.save = save
        self.outputs: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Every operation that runs below autograd comes through here; `func` is one like torch.ops.aten.mm.default."""
        # region solution keep
        outputs = func(*args, **(kwargs or {}))
        if func in self.save:
            # Some give several: attention its output and log-sum-exp.
            self.outputs += outputs if isinstance(outputs, tuple) else (outputs,)
        return outputs
        # endregion


class Replayer(TorchDispatchMode):
    """While it is active, the operations in `save` are not run: they give the next of `outputs`."""

    def __init__(self, save: Collection[OpOverload], outputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.save = save
        self.outputs = list(outputs)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """As Keeper's; autograd, which is above, records the operation whether it is run or not."""
        # region solution replay
        if func not in self.save:
            return func(*args, **(kwargs or {}))
        # The second run makes the same calls in the same order as the first: position is enough, no names are needed.
        num_outputs = len(func._schema.returns)
        # An alias, because autograd writes the graph onto the tensor that it is given.
        taken = tuple(self.outputs.pop(0).detach() for _ in range(num_outputs))
        return taken if num_outputs > 1 else taken[0]
        # endregion


def selective_checkpoint(function: Callable[..., Any], *args: Any, save: Collection[OpOverload], **kwargs: Any) -> Any:
    """As checkpoint, but what the operations in `save` give is kept as well, and they run once only.

    save: such as {torch.ops.aten.mm.default}. They aren't random, their outputs are tensors, and nobody changes those in place.
    """
    # region solution selective_checkpoint
    return _checkpointed(function, frozenset(save), args, kwargs)
    # endregion
