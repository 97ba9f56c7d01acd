"""What a checkpoint keeps, and which operations run again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from .surroundings import gradient, run


class Ledger:
    """What autograd has saved and not yet dropped: each memory once, and the most that was ever held."""

    def __init__(self) -> None:
        self.num_holders: dict[int, int] = {}
        self.size_bytes: dict[int, int] = {}
        self.most_bytes = 0
        self.is_backward = False
        self.saved_in_backward: dict[int, bool] = {}
        self.course: list[tuple[int, int]] = []  # after each change: bytes that forward has saved, and that backward has

    def held_bytes(self) -> int:
        return sum(self.size_bytes[place] for place in self.num_holders)

    def note(self) -> None:
        """What is held now."""
        again = sum(self.size_bytes[place] for place in self.num_holders if self.saved_in_backward[place])
        self.course.append((self.held_bytes() - again, again))

    def pack(self, tensor: Tensor) -> Slip:
        return Slip(self, tensor)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Everything that is saved inside is in the ledger."""
        with torch.autograd.graph.saved_tensors_hooks(self.pack, lambda slip: slip.tensor):
            yield


class Slip:
    """One saved tensor; dropped with the node of the graph that saved it."""

    def __init__(self, ledger: Ledger, tensor: Tensor) -> None:
        self.ledger, self.tensor, self.place = ledger, tensor, tensor.untyped_storage()._cdata
        ledger.size_bytes[self.place] = tensor.untyped_storage().nbytes()
        if self.place not in ledger.num_holders:
            ledger.saved_in_backward[self.place] = ledger.is_backward
        ledger.num_holders[self.place] = ledger.num_holders.get(self.place, 0) + 1
        ledger.note()
        ledger.most_bytes = max(ledger.most_bytes, ledger.held_bytes())

    def __del__(self) -> None:
        self.ledger.num_holders[self.place] -= 1
        if not self.ledger.num_holders[self.place]:
            del self.ledger.num_holders[self.place]
            self.ledger.note()


class Tally(TorchDispatchMode):
    """Counts every operation that really runs, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(func)] = self.counts.get(str(func), 0) + 1
        return func(*args, **(kwargs or {}))


def kept(at: Any, *, way: str, save: list[str] | None = None, tokens: bool = False, constants: bool = False) -> None:
    """Bytes saved between forward and backward, those of them that aren't arguments' or parameters', and what is still alive when.

    The function is the mixture of x and w; with `tokens` a row of a table, whose only argument is integers.
    With `constants` x and w require no grad, and the function's own v does.
    """
    inside: list[weakref.ref[Tensor]] = []
    names = ("table", "v") if tokens else ("x", "w", "v")
    leaves = [nn.Parameter(at.inputs[name]) for name in names]
    function = looked_up(*leaves, inside) if tokens else mixture(leaves[2], inside)
    # The first argument is made for this call: whoever needs it longer than the caller does is the one who keeps it. It isn't contiguous,
    # and the second is a parameter.
    arguments = [at.inputs["rows"].clone()] if tokens else [leaves[0].T.contiguous().T, leaves[1]]
    arguments = [each.detach() for each in arguments] if constants else arguments
    own = {tensor.untyped_storage()._cdata for tensor in (*arguments, *leaves)}
    first, ledger = StorageWeakRef(arguments[0].untyped_storage()), Ledger()
    with ledger.open():
        y = run(at, way, function, *arguments, save=save)
        arguments.clear()
        output, total = weakref.ref(y), y.sum()
        del y
        gc.collect()
        others_bytes = sum(ledger.size_bytes[place] for place in ledger.num_holders if place not in own)
        at.report(held_bytes=ledger.held_bytes(), others_bytes=others_bytes, num_alive=sum(ref() is not None for ref in inside))
        at.report(output_alive=output() is not None)
        total.backward()
    gc.collect()
    at.report(held_after_bytes=ledger.held_bytes(), argument_alive=not first.expired())


def looked_up(table: Tensor, v: Tensor, inside: list[weakref.ref[Tensor]]) -> Callable[[Tensor], Tensor]:
    """sin(tanh(table[rows]) v)."""

    def function(rows: Tensor) -> Tensor:
        hidden = torch.tanh(table[rows])
        product = hidden @ v
        inside.extend(weakref.ref(tensor) for tensor in (hidden, product))
        return torch.sin(product)

    return function


def mixture(v: Tensor, inside: list[weakref.ref[Tensor]] | None = None) -> Callable[[Tensor, Tensor], Tensor]:
    """(largest of tanh(x w) v in each row) · sin(row sums of x): two products, cheap operations, one of them with two outputs."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        hidden = torch.tanh(x @ w)
        product = hidden @ v
        largest, _ = product.max(dim=1)
        if inside is not None:
            inside.extend(weakref.ref(tensor) for tensor in (hidden, product, largest))
        return largest * torch.sin(x.sum(1))

    return function


def counted(at: Any, *, way: str, save: list[str] | None = None, constant: str = "") -> dict[str, Tensor]:
    """The gradients of the mixture, and how often each operation ran: in a plain forward, a plain step, and a step of this way.

    The argument `constant` requires no grad; what is given back for its gradient is zeros.
    """
    x, w, v = (at.inputs[name] for name in ("x", "w", "v"))
    learning = [tensor for name, tensor in (("x", x), ("w", w), ("v", v)) if name != constant]
    num_calls = 0

    def function(x: Tensor, w: Tensor) -> Tensor:
        nonlocal num_calls
        num_calls += 1
        return mixture(v)(x, w)

    with Tally() as forward, torch.no_grad():
        function(x, w)
    runs, facts = {}, {"forward": forward.counts}
    for name in ("plain", way):
        num_calls = 0
        for tensor in learning:
            tensor.grad = None
            tensor.requires_grad_()
        with FlopCounterMode(display=False) as flops, Tally() as tally:
            y = run(at, name, function, x, w, save=save)
            num_in_forward = num_calls
            y.backward(at.inputs["dy"])
        runs[name] = {"counts": tally.counts, "flops": flops.get_total_flops(), "calls": [num_in_forward, num_calls]}
    at.report(**facts, plain=runs["plain"], ours=runs[way])
    found = {"x": x, "w": w, "v": v}
    return {"y": y} | {f"d{name}": torch.zeros_like(leaf) if name == constant else gradient(leaf, name) for name, leaf in found.items()}
