"""The mixture of experts in numpy, fp64, one process: routing, the order of rows, and the dense mixture with its gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NAMES = ("up.weight", "up.bias", "down.weight", "down.bias")


def capacity_of(num_tokens: int, num_experts: int, top_k: int, factor: float) -> int:
    """The exact quotient, rounded up."""
    return math.ceil(Fraction(factor) * num_tokens * top_k / num_experts)


def chosen(logits: Array, top_k: int) -> Array:
    """The K largest of each row, best first; of equal ones the lower index."""
    return np.argsort(-logits.astype(np.float64), axis=1, kind="stable")[:, :top_k]


def kept_of(experts: Array, num_experts: int, capacity: int | None) -> Array:
    """Who finds room: first choices queue up before second ones, each in the order of the tokens."""
    num_tokens, top_k = experts.shape
    kept, taken = np.zeros(experts.shape, bool), [0] * num_experts
    for choice in range(top_k):
        for token in range(num_tokens):
            expert = int(experts[token, choice])
            kept[token, choice] = capacity is None or taken[expert] < capacity
            taken[expert] += int(kept[token, choice])
    return kept


def softmax(logits: Array) -> Array:
    """Along the last dim, in fp64."""
    wide = logits.astype(np.float64)
    if not wide.size:
        return wide
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def weights_of(probabilities: Array, experts: Array, *, renormalize: bool) -> Array:
    """Of the chosen experts, before anything is dropped."""
    weights = np.take_along_axis(probabilities, experts, 1)
    return weights / weights.sum(1, keepdims=True) if renormalize else weights


def logits_gradient(probabilities: Array, experts: Array, gw: Array, gp: Array, *, renormalize: bool) -> tuple[Array, Array]:
    """Of Σ weights·gw + Σ probabilities·gp -> (the gradient of the logits, the sum of its terms' sizes)."""
    total, size = gp.astype(np.float64).copy(), np.abs(gp).astype(np.float64)
    of_weights, size_of_weights = gw.astype(np.float64), np.abs(gw).astype(np.float64)
    if renormalize:
        chosen_p = np.take_along_axis(probabilities, experts, 1)
        sums = chosen_p.sum(1, keepdims=True)
        weights = chosen_p / sums
        of_weights = (of_weights - (of_weights * weights).sum(1, keepdims=True)) / sums
        size_of_weights = (size_of_weights + (size_of_weights * weights).sum(1, keepdims=True)) / sums
    for row, (tokens_experts, values, sizes) in enumerate(zip(experts, of_weights, size_of_weights, strict=True)):
        total[row, tokens_experts] += values
        size[row, tokens_experts] += sizes
    gradient = probabilities * (total - (probabilities * total).sum(1, keepdims=True))
    return gradient, probabilities * (size + (probabilities * size).sum(1, keepdims=True))


def balance_of(probabilities: Array, experts: Array) -> tuple[float, Array]:
    """-> (the load balancing loss, its gradient with respect to the probabilities)."""
    num_tokens, num_experts = probabilities.shape
    if not num_tokens:
        return 0.0, np.zeros_like(probabilities)
    shares = np.bincount(experts.ravel(), minlength=num_experts) / experts.size
    gradient = np.broadcast_to(num_experts * shares / num_tokens, probabilities.shape)
    return float(num_experts * (shares * probabilities.mean(0)).sum()), gradient


# --- where rows go ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    """One kept choice: whose token, which, and by which of its choices."""

    place: int  # of the token's rank, in the group
    token: int
    choice: int
    expert: int


def rows_of(experts: list[Array], kept: list[Array], num_experts: int) -> list[list[Row]]:
    """For each place of a group, the rows that its experts get: by expert, then by the rank they come from, then by token."""
    n = len(experts)
    per_place = num_experts // n
    found: list[list[Row]] = [[] for _ in range(n)]
    for expert in range(num_experts):
        for place in range(n):
            for token, choice in np.argwhere(kept[place] & (experts[place] == expert)):
                found[expert // per_place].append(Row(place, int(token), int(choice), expert))
    return found


def counts_of(experts: Array, kept: Array, num_experts: int, n: int) -> list[int]:
    """How many rows one rank sends to each place."""
    return np.bincount(experts[kept].ravel(), minlength=num_experts).reshape(n, -1).sum(1).tolist()


# --- the dense mixture -----------------------------------------------------------------------------------------------
@dataclass
class Mixed:
    """What one rank's call gives, and its share of the gradients of all parameters."""

    y: Array
    loss: float
    dx: Array
    dx_of_router: Array  # the part that comes by the router
    experts: Array
    kept: Array
    gradients: dict[str, Array] = field(default_factory=dict)


def mixture(weights: dict[str, Array], x: Array, gradient: Array, options: dict[str, Any], balance_weight: float) -> Mixed:
    """y of all experts on one process; gradients of Σ y·gradient + balance_weight · loss. x (T, C)."""
    num_experts, renormalize = len(weights["router.weight"]), options.get("renormalize", False)
    logits = x @ weights["router.weight"].T + weights["router.bias"]
    probabilities, experts = softmax(logits), chosen(logits, options["top_k"])
    factor = options.get("capacity_factor")
    capacity = None if factor is None else capacity_of(len(x), num_experts, options["top_k"], factor)
    kept = kept_of(experts, num_experts, capacity)
    by = weights_of(probabilities, experts, renormalize=renormalize)
    y, gw, dx = np.zeros_like(x), np.zeros_like(by), np.zeros_like(x)
    gradients = {name: np.zeros_like(value) for name, value in weights.items()}
    for token, choice in np.argwhere(kept):
        up, up_bias, down, down_bias = (weights[name][experts[token, choice]] for name in NAMES)
        hidden = np.tanh(up @ x[token] + up_bias)
        output = down @ hidden + down_bias
        y[token] += by[token, choice] * output
        gw[token, choice] = gradient[token] @ output
        d_output = by[token, choice] * gradient[token]
        d_hidden = (down.T @ d_output) * (1 - hidden**2)
        for name, share in zip(NAMES, (np.outer(d_hidden, x[token]), d_hidden, np.outer(d_output, hidden), d_output), strict=True):
            gradients[name][experts[token, choice]] += share
        dx[token] += up.T @ d_hidden
    loss, d_loss = balance_of(probabilities, experts)
    d_logits, _ = logits_gradient(probabilities, experts, gw, balance_weight * d_loss, renormalize=renormalize)
    gradients |= {"router.weight": d_logits.T @ x, "router.bias": d_logits.sum(0)}
    dx_of_router = d_logits @ weights["router.weight"]
    return Mixed(y, loss, dx + dx_of_router, dx_of_router, experts, kept, gradients)
