"""Every plan of a declared space, and the fastest of those that fit.

The space: all degrees that divide what they must; context parallelism down to pieces of MIN_PIECE tokens; every micro-batch that divides a
replica's sequences; all ZeRO stages; 1F1B, and interleaved with each of CHUNKS. Left out is what can't win: GPipe (1F1B's time with more
memory), tensor without sequence parallelism, selective recomputation of a flash attention, which keeps nothing worth it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from grader.simulator.estimate import Step, Traffic, layer_costs
from grader.simulator.kernels import LayerSeconds
from grader.simulator.pipelines import pipeline_s
from grader.simulator.records import Cluster, Model, Plan, Recompute, ScheduleName, StepEstimate
from grader.simulator.validity import fits, why_not

MIN_PIECE = 128  # tokens: a tile of attention
CHUNKS = (2, 3, 4, 6, 8)
ROUNDING = 1e-9  # a bound may equal what it bounds


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to; `plan` is None if none fits."""

    plan: Plan | None
    estimate: StepEstimate | None
    num_plans: int  # valid ones
    num_fitting: int


def search(model: Model, cluster: Cluster, candidates: Iterable[Plan] | None = None) -> Found:
    """The plan with the shortest step of all valid ones that fit; of equals the one with less memory, then the first.

    candidates: the plans to choose among, impossible ones too; the whole space if not said.
    A plan is bounded from below at no cost, and played only while its bound is below the best that was played.
    """
    num_plans = 0
    bounded: list[tuple[float, int, Plan]] = []
    layers: dict[tuple[int, ...], tuple[LayerSeconds, Traffic]] = {}

    def timed(plan: Plan) -> Step:
        key = (plan.dp, plan.tp, plan.cp, plan.ep, plan.micro_batch, plan.num_micro_batches, plan.zero_stage)
        if key not in layers:
            layers[key] = layer_costs(model, cluster, plan)
        return Step(model, cluster, plan, layers[key])

    among = plans(model, cluster) if candidates is None else (one for one in candidates if not why_not(model, cluster, one))
    for plan in among:
        num_plans += 1
        if fits(model, cluster, plan):
            bounded.append((timed(plan).at_least_s(), len(bounded), plan))
    bounded.sort()
    best: tuple[float, float, int, Plan, StepEstimate] | None = None
    for bound_s, number, plan in bounded:
        if best and bound_s > best[0] * (1 + ROUNDING):
            break
        step = timed(plan)
        estimate = step.estimate(pipeline_s(plan, step.forward_s, step.backward_s))
        if best is None or (estimate.step_s, estimate.memory_bytes, number) < best[:3]:
            best = (estimate.step_s, estimate.memory_bytes, number, plan, estimate)
    return Found(best[3] if best else None, best[4] if best else None, num_plans, len(bounded))


def plans(model: Model, cluster: Cluster) -> Iterator[Plan]:
    """All valid plans of the space, memory not asked."""
    for layout in _layouts(model, cluster):
        sequences = model.global_batch // layout.dp
        for micro_batch in divisors(sequences):
            for schedule, chunks in _schedules(model, layout.pp, sequences // micro_batch):
                for zero_stage in range(4 if layout.dp * layout.cp > 1 else 1):
                    for recompute in _recomputations(model):
                        yield Plan(
                            layout.dp, layout.tp, layout.pp, layout.cp, layout.ep, micro_batch, sequences // micro_batch, zero_stage,
                            recompute, schedule, chunks, layout.tp > 1,
                        )  # fmt: skip


def _layouts(model: Model, cluster: Cluster) -> Iterator[Plan]:
    num_gpus = cluster.num_gpus
    for tp in divisors(math.gcd(num_gpus, math.gcd(model.num_kv_heads, model.mlp_size))):
        for pp in divisors(num_gpus // tp):
            for cp in divisors(num_gpus // tp // pp):
                dp = num_gpus // tp // pp // cp
                too_thin = cp > 1 and model.sequence < 2 * cp * MIN_PIECE
                if pp > model.num_layers or model.global_batch % dp or too_thin:
                    continue
                for ep in divisors(math.gcd(dp, model.num_experts)):
                    layout = Plan(dp, tp, pp, cp, ep, 1, model.global_batch // dp, sequence_parallel=tp > 1)
                    if not why_not(model, cluster, layout):
                        yield layout


def _schedules(model: Model, pp: int, num_micro_batches: int) -> list[tuple[ScheduleName, int]]:
    interleaved = pp > 1 and num_micro_batches % pp == 0
    chunks = [count for count in CHUNKS if interleaved and pp * count <= model.num_layers]
    return [("1f1b", 1), *(("interleaved", count) for count in chunks)]


def _recomputations(model: Model) -> tuple[Recompute, ...]:
    return ("none", "selective", "full") if model.attention == "dense" else ("none", "full")


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """All of them, in order."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))
