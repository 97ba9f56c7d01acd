"""Calls that can't be done, and models that can't be cut."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lm.gpt import GPT, GPTConfig


def refusals(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """Each case's call; the type and message of what it raised, "" where nothing was."""
    raised = []
    for case in cases:
        try:
            with at.phase("refusal"):
                refused(at, case)
            raised.append(("", ""))
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append((type(error).__name__, str(error)))
    at.report(raised=raised)


def refused(at: Any, case: dict[str, Any]) -> None:
    """One call that can't be done: of a function on zeros, of a layer's constructor, of a model."""
    what, shape = case["what"], case.get("shape")
    if what.endswith("Linear"):
        getattr(at.submission, what)(nn.Linear(*shape))
    elif what == "gpt":
        gpt = at.submission.parallelize(GPT(GPTConfig(**case["config"])), sequence_parallel=True)
        gpt(torch.zeros(1, case["extent"], dtype=torch.int64))
    else:
        getattr(at.submission, what)(torch.zeros(shape), **case.get("options", {}))


def refused_model(at: Any, *, cases: list[dict[str, Any]]) -> None:
    """parallelize of models that can't be cut; what it raised, and whether the model is as it was."""
    raised, is_intact = [], []
    for case in cases:
        gpt = GPT(GPTConfig(**case["config"]))
        before = described(gpt)
        try:
            with at.phase("refusal"):
                at.submission.parallelize(gpt)
            raised.append(("", ""))
        except NotImplementedError:
            raise
        except Exception as error:
            raised.append((type(error).__name__, str(error)))
        is_intact.append(described(gpt) == before)
    at.report(raised=raised, is_intact=is_intact)


def described(gpt: nn.Module) -> list[Any]:
    """What modules and parameters a model has."""
    return [[name, type(module).__name__] for name, module in gpt.named_modules()] + [[n, list(p.shape)] for n, p in gpt.named_parameters()]
