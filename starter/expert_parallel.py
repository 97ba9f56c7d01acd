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
    raise NotImplementedError("expert_parallel, task route: see section 3 of the handout")


def choices_with_room(experts_TK: Tensor, num_experts: int, capacity: int) -> Tensor:
    """Return (T, K) bool: which choices their expert takes. All first choices come before all second ones, and so on; each by token."""
    raise NotImplementedError("expert_parallel, task route: see section 3 of the handout")


def route(logits: Tensor, top_k: int, capacity_factor: float | None, *, renormalize: bool = False) -> Routing:
    """Choose `top_k` experts for each row of logits (T, E).

    Chosen are the largest logits; of equal ones, the expert with the lower number. Weights are the softmax over all E experts, float32
    (float64 of float64), with `renormalize` divided by the sum of the token's K. capacity_factor None: every choice is kept.
    """
    raise NotImplementedError("expert_parallel, task route: see section 3 of the handout")


# --- task exchange ---------------------------------------------------------------------------------------------------
class AllToAllRows(torch.autograd.Function):
    """Rows change ranks, as many to each as `sent` says; their gradients go home."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: Sequence[int], received: Sequence[int], group: Group) -> Tensor:
        """x (S, ...) in the order of the ranks that get its rows; what is returned (R, ...) in the order of those that sent them."""
        raise NotImplementedError("expert_parallel, task exchange: see section 4 of the handout")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """The transpose of a permutation is the way back: what was sent is received."""
        raise NotImplementedError("expert_parallel, task exchange: see section 4 of the handout")


def all_to_all_rows(x: Tensor, sent: Sequence[int], received: Sequence[int], group: Group = None) -> Tensor:
    """Send `sent[i]` rows of x, in order, to rank i; return the `received[i]` rows of each rank i, in the order of the ranks."""
    return AllToAllRows.apply(x, sent, received, group)  # type: ignore[no-any-return]


def exchange_counts(num_rows_E: Tensor, group: Group = None) -> Tensor:
    """Given how many rows this rank has for each expert, int64, return (N, L): how many each rank has for each expert that lives here."""
    raise NotImplementedError("expert_parallel, task exchange: see section 4 of the handout")


# --- task dispatch ---------------------------------------------------------------------------------------------------
def dispatch(x: Tensor, routing: Routing, group: Group = None) -> Dispatched:
    """Send each kept choice's row of x (T, C) to the rank of its expert; ValueError where N doesn't divide E."""
    raise NotImplementedError("expert_parallel, task dispatch: see section 5 of the handout")


def combine(outputs: Tensor, dispatched: Dispatched) -> Tensor:
    """Given the experts' outputs (R, C'), in the order of `dispatched.rows`, return (T, C'): each token's weighted sum."""
    raise NotImplementedError("expert_parallel, task dispatch: see section 5 of the handout")


# --- task balance ----------------------------------------------------------------------------------------------------
def load_balancing_loss(routing: Routing) -> Tensor:
    """Return E · Σₑ fₑ · Pₑ over this rank's tokens: f the experts' shares of all T·K choices, kept or not, P their mean probabilities."""
    raise NotImplementedError("expert_parallel, task balance: see section 6 of the handout")


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
        raise NotImplementedError("expert_parallel, task layer: see section 7 of the handout")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Given x (..., C), return the mixture, of x's shape and dtype, and the load balancing loss of this rank's tokens."""
        raise NotImplementedError("expert_parallel, task layer: see section 7 of the handout")


# --- task gradients --------------------------------------------------------------------------------------------------
def average_gradients(parameters: Iterable[nn.Parameter], group: Group, replicas: Group) -> None:
    """Make every `grad` that of the mean of all ranks' losses.

    `group`: all W ranks that have tokens of their own; `replicas`: those of them that hold the same experts as this one.
    """
    raise NotImplementedError("expert_parallel, task gradients: see section 8 of the handout")
