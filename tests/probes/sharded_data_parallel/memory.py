"""What one rank of many holds, alone in its process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .surroundings import become, fsdp_of


def alone(
    at: Any, *, stage: str, num_ranks: int, me: int, num_layers: int, elements: int, ballast: dict[str, int], num_root: int = 0, **how: Any
) -> None:
    """Two steps of one rank of a world in which nobody else is (torch's fake process group), with AdamW.

    At each moment named in `ballast`, so many bytes are asked for and given back: they are there if nothing more is held than allowed.
    Facts: live bytes at each moment of the second step, the same by kind, and what its collectives carried.
    """
    free_at_once()
    become(me, num_ranks)
    warm_up()
    scale = Scale(at, ballast)
    module = Tower(scale, num_layers, elements, num_root, has_frozen=how.get("has_frozen", False))
    finish: Callable[[], None] = lambda: None  # noqa: E731
    wrapped: Any = module
    if stage == "fsdp":
        wrapped = fsdp_of(at, module, None, how, Weighed)
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.0, foreach=False)
    else:
        words = {"bucket_bytes": how["bucket_bytes"], "lr": 0.0, "foreach": False}
        optimizer = at.submission.sharded_optimizer.ShardedOptimizer(module.parameters(), torch.optim.AdamW, **words)
        if stage == "zero2":
            finish = at.submission.sharded_optimizer.GradientSharder(optimizer).finish
    scale.weights = list(wrapped.parameters())
    scale.weigh("constructed")
    counted = Counted()
    for number in range(2):
        scale.prefix = f"{number} "
        with counted if number == 1 else contextlib.nullcontext():
            flow = wrapped(torch.ones((), requires_grad=True))
            scale.weigh("after forward")
            flow.backward()
            del flow
            finish()
            scale.weigh("after backward")
            optimizer.step()
            scale.weigh("after step")
            optimizer.zero_grad()
    if stage == "fsdp":
        with torch.no_grad():
            wrapped(torch.ones(()))
        scale.weigh("after evaluation")
    live = {moment: sum(kinds) for moment, kinds in scale.kinds.items()}
    at.report(live=live, kinds=scale.kinds, carried=counted.carried)


def warm_up() -> None:
    """Whatever torch allocates once, before anything is weighed."""
    leaf = torch.ones(8, requires_grad=True)
    (leaf * leaf).sum().backward()
    torch.optim.AdamW([leaf], lr=0.0, foreach=False).step()


class Scale:
    """Weighs this process at named moments."""

    def __init__(self, at: Any, ballast: dict[str, int]) -> None:
        self.at, self.ballast, self.prefix = at, ballast, ""
        self.weights: list[Tensor] = []
        self.kinds: dict[str, list[int]] = {}

    def weigh(self, moment: str) -> None:
        self.at.mark(moment)
        if not self.ballast and self.prefix != "0 ":  # a limit weighs by itself
            self.kinds[self.prefix + moment] = live_bytes(self.weights)
        size = self.ballast.get(moment, self.ballast.get(moment.rsplit(" ", 1)[0], 0))
        if size:
            torch.empty(size, dtype=torch.uint8)


class Tower(nn.Module):
    """Equal layers, and a parameter of its own if `num_root`, beside which a frozen one may stand."""

    def __init__(self, scale: Scale, num_layers: int, elements: int, num_root: int, *, has_frozen: bool) -> None:
        super().__init__()
        self.stack = nn.ModuleList(Weighed(scale, number, elements, has_frozen=has_frozen) for number in range(num_layers))
        self.register_parameter("root", nn.Parameter(torch.ones(num_root)) if num_root else None)
        self.register_parameter("frozen", nn.Parameter(torch.ones(1), requires_grad=False) if num_root and has_frozen else None)

    def forward(self, flow: Tensor) -> Tensor:
        if self.root is not None:
            flow = flow + self.root.sum() * 0
        for layer in self.stack:
            flow = layer(flow)
        return flow


class Weighed(nn.Module):
    """A layer that weighs the process as it begins."""

    def __init__(self, scale: Scale, number: int, elements: int, *, has_frozen: bool) -> None:
        super().__init__()
        self.scale, self.number = scale, number
        self.weight = nn.Parameter(torch.ones(elements))
        self.register_parameter("frozen", nn.Parameter(torch.ones(1), requires_grad=False) if has_frozen else None)

    def forward(self, flow: Tensor) -> Tensor:
        return Weigh.apply(flow, self.weight, self.scale, self.number)


class Weigh(torch.autograd.Function):
    """flow + weight·weight/2, and nothing of the weight's size beside it."""

    @staticmethod
    def forward(ctx: Any, flow: Tensor, weight: Tensor, scale: Scale, number: int) -> Tensor:
        ctx.scale, ctx.number = scale, number
        ctx.save_for_backward(weight)
        scale.weigh(f"forward {number}")
        return flow + torch.dot(weight, weight) / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (weight,) = ctx.saved_tensors
        ctx.scale.weigh(f"backward {ctx.number}")
        return gradient, weight * gradient, None, None


class Counted(TorchDispatchMode):
    """Bytes that the collectives inside would carry in a ring, by operation, as multiples of (N-1)/N: [times the whole's bytes]."""

    def __init__(self) -> None:
        super().__init__()
        self.carried: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            name = func._schema.name.split("::")[1].strip("_")
            # The whole is one tensor, or a list with a piece for each rank.
            listed = [torch.utils._pytree.tree_leaves(each) for each in (*args, *(kwargs or {}).values())]
            sizes = [sum(each.numel() * each.element_size() for each in leaves if isinstance(each, Tensor)) for leaves in listed]
            if name not in ("wait_tensor", "barrier"):
                self.carried[name] = self.carried.get(name, 0) + max(sizes, default=0)
        return func(*args, **(kwargs or {}))


def live_bytes(weights: Sequence[Tensor]) -> list[int]:
    """Bytes of all distinct storages of tensors that a Python object holds: of weights, their gradients, optimizers' state, and others."""
    objects = gc.get_objects()
    optimizers = [each for each in objects if issubclass(type(each), torch.optim.Optimizer)]
    states = [state for each in optimizers if isinstance(each.state, dict) for state in each.state.values() if isinstance(state, dict)]
    own = (list(weights), [weight.grad for weight in weights], [value for state in states for value in state.values()])
    kinds = {place: kind for kind in (2, 1, 0) for place in storages_of(own[kind])}  # what is two kinds is the first
    sizes = [0, 0, 0, 0]
    for place, num_bytes in storages_of(objects).items():
        sizes[kinds.get(place, 3)] += num_bytes
    return sizes


def storages_of(objects: Sequence[Any]) -> dict[int, int]:
    """The storages of those that are plain tensors on the host, and their bytes."""
    plain_ones = [each for each in objects if issubclass(type(each), Tensor) and type(each) in (Tensor, nn.Parameter)]
    storages = [each.untyped_storage() for each in plain_ones if each.device.type == "cpu"]
    return {storage._cdata: storage.nbytes() for storage in storages}


def free_at_once() -> None:
    """Let every tensor from 64 KiB on go back to the system when it is freed, so that a limit on memory counts what is alive."""
    mmap_threshold = -3  # M_MMAP_THRESHOLD in malloc.h
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 16)
