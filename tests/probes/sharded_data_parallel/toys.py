"""A module whose gradients are known exactly to whoever made the inputs, and one way of sharding it, driven as its handout says.

The gradient of each parameter of a `Toy` is the parameter times an input, so that backward needs the whole weights too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .surroundings import fsdp_of, parts_of, plain

Step = dict[str, Any]


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


class Trainer:
    """One way of sharding, driven as its handout says."""

    def __init__(
        self, at: Any, module: Toy, stage: str, cls: type[torch.optim.Optimizer], defaults: dict[str, float], group: Any, how: Step
    ) -> None:
        self.at, self.module, self.stage, self.group, self.how = at, module, stage, group, how
        self.norms: list[Tensor] = []
        self.sharder: Any = None
        if stage == "fsdp":
            self.wrapped = fsdp_of(at, module, group, how, Layer)
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


def blank_trainer(at: Any, group: Any, defaults: dict[str, float]) -> Trainer:
    """A sharded Toy of zeros with AdamW."""
    blank = {name: torch.zeros_like(value) if name.startswith("value/") else value for name, value in at.inputs.items()}
    return Trainer(at, Toy(blank), "fsdp", torch.optim.AdamW, defaults, group, {})


def filled(at: Any, version: float) -> Trainer:
    """A sharded Toy with SGD, all of whose weights and momentum are `version`."""
    trainer = Trainer(at, Toy(at.inputs), "fsdp", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, None, {})
    for shard in trainer.wrapped.named_shards().values():
        shard.data.fill_(version)
        trainer.optimizer.state[shard] = {"momentum_buffer": torch.full_like(shard.data, version)}
    return trainer
