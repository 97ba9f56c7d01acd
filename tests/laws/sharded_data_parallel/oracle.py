"""One process on the whole batch, in numpy and float64: SGD and AdamW as torch's documentation gives them, on a Toy's known gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.laws.groups import members_of

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
SGD_USUAL = {"lr": 1e-3, "momentum": 0.0, "weight_decay": 0.0}
ADAMW_USUAL = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 1e-2}


@dataclass
class OneProcess:
    """A plain optimizer over whole parameters."""

    optimizer: str
    settings: dict[str, dict[str, Any]]  # by parameter: those of its group
    state: dict[str, dict[str, Array]] = field(default_factory=dict)
    num_steps: dict[str, int] = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Weights) -> Weights:
        """The weights after one step; parameters without a gradient or without a group stay."""
        rule = {"SGD": self._sgd, "AdamW": self._adamw}[self.optimizer]
        return {
            name: rule(name, value, gradients[name]) if name in gradients and name in self.settings else value
            for name, value in weights.items()
        }

    def _sgd(self, name: str, value: Array, gradient: Array) -> Array:
        how = SGD_USUAL | self.settings[name]
        gradient = gradient + how["weight_decay"] * value
        if how["momentum"]:
            state = self.state.setdefault(name, {})
            gradient = state["momentum_buffer"] = how["momentum"] * state.get("momentum_buffer", np.zeros_like(value)) + gradient
        return np.asarray(value - how["lr"] * gradient)

    def _adamw(self, name: str, value: Array, gradient: Array) -> Array:
        how = ADAMW_USUAL | self.settings[name]
        first, second = how["betas"]
        state = self.state.setdefault(name, {"exp_avg": np.zeros_like(value), "exp_avg_sq": np.zeros_like(value)})
        count = self.num_steps[name] = self.num_steps.get(name, 0) + 1
        state["exp_avg"] = first * state["exp_avg"] + (1 - first) * gradient
        state["exp_avg_sq"] = second * state["exp_avg_sq"] + (1 - second) * gradient**2
        mean, square = state["exp_avg"] / (1 - first**count), state["exp_avg_sq"] / (1 - second**count)
        return np.asarray(value * (1 - how["lr"] * how["weight_decay"]) - how["lr"] * mean / (np.sqrt(square) + how["eps"]))


@dataclass
class Mistake:
    """How a wrong answer would differ from one process; the default is right."""

    scale: float = 1.0
    only_rank: int | None = None  # the gradients of one rank alone
    forgets_writes: bool = False  # settings that were written into param_groups
    first_group_for_all: bool = False
    only_last_micro_batch: bool = False
    clips_nothing: bool = False


def values_of(seen: Any, rank: int = 0) -> Weights:
    """The weights to begin with."""
    names = [name for name in seen.request.inputs if name.startswith("value/")]
    return {name.removeprefix("value/"): seen.input(name, rank).astype(np.float64) for name in names}


def aliases_of(seen: Any, name: str) -> list[str]:
    """All places at which a parameter stands."""
    return [name, *(other for other, source in (seen.request.parameters.get("shared") or {}).items() if source == name)]


def gradients_at(seen: Any, number: int, weights: Weights, mistake: Mistake) -> Weights:
    """The mean gradient of step `number`, summed over its micro-batches: weight times factor."""
    case, members = seen.request.parameters, members_of(seen)
    step = case["steps"][number] if "steps" in case else {}
    micro_batches = range(step.get("micro_batches", 1))
    ranks = members if mistake.only_rank is None else [mistake.only_rank]
    gradients = {}
    for name, value in weights.items():
        if name in (case.get("frozen") or ()):
            continue
        total = np.zeros_like(value)
        for rank in ranks:
            for micro_batch in micro_batches[-1:] if mistake.only_last_micro_batch else micro_batches:
                for alias in aliases_of(seen, name):
                    if alias not in step.get("unused", {}).get(str(rank), []):
                        total = total + value * seen.input(f"factor/{number}/{micro_batch}/{alias}", rank).astype(np.float64)
        gradients[name] = total / len(ranks) * mistake.scale
    return gradients


def train(seen: Any, mistake: Mistake | None = None, weights: Weights | None = None, run: OneProcess | None = None) -> list[Weights]:
    """The weights after each step of the request."""
    case, mistake = seen.request.parameters, mistake or Mistake()
    weights = values_of(seen, members_of(seen)[0]) if weights is None else weights
    groups = [dict(group) for group in case.get("groups") or [{"names": list(weights)}]]
    settings = [dict(case["defaults"]) | group.get("settings", {}) for group in groups]
    is_in = [not group.get("late") for group in groups]
    run = run or OneProcess(case["optimizer"], {})
    after = []
    for number, step in enumerate(case["steps"]):
        if "add" in step:
            is_in[step["add"]] = True
        if not mistake.forgets_writes:
            for group, written in step.get("write", {}).items():
                settings[int(group)] |= written
        run.settings = {
            name: settings[0 if mistake.first_group_for_all else index]
            for index, group in enumerate(groups) if is_in[index] for name in group["names"]
        }  # fmt: skip
        gradients = {name: g for name, g in gradients_at(seen, number, weights, mistake).items() if name in run.settings}
        if "clip" in step and not mistake.clips_nothing:
            norm = norm_of(gradients)
            gradients = {name: g * min(1.0, step["clip"] / (norm + 1e-6)) for name, g in gradients.items()}
        weights = run.step(weights, gradients)
        after.append(weights)
        if step.get("decay") and not mistake.forgets_writes:
            for each in settings:
                each["lr"] = each.get("lr", 1e-3) / 2
    return after


def norm_of(gradients: Weights) -> float:
    """The 2-norm of all together."""
    return float(np.sqrt(sum(np.sum(np.square(gradient)) for gradient in gradients.values())))


def suspects(seen: Any) -> dict[str, Callable[[], list[Weights]]]:
    """What the weights would be after well-known mistakes."""
    n = len(members_of(seen))
    mistakes = {
        "gradients that are summed instead of averaged": Mistake(scale=float(n)),
        "gradients divided by the world size twice": Mistake(scale=1 / n),
        "settings as they were before they were written to (a scheduler not seen)": Mistake(forgets_writes=True),
        "the first group's settings for all groups": Mistake(first_group_for_all=True),
        "the last micro-batch alone": Mistake(only_last_micro_batch=True),
        "no clipping": Mistake(clips_nothing=True),
    } | {f"rank {rank}'s own gradients alone, not averaged": Mistake(only_rank=rank) for rank in members_of(seen)}
    return {what: lambda mistake=mistake: train(seen, mistake) for what, mistake in mistakes.items()}  # type: ignore[misc]
