"""Section 6 once more: which plans there are. And what each costs: by the handout's formulas, and in the simulator."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any

from grader.simulator import Cluster, Model, Plan, estimate_step, memory_bytes
from grader.simulator.estimate import Step, layer_costs
from tests.laws.parallel_plan.steps import Truth

MICRO_BATCHES, CHUNKS, MIN_CONTEXT = (1, 2, 4, 8, 16), (1, 2, 4), 1024
RIGHT = Truth()


def broken_rules(model: Model, cluster: Cluster, plan: Plan) -> set[str]:
    """Names of the rules that the plan breaks."""
    broken = set()
    if plan.dp * plan.tp * plan.pp * plan.cp != cluster.num_nodes * cluster.gpus_per_node:
        broken.add("world")
    if plan.dp * plan.micro_batch * plan.num_micro_batches != model.global_batch:
        broken.add("batch")
    if model.num_kv_heads % plan.tp or model.mlp_size % plan.tp:
        broken.add("heads")
    if plan.pp > model.num_layers:
        broken.add("layers")
    if (plan.cp > 1 and model.sequence % (2 * plan.cp)) or (plan.sequence_parallel and model.sequence // plan.cp % plan.tp):
        broken.add("sequence")
    if plan.dp % plan.ep or model.num_experts % plan.ep:
        broken.add("experts")
    plain = plan.schedule == "1f1b" and plan.chunks == 1
    interleaved = plan.schedule == "interleaved" and plan.chunks > 1 and plan.pp > 1
    fits_chunks = model.num_layers % (plan.pp * plan.chunks) == 0 and plan.num_micro_batches % plan.pp == 0
    if not (plain or (interleaved and fits_chunks)):
        broken.add("schedule")
    if plan.pp > 1 and plan.zero_stage > 1:
        broken.add("sharding")
    return broken


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


@lru_cache(maxsize=32)
def candidates(model: Model, cluster: Cluster) -> tuple[Plan, ...]:
    """All of them."""
    return tuple(_candidates(model, cluster))


def _candidates(model: Model, cluster: Cluster) -> Iterator[Plan]:
    world = cluster.num_gpus
    contexts = [1] + [size for size in _divisors(model.sequence) if size > 1 and model.sequence / size >= MIN_CONTEXT]
    cuts = [(t, c, p) for t in _divisors(cluster.gpus_per_node) for c in contexts for p in range(1, model.num_layers + 1)]
    for t, c, p in cuts:
        if world % (t * c * p):
            continue
        d = world // (t * c * p)
        for b, v, e in product(MICRO_BATCHES, CHUNKS, _divisors(d)):
            if model.global_batch % (d * b):
                continue
            schedule = "interleaved" if v > 1 else "1f1b"
            stages = (0,) if d * c == 1 else (1,) if p > 1 else (1, 2, 3)
            for zero, recompute in product(stages, ("none", "full")):
                plan = Plan(d, t, p, c, e, b, model.global_batch // (d * b), zero, recompute, schedule, v, t > 1, 4)
                if not broken_rules(model, cluster, plan):
                    yield plan


@lru_cache(maxsize=32)
def by_formula(model: Model, cluster: Cluster) -> tuple[tuple[Plan, float, float, float], ...]:
    """Every candidate with the handout's bytes, bytes of states, and seconds (infinite where it doesn't fit)."""
    priced = []
    for plan in candidates(model, cluster):
        held = RIGHT.fullest(model, plan)
        fits = sum(held) <= cluster.memory_bytes
        priced.append((plan, sum(held), sum(held[:3]), sum(RIGHT.step(model, cluster, plan)[:3]) if fits else float("inf")))
    return tuple(priced)


def simulated_s(model: Model, cluster: Cluster, plan: Plan) -> float:
    """The plan's step in the simulator."""
    return estimate_step(model, cluster, plan).step_s


def simulated_bytes(model: Model, plan: Plan) -> float:
    """The plan's bytes in the simulator."""
    return memory_bytes(model, plan)


@lru_cache(maxsize=32)
def best_simulated(model: Model, cluster: Cluster) -> tuple[float, Plan]:
    """The shortest step of all candidates that fit, in the simulator, and whose it is.

    Exhaustive, and yet few schedules are played: in the order of the simulator's own lower bound the search may end once that bound is
    longer than the best step so far.
    """
    fitting = [plan for plan in candidates(model, cluster) if memory_bytes(model, plan) <= cluster.memory_bytes]
    costs: dict[Hashable, Any] = {}
    bounded = []
    for place, plan in enumerate(fitting):
        # What a layer costs depends on these alone, and is most of the work.
        key = (plan.dp, plan.tp, plan.cp, plan.ep, plan.micro_batch, plan.num_micro_batches, plan.zero_stage)
        if key not in costs:
            costs[key] = layer_costs(model, cluster, plan)
        bounded.append((Step(model, cluster, plan, costs[key]).at_least_s(), place))
    best_s, best = float("inf"), fitting[0]
    for bound_s, place in sorted(bounded):
        if bound_s >= best_s:
            break
        step_s = simulated_s(model, cluster, fitting[place])
        if step_s < best_s:
            best_s, best = step_s, fitting[place]
    return best_s, best
