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
    # region solution broken_rules
    rules: dict[Rule, bool] = {
        "world": plan.num_gpus == cluster.num_gpus,
        "batch": plan.global_batch == model.global_batch,
        # A key/value head and the queries that share it stay together; the MLP's columns are cut evenly.
        "heads": model.num_kv_heads % plan.tp == 0 and model.mlp_size % plan.tp == 0,
        "layers": plan.pp <= model.num_layers,
        # Two pieces for each rank of cp, one from each end, so that all have an equal share of the causal triangle; tp cuts their tokens.
        "sequence": (plan.cp == 1 or model.sequence % (2 * plan.cp) == 0)
        and (not plan.sequence_parallel or model.sequence // plan.cp % plan.tp == 0),
        "experts": plan.dp % plan.ep == 0 and model.num_experts % plan.ep == 0,
        # An interleaved stage has equal chunks, and its micro-batches go round in groups of pp.
        "schedule": (plan.schedule == "1f1b" and plan.chunks == 1)
        or (
            plan.schedule == "interleaved"
            and plan.chunks > 1
            and plan.pp > 1
            and model.num_layers % (plan.pp * plan.chunks) == 0
            and plan.num_micro_batches % plan.pp == 0
        ),
        # Sharded gradients or weights would travel once for each micro-batch that passes the stage.
        "sharding": plan.pp == 1 or plan.zero_stage <= 1,
    }
    return {rule for rule, holds in rules.items() if not holds}
    # endregion


def candidate_plans(model: Model, cluster: Cluster) -> Iterator[Plan]:
    """Yield every plan of section 6 once, in any order: those worth looking at among the plans that break no rule."""
    # region solution candidate_plans
    contexts = [cp for cp in divisors(model.sequence) if cp == 1 or model.sequence >= MIN_CONTEXT * cp]
    for tp in divisors(cluster.gpus_per_node):  # its collectives are in each layer's way: not across nodes
        for cp in contexts:
            for pp in range(1, model.num_layers + 1):
                dp, rest = divmod(cluster.num_gpus, tp * cp * pp)
                if rest == 0:
                    # What follows from the sizes is no choice: sequence parallelism goes with tp, gradients are summed in fp32.
                    cut = Plan(dp=dp, tp=tp, pp=pp, cp=cp, sequence_parallel=tp > 1, gradient_bytes=4)
                    yield from plans_of_one_cut(model, cluster, cut)
    # endregion


def plans_of_one_cut(model: Model, cluster: Cluster, cut: Plan) -> Iterator[Plan]:
    """Yield the candidates that have the sizes of `cut`. Never graded by itself."""
    # region solution plans_of_one_cut
    # ZeRO-1 sends what DDP sends and holds less; with one replica there is nothing to shard, with a pipeline nothing beyond.
    zero_stages = (0,) if cut.dp * cut.cp == 1 else (1,) if cut.pp > 1 else (1, 2, 3)
    for ep in divisors(cut.dp):
        for micro_batch in MICRO_BATCHES:
            num_micro_batches = model.global_batch // (cut.dp * micro_batch)
            for chunks in CHUNKS:
                schedule: ScheduleName = "1f1b" if chunks == 1 else "interleaved"
                batched = replace(
                    cut, ep=ep, micro_batch=micro_batch, num_micro_batches=num_micro_batches, chunks=chunks, schedule=schedule
                )  # fmt: skip
                if not broken_rules(model, cluster, batched):
                    for zero_stage in zero_stages:
                        yield replace(batched, zero_stage=zero_stage)
                        yield replace(batched, zero_stage=zero_stage, recompute="full")
    # endregion


def divisors(number: int) -> list[int]:
    """Return all of them, in ascending order. Given."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


# --- task choice -----------------------------------------------------------------------------------------------------
def choose_plan(model: Model, cluster: Cluster) -> Plan:
    """Return the candidate that fits and has the shortest step; NoPlan, if none fits."""
    # region solution choose_plan
    candidates = list(candidate_plans(model, cluster))
    require_one_that_fits(model, cluster, candidates)
    return fastest(model, cluster, candidates)[0]
    # endregion


def fastest(model: Model, cluster: Cluster, plans: Iterable[Plan]) -> tuple[Plan | None, float]:
    """Return the fastest of the plans that fit, and its step's seconds; (None, inf) if none does. Never graded by itself."""
    # region solution fastest
    best, best_s = None, float("inf")
    for plan in plans:
        # Memory is cheaper to know than time, and most plans fall here.
        if estimate_memory(model, cluster, plan).total_bytes <= cluster.memory_bytes:
            step_s = estimate_step(model, cluster, plan).step_s
            if step_s < best_s:
                best, best_s = plan, step_s
    return best, best_s
    # endregion


def require_one_that_fits(model: Model, cluster: Cluster, candidates: Iterable[Plan]) -> None:
    """Raise NoPlan with the constraint and the bytes needed, if no candidate fits. Never graded by itself."""
    # region solution require_one_that_fits
    memories = [estimate_memory(model, cluster, plan) for plan in candidates]
    if not memories:
        raise NoPlan("shape", None, f"no plan cuts this model and {model.global_batch} sequences into {cluster.num_gpus} equal parts")
    needed = min(memory.total_bytes for memory in memories)
    if needed <= cluster.memory_bytes:
        return
    # More memory for the batch would not help where already the states are too many.
    states = min(memory.states_bytes for memory in memories)
    constraint: Constraint = "states" if states > cluster.memory_bytes else "activations"
    raise NoPlan(constraint, needed, f"{constraint}: a GPU needs {needed / 1e9:.1f} GB and has {cluster.memory_bytes / 1e9:.1f} GB")
    # endregion


# --- task reasons ----------------------------------------------------------------------------------------------------
def binding_constraints(model: Model, cluster: Cluster, plan: Plan) -> dict[str, Reason]:
    """Return, for each axis that the plan has more than one rank on, why it can't be 1: by the best candidate that has 1 there.

    "shape": there is none; "memory": none fits; "time": its step is longer than the plan's; "none": it would do as well.
    """
    # region solution binding_constraints
    candidates = list(candidate_plans(model, cluster))
    step_s = estimate_step(model, cluster, plan).step_s
    reasons: dict[str, Reason] = {}
    for axis in ("tp", "cp", "dp", "pp", "ep"):
        if getattr(plan, axis) == 1:
            continue
        without = [candidate for candidate in candidates if getattr(candidate, axis) == 1]
        best, best_s = fastest(model, cluster, without)
        if not without:
            reasons[axis] = "shape"
        elif best is None:
            reasons[axis] = "memory"
        else:
            reasons[axis] = "time" if best_s > step_s else "none"
    return reasons
    # endregion
