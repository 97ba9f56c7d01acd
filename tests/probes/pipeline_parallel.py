"""What runs beside a submission to `pipeline_parallel`: it asks for schedules, has them timed and executed, and reports what happened.

A schedule travels as rows [kind, stage, micro-batch], a list of rows for each rank. No opinions, no expected values.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

M_MMAP_THRESHOLD = -3  # malloc.h
Rows = list[list[list[Any]]]  # by rank: kind, stage, micro-batch


# --- schedules -------------------------------------------------------------------------------------------------------
def schedules(at: Any, *, function: str, cases: list[list[int]]) -> None:
    """What `function` returns for the arguments of each case, as rows; or the name of what it raised, if that is a ValueError."""
    answers: list[Any] = []
    for arguments in cases:
        try:
            answers.append(rows_of(getattr(at.submission, function)(*arguments)))
        except ValueError as refusal:
            answers.append(type(refusal).__name__)
    at.report(schedules=answers)


def rows_of(schedule: Any) -> Rows:
    """Plain data of whatever sequences of triples came back."""
    return [[[str(kind), int(stage), int(micro_batch)] for kind, stage, micro_batch in actions] for actions in schedule]


def actions_of(at: Any, rows: Rows) -> Any:
    """The submission's own records."""
    return [[at.submission.Action(*row) for row in actions] for actions in rows]


def bubbles(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """bubble_fraction of each case's schedule and costs; the name of the exception where it is a ValueError."""
    answers: list[Any] = []
    for case in cases:
        try:
            answers.append(float(at.submission.bubble_fraction(actions_of(at, case["schedule"]), case["costs"])))
        except ValueError as refusal:
            answers.append(type(refusal).__name__)
    at.report(bubbles=answers)


# --- the executor ----------------------------------------------------------------------------------------------------
def execute(
    at: Any,
    *,
    schedule: Rows,
    num_stages: int,
    costs: dict[str, list[float]] | None = None,
    num_runs: int = 1,
    frozen: list[int] | None = None,
    members: list[int] | None = None,
    has_gradient_group: bool = False,
    layout: str = "plain",
    before: Rows | None = None,
) -> dict[str, torch.Tensor]:
    """Runs of a pipeline of `Layer`s; gradients of this rank's stages, the last run's loss (NaN where there is none), and counts.

    layout: of what a stage returns. before: a schedule of some micro-batches that is run first; its gradients are thrown away.

    Inputs: weight [V, D, D] and bias [V, D] of this rank's stages, x [M, rows, 1 + D] where stage 0 lives, target likewise where the last
    one does (empty elsewhere). Column 0 of x holds the number of the micro-batch.
    """
    group, takes_part = group_of(members)
    gradient_group = dist.new_group(members) if has_gradient_group else None
    num_ranks = len(members or range(at.world_size))
    gauge = Gauge()
    layers = {}
    for chunk, (weight, bias) in enumerate(zip(at.inputs["weight"], at.inputs["bias"], strict=True)):
        stage = chunk * num_ranks + dist.get_rank(group) if takes_part else -1
        layers[stage] = Layer(at, gauge, stage, weight, bias, costs, is_frozen=stage in (frozen or ()), layout=layout)
    answer = {"loss": torch.tensor(float("nan"), dtype=at.inputs["boundary"].dtype)}
    if takes_part:
        boundary = at.inputs["boundary"]
        pipe = at.submission.PipelineStage(layers, num_stages, boundary, lopsided, group=group, gradient_group=gradient_group)
        x, target = given(at.inputs["x"]), given(at.inputs["target"])
        if before is not None:
            num_micro_batches = 1 + max(micro_batch for actions in before for _, _, micro_batch in actions)
            pipe.run(actions_of(at, before), inputs=x and x[:num_micro_batches], targets=target and target[:num_micro_batches])
            for layer in layers.values():
                layer.weight.grad = layer.bias.grad = None
        for number in range(num_runs):
            with at.phase(f"run {number}"):
                loss = pipe.run(actions_of(at, schedule), inputs=x, targets=target)
                at.join()
        if loss is not None:
            answer["loss"] = loss
        marked = [n for n, each in enumerate(x or []) if each.requires_grad]
        at.report(has_loss=loss is not None, is_loss_detached=loss is None or not loss.requires_grad, marked_inputs=marked, **gauge.facts())
    answer["x"] = at.inputs["x"].detach()
    answer["weight"] = torch.stack([gradient_of(layer.weight) for layer in layers.values()])
    answer["bias"] = torch.stack([gradient_of(layer.bias) for layer in layers.values()])
    return answer


def group_of(members: list[int] | None) -> tuple[Any, bool]:
    """A new group of these ranks, or None for all; and whether this rank is in it."""
    if members is None:
        return None, True
    return dist.new_group(members), dist.get_rank() in members


def given(batch: torch.Tensor) -> list[torch.Tensor] | None:
    """The micro-batches; None where this rank has none."""
    return list(batch.unbind()) if batch.ndim > 1 else None


def gradient_of(parameter: nn.Parameter) -> torch.Tensor:
    """Its grad; zeros where there is none."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def mean_square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean over all elements of a micro-batch."""
    return (output - target).square().mean()


def lopsided(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The same with the target counted twice: another number if output and target change places."""
    return mean_square(output, 2 * target)


class Layer(nn.Module):
    """A stage: tanh of a linear map of all columns but the first, which passes unchanged and says which micro-batch this is."""

    def __init__(
        self, at: Any, gauge: Gauge, stage: int, weight: torch.Tensor, bias: torch.Tensor, costs: Any, *, is_frozen: bool, layout: str
    ) -> None:
        super().__init__()
        self.at, self.gauge, self.stage, self.layout = at, gauge, stage, layout
        self.weight = nn.Parameter(weight.clone(), requires_grad=not is_frozen)
        self.bias = nn.Parameter(bias.clone(), requires_grad=not is_frozen)
        self.costs_s = (costs["F"][stage], costs["B"][stage]) if costs else (0.0, 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        marker = float(x.detach()[0, 0])
        micro_batch = int(marker) if marker == marker and abs(marker) < 1e6 else -1
        with self.gauge.saving():
            # The node stands behind the arithmetic, so that its backward is the first of this stage.
            output = torch.tanh(nn.functional.linear(x[:, 1:], self.weight, self.bias))
            output = laid_out(torch.cat([x[:, :1], output], dim=1), self.layout)
        return Node.apply(output, self, micro_batch)


class Node(torch.autograd.Function):
    """Declares the stage's costs, forward and backward, and is counted as long as its graph lives."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, layer: Layer, micro_batch: int) -> torch.Tensor:
        ctx.layer, ctx.micro_batch, ctx.ticket = layer, micro_batch, Ticket(layer.gauge)
        layer.at.compute(layer.costs_s[0], f"F {layer.stage} {micro_batch}")
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        ctx.layer.at.compute(ctx.layer.costs_s[1], f"B {ctx.layer.stage} {ctx.micro_batch}")
        return gradient, None, None


class Gauge:
    """Graphs of stages that are alive on this rank, and bytes that they have saved for their backward."""

    def __init__(self) -> None:
        self.num_graphs = self.peak_graphs = 0
        self.saved_bytes = self.peak_saved_bytes = self.largest_bytes = 0

    def saving(self) -> Any:
        """A context in which what autograd saves is counted as long as it is kept; parameters are not."""
        before = self.saved_bytes

        def pack(tensor: torch.Tensor) -> Any:
            if isinstance(tensor, nn.Parameter):
                return tensor
            kept = Kept(self, tensor)
            self.largest_bytes = max(self.largest_bytes, self.saved_bytes - before)
            return kept

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept.tensor if isinstance(kept, Kept) else kept)

    def facts(self) -> dict[str, int]:
        return {
            "peak_graphs": self.peak_graphs,
            "left_graphs": self.num_graphs,
            "peak_saved_bytes": self.peak_saved_bytes,
            "left_saved_bytes": self.saved_bytes,
            "one_saved_bytes": self.largest_bytes,
        }


class Ticket:
    """Counts its graph as long as it lives."""

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge
        gauge.num_graphs += 1
        gauge.peak_graphs = max(gauge.peak_graphs, gauge.num_graphs)

    def __del__(self) -> None:
        self.gauge.num_graphs -= 1


class Kept:
    """A saved tensor, counted as long as it lives."""

    def __init__(self, gauge: Gauge, tensor: torch.Tensor) -> None:
        # An output that is saved as itself would hold its own graph for ever; a detached alias has the same memory.
        self.gauge, self.tensor, self.num_bytes = gauge, tensor.detach(), tensor.numel() * tensor.element_size()
        gauge.saved_bytes += self.num_bytes
        gauge.peak_saved_bytes = max(gauge.peak_saved_bytes, gauge.saved_bytes)

    def __del__(self) -> None:
        self.gauge.saved_bytes -= self.num_bytes


def heavy(at: Any, *, schedule: Rows, num_stages: int, num_elements: int) -> dict[str, torch.Tensor]:
    """A pipeline whose stages each keep `num_elements` float32 of every micro-batch in flight; the gradient of the rank's factor."""
    give_back_large_blocks()
    stages = {stage: Heavy(at.inputs["factor"], num_elements) for stage in range(at.rank, num_stages, at.world_size)}
    pipe = at.submission.PipelineStage(stages, num_stages, at.inputs["boundary"], mean_square)
    pipe.run(actions_of(at, schedule), inputs=given(at.inputs["x"]), targets=given(at.inputs["target"]))
    layers = stages.values()
    at.report(peak_outputs=max(layer.outputs.peak for layer in layers), peak_inputs=max(layer.inputs.peak for layer in layers))
    return {"factor": torch.stack([gradient_of(layer.factor) for layer in layers]).sum()}


def give_back_large_blocks() -> None:
    """Have glibc map every block from 1 MiB on by itself, so that a limit counts what is alive and not how the heap is torn."""
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20)


class Heavy(nn.Module):
    """x times a factor, as the first of many copies, all of which are kept for backward."""

    def __init__(self, factor: torch.Tensor, num_elements: int) -> None:
        super().__init__()
        self.factor, self.num_elements = nn.Parameter(factor.clone()), num_elements
        self.inputs, self.outputs = Alive(), Alive()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inputs.see(x)
        many = x.unsqueeze(0).expand(self.num_elements // x.numel(), *x.shape).contiguous()
        output = (many * self.factor)[0].clone()  # a view would keep the whole of it
        self.outputs.see(output)
        return output


class Alive:
    """How many of the memories that it has seen were there at once. The caller's micro-batches share one."""

    def __init__(self) -> None:
        self.memories: set[StorageWeakRef] = set()
        self.peak = 0

    def see(self, tensor: torch.Tensor) -> None:
        self.memories = {each for each in self.memories if not each.expired()} | {StorageWeakRef(tensor.untyped_storage())}
        self.peak = max(self.peak, len(self.memories))


# --- tied weights ----------------------------------------------------------------------------------------------------
def tied(at: Any, *, function: str, layout: str = "plain", members: list[int] | None = None, missing: list[int] | None = None) -> Any:
    """broadcast_tied_weight or all_reduce_tied_gradient of inputs value and gradient; what weight and grad hold afterwards."""
    group, takes_part = group_of(members)
    weight = nn.Parameter(laid_out(at.inputs["value"].clone(), layout))
    if at.rank not in (missing or ()):
        weight.grad = laid_out(at.inputs["gradient"].clone(), layout)
    memory = weight.data_ptr()
    if takes_part:
        with at.phase("tied"):
            getattr(at.submission, function)(weight, group=group)
    at.report(is_in_place=weight.data_ptr() == memory)
    return {"value": weight.detach().clone(), "gradient": gradient_of(weight).clone()}


def laid_out(memory: torch.Tensor, layout: str) -> torch.Tensor:
    """The same shape with other strides, if the layout says so."""
    return memory.mT.contiguous().mT if layout == "transposed" else memory


def language_model(at: Any, *, schedule: Rows, num_stages: int) -> dict[str, torch.Tensor]:
    """A pipeline from token numbers to logits whose first and last stage share their table; the table's value and gradient afterwards."""
    owners = sorted({0, (num_stages - 1) % at.world_size})
    group = dist.new_group(owners)
    table = nn.Parameter(at.inputs["table"].clone())
    stages: dict[int, nn.Module] = {}
    for stage in range(at.rank, num_stages, at.world_size):
        stages[stage] = Embed(table) if stage == 0 else Head(table) if stage == num_stages - 1 else nn.Tanh()
    if at.rank in owners:
        at.submission.broadcast_tied_weight(table, group=group)
    pipe = at.submission.PipelineStage(stages, num_stages, at.inputs["boundary"], mean_square)
    pipe.run(actions_of(at, schedule), inputs=given(at.inputs["tokens"]), targets=given(at.inputs["target"]))
    if at.rank in owners:
        at.submission.all_reduce_tied_gradient(table, group=group)
    return {"value": table.detach(), "gradient": gradient_of(table)}


class Embed(nn.Module):
    def __init__(self, table: nn.Parameter) -> None:
        super().__init__()
        self.table = table

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table[tokens]


class Head(nn.Module):
    def __init__(self, table: nn.Parameter) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.table.T
