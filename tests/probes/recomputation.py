"""What runs beside a submission to `recomputation`: it drives the functions and reports what they gave, ran and kept. No opinions."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

NOISES: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.4),
    "normal": lambda x: x * (2 + torch.randn_like(x)),
    "uniform": lambda x: x * (0.5 + torch.rand(x.shape, dtype=x.dtype, device=x.device)),
}


# --- accumulation ----------------------------------------------------------------------------------------------------
def accumulated(at: Any, *, rows: list[int], loss: str, with_gradients: bool) -> dict[str, Tensor]:
    """accumulate_gradients of tanh(x A) B on micro-batches of so many rows; the gradients, and the loss that it returned."""
    first, second = (nn.Parameter(at.inputs[name]) for name in ("A", "B"))
    if with_gradients:
        first.grad, second.grad = at.inputs["A.grad"].clone(), at.inputs["B.grad"].clone()
    targets = at.inputs["targets"].T.contiguous().T  # as of a loader that puts tokens first
    micro_batches = list(zip(at.inputs["x"].split(rows), targets.split(rows), strict=True))
    calls: list[int] = []

    def function(x: Tensor) -> Tensor:
        calls.append(len(x))
        return torch.tanh(x @ first) @ second

    # A model may be any callable; as a module it could be told to zero its gradients, so those that are there are met as a module's.
    # Of its parameters one is frozen and one isn't used.
    frozen, idle = nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(torch.ones(2))
    model = Module(function, first, frozen, idle, second) if with_gradients else function
    mean = at.submission.accumulate_gradients(model, micro_batches, LOSSES[loss])
    is_tensor = isinstance(mean, Tensor)
    at.report(calls=calls, is_tensor=is_tensor, is_scalar=is_tensor and mean.ndim == 0, requires_grad=is_tensor and mean.requires_grad)
    gradients = {f"{name}.grad": leaf.new_zeros(()).expand_as(leaf) if leaf.grad is None else leaf.grad
                 for name, leaf in (("A", first), ("B", second))}  # fmt: skip
    return gradients | {"mean": torch.as_tensor(mean).detach().double().reshape(())}


class Module(nn.Module):
    """A function and its parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor], *parameters: nn.Parameter) -> None:
        super().__init__()
        self.function, self.weights = function, nn.ParameterList(parameters)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over the targets that aren't -100."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def squared(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance from the one-hot target, over the targets that aren't -100; without any, its gradients are NaN too."""
    counted = targets != -100
    distances = ((logits - F.one_hot(targets.clamp(min=0), logits.shape[-1])) ** 2).sum(-1)
    return (distances * counted).sum() / counted.sum()


def distance(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance of all outputs from a target that is a number, over the targets that aren't -100."""
    counted = targets != -100
    return ((outputs - targets.unsqueeze(-1)) ** 2).sum(-1)[counted].mean()


LOSSES = {"cross_entropy": cross_entropy, "squared": squared, "distance": distance}


def accumulated_large(at: Any, *, depth: int, repeat: int) -> dict[str, Tensor]:
    """accumulate_gradients where each micro-batch keeps `depth` tensors of `repeat` times the pattern "x"."""
    free_at_once()
    scale = at.inputs["scale"].requires_grad_()
    micro_batches = [(row, torch.zeros(1, dtype=torch.long)) for row in at.inputs["x"]]

    def model(pattern: Tensor) -> Tensor:
        h = pattern.repeat(repeat) * scale
        for _ in range(depth):
            h = torch.sin(h)
        return h

    at.submission.accumulate_gradients(model, micro_batches, lambda h, _: h.mean())
    return {"scale.grad": scale.grad}


def trained(at: Any, *, rows: list[int], num_steps: int, learning_rate: float) -> dict[str, Tensor]:
    """A small GPT trained by SGD in float64, on accumulated gradients and on the whole batch: losses and final weights of both."""
    from lm.gpt import GPT, GPTConfig

    config = GPTConfig(vocab_size=13, max_tokens=8, num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=2, mlp_size=24)
    answer = {}
    for name in ("accumulated", "whole"):
        torch.manual_seed(at.seed % 2**31)
        model = GPT(config).double()
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=learning_rate), []
        for tokens, targets in zip(at.inputs["tokens"][:num_steps], at.inputs["targets"][:num_steps], strict=True):
            optimizer.zero_grad()
            if name == "whole":
                loss = cross_entropy(model(tokens), targets)
                loss.backward()
            else:
                micro_batches = list(zip(tokens.split(rows), targets.split(rows), strict=True))
                loss = at.submission.accumulate_gradients(model, micro_batches, cross_entropy)
            optimizer.step()
            losses.append(float(loss.detach()))
        answer[f"{name}.losses"] = torch.tensor(losses, dtype=torch.float64)
        answer[f"{name}.weights"] = torch.cat([p.detach().flatten() for p in model.parameters()])
    return answer


# --- checkpoint: gradients -------------------------------------------------------------------------------------------
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


# --- checkpoint: surroundings ----------------------------------------------------------------------------------------
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
    """A checkpoint under no_grad: how often the function was called, and whether its output requires grad."""
    x, calls = at.inputs["x"].requires_grad_(), []

    def function(x: Tensor) -> Tensor:
        calls.append(torch.is_grad_enabled())
        return torch.sin(x)

    with torch.no_grad():
        y = run(at, way, function, x, save=save)
    at.report(num_calls=len(calls), requires_grad=y.requires_grad)
    return {"y": y}


# --- what is kept, what is run ---------------------------------------------------------------------------------------
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


def run(at: Any, way: str, function: Callable[..., Any], *args: Any, save: list[str] | None = None, **kwargs: Any) -> Any:
    """Call the function plainly or through the submission; `save` names operations such as "mm.default"."""
    if way == "plain":
        return function(*args, **kwargs)
    if way == "checkpoint":
        return at.submission.checkpoint(function, *args, **kwargs)
    operations = {getattr(getattr(torch.ops.aten, name.split(".")[0]), name.split(".")[1]) for name in save or []}
    return at.submission.selective_checkpoint(function, *args, save=operations, **kwargs)


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


# --- sequences of layers ---------------------------------------------------------------------------------------------
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


def free_at_once() -> None:
    """Let every tensor from 1 MiB on go back to the system when it is freed, so that a limit on memory counts what is alive.

    glibc otherwise keeps what was freed, in pieces that the next tensor may not fit into.
    """
    mmap_threshold = -3  # M_MMAP_THRESHOLD in malloc.h
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 20)


def gradient(leaf: Tensor, what: str) -> Tensor:
    """The leaf's gradient, if it has one."""
    if leaf.grad is None:
        raise RuntimeError(f"backward left no gradient on {what}")
    return leaf.grad
