"""Calls that can't be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lm.gpt import GPT, GPTConfig


def refusals(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """What calls that can't be done raised: [type, message], or two empty strings."""
    raised = []
    for case in cases:
        try:
            with at.phase("refusal"):
                refused(at, **case)
            raised.append(["", ""])
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append([type(error).__name__, str(error)])
    at.report(raised=raised)


def refused(at: Any, *, function: str, shapes: list[list[int]], options: dict[str, Any], numbers: list[int]) -> None:
    """One call, on zeros."""
    call: Callable[..., Any] = getattr(at.submission, function)
    call(*(torch.zeros(shape) for shape in shapes), **options)


def wrong_ways(at: Any, *, config: dict[str, Any], ways: list[dict[str, Any]]) -> None:
    """What parallelize_context raises for each way, and whether the model's attention and loss are what they were."""
    raised, is_intact = [], []
    for way in ways:
        gpt = GPT(GPTConfig(**config))
        before = [block.attention.attend for block in gpt.blocks] + [gpt.cross_entropy]
        try:
            at.submission.parallelize_context(gpt, **way)
            raised.append("")
        except ValueError as refusal:
            raised.append(type(refusal).__name__)
        is_intact.append(before == [block.attention.attend for block in gpt.blocks] + [gpt.cross_entropy])
    at.report(raised=raised, is_intact=is_intact)
