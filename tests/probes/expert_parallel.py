"""What runs beside a submission to `expert_parallel`: it drives router, exchanges and layers and reports what they did. No opinions."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def group_of(at: Any, groups: list[list[int]] | None) -> Any:
    """None for the default group, or that one of `groups` to which this rank belongs; all ranks make all of them."""
    made = {rank: group for members in groups or [] for group in [dist.new_group(members)] for rank in members}
    return made.get(at.rank)


def gradient_of(x: torch.Tensor) -> torch.Tensor:
    """A leaf's gradient, zeros where there is none."""
    return torch.zeros_like(x.detach()) if x.grad is None else x.grad.detach()


def turned(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in memory of their own; "transposed": with the first dim innermost."""
    return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim))) if layout == "transposed" else x.clone()


def backward(y: torch.Tensor, gradient: torch.Tensor) -> None:
    """y's backward, nothing where it has left the graph: others may then wait for ever, and it is seen who has made them."""
    if y.requires_grad:
        y.backward(gradient)


# --- route and balance -----------------------------------------------------------------------------------------------
def capacities(at: Any, *, cases: list[list[float]]) -> dict[str, torch.Tensor]:
    """expert_capacity of every case (T, E, K, factor), and the types of what it returned."""
    returned = [at.submission.expert_capacity(int(t), int(e), int(k), factor) for t, e, k, factor in cases]
    at.report(types=sorted({type(capacity).__name__ for capacity in returned}))
    return {"capacities": torch.tensor([float(capacity) for capacity in returned], dtype=torch.float64)}


def routing(
    at: Any, *, top_k: int, capacity_factor: float | None, renormalize: bool = False, layout: str = "plain"
) -> dict[str, torch.Tensor]:
    """route on the input logits; the gradient of (weights · gw + probabilities · gp) with respect to them; and the logits afterwards."""
    memory = at.inputs["logits"]
    logits = (memory.t() if layout == "transposed" else memory).detach().requires_grad_()
    options = {"renormalize": True} if renormalize else {}
    routed = at.submission.route(logits, top_k, capacity_factor, **options)
    total = (routed.weights * at.inputs["gw"]).sum() + (routed.probabilities * at.inputs["gp"]).sum()
    if total.requires_grad:
        total.backward()
    at.report(is_learning=[part.requires_grad for part in (routed.weights, routed.probabilities)])
    return {
        "experts": routed.experts, "weights": routed.weights.detach(), "probabilities": routed.probabilities.detach(),
        "kept": routed.kept, "dlogits": gradient_of(logits), "logits after": logits.detach(),
    }  # fmt: skip


def given_routing(at: Any, num_experts: int, probabilities: torch.Tensor | None = None) -> Any:
    """A Routing of the inputs experts, weights and kept; its weights are a leaf. Its probabilities matter by their width only."""
    experts, weights, kept = (at.inputs[name] for name in ("experts", "weights", "kept"))
    if probabilities is None:
        probabilities = torch.zeros(len(experts), num_experts, dtype=weights.dtype)
    return at.submission.Routing(probabilities, experts, weights.detach().requires_grad_(), kept)


def balance(at: Any, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
    """load_balancing_loss of the given routing, and the gradient of its probabilities times `scale`."""
    probabilities = at.inputs["probabilities"].detach().requires_grad_()
    loss = at.submission.load_balancing_loss(given_routing(at, probabilities.shape[1], probabilities))
    if loss.requires_grad:
        loss.backward(torch.tensor(scale, dtype=loss.dtype))
    at.report(has_graph=probabilities.grad is not None)
    return {"loss": loss.detach(), "dprobabilities": gradient_of(probabilities)}


# --- exchange --------------------------------------------------------------------------------------------------------
def exchange(
    at: Any, *, sent: list[list[list[int]]], layout: str = "plain", groups: list[list[int]] | None = None, is_trained: bool = True
) -> dict[str, torch.Tensor]:
    """all_to_all_rows for each matrix of `sent` (sent[call][i][j]: rows of place i for place j), then their backwards in the same order.

    Layout "transposed": dims 0 and 1 of x and of the gradient lie swapped; "expanded": the gradient is one row, repeated.
    """
    group = group_of(at, groups)
    place = dist.get_rank(group)
    inputs, outputs = [], []
    for call, matrix in enumerate(sent):
        memory = at.inputs[f"x{call}"]
        x = (memory.transpose(0, 1) if layout == "transposed" else memory).detach().requires_grad_(is_trained)
        with at.phase(f"forward {call}"):
            y = at.submission.all_to_all_rows(x, matrix[place], [row[place] for row in matrix], group)
        inputs.append(x)
        outputs.append(y)
    answer = {f"y{call}": y.detach() for call, y in enumerate(outputs)}
    for call, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
        if is_trained:
            memory = at.inputs[f"gradient{call}"]
            incoming = memory.transpose(0, 1) if layout == "transposed" else memory
            if layout == "expanded":
                incoming = incoming.expand(y.shape)
            with at.phase(f"backward {call}"):
                backward(y, incoming)
            answer |= {f"dx{call}": gradient_of(x), f"gradient{call} after": memory}
        answer[f"x{call} after"] = at.inputs[f"x{call}"]
    return answer


# --- dispatch --------------------------------------------------------------------------------------------------------
def there_and_back(
    at: Any, *, num_experts: int, layout: str = "plain", groups: list[list[int]] | None = None, num_calls: int = 1
) -> dict[str, torch.Tensor]:
    """dispatch x by the given routing; rows' backward with gradient_rows; combine of the given outputs, its backward with gradient_y.

    Several calls: all dispatches come before all combines, and these before all backwards; call c has x + c and outputs + c.
    """
    group = group_of(at, groups)
    routed = given_routing(at, num_experts)
    xs, arrived, outputs, ys = [], [], [], []
    for call in range(num_calls):
        memory = at.inputs["x"]
        x = ((memory.t() if layout == "transposed" else memory).detach() + call).requires_grad_()
        with at.phase(f"dispatch {call}"):
            arrived.append(at.submission.dispatch(x, routed, group))
        xs.append(x)
    for call in range(num_calls):
        memory = at.inputs["outputs"]
        outputs.append(((memory.t() if layout == "transposed" else memory).detach() + call).requires_grad_())
        with at.phase(f"combine {call}"):
            ys.append(at.submission.combine(outputs[-1], arrived[call]))
    answer = {}
    for call in range(num_calls):
        with at.phase(f"combine backward {call}"):
            backward(ys[call], at.inputs["gradient_y"])
        with at.phase(f"dispatch backward {call}"):
            backward(arrived[call].rows, at.inputs["gradient_rows"])
        answer |= {f"rows {call}": arrived[call].rows.detach(), f"y {call}": ys[call].detach()}
        answer |= {f"dx {call}": gradient_of(xs[call]), f"doutputs {call}": gradient_of(outputs[call])}
        answer |= {f"x {call} after": xs[call].detach(), f"outputs {call} after": outputs[call].detach()}
    at.report(
        num_rows=[list(map(int, each.num_rows)) for each in arrived],
        kinds=[sorted({type(number).__name__ for number in each.num_rows}) for each in arrived],
    )
    after = {"weights after": routed.weights.detach(), "kept after": routed.kept, "experts after": routed.experts}
    after |= {f"{name} after": at.inputs[name] for name in ("gradient_y", "gradient_rows")}
    return answer | {"dweights": gradient_of(routed.weights)} | after


def large(at: Any, *, num_tokens: int, num_experts: int, num_channels: int) -> dict[str, torch.Tensor]:
    """dispatch and combine of many tokens, forward and backward: token t has experts t and 7 t + 1 (mod E), t / 256 as its numbers."""
    token = torch.arange(num_tokens)
    experts = torch.stack((token % num_experts, (7 * token + 1) % num_experts), 1)
    weights = torch.full((num_tokens, 2), 0.5, requires_grad=True)
    probabilities = torch.zeros(num_tokens, num_experts)
    x = (token / 256)[:, None].repeat(1, num_channels).requires_grad_()
    kept = torch.stack((torch.ones(num_tokens, dtype=torch.bool), experts[:, 0] != experts[:, 1]), 1)
    routed = at.submission.Routing(probabilities, experts, weights, kept)
    arrived = at.submission.dispatch(x, routed)
    y = at.submission.combine(2 * arrived.rows, arrived)
    y.backward(torch.ones_like(y))
    return {"y": y.detach()[:, 0].clone(), "dx": gradient_of(x)[:, 0].clone(), "dweights": gradient_of(weights)}


# --- the layer -------------------------------------------------------------------------------------------------------
class Expert(nn.Module):
    """Two matrices with a tanh between them; says how often it was called and with how many rows."""

    def __init__(self, num_in: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(num_in, width, dtype=dtype), nn.Linear(width, num_in, dtype=dtype)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        return self.down(self.up(x).tanh())


NAMES = ("up.weight", "up.bias", "down.weight", "down.bias")


def made(at: Any) -> tuple[nn.Linear, list[Expert]]:
    """The router and all experts with the inputs as their weights."""
    weight, up = at.inputs["router.weight"], at.inputs["up.weight"]
    router = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    experts = [Expert(up.shape[2], up.shape[1], up.dtype) for _ in up]
    with torch.no_grad():
        for name, parameter in router.named_parameters():
            parameter.copy_(at.inputs[f"router.{name}"])
        for index, expert in enumerate(experts):
            for name, parameter in expert.named_parameters():
                parameter.copy_(at.inputs[name][index])
    return router, experts


def layer(
    at: Any, *, options: dict[str, Any], groups: list[list[int]] | None = None, num_calls: int = 1, is_input_trained: bool = True,
    balance_weight: float = 0.5, layout: str = "plain",
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Forward with each x, then backward of each y · gradient + balance_weight · loss; parameters' gradients add up."""
    group = group_of(at, groups)
    router, experts = made(at)
    given = {id(p): f"{index}.{name}" for index, expert in enumerate(experts) for name, p in expert.named_parameters()}
    moe = at.submission.ExpertParallelMoE(router, experts, group, **options)
    found = [(name, p) for name, p in moe.named_parameters() if not name.startswith("router.")]
    at.report(
        names=[name for name, _ in moe.named_parameters()],
        are=[given.get(id(p), "") for _, p in found],
        marked=[name for name, p in moe.named_parameters() if getattr(p, "is_expert", False)],
        is_router=moe.router is router,
    )
    others = {index: weakref.ref(expert.up.weight) for index, expert in enumerate(experts)}
    here = list(moe.experts)
    del experts, found
    gc.collect()
    at.report(alive=[index for index, other in others.items() if other() is not None])
    xs = [turned(at.inputs[f"x{call}"], layout).requires_grad_(is_input_trained) for call in range(num_calls)]
    calls = []
    for call, x in enumerate(xs):
        with at.phase(f"forward {call}"):
            calls.append(moe(x))
    for call, (y, loss) in enumerate(calls):
        with at.phase(f"backward {call}"):
            gradient = at.inputs[f"gradient{call}"]
            weighted = y * gradient if y.shape == gradient.shape else y
            (weighted.sum() + balance_weight * loss).backward()
    missing = [name for name, p in moe.named_parameters() if p.grad is None]
    at.report(missing=missing, seen=[expert.seen for expert in here])
    answer = {f"d{name}": torch.stack([gradient_of(dict(expert.named_parameters())[name]) for expert in here]) for name in NAMES}
    answer |= {f"drouter.{name}": gradient_of(p) for name, p in router.named_parameters()}
    for call, (y, loss) in enumerate(calls):
        answer |= {f"y{call}": y.detach(), f"loss{call}": loss.detach()}
        answer |= {f"dx{call}": gradient_of(xs[call]), f"x{call} after": xs[call].detach()}
    return answer


def refusals(at: Any, *, num_experts: int) -> None:
    """The constructor's and dispatch's errors for E experts: type and message, "" where nothing was raised."""
    raised = {}
    for what in ("ExpertParallelMoE", "dispatch"):
        try:
            with at.phase("refusal"):
                refused(at, what, num_experts)
            raised[what] = ("", "")
        except NotImplementedError:
            raise
        except Exception as error:
            raised[what] = (type(error).__name__, str(error))
    at.report(raised=raised)


def refused(at: Any, what: str, num_experts: int) -> None:
    """One call that can't be done."""
    if what == "dispatch":
        experts = torch.zeros(3, 1, dtype=torch.int64)
        routed = at.submission.Routing(torch.zeros(3, num_experts), experts, torch.ones(3, 1), torch.ones(3, 1, dtype=torch.bool))
        at.submission.dispatch(torch.ones(3, 2), routed)
    else:
        at.submission.ExpertParallelMoE(nn.Linear(2, num_experts), [nn.Linear(2, 2) for _ in range(num_experts)], top_k=1)


# --- gradients -------------------------------------------------------------------------------------------------------
def average(
    at: Any, *, expert: Sequence[str], frozen: Sequence[str], missing: dict[str, list[int]], groups: list[list[int]],
    replicas: list[list[int]], layout: str = "plain",
) -> dict[str, torch.Tensor]:  # fmt: skip
    """average_gradients of parameters with the inputs as gradients; `expert` are marked, missing[name] are ranks that have none."""
    group, twins = group_of(at, groups), group_of(at, replicas)
    parameters = {}
    for name, gradient in at.inputs.items():
        parameters[name] = parameter = nn.Parameter(torch.ones_like(gradient), requires_grad=name not in frozen)
        parameter.grad = None if at.rank in missing.get(name, ()) else turned(gradient, layout)
        if name in expert:
            parameter.is_expert = True
    with at.phase("average"):
        at.submission.average_gradients(iter(parameters.values()), group, twins)
    at.report(absent=[name for name, p in parameters.items() if p.grad is None])
    return {name: gradient_of(p) for name, p in parameters.items()}
