"""Expert parallelism: every token is sent to the few experts that a router chose for it, wherever they live, and comes back weighted.

`group=None` means the default group, as in torch; "rank" and N count within the group. Every rank has tokens of its own, and possibly
none; expert e lives on rank e // L.
"""

# N ranks in the group; T tokens of this rank, C hidden size, E experts in all, L = E / N of them on each rank, K choices of each token;
# S rows that this rank sends, one for each kept choice of its tokens; R rows that it receives, one for each choice of its experts
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

Group = dist.ProcessGroup | None


@dataclass(frozen=True)
class Routing:
    """What the router has decided for this rank's tokens."""

    probabilities: Tensor  # (T, E): softmax of the logits
    experts: Tensor  # (T, K), int64: the chosen experts, best first
    weights: Tensor  # (T, K): by which an expert's output is multiplied; of dropped choices, too
    kept: Tensor  # (T, K), bool: False where the expert had no room for this choice


@dataclass(frozen=True)
class WayBack:
    """What combine has to know of dispatch. For yourself: put in it what you need."""

    sent: list[int]  # rows for each rank, N numbers
    received: list[int]  # rows from each rank, N numbers
    token_S: Tensor  # the token of each row, in the order in which the rows were sent
    weight_S: Tensor  # and its weight, with its graph
    arrival_R: Tensor  # which of the rows, in the order in which they arrived, stands at each place of Dispatched.rows
    num_tokens: int
    group: Group


@dataclass(frozen=True)
class Dispatched:
    """What has arrived for this rank's experts."""

    rows: Tensor  # (R, C): by expert, then by the rank that they come from, then by token
    num_rows: list[int]  # of each of the L experts here
    back: Any  # never looked at by the tests


# --- task route ------------------------------------------------------------------------------------------------------
def expert_capacity(num_tokens: int, num_experts: int, top_k: int, capacity_factor: float) -> int:
    """Return how many choices of one rank's tokens each expert takes: capacity_factor · T · K / E, rounded up."""
    # region solution expert_capacity
    # Products first: in floats 3.5 · (58 / 7) is a little more than 29, and would be rounded up to 30.
    return math.ceil(capacity_factor * num_tokens * top_k / num_experts)
    # endregion


def choices_with_room(experts_TK: Tensor, num_experts: int, capacity: int) -> Tensor:
    """Return (T, K) bool: which choices their expert takes. All first choices come before all second ones, and so on; each by token."""
    # region solution choices_with_room
    num_tokens, top_k = experts_TK.shape
    in_order = experts_TK.t().reshape(-1)  # (K·T): the queue before all experts
    chosen = F.one_hot(in_order, num_experts)  # (K·T, E)
    # The running count down a column numbers the queue before one expert, from 1; of each row we want the column of its own expert.
    place = chosen.cumsum(0).gather(1, in_order[:, None])[:, 0]
    return (place <= capacity).view(top_k, num_tokens).t()
    # endregion


def route(logits: Tensor, top_k: int, capacity_factor: float | None, *, renormalize: bool = False) -> Routing:
    """Choose `top_k` experts for each row of logits (T, E).

    Chosen are the largest logits; of equal ones, the expert with the lower number. Weights are the softmax over all E experts, float32
    (float64 of float64), with `renormalize` divided by the sum of the token's K. capacity_factor None: every choice is kept.
    """
    # region solution route
    num_tokens, num_experts = logits.shape
    # topk says nothing about the order of equal logits; a stable sort leaves them in theirs.
    experts = logits.detach().sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    # 16-bit probabilities would lose a small one beside a large one, and their sums.
    probabilities = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(-1)
    weights = probabilities.gather(1, experts)  # differentiable: the only road from the loss to the router
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    if capacity_factor is None:
        return Routing(probabilities, experts, weights, torch.ones_like(experts, dtype=torch.bool))
    capacity = expert_capacity(num_tokens, num_experts, top_k, capacity_factor)
    return Routing(probabilities, experts, weights, choices_with_room(experts, num_experts, capacity))
    # endregion


# --- task exchange ---------------------------------------------------------------------------------------------------
class AllToAllRows(torch.autograd.Function):
    """Rows change ranks, as many to each as `sent` says; their gradients go home."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: Sequence[int], received: Sequence[int], group: Group) -> Tensor:
        """x (S, ...) in the order of the ranks that get its rows; what is returned (R, ...) in the order of those that sent them."""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x.contiguous(), ctx.received, ctx.sent, group=group)
        return arrived
        # endregion

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """The transpose of a permutation is the way back: what was sent is received."""
        # region solution exchange_backward
        home = gradient.new_empty((sum(ctx.sent), *gradient.shape[1:]))
        # contiguous: the gradient of a sum, for one, is a single number with strides of 0
        dist.all_to_all_single(home, gradient.contiguous(), ctx.sent, ctx.received, group=ctx.group)
        return home, None, None, None
        # endregion


def all_to_all_rows(x: Tensor, sent: Sequence[int], received: Sequence[int], group: Group = None) -> Tensor:
    """Send `sent[i]` rows of x, in order, to rank i; return the `received[i]` rows of each rank i, in the order of the ranks."""
    return AllToAllRows.apply(x, sent, received, group)  # type: ignore[no-any-return]


def exchange_counts(num_rows_E: Tensor, group: Group = None) -> Tensor:
    """Given how many rows this rank has for each expert, int64, return (N, L): how many each rank has for each expert that lives here."""
    # region solution exchange_counts
    from_ranks = torch.empty_like(num_rows_E)
    dist.all_to_all_single(from_ranks, num_rows_E.contiguous(), group=group)  # L numbers to each rank
    return from_ranks.view(dist.get_world_size(group), -1)
    # endregion


# --- task dispatch ---------------------------------------------------------------------------------------------------
def dispatch(x: Tensor, routing: Routing, group: Group = None) -> Dispatched:
    """Send each kept choice's row of x (T, C) to the rank of its expert; ValueError where N doesn't divide E."""
    # region solution dispatch
    num_tokens, num_experts = routing.probabilities.shape
    world_size = dist.get_world_size(group)
    if num_experts % world_size:
        raise ValueError(f"{num_experts} experts can't be spread evenly over {world_size} ranks")
    # By expert, and so by rank; stable, so that an expert's rows stay in the order of the tokens.
    token, choice = routing.kept.nonzero(as_tuple=True)
    expert, order = routing.experts[token, choice].sort(stable=True)
    token, choice = token[order], choice[order]
    here_E = torch.bincount(expert, minlength=num_experts)  # minlength: experts that nobody chose count, too
    there_NL = exchange_counts(here_E, group)
    # The splits of an all-to-all are Python numbers: here the CPU waits for the GPU, once.
    sent = here_E.view(world_size, -1).sum(1).tolist()
    received = there_NL.sum(1).tolist()
    arrived = all_to_all_rows(x[token], sent, received, group)
    # Rows arrive by rank and, from each, by expert. Experts want them by expert: label all rows, and sort the labels.
    labels = torch.arange(there_NL.shape[1], device=x.device).repeat(world_size).repeat_interleave(there_NL.flatten())
    arrival = labels.argsort(stable=True)
    back = WayBack(sent, received, token, routing.weights[token, choice], arrival, num_tokens, group)
    return Dispatched(arrived[arrival], there_NL.sum(0).tolist(), back)
    # endregion


def combine(outputs: Tensor, dispatched: Dispatched) -> Tensor:
    """Given the experts' outputs (R, C'), in the order of `dispatched.rows`, return (T, C'): each token's weighted sum."""
    # region solution combine
    back: WayBack = dispatched.back
    # What dispatch took from place arrival[i] to place i goes from i to arrival[i].
    as_arrived = outputs[back.arrival_R.argsort()]
    home = all_to_all_rows(as_arrived, back.received, back.sent, back.group)
    # Weighted here and not at the expert: then the weights' gradient, and so the router's, needs no word from any other rank.
    weighted = home.to(back.weight_S.dtype) * back.weight_S[:, None]
    total = weighted.new_zeros((back.num_tokens, weighted.shape[1]))
    return total.index_add(0, back.token_S, weighted).to(outputs.dtype)
    # endregion


# --- task balance ----------------------------------------------------------------------------------------------------
def load_balancing_loss(routing: Routing) -> Tensor:
    """Return E · Σₑ fₑ · Pₑ over this rank's tokens: f the experts' shares of all T·K choices, kept or not, P their mean probabilities."""
    # region solution load_balancing_loss
    num_tokens, num_experts = routing.probabilities.shape
    if num_tokens == 0:
        return routing.probabilities.sum()  # 0, with a graph: a mean of nothing would be NaN
    counts_E = torch.bincount(routing.experts.flatten(), minlength=num_experts)
    shares_E = counts_E.to(routing.probabilities.dtype) / routing.experts.numel()
    # Counts have no gradient. P has: where f is large, the probabilities are pushed down.
    return num_experts * (shares_E * routing.probabilities.mean(0)).sum()
    # endregion


# --- task layer ------------------------------------------------------------------------------------------------------
class ExpertParallelMoE(nn.Module):
    """A mixture of experts: the router on every rank, the experts on one rank each."""

    def __init__(
        self,
        router: nn.Linear,
        experts: Sequence[nn.Module],
        group: Group = None,
        *,
        top_k: int,
        capacity_factor: float | None = None,
        renormalize: bool = False,
    ) -> None:
        """Take the router and, of all E experts, the L that live on this rank; ValueError where N doesn't divide E.

        `self.router` is the given module, `self.experts` an nn.ModuleList of this rank's given ones, whose parameters are marked
        `parameter.is_expert = True`. No other expert is kept.
        """
        super().__init__()
        self.group, self.top_k, self.capacity_factor, self.renormalize = group, top_k, capacity_factor, renormalize
        # region solution moe_init
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        if len(experts) % world_size:
            raise ValueError(f"{len(experts)} experts can't be spread evenly over {world_size} ranks")
        num_here = len(experts) // world_size
        self.router = router
        self.experts = nn.ModuleList(experts[rank * num_here : (rank + 1) * num_here])
        for parameter in self.experts.parameters():
            parameter.is_expert = True  # type: ignore[attr-defined]
        # endregion

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Given x (..., C), return the mixture, of x's shape and dtype, and the load balancing loss of this rank's tokens."""
        # region solution moe_forward
        x_TC = x.reshape(-1, x.shape[-1])
        # The router may be wider than the tokens: float32 beside bfloat16.
        logits = self.router(x_TC.to(self.router.weight.dtype))
        routing = route(logits, self.top_k, self.capacity_factor, renormalize=self.renormalize)
        dispatched = dispatch(x_TC, routing, self.group)
        # An expert without a row is run, too: so its parameters get gradients of zeros, and the rows stay in the graph, without which
        # this rank would miss the all-to-all of backward, and the others would wait for it.
        parts = dispatched.rows.split(dispatched.num_rows)
        outputs = torch.cat([expert(rows) for expert, rows in zip(self.experts, parts, strict=True)])
        return combine(outputs, dispatched).view(x.shape), load_balancing_loss(routing)
        # endregion


# --- task gradients --------------------------------------------------------------------------------------------------
def average_gradients(parameters: Iterable[nn.Parameter], group: Group, replicas: Group) -> None:
    """Make every `grad` that of the mean of all ranks' losses.

    `group`: all W ranks that have tokens of their own; `replicas`: those of them that hold the same experts as this one.
    """
    # region solution average_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
        # An expert has met the tokens of its whole expert-parallel group already: their sum is there, and other replicas have the rest.
        dist.all_reduce(gradient, group=replicas if getattr(parameter, "is_expert", False) else group)
        # One mean for all: the loss is divided by W whatever road its gradient has taken.
        parameter.grad = gradient.div_(world_size)
    # endregion
