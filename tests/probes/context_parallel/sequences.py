"""A sequence cut among ranks: by zigzag, as tokens with their targets, and its loss."""

from __future__ import annotations

from typing import Any

import torch

from .surroundings import group_of, laid_out, turned, zeros_or


def split(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """zigzag_split of each input x<n>, zigzag_restore of its part, and, of floats, the gradient of x if the part's is the part itself.

    x with four dims has the second one innermost, and the part is handed to zigzag_restore with the first one innermost. Reported: whether
    the part has memory of its own.
    """
    group, takes_part = group_of(at, groups)
    answer, own, num_bytes = {}, [], []
    for number, case in enumerate(cases):
        x = at.inputs[f"x{number}"]
        x = laid_out(x, "heads innermost") if x.ndim == 4 else x
        x.requires_grad_(x.is_floating_point())
        words = {} if case["dim"] is None else {"dim": case["dim"]}
        with at.phase("split"):
            part = at.submission.zigzag_split(x, group, **words) if takes_part else torch.zeros(case["part"], dtype=x.dtype)
        if part.requires_grad:
            part.backward(part.detach())
        part = part.detach()
        with at.phase("restore"):
            whole = at.submission.zigzag_restore(turned(part), group, **words) if takes_part else x.detach()
        answer |= {f"part{number}": part, f"whole{number}": whole}
        if x.requires_grad:
            answer[f"dx{number}"] = zeros_or(x.grad, x.detach())
        own.append(part.untyped_storage().data_ptr() != x.untyped_storage().data_ptr())
        num_bytes.append(part.untyped_storage().nbytes() if part.is_contiguous() else -1)
    at.report(own=own, num_bytes=num_bytes)
    return answer


def shard(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """shard_sequence of tokens<n>, labels<n> and, if there are, positions<n>; what it returns, and what the inputs are afterwards."""
    group, takes_part = group_of(at, groups)
    answer, own = {}, []
    for number, case in enumerate(cases):
        tokens, labels = at.inputs[f"tokens{number}"], at.inputs[f"labels{number}"]
        positions = at.inputs.get(f"positions{number}")
        if takes_part:
            with at.phase("shard"):
                made = at.submission.shard_sequence(tokens, labels, positions, group, **case["options"])
        else:
            made = (torch.zeros(tokens.shape[0], case["length"], dtype=torch.int64),) * 2 + (
                torch.zeros(case["length"], dtype=torch.int64),
            )
        answer |= {f"{name}{number}": x for name, x in zip(("tokens", "targets", "positions"), made, strict=True)}
        answer |= {f"tokens{number} after": tokens, f"labels{number} after": labels}
        own.append(all(x.untyped_storage().nbytes() <= x.numel() * x.element_size() for x in made))
    at.report(own=own)
    return answer


def loss(at: Any, *, cases: list[dict[str, Any]], groups: list[list[int]] | None = None) -> dict[str, torch.Tensor]:
    """sequence_cross_entropy of each case's logits<n> and targets<n>, and the gradient of the logits times the case's scale."""
    group, takes_part = group_of(at, groups)
    answer = {}
    for number, case in enumerate(cases):
        logits, targets = turned(at.inputs[f"logits{number}"]).requires_grad_(), turned(at.inputs[f"targets{number}"])
        words = {} if case["ignore_index"] is None else {"ignore_index": case["ignore_index"]}
        value = logits.detach().sum() * 0
        if takes_part:
            with at.phase("forward"):
                value = at.submission.sequence_cross_entropy(logits, targets, group, **words)
            with at.phase("backward"):
                value.backward(torch.tensor(case["scale"], dtype=value.dtype))
        answer |= {f"loss{number}": value.detach(), f"dlogits{number}": zeros_or(logits.grad, logits)}
    return answer
