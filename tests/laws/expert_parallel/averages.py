"""Gradients of experts and of the rest, over ranks that hold the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, mean_bound
from tests.laws import traffic
from tests.laws.expert_parallel.oracle import Array
from tests.laws.groups import group_of
from tests.laws.sentences import broken

SHAPES = {"router.weight": (4, 3), "expert.weight": (5, 2), "norm.weight": (7,), "expert.bias": (3,), "frozen.weight": (2, 2)}
EXPERT, FROZEN = ("expert.weight", "expert.bias"), ("frozen.weight",)


def run_average(
    observe: Any, groups: list[list[int]], replicas: list[list[int]], *, missing: dict[str, list[int]] | None = None,
    dtype: str = "float32", layout: str = "plain", **case: Any,
) -> Any:  # fmt: skip
    """groups: ranks that have losses of one step; replicas: those of them with the same experts. layout: of the gradients."""
    world_size = sum(map(len, groups))

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        return {name: [rng.standard_normal(shape).astype(dtype) for _ in range(world_size)] for name, shape in SHAPES.items()}

    returns = {name: (dtype, shape) for name, shape in SHAPES.items()}
    return observe("average", world_size=world_size, inputs=inputs, returns=returns, expert=list(EXPERT), frozen=list(FROZEN),
                   missing=missing or {}, groups=groups, replicas=replicas, **({} if layout == "plain" else {"layout": layout}),
                   **case)  # fmt: skip


def judge_average(seen: Any, *, of_experts: bool) -> None:
    """Every gradient of that kind, on every rank."""
    for rank in range(seen.world_size):
        members, twins = group_of(seen, rank), group_of(seen, rank, "replicas")
        for name in SHAPES:
            if (name in EXPERT) is of_experts:
                judge_one(seen, name, rank, members, twins)
        absent = [name for name in seen.facts(rank)["absent"] if name not in FROZEN and (name in EXPERT) is of_experts]
        if absent:
            raise broken(f"The grad of {', '.join(absent)} on rank {rank} is None afterwards.", "Expected: a tensor.",
                         "A missing gradient stays missing, where it should count as zeros and be averaged.", "Section 8.")  # fmt: skip
    judge_sent(seen)


def judge_one(seen: Any, name: str, rank: int, members: list[int], twins: list[int]) -> None:
    """One gradient on one rank."""
    missing = seen.request.parameters["missing"].get(name, [])

    def given(of: int) -> Array:
        return seen.input(name, of).astype(np.float64) * (of not in missing)

    n, w = len(members) // len(twins), len(members)
    if name in FROZEN:
        right, allowed = given(rank), np.zeros(SHAPES[name])
    else:
        addends = [given(of) for of in (twins if name in EXPERT else members)]
        right = np.sum(addends, axis=0) / w
        allowed = mean_bound(seen.request.return_of(name, rank).dtype, max(2, len(addends)), np.abs(addends).sum(0) / w * len(addends))
    lone = "not divided: this expert has no other replica, but has met the tokens of all W ranks"
    others = {
        lone if len(twins) == 1 and name in EXPERT else "the sum, not divided": right * w if w > 1 else None,
        "the sum over the replicas, divided by the number of replicas (experts have met N ranks' tokens: divide by W)":
            np.mean([given(of) for of in twins], axis=0),
        "divided twice: by the expert-parallel size N and by W": right / n if n > 1 else None,
        "the mean over those that have a gradient (a missing one counts as zeros)":
            right * w / max(1, w - len(set(missing) & set(members))),
        "the mean over the whole group" + (", of different experts" if name in EXPERT else ""):
            np.mean([given(of) for of in members], axis=0),
        "this rank's own": given(rank),
    }  # fmt: skip
    others = {words: value for words, value in others.items() if value is not None and not np.allclose(value, right)}
    suggestion = "Experts: summed over the replicas, divided by W once. The rest: summed over the whole group, divided by W (section 8)."
    suggestion = "What is frozen keeps its grad, and nothing of it travels (section 8)." if name in FROZEN else suggestion
    what = f"the gradient of {name} on rank {rank} of {w}, {len(twins)} replicas"
    assert_close(seen.rank(rank)[name], right, allowed=allowed, what=what, hints=Hints(others=others, suggestion=suggestion))


def judge_sent(seen: Any) -> None:
    """What is frozen doesn't travel, and everything else does once: no more bytes than the trained parameters have."""
    trained = sum(seen.request.return_of(name, 0).num_bytes for name in SHAPES if name not in FROZEN)
    for rank in range(seen.world_size):
        traffic.assert_contiguous(seen, rank, "average")
        got = seen.wire.sent_bytes(rank, phase="average")
        if got > trained:
            raise broken(
                f"rank {rank} puts {got} bytes into its calls.",
                f"Allowed: {trained}, the trained parameters' gradients once.",
                "More travels than the trained gradients: something frozen, or something twice.",
                "Skip what doesn't ask for a gradient.",
            )
