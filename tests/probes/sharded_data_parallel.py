"""What runs beside a submission to `sharded_data_parallel`: it drives the classes and reports facts. No opinions, no expected values.

The gradient of each parameter of a `Toy` is the parameter times an input, so that whoever made the inputs knows it exactly, and so that
backward needs the whole weights too.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import io
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Step = dict[str, Any]


# --- spans -----------------------------------------------------------------------------------------------------------
def spans(at: Any, *, cases: list[list[Any]]) -> dict[str, Tensor]:
    """shard_spans of [sizes, world size] for every rank: ranks × tensors × (start, stop)."""
    function = at.submission.sharded_optimizer.shard_spans
    answer = {}
    for number, (sizes, world_size) in enumerate(cases):
        rows = torch.full((world_size, len(sizes), 2), -1, dtype=torch.int64)
        for rank in range(world_size):
            for place, (start, stop) in enumerate(list(function(iter(sizes), rank, world_size))[: len(sizes)]):
                rows[rank, place] = torch.tensor([int(start), int(stop)])
        answer[f"case_{number}"] = rows
    return answer


# --- training --------------------------------------------------------------------------------------------------------
def train(
    at: Any, *, stage: str, optimizer: str, defaults: dict[str, float], steps: list[Step], members: list[int] | None = None, **how: Any
) -> dict[str, Tensor]:
    """Steps of a Toy under "zero1", "zero2" or "fsdp"; the weights after each, as after/<step>/<name>.

    Of a step: `micro_batches`; `unused` (rank -> parameters that it doesn't use); `write` (group -> settings written before it);
    `decay`: a torch scheduler halves lr after it; `add`: a group of that number in `how["groups"]` is added before it; `closure`;
    `clip`: max_norm; `forgets`: before it a gradient is reduced and forgotten. Inputs: value/<name>, factor/<step>/<micro-batch>/<name>.
    """
    group, takes_part = group_of(at, members)
    module = Toy(at.inputs, frozen=how.get("frozen", ()), shared=how.get("shared"))
    answer: dict[str, Tensor] = {}
    if takes_part:
        with at.phase("construct"):
            trainer = Trainer(at, module, stage, getattr(torch.optim, optimizer), defaults, group, how)
    for number, step in enumerate(steps):
        if takes_part:
            answer |= trainer.take(number, step)
        answer |= {f"after/{number}/{name}": value for name, value in (trainer.weights() if takes_part else module.weights()).items()}
    if takes_part:
        at.report(norms=[float(norm) for norm in trainer.norms], group_keys=sorted(trainer.optimizer.param_groups[0]))
    return answer


class Trainer:
    """One way of sharding, driven as its handout says."""

    def __init__(
        self, at: Any, module: Toy, stage: str, cls: type[torch.optim.Optimizer], defaults: dict[str, float], group: Any, how: Step
    ) -> None:
        self.at, self.module, self.stage, self.group, self.how = at, module, stage, group, how
        self.norms: list[Tensor] = []
        self.sharder: Any = None
        if stage == "fsdp":
            self.wrapped = fsdp_of(at, module, group, how)
            names = self.wrapped.named_shards()
            self.optimizer = cls(self.groups(names, how.get("groups")), **defaults)
        else:
            self.wrapped = module
            names = dict(module.named_parameters())
            make = at.submission.sharded_optimizer.ShardedOptimizer
            self.optimizer = make(
                self.groups(names, how.get("groups")), cls, group=group, bucket_bytes=how.get("bucket_bytes", 2**20), **defaults
            )
            if stage == "zero2":
                self.sharder = at.submission.sharded_optimizer.GradientSharder(self.optimizer)
        self.scheduler = None

    def groups(self, parameters: dict[str, Any], groups: list[dict[str, Any]] | None) -> Any:
        """The groups that are there from the start; plain parameters where none are named."""
        if groups is None:
            return iter(parameters.values()) if self.stage != "fsdp" else list(parameters.values())
        return [self.group_of(parameters, each) for each in groups if not each.get("late")]

    def group_of(self, parameters: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        return group.get("settings", {}) | {"params": [parameters[name] for name in group["names"]]}

    def take(self, number: int, step: Step) -> dict[str, Tensor]:
        """One step; its loss, if a closure computed it."""
        if "add" in step:
            added = self.group_of(dict(self.module.named_parameters()), self.how["groups"][step["add"]])
            for parameter in added["params"]:
                parameter.grad = None  # of steps in which nobody cleared it
            self.optimizer.add_param_group(added)
        for group, settings in step.get("write", {}).items():
            self.optimizer.param_groups[int(group)].update(settings)
        if step.get("decay") and self.scheduler is None:
            self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        answer = {}
        if step.get("forgets"):  # gradients that are reduced, and then not wanted: twice those of the step
            self.backward(number, 0, step)
            self.backward(number, 0, step)
            self.optimizer.reduce_gradients()
            to_zeros = step["forgets"] == "to zeros"
            self.optimizer.zero_grad(set_to_none=not to_zeros)
            if to_zeros:
                self.at.report(zeros=[name for name, p in self.module.named_parameters() if p.grad is not None and not p.grad.any()])
        if step.get("closure"):
            calls: list[bool] = []

            def closure() -> Tensor:
                calls.append(torch.is_grad_enabled())
                self.optimizer.zero_grad()
                return self.backward(number, 0, step)

            with self.at.phase(f"step {number}"):
                returned = self.optimizer.step(closure)
            answer[f"loss/{number}"] = torch.as_tensor(float("nan") if returned is None else returned).detach().double().reshape(())
            self.at.report(closure_calls=[int(enabled) for enabled in calls])
        else:
            for micro_batch in range(step.get("micro_batches", 1)):
                with self.at.phase(f"backward {number}/{micro_batch}"):
                    self.backward(number, micro_batch, step)
            with self.at.phase(f"clip {number}"):
                if "clip" in step:
                    clipping = self.wrapped if self.stage == "fsdp" else self.optimizer
                    self.norms.append(plain(clipping.clip_grad_norm_(step["clip"])).detach())
            if step.get("idle"):  # a forward that no backward follows
                self.wrapped(factors=parts_of(self.at.inputs, f"factor/{number}/0"))
            with self.at.phase(f"step {number}"):
                self.optimizer.step()
        self.optimizer.zero_grad()
        if step.get("decay"):
            self.scheduler.step()
        return answer

    def backward(self, number: int, micro_batch: int, step: Step) -> Tensor:
        """Forward and backward of one micro-batch, and the end of what it has started."""
        unused = step.get("unused", {}).get(str(self.at.rank), [])
        factors = {n: f for n, f in parts_of(self.at.inputs, f"factor/{number}/{micro_batch}").items() if n not in unused}
        loss = self.wrapped(factors=factors)
        loss.backward()
        if self.sharder is not None:
            self.sharder.finish()
        return loss.detach()

    def weights(self) -> dict[str, Tensor]:
        """The whole weights, as the layers see them."""
        if self.stage != "fsdp":
            return self.module.weights()
        with self.at.phase("look"), torch.no_grad():
            self.wrapped(factors={})
        return self.module.seen


def fsdp_of(at: Any, module: nn.Module, group: Any, how: dict[str, Any]) -> Any:
    """The submission's FullyShardedDataParallel with a Layer as the unit."""
    words = {name: how[name] for name in ("reshard_after_forward", "prefetch") if name in how}
    words |= {name: getattr(torch, how[name]) for name in ("compute_dtype", "reduce_dtype") if name in how}
    return at.submission.fsdp.FullyShardedDataParallel(module, group, wrap=Layer, **words)


class Layer(nn.Module):
    """Adds Σ p²·factor/2 over its parameters to a flow. `seen`: its whole weights, by name, whenever it runs.

    Frozen weights come first, so that backward needs them, for the gradient of what came in, when the trained ones are through.
    """

    def __init__(self, prefix: str, seen: dict[str, Tensor]) -> None:
        super().__init__()
        self.prefix, self.seen = prefix, seen

    def forward(self, flow: Tensor, factors: dict[str, Tensor]) -> Tensor:
        for parameter in self._parameters.values():
            if not parameter.requires_grad:
                flow = flow + (flow.to(parameter.dtype) * 0 * parameter).sum().double()
        for name, parameter in self._parameters.items():
            path = f"{self.prefix}{name}"
            self.seen[path] = parameter.detach().clone()
            if path in factors:
                flow = flow + (parameter * parameter * factors[path]).sum().double() / 2
        return flow


class Toy(nn.Module):
    """Layers 0, 1, … and some parameters of its own, of which `last` is used after the layers and the others before them.

    shared: path -> path of the parameter that also stands there, under another name.
    """

    def __init__(self, inputs: dict[str, Tensor], *, frozen: Sequence[str] = (), shared: dict[str, str] | None = None) -> None:
        super().__init__()
        self.seen: dict[str, Tensor] = {}
        values = parts_of(inputs, "value")
        self.layers = nn.ModuleList(
            Layer(f"layers.{number}.", self.seen) for number in range(len({n.split(".")[1] for n in values if n.startswith("layers.")}))
        )
        for path, value in values.items():
            owner, name = self.place(path)
            owner.register_parameter(name, nn.Parameter(value.clone(), requires_grad=path not in frozen))
        for path, source in (shared or {}).items():
            owner, name = self.place(path)
            where, what = self.place(source)
            owner.register_parameter(name, where._parameters[what])

    def place(self, path: str) -> tuple[nn.Module, str]:
        *parents, name = path.split(".")
        return self.get_submodule(".".join(parents)), name

    def forward(self, *, factors: dict[str, Tensor]) -> Tensor:
        flow = torch.zeros((), dtype=torch.float64)
        for is_last in (False, True):
            for name, parameter in self._parameters.items():
                if (name == "last") != is_last:
                    continue
                self.seen[name] = parameter.detach().clone()
                if name in factors:
                    flow = flow + (parameter * parameter * factors[name]).sum().double() / 2
            for layer in () if is_last else self.layers:
                flow = layer(flow, factors)
        return flow

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self.named_parameters(remove_duplicate=False)}


# --- precision -------------------------------------------------------------------------------------------------------
def precision(at: Any, *, num_steps: int, lr: float, **how: Any) -> dict[str, Tensor]:
    """SGD steps of a Toy of bfloat16 compute; what layers saw, the dtypes of everything, and the masters by full gather."""
    dtypes: dict[str, str] = {}
    module = Toy(at.inputs)
    fsdp = fsdp_of(at, Spying(module, dtypes), None, how)
    optimizer = torch.optim.SGD(fsdp.parameters(), lr=lr)
    for number in range(num_steps):
        with at.phase(f"step {number}"):
            loss = fsdp(factors=parts_of(at.inputs, f"factor/{number}"))
            loss.backward()
        dtypes["output"] = word(loss.dtype)
        shards = fsdp.named_shards()
        dtypes |= {f"shard {name}": word(shard.dtype) for name, shard in shards.items()}
        gradients = {name: plain(shard.grad) for name, shard in shards.items() if shard.grad is not None}
        dtypes |= {f"gradient {name}": word(gradient.dtype) for name, gradient in gradients.items()}
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients.values()])
        at.report(num_rounded=int((flat == flat.to(getattr(torch, how["compute_dtype"]))).sum()), num_gradients=flat.numel())
        optimizer.step()
        optimizer.zero_grad()
    with at.phase("look"):
        masters = {n.removeprefix("inner."): plain(w).clone() for n, w in fsdp.gather_whole(dict(fsdp.named_shards()))}
    at.report(dtypes=dtypes)
    return {f"master/{name}": value for name, value in masters.items()} | {f"seen/{name}": value for name, value in module.seen.items()}


class Spying(nn.Module):
    """Notes the dtypes of what a module gets."""

    def __init__(self, inner: Toy, dtypes: dict[str, str]) -> None:
        super().__init__()
        self.inner, self.dtypes = inner, dtypes
        self.register_buffer("statistics", torch.ones(3))

    def forward(self, *, factors: dict[str, Tensor]) -> Tensor:
        self.dtypes["buffer"] = word(self.statistics.dtype)
        self.dtypes |= {f"input {name}": word(factor.dtype) for name, factor in factors.items()}
        return self.inner(factors=factors)


# --- clipping --------------------------------------------------------------------------------------------------------
def clip(at: Any, *, max_norm: float, names: list[str], members: list[int] | None = None) -> dict[str, Tensor]:
    """clip_grad_norm_ of this rank's inputs; them, and the norm, afterwards."""
    group, takes_part = group_of(at, members)
    tensors = {name: at.inputs[name].clone() for name in names}
    norm = torch.zeros(())
    if takes_part:
        with at.phase("clip"):
            norm = at.submission.sharded_optimizer.clip_grad_norm_(iter(tensors.values()), max_norm, group=group)
    return tensors | {"norm": norm.detach().double().reshape(())}


# --- order and time --------------------------------------------------------------------------------------------------
def ordered(at: Any, *, stage: str, num_layers: int, forward_s: float = 0.0, backward_s: float = 0.0, **how: Any) -> None:
    """Two steps of a chain of equal layers of declared cost; in the second's phase "step", a mark as each layer's backward begins."""
    layers = [Timed(at, number, at.inputs[f"value/{number}"], forward_s, backward_s) for number in range(num_layers)]
    module = nn.Sequential(*layers)
    wrapped, finish = module, lambda: None
    if stage == "zero2":
        optimizer = at.submission.sharded_optimizer.ShardedOptimizer(
            module.parameters(), torch.optim.SGD, bucket_bytes=how["bucket_bytes"], lr=0.0
        )
        finish = at.submission.sharded_optimizer.GradientSharder(optimizer).finish
    else:
        words = {name: how[name] for name in ("reshard_after_forward", "prefetch") if name in how}
        wrapped = at.submission.fsdp.FullyShardedDataParallel(module, None, wrap=Timed, **words)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.0)
    for phase in ("learn", "step"):
        with at.phase(phase):
            wrapped(torch.ones((), requires_grad=True)).backward()
            finish()
            at.join()
        optimizer.step()
        optimizer.zero_grad()


class Timed(nn.Module):
    """A layer whose arithmetic is declared."""

    def __init__(self, at: Any, number: int, value: Tensor, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.at, self.number, self.costs_s = at, number, (forward_s, backward_s)
        self.weight = nn.Parameter(value.clone())

    def forward(self, flow: Tensor) -> Tensor:
        return Spend.apply(flow, self.weight, self.at, self.number, *self.costs_s)


class Spend(torch.autograd.Function):
    """flow + Σ weight²/2; marks and spends declared time as it begins, forward and backward."""

    @staticmethod
    def forward(ctx: Any, flow: Tensor, weight: Tensor, at: Any, number: int, forward_s: float, backward_s: float) -> Tensor:
        ctx.at, ctx.number, ctx.backward_s = at, number, backward_s
        ctx.save_for_backward(weight)
        at.mark(f"forward {number}")
        at.compute(forward_s, f"forward {number}")
        return flow + weight.square().sum() / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (weight,) = ctx.saved_tensors
        ctx.at.mark(f"backward {ctx.number}")
        ctx.at.compute(ctx.backward_s, f"backward {ctx.number}")
        return gradient, weight * gradient, None, None, None, None


# --- memory: one rank of many, alone ---------------------------------------------------------------------------------
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
        words = {name: how[name] for name in ("reshard_after_forward", "prefetch") if name in how}
        wrapped = at.submission.fsdp.FullyShardedDataParallel(module, None, wrap=Weighed, **words)
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


# --- checkpoints -----------------------------------------------------------------------------------------------------
def trained_state(
    at: Any, *, shapes: dict[str, list[int]], optimizer: str, defaults: dict[str, float], num_steps: int, **how: Any
) -> dict[str, Tensor]:
    """full_state_dict after some steps, read only after one more; facts: its names. NaN of `shapes` on rank 0 for what isn't there."""
    module = Toy(at.inputs, frozen=how.get("frozen", ()), shared=how.get("shared"))
    trainer = Trainer(at, module, "fsdp", getattr(torch.optim, optimizer), defaults, None, how)
    for number in range(num_steps):
        trainer.take(number, {})
    with at.phase("save"):
        state = at.submission.sharded_checkpoint.full_state_dict(trainer.wrapped, trainer.optimizer)
    trainer.take(num_steps, {})
    at.report(**described(state))
    answer = tensors_of(state, list(shapes))
    for name, shape in shapes.items() if at.rank == 0 else ():
        if not answer[name].numel():
            answer[name] = torch.full(shape, float("nan"), dtype=torch.float32 if name.startswith("state/step/") else torch.float64)
    return answer


def described(state: dict[str, Any]) -> dict[str, Any]:
    """Which names a state dict has, in its order."""
    return {
        "keys": sorted(state),
        "model": list(state.get("model", {})),
        "optimizer": {name: sorted(values) for name, values in state.get("optimizer", {}).items()},
    }


def tensors_of(state: dict[str, Any], names: list[str]) -> dict[str, Tensor]:
    """value/<name> and state/<key>/<name>; an empty tensor for what isn't there."""
    answer = {f"value/{name}": torch.as_tensor(value) for name, value in state.get("model", {}).items()}
    for name, values in state.get("optimizer", {}).items():
        answer |= {f"state/{key}/{name}": torch.as_tensor(value) for key, value in values.items() if value is not None}
    return {name: answer[name].detach() if name in answer else torch.empty(0, dtype=torch.float64) for name in names}


def moved(
    at: Any, *, names: list[str], way: str, savers: list[int], loaders: list[int], steps: list[Step], defaults: dict[str, float]
) -> dict[str, Tensor]:
    """The given weights and AdamW moments go into the savers' world, from there into the loaders', which trains on.

    Answer of the first loader: its full_state_dict before the steps; of every loader: the weights after them.
    """
    checkpoints = at.submission.sharded_checkpoint
    given = {"model": parts_of(at.inputs, "value"), "optimizer": {}}
    for name in given["model"]:
        moments = {key: at.inputs[f"state/{key}/{name}"] for key in ("exp_avg", "exp_avg_sq")}
        given["optimizer"][name] = moments | {"step": torch.tensor(3.0)}
    folder = shared_folder() / "checkpoint"
    first, takes_part = group_of(at, savers)
    if takes_part:
        saver = blank_trainer(at, first, defaults)
        checkpoints.load_full_state_dict(saver.wrapped, saver.optimizer, given)
        with at.phase("save"):
            if way == "whole":
                state = checkpoints.full_state_dict(saver.wrapped, saver.optimizer)
                if at.rank == savers[0]:
                    at.mark(f"full_state_dict has {', '.join(state) or 'nothing'}")
                    folder.mkdir(parents=True)
                    torch.save(state, folder / "state.pt")
            else:
                checkpoints.save_sharded(folder, saver.wrapped, saver.optimizer, barrier=lambda: dist.barrier(first))
    dist.barrier()
    second, takes_part = group_of(at, loaders)
    if not takes_part:
        shapes = {f"after/{name}": value.shape for name, value in given["model"].items()}
        return tensors_of({}, names) | {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    loader = blank_trainer(at, second, defaults)
    before = [id(shard) for shard in loader.wrapped.named_shards().values()]
    with at.phase("load"):
        if way == "whole":
            loaded = torch.load(folder / "state.pt")
            checkpoints.load_full_state_dict(loader.wrapped, loader.optimizer, loaded)
        else:
            checkpoints.load_sharded(folder, loader.wrapped, loader.optimizer)
    at.report(is_same_shards=before == [id(shard) for shard in loader.wrapped.named_shards().values()])
    answer = tensors_of(checkpoints.full_state_dict(loader.wrapped, loader.optimizer), names)
    for number, step in enumerate(steps):
        loader.take(number, step)
    leaves = torch.utils._pytree.tree_leaves
    is_untouched = way != "whole" or all(map(torch.equal, leaves(loaded), leaves(torch.load(folder / "state.pt"))))
    at.report(is_state_untouched=is_untouched)
    return answer | {f"after/{name}": value for name, value in loader.weights().items()}


def taken_back(at: Any, *, way: str, defaults: dict[str, float]) -> dict[str, Tensor]:
    """The weights after the first step of SGD, and after the same step once more: a checkpoint from before it was loaded between."""
    checkpoints, folder = at.submission.sharded_checkpoint, shared_folder() / "checkpoint"
    trainer = Trainer(at, Toy(at.inputs), "fsdp", torch.optim.SGD, defaults, None, {})
    if way == "whole":
        states = [checkpoints.full_state_dict(trainer.wrapped, trainer.optimizer)]
        dist.broadcast_object_list(states, src=0)
    else:
        checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
    trainer.take(0, {})
    answer = {f"first/{name}": value for name, value in trainer.weights().items()}
    if way == "whole":
        checkpoints.load_full_state_dict(trainer.wrapped, trainer.optimizer, states[0])
    else:
        checkpoints.load_sharded(folder, trainer.wrapped, trainer.optimizer)
    trainer.take(0, {})
    return answer | {f"again/{name}": value for name, value in trainer.weights().items()}


def blank_trainer(at: Any, group: Any, defaults: dict[str, float]) -> Trainer:
    """A sharded Toy of zeros with AdamW."""
    blank = {name: torch.zeros_like(value) if name.startswith("value/") else value for name, value in at.inputs.items()}
    return Trainer(at, Toy(blank), "fsdp", torch.optim.AdamW, defaults, group, {})


def many_savers(at: Any, *, num_savers: int) -> dict[str, Tensor]:
    """The given weights and momenta, saved by many ranks that take turns in this process, and loaded by one that is alone."""
    given = parts_of(at.inputs, "value")
    momenta = {name: {"momentum_buffer": value} for name, value in parts_of(at.inputs, "momentum").items()}
    folder = shared_folder() / "checkpoint"

    def save(barrier: Callable[[], None]) -> None:
        trainer = filled(at, 0.0)
        at.submission.sharded_checkpoint.load_full_state_dict(trainer.wrapped, trainer.optimizer, {"model": given, "optimizer": momenta})
        at.submission.sharded_checkpoint.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=barrier)

    take_turns(num_savers, save)
    become(0, 1)
    loader = filled(at, 0.0)
    at.submission.sharded_checkpoint.load_sharded(folder, loader.wrapped, loader.optimizer)
    answer = {}
    for name, shard in loader.wrapped.named_shards().items():  # of one rank: everything, flat or not
        answer[f"value/{name}"] = plain(shard.detach()).reshape(given[name].shape)
        answer[f"momentum/{name}"] = plain(loader.optimizer.state[shard]["momentum_buffer"]).reshape(given[name].shape)
    return answer


def become(rank: int, num_ranks: int) -> None:
    """Be one rank of a world in which nobody else is."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=rank, world_size=num_ranks, store=FakeStore())


def take_turns(num_ranks: int, work: Callable[[Callable[[], None]], None]) -> None:
    """Let each rank do its work up to the next barrier, one after the other, in threads of which one runs at a time."""
    goes_on = [threading.Semaphore(0) for _ in range(num_ranks)]
    has_stopped, errors, alive = threading.Semaphore(0), [], set(range(num_ranks))

    def live(rank: int) -> None:
        def barrier() -> None:
            has_stopped.release()
            goes_on[rank].acquire()

        goes_on[rank].acquire()
        try:
            work(barrier)
        except BaseException as error:  # raised below, in the thread that answers
            errors.append(error)
        alive.remove(rank)
        has_stopped.release()

    for rank in range(num_ranks):
        threading.Thread(target=live, args=(rank,), daemon=True).start()
    while alive and not errors:
        for rank in sorted(alive):
            become(rank, num_ranks)
            goes_on[rank].release()
            has_stopped.acquire()
    if errors:
        raise errors[0]


class Killed(BaseException):
    """This rank is dead."""


class Deaths:
    """Counts what a save does to the disk, and at the n-th time dies in the middle of it."""

    def __init__(self) -> None:
        self.dies_at, self.count, self.is_dead, self.depth = -1, 0, False, 0

    def arm(self, dies_at: int) -> None:
        self.dies_at, self.count, self.is_dead = dies_at, 0, False

    def watch(self, plain: Callable[..., Any], half: Callable[..., None] | None = None) -> Callable[..., Any]:
        """`plain`, at whose dies_at-th call only `half` of it happens."""

        def watched(*args: Any, **named: Any) -> Any:
            if self.depth:
                return plain(*args, **named)
            self.depth += 1
            try:
                if not self.is_dead and self.count == self.dies_at:
                    self.is_dead = True
                    if half is not None:
                        half(*args, **named)
                if self.is_dead:
                    raise Killed
                self.count += 1
                return plain(*args, **named)
            finally:
                self.depth -= 1

        return watched

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Everything that writes is watched."""
        places: list[tuple[Any, str, Any]] = [(torch, "save", half_saved)]
        places += [(Path, name, half_text) for name in ("write_text", "write_bytes")]
        places += [(os, name, None) for name in ("replace", "rename", "remove", "unlink", "rmdir")] + [(shutil, "rmtree", None)]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        opened = builtins.open
        watched_open = self.watch(opened, opened)  # dies when the file is there, and empty

        def open_(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
            return (watched_open if set(mode) & set("wax+") else opened)(file, mode, *args, **named)

        for (owner, name, _), half in zip(before, (half for _, _, half in places), strict=True):
            setattr(owner, name, self.watch(getattr(owner, name), half))
        builtins.open = io.open = open_
        try:
            yield
        finally:
            builtins.open = io.open = opened
            for owner, name, plain in before:
                setattr(owner, name, plain)


REAL_SAVE = torch.save


def half_saved(value: Any, file: Any, *_: Any, **__: Any) -> None:
    """The first half of what torch.save writes."""
    whole = io.BytesIO()
    REAL_SAVE(value, whole)
    half = whole.getvalue()[: len(whole.getvalue()) // 2]
    if hasattr(file, "write"):
        file.write(half)
        file.flush()
    else:
        with open(file, "wb") as out:
            out.write(half)


def half_text(path: Path, text: Any, *_: Any, **__: Any) -> None:
    """The first half of a file."""
    with open(path, "wb") as out:
        out.write((text.encode() if isinstance(text, str) else bytes(text))[: len(text) // 2])


def killed(at: Any, *, max_deaths: int, victims: list[int]) -> dict[str, Tensor]:
    """Saves version after version; of each victim, one save is killed at each thing that it does to the disk, then what is there is loaded.

    Rows: (rank that dies, place, it did die, version before, version that was being saved, smallest and largest number loaded). Versions
    are inputs; all weights and moments of a version are the number.
    """
    checkpoints, versions = at.submission.sharded_checkpoint, iter(at.inputs["versions"].tolist())
    folder = shared_folder() / "checkpoints" / "latest"
    deaths, rows, errors = Deaths(), [], []
    before = next(versions)
    trainer = filled(at, before)
    checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
    notes = [folder / "notes.txt", folder / "figures" / "notes.txt"]
    for note in notes:
        note.parent.mkdir(exist_ok=True)
        note.write_text("of somebody else")
    for victim in victims:
        for place in range(max_deaths):
            version = next(versions)
            deaths.arm(place if at.rank == victim else -1)
            died = save_until_death(at, deaths, folder, filled(at, version), checkpoints)
            lowest, highest = float("nan"), float("nan")
            try:
                loaded = filled(at, -1.0)
                checkpoints.load_sharded(folder, loaded.wrapped, loaded.optimizer)
                lowest, highest = extent(loaded)
            except Exception as raised:  # a fact: nothing could be loaded
                errors.append(f"{type(raised).__name__}: {raised}"[:200])
            rows.append([victim, place, float(died), before, version, lowest, highest])
            dist.barrier()
            before = next(versions)  # and after that a save in peace
            trainer = filled(at, before)
            checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=dist.barrier)
            loaded = filled(at, -1.0)
            checkpoints.load_sharded(folder, loaded.wrapped, loaded.optimizer)
            rows.append([victim, place, 0.0, before, before, *extent(loaded)])
            dist.barrier()
            if not died:
                break
    missing = filled(at, -1.0)
    try:
        checkpoints.load_sharded(folder.parent / "nothing", missing.wrapped, missing.optimizer)
        errors.append("nothing raised")
    except Exception as raised:
        at.report(without_checkpoint=type(raised).__name__)
    at.report(errors=errors[:5], num_rows=len(rows), is_note_there=all(note.exists() for note in notes))
    table = torch.zeros(2 * max_deaths * len(victims), 7, dtype=torch.float64)
    table[: len(rows)] = torch.tensor(rows, dtype=torch.float64)
    return {"rows": table}


def save_until_death(at: Any, deaths: Deaths, folder: Path, trainer: Trainer, checkpoints: Any) -> bool:
    """One save in which a rank may die, and with it those that wait for it. Returns whether one did; True on all ranks or on none."""
    someone_died = False

    def meet(is_dead: bool) -> bool:
        flag = torch.tensor([float(is_dead)])
        dist.all_reduce(flag)
        return bool(flag.item())

    def barrier() -> None:
        nonlocal someone_died
        if deaths.is_dead:
            raise Killed
        if meet(False):
            someone_died = True
            raise Killed

    with deaths.listening(), contextlib.suppress(Killed):
        checkpoints.save_sharded(folder, trainer.wrapped, trainer.optimizer, barrier=barrier)
    return someone_died or meet(deaths.is_dead)


def filled(at: Any, version: float) -> Trainer:
    """A sharded Toy with SGD, all of whose weights and momentum are `version`."""
    trainer = Trainer(at, Toy(at.inputs), "fsdp", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, None, {})
    for shard in trainer.wrapped.named_shards().values():
        shard.data.fill_(version)
        trainer.optimizer.state[shard] = {"momentum_buffer": torch.full_like(shard.data, version)}
    return trainer


def extent(trainer: Trainer) -> tuple[float, float]:
    """The smallest and the largest of this rank's weights and momenta."""
    shards = trainer.wrapped.named_shards().values()
    pieces = [plain(each.data).reshape(-1) for each in shards]
    pieces += [plain(trainer.optimizer.state[each]["momentum_buffer"]).reshape(-1) for each in shards]
    numbers = torch.cat(pieces)
    return (float(numbers.min()), float(numbers.max())) if numbers.numel() else (-1.0, -1.0)


# --- shared ----------------------------------------------------------------------------------------------------------
def shared_folder() -> Path:
    """A folder that all ranks of this run see, and that goes with it: who asks for such a run says `shares_folder`."""
    return Path.cwd().parent / "shared"


def group_of(at: Any, members: list[int] | None) -> tuple[Any, bool]:
    """The group of these global ranks (None: everybody) and whether this rank is one of them. All ranks make it together."""
    if members is None:
        return None, True
    return dist.new_group(members), at.rank in members


def parts_of(inputs: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Inputs called <prefix>/<name>, by name."""
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in inputs.items() if name.startswith(f"{prefix}/")}


def plain(tensor: Any) -> Tensor:
    """This rank's part of a distributed tensor, or the tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def word(dtype: torch.dtype) -> str:
    """float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")
