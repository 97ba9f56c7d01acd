"""What runs beside a submission to `data_parallel`: it drives the functions and reports what they did. No opinions, no expected values.

Most modules here are a `Chosen`: the gradient of each parameter is an input, so that whoever made the inputs knows it exactly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


# --- sharding --------------------------------------------------------------------------------------------------------
def shards(at: Any, *, cases: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """shard_indices for every rank of each case: rows of `length` samples, cut or filled up with -1. Global states differ by case.

    next: of each case, what the global generator gives afterwards.
    """
    answer, drawn = {}, []
    for number, case in enumerate(cases):
        num_samples, world_size, length = case["num_samples"], case["world_size"], case["length"]
        options = {name: case[name] for name in ("epoch", "seed", "shuffle", "drop_last") if name in case}
        rows = torch.full((world_size, length), -1, dtype=torch.int64)
        torch.manual_seed(int(at.inputs["seeds"][number]))
        torch.rand(number + 1)  # so that the state is more than its seed
        for rank in range(world_size):
            read = list(map(int, at.submission.shard_indices(num_samples, rank, world_size, **options)))[:length]
            rows[rank, : len(read)] = torch.tensor(read, dtype=torch.int64)
        answer[f"case_{number}"] = rows
        drawn.append(torch.rand(2, dtype=torch.float64))
    return answer | {"next": torch.stack(drawn)}


# --- per_parameter and flat ------------------------------------------------------------------------------------------
def reduce_gradients(
    at: Any,
    *,
    function: str,
    missing: dict[str, list[int]] | None = None,
    frozen: Sequence[str] = (),
    layout: str = "plain",
    members: list[int] | None = None,
) -> dict[str, torch.Tensor]:
    """One call on parameters with the inputs as gradients; what each grad holds afterwards. missing[name]: ranks that have none."""
    group, takes_part = group_of(at, members)
    parameters = {}
    for name, memory in at.inputs.items():
        gradient = view(memory, layout)
        parameter = nn.Parameter(torch.zeros(gradient.shape, dtype=gradient.dtype))
        if at.rank not in (missing or {}).get(name, ()):
            parameter.grad = gradient
        parameter.requires_grad_(name not in frozen)
        parameters[name] = parameter
    if takes_part:
        with at.phase("reduce"):
            getattr(at.submission, function)(iter(parameters.values()), group=group)
    return {name: gradient_of(parameter) for name, parameter in parameters.items()}


# --- replicas --------------------------------------------------------------------------------------------------------
def broadcast_state(at: Any, *, members: list[int] | None = None, **description: Any) -> dict[str, torch.Tensor]:
    """broadcast_module_state of a Chosen module with inputs value/<name> and buffer/<name>; what they hold afterwards."""
    group, takes_part = group_of(at, members)
    module = Chosen(at.inputs, **description)
    memory = {name: tensor.data_ptr() for name, tensor in module.state().items()}
    if takes_part:
        at.submission.broadcast_module_state(module, group=group)
    at.report(moved=[name for name, tensor in module.state().items() if tensor.data_ptr() != memory[name]])
    return module.state()


# --- buckets ---------------------------------------------------------------------------------------------------------
def buckets(at: Any, *, cases: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """assign_buckets: rows of (bucket, place in it) for each parameter, -1 where it is in none; and how often parameters were named."""
    answer, num_buckets, num_named = {}, [], []
    for number, case in enumerate(cases):
        parameters = [
            nn.Parameter(torch.zeros(shape, dtype=getattr(torch, dtype)), requires_grad=is_trained)
            for dtype, shape, is_trained in case["parameters"]
        ]
        assigned = [list(bucket) for bucket in at.submission.assign_buckets(iter(parameters), case["bucket_bytes"])]
        places = torch.full((len(parameters), 2), -1, dtype=torch.int64)
        number_of = {parameter: index for index, parameter in enumerate(parameters)}
        for index, bucket in enumerate(assigned):
            for place, parameter in enumerate(bucket):
                places[number_of[parameter]] = torch.tensor([index, place])
        answer[f"case_{number}"] = places
        num_buckets.append(len(assigned))
        num_named.append(sum(map(len, assigned)))
    at.report(num_buckets=num_buckets, num_named=num_named)
    return answer


# --- DistributedDataParallel -----------------------------------------------------------------------------------------
def train(
    at: Any,
    *,
    bucket_bytes: int,
    steps: list[dict[str, Any]],
    members: list[int] | None = None,
    **description: Any,
) -> dict[str, torch.Tensor]:
    """Steps of a Chosen module; after each step its gradients, and after the constructor its state.

    Of a step: `micro_batches` (default 1), `unused` (micro-batch -> rank -> parameters that it doesn't use), `between`: what happens to
    the gradients before it ("none": set to None, "zero", "keep"), `interrupted`: the micro-batch in whose no_sync an exception is raised.
    Inputs: value/<name>, buffer/<name>, gradient/<step>/<micro-batch>/<name>.
    """
    group, takes_part = group_of(at, members)
    module = Chosen(at.inputs, **description)
    ddp: Any = None
    if takes_part:
        with at.phase("construct"):
            ddp = at.submission.DistributedDataParallel(module, group=group, bucket_bytes=bucket_bytes)
    answer = {name: tensor.clone() for name, tensor in module.state().items()}
    for number, step in enumerate(steps):
        clear(module, step.get("between", "none"))
        if takes_part:
            run_step(at, ddp, number, step)
        answer |= {f"gradient/{number}/{name}": gradient_of(p).clone() for name, p in module.named_parameters()}
    return answer


def run_step(at: Any, ddp: Any, number: int, step: dict[str, Any]) -> None:
    """Forward and backward of each micro-batch, all but the last under no_sync, then the end of the synchronization."""
    last = step.get("micro_batches", 1) - 1
    for micro_batch in range(last + 1):
        gradients = parts_of(at.inputs, f"gradient/{number}/{micro_batch}")
        skipped = step.get("unused", {}).get(str(micro_batch), {}).get(str(at.rank), [])
        used = {name: gradient for name, gradient in gradients.items() if name not in skipped}
        is_last = micro_batch == last
        with at.phase(f"step {number}" if is_last else f"step {number} no_sync"), accumulating(at, ddp, not is_last, step):
            output = ddp(factors=used)
            if not isinstance(output, tuple):
                raise TypeError(f"the module returns a tuple; ddp(...) returned a {type(output).__name__}")
            output[0].backward()
            if micro_batch == step.get("interrupted"):
                raise Interrupted
    with at.phase(f"step {number}"):
        ddp.finish_gradient_synchronization()


class Interrupted(Exception):
    """An exception that leaves a no_sync block and is caught outside of it."""


@contextlib.contextmanager
def accumulating(at: Any, ddp: Any, is_on: bool, step: dict[str, Any]) -> Iterator[None]:
    """no_sync or nothing; an inner no_sync that has ended already, if the step says so. Reports whether an exception has left it."""
    if not is_on:
        yield
        return
    try:
        with ddp.no_sync():
            if step.get("nested"):
                with ddp.no_sync():
                    pass
            yield
    except Interrupted:
        at.report(has_left=True)


def chain(at: Any, *, num_layers: int, bucket_bytes: int, rows: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """One step of a chain of linear layers on this rank's part of a batch; its gradients.

    The loss of a row is its squared error, over all outputs. Without `rows`, backward from the mean over this rank's rows; with them,
    in micro-batches of rows[rank] rows from the sums, times mean_loss_scale.
    """
    module = Chain(at.inputs, num_layers)
    ddp = at.submission.DistributedDataParallel(module, bucket_bytes=bucket_bytes)
    x, y = at.inputs["x"], at.inputs["y"]
    mine = rows[at.rank] if rows else [len(x)]
    scale = at.submission.mean_loss_scale(sum(mine)) if rows else 1 / len(x)
    for number, (inputs, targets) in enumerate(zip(x.split(mine), y.split(mine), strict=True)):
        with ddp.no_sync() if number < len(mine) - 1 else contextlib.nullcontext():
            ((ddp(inputs) - targets).square().sum() * scale).backward()
    ddp.finish_gradient_synchronization()
    return {name: gradient_of(parameter) for name, parameter in module.named_parameters()}


def loss_scale(at: Any, *, num_tokens: list[int], members: list[int] | None = None) -> dict[str, torch.Tensor]:
    """mean_loss_scale of this rank's number of tokens; 0 where the rank is no member."""
    group, takes_part = group_of(at, members)
    scale = float(at.submission.mean_loss_scale(num_tokens[at.rank], group=group)) if takes_part else 0.0
    return {"scale": torch.tensor(scale, dtype=torch.float64)}


def gated(at: Any, *, layers: list[str], gates_at: dict[str, str], bucket_bytes: int) -> dict[str, torch.Tensor]:
    """A step without gates, then one with them: gates_at[layer] stands at the output of that layer. Gradients of the second."""
    module = Stack(at, layers)
    ddp = at.submission.DistributedDataParallel(module, bucket_bytes=bucket_bytes)
    for phase, places in (("learn", {}), ("step", gates_at)):
        clear(module, "none")
        module.gates = places
        with at.phase(phase):
            ddp(at.inputs["signal"]).backward()
            ddp.finish_gradient_synchronization()
    return {name: gradient_of(parameter) for name, parameter in module.named_parameters()}


def timed(at: Any, *, layers: list[str], forward_s: float, backward_s: float, bucket_bytes: int, num_steps: int) -> None:
    """Steps of a stack whose layers have declared costs; the last one is in phase "step"."""
    module = Stack(at, layers, costs_s=(forward_s, backward_s))
    ddp = at.submission.DistributedDataParallel(module, bucket_bytes=bucket_bytes)
    for number in range(num_steps):
        clear(module, "none")
        with at.phase("step" if number == num_steps - 1 else "learn"):
            ddp(at.inputs["signal"]).backward()
            ddp.finish_gradient_synchronization()
            at.join()


# --- modules ---------------------------------------------------------------------------------------------------------
class Chosen(nn.Module):
    """Its forward is a sum of parameter times factor, so that the factors are the gradients.

    frozen: names without gradient; shared: a layer's name -> the parameter that it also has; layout: of all parameters and buffers;
    fleeting: buffers that the state dict leaves out. A buffer's name with dots is a path through modules.
    """

    def __init__(
        self,
        inputs: dict[str, torch.Tensor],
        *,
        frozen: Sequence[str] = (),
        shared: dict[str, str] | None = None,
        fleeting: Sequence[str] = (),
        layout: str = "plain",
    ) -> None:
        super().__init__()
        for name, value in parts_of(inputs, "value").items():
            self.register_parameter(name, nn.Parameter(view(value, layout), requires_grad=name not in frozen))
        for name, value in parts_of(inputs, "buffer").items():
            home: nn.Module = self
            *path, leaf = name.split(".")
            for step in path:
                if step not in dict(home.named_children()):
                    home.add_module(step, nn.Module())
                home = home.get_submodule(step)
            home.register_buffer(leaf, view(value, layout), persistent=name not in fleeting)
        for other, name in (shared or {}).items():
            layer = nn.Module()
            layer.register_parameter("shared", getattr(self, name))
            self.add_module(other, layer)

    def forward(self, *, factors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, int]:
        """The sum over `factors`, and how many they are; 0, with a gradient for nobody, where there are none."""
        total = torch.zeros((), dtype=torch.float64, requires_grad=True)
        for path, parameter in self.named_parameters(remove_duplicate=False):
            name = path.removesuffix(".shared")
            if name in factors and parameter.requires_grad:
                total = total + (parameter * factors[name]).sum().double()
        return total, len(factors)

    def state(self) -> dict[str, torch.Tensor]:
        parameters = {f"value/{name}": parameter.detach() for name, parameter in self.named_parameters()}
        return parameters | {f"buffer/{name}": buffer for name, buffer in self.named_buffers()}


class Chain(nn.Module):
    """Linear layers and nothing between them: weight_0, bias_0, weight_1, …; rank r starts from the inputs of its own."""

    def __init__(self, inputs: dict[str, torch.Tensor], num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        for layer in range(num_layers):
            for name in (f"weight_{layer}", f"bias_{layer}"):
                self.register_parameter(name, nn.Parameter(inputs[name].clone()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in range(self.num_layers):
            x = nn.functional.linear(x, getattr(self, f"weight_{layer}"), getattr(self, f"bias_{layer}"))
        return x


class Stack(nn.Module):
    """Each layer adds the column sums of parameter times input to a flow, so that a parameter's gradient is its input times the signal.

    Backward comes to the layers in turn, last layer first. A gate adds the judge's numbers to the signal on its way.
    """

    def __init__(self, at: Any, layers: list[str], costs_s: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.at, self.layers, self.costs_s = at, layers, costs_s
        self.gates: dict[str, str] = {}
        for name in layers:
            self.register_parameter(name, nn.Parameter(torch.zeros_like(at.inputs[name])))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        flow = torch.zeros_like(signal, requires_grad=True)
        for name in self.layers:
            flow = flow + (getattr(self, name) * self.at.inputs[name]).sum(0)
            if self.costs_s:
                flow = Cost.apply(flow, self.at, name, *self.costs_s)
            if name in self.gates:
                flow = Gate.apply(flow, self.at, self.gates[name])
        return (flow * signal).sum()


class Gate(torch.autograd.Function):
    """Nothing forward; backward, the judge's numbers are added to what goes on to the layers before."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, at: Any, name: str) -> torch.Tensor:
        ctx.at, ctx.name = at, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient + ctx.at.gate(ctx.name, gradient), None, None


class Cost(torch.autograd.Function):
    """Stands behind a layer: its backward runs before the layer's own, so the clock moves before the layer's gradient is complete."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, at: Any, name: str, forward_s: float, backward_s: float) -> torch.Tensor:
        ctx.at, ctx.name, ctx.backward_s = at, name, backward_s
        at.compute(forward_s, f"forward {name}")
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        ctx.at.compute(ctx.backward_s, f"backward {ctx.name}")
        return gradient, None, None, None, None


# --- shared ----------------------------------------------------------------------------------------------------------
def group_of(at: Any, members: list[int] | None) -> tuple[Any, bool]:
    """The group of these global ranks (None: everybody) and whether this rank is one of them. All ranks make it together."""
    if members is None:
        return None, True
    return dist.new_group(members), at.rank in members


def view(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """The tensor that a submission gets: all of `memory`, or a part of it that isn't contiguous."""
    if layout == "transposed":
        return memory.mT if memory.dim() > 1 else memory
    return memory[::2] if layout == "every_second" and memory.dim() else memory


def parts_of(inputs: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Inputs called <prefix>/<name>, by name."""
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in inputs.items() if name.startswith(f"{prefix}/")}


def clear(module: nn.Module, between: str) -> None:
    """What a training loop does to gradients between two steps."""
    if between != "keep":
        module.zero_grad(set_to_none=between == "none")


def gradient_of(parameter: nn.Parameter) -> torch.Tensor:
    """A parameter's gradient, zeros where there is none."""
    return torch.zeros_like(parameter.detach()) if parameter.grad is None else parameter.grad.detach()
