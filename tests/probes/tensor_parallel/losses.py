"""The loss of logits that are cut along the vocabulary."""

from __future__ import annotations

from typing import Any

import torch

from .surroundings import gradient_of, group_of, turned


def cross_entropy(
    at: Any, *, vocab_size: int, ignore_index: int | None = None, scale: float = 1.0, groups: list[list[int]] | None = None
) -> dict[str, torch.Tensor]:
    """The loss of this rank's logits, and their gradient times `scale`. Neither logits nor targets are contiguous."""
    group = group_of(at, groups)
    options: dict[str, Any] = {"vocab_size": vocab_size} | ({} if ignore_index is None else {"ignore_index": ignore_index})
    logits, targets = turned(at.inputs["logits"]).requires_grad_(), turned(at.inputs["targets"])
    with at.phase("forward"):
        loss = at.submission.vocab_parallel_cross_entropy(logits, targets, group, **options)
    with at.phase("backward"):
        loss.backward(torch.tensor(scale, dtype=loss.dtype))
    return {"loss": loss.detach(), "dlogits": gradient_of(logits), "logits after": logits.detach(), "targets after": targets}


def large_logits(at: Any, *, num_tokens: int, num_columns: int) -> dict[str, torch.Tensor]:
    """The loss of logits that are made here, (3i + 7j) mod 64 / 16 for token i and column j of all, and parts of their gradient."""
    columns = torch.arange(at.rank * num_columns, (at.rank + 1) * num_columns)
    logits = torch.empty(num_tokens, num_columns)
    for token in range(num_tokens):
        logits[token] = ((3 * token + 7 * columns) % 64) / 16
    targets = torch.arange(num_tokens) * 37 % (num_columns * at.world_size)
    logits.requires_grad_()
    with at.phase("forward"):
        loss = at.submission.vocab_parallel_cross_entropy(logits, targets, vocab_size=num_columns * at.world_size)
    with at.phase("backward"):
        loss.backward()
    gradient = gradient_of(logits)
    return {"loss": loss.detach(), "some": gradient[:, :16].clone(), "sums": gradient.sum(1)}
