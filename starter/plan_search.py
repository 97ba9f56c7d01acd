"""Which plan: all that are possible, the fastest that fits, and why it needs each of its axes.

Records: lm/planning.py. What a plan costs: parallel_plan.py and plan_step.py, which you wrote before.
"""

# L layers, E experts; d, t, p, c, e sizes of the axes dp, tp, pp, cp, ep
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from parallel_plan import estimate_memory
from plan_step import estimate_step

from lm.planning import Cluster, Model, Plan, ScheduleName

Rule = Literal["world", "batch", "heads", "layers", "sequence", "experts", "schedule", "sharding"]
Constraint = Literal["shape", "states", "activations"]
Reason = Literal["shape", "memory", "time", "none"]

MICRO_BATCHES = (1, 2, 4, 8, 16)  # what is searched, beside the sizes of the axes
CHUNKS = (1, 2, 4)
MIN_CONTEXT = 1024  # tokens that a rank of cp has at least


# --- given: a refusal ------------------------------------------------------------------------------------------------
class NoPlan(ValueError):
    """There is no plan for this model on this cluster."""

    def __init__(self, constraint: Constraint, needed_bytes: float | None, sentence: str) -> None:
        """constraint: what stands in the way; needed_bytes: the least that any plan needs on its fullest GPU, None if no plan exists."""
        super().__init__(sentence)
        self.constraint, self.needed_bytes = constraint, needed_bytes


# --- task candidates -------------------------------------------------------------------------------------------------
def broken_rules(model: Model, cluster: Cluster, plan: Plan) -> set[Rule]:
    """Return the rules of section 6 that the plan breaks; an empty set, if it can be run (whether or not it fits)."""
    raise NotImplementedError("parallel_plan, task candidates: see section 6 of the handout")


def candidate_plans(model: Model, cluster: Cluster) -> Iterator[Plan]:
    """Yield every plan of section 6 once, in any order: those worth looking at among the plans that break no rule."""
    raise NotImplementedError("parallel_plan, task candidates: see section 6 of the handout")


def plans_of_one_cut(model: Model, cluster: Cluster, cut: Plan) -> Iterator[Plan]:
    """Yield the candidates that have the sizes of `cut`. Never graded by itself."""
    raise NotImplementedError("parallel_plan, task candidates: see section 6 of the handout")


def divisors(number: int) -> list[int]:
    """Return all of them, in ascending order. Given."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


# --- task choice -----------------------------------------------------------------------------------------------------
def choose_plan(model: Model, cluster: Cluster) -> Plan:
    """Return the candidate that fits and has the shortest step; NoPlan, if none fits."""
    raise NotImplementedError("parallel_plan, task choice: see section 7 of the handout")


def fastest(model: Model, cluster: Cluster, plans: Iterable[Plan]) -> tuple[Plan | None, float]:
    """Return the fastest of the plans that fit, and its step's seconds; (None, inf) if none does. Never graded by itself."""
    raise NotImplementedError("parallel_plan, task choice: see section 7 of the handout")


def require_one_that_fits(model: Model, cluster: Cluster, candidates: Iterable[Plan]) -> None:
    """Raise NoPlan with the constraint and the bytes needed, if no candidate fits. Never graded by itself."""
    raise NotImplementedError("parallel_plan, task choice: see section 7 of the handout")


# --- task reasons ----------------------------------------------------------------------------------------------------
def binding_constraints(model: Model, cluster: Cluster, plan: Plan) -> dict[str, Reason]:
    """Return, for each axis that the plan has more than one rank on, why it can't be 1: by the best candidate that has 1 there.

    "shape": there is none; "memory": none fits; "time": its step is longer than the plan's; "none": it would do as well.
    """
    raise NotImplementedError("parallel_plan, task reasons: see section 7 of the handout")
