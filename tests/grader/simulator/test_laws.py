"""Laws that any simulator of a step must keep, whatever its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.simulator import Cluster, Model, Plan, StepEstimate, estimate_step, fits, memory_bytes, plans, search
from tests.grader.simulator.drawn import model, models, node, trios

FIGURES = ("flops_per_s", "memory_bytes_per_s", "intra_bytes_per_s", "inter_bytes_per_s")
ROUNDING = 1 + 1e-9


@settings(max_examples=25, deadline=None)
@given(trio=trios(), figure=st.sampled_from(FIGURES), factor=st.sampled_from([1.5, 2.0, 10.0]))
def test_a_faster_part_never_makes_a_step_slower(trio: tuple[Model, Cluster, Plan], figure: str, factor: float) -> None:
    """More FLOPs, more memory bandwidth, more bandwidth of either link: the step takes at most as long."""
    a_model, cluster, plan = trio
    faster = replace(cluster, **{figure: factor * getattr(cluster, figure)})
    assert estimate_step(a_model, faster, plan).step_s <= estimate_step(a_model, cluster, plan).step_s * ROUNDING


@settings(max_examples=20, deadline=None)
@given(trio=trios(), figure=st.sampled_from(["intra_latency_s", "inter_latency_s"]))
def test_a_shorter_way_never_makes_a_step_slower(trio: tuple[Model, Cluster, Plan], figure: str) -> None:
    """Without latency the step takes at most as long."""
    a_model, cluster, plan = trio
    nearer = replace(cluster, **{figure: 0.0})
    assert estimate_step(a_model, nearer, plan).step_s <= estimate_step(a_model, cluster, plan).step_s * ROUNDING


@settings(max_examples=10, deadline=None)
@given(a_model=models, factor=st.sampled_from([1.1, 2.0]))
def test_more_memory_never_leaves_fewer_plans(a_model: Model, factor: float) -> None:
    """Whatever fits still does."""
    small, large = (node(1, 4, memory_bytes=bytes_) for bytes_ in (2e8, factor * 2e8))
    fitting = [plan for plan in plans(a_model, small) if fits(a_model, small, plan)]
    assert all(fits(a_model, large, plan) for plan in fitting)


def test_more_memory_never_makes_the_best_plan_slower() -> None:
    """A search finds more that fits, and at least what it found before."""
    found = [search(model(), node(2, 4, memory_bytes=bytes_)) for bytes_ in (0.5e9, 1e9, 4e9)]
    fitting = [one.num_fitting for one in found]
    steps = [one.estimate.step_s for one in found if one.estimate]
    assert fitting == sorted(fitting) and fitting[0] < fitting[-1]
    assert len(steps) == 3 and steps == sorted(steps, reverse=True)


@settings(max_examples=20, deadline=None)
@given(a_model=models, recompute=st.sampled_from(["none", "selective", "full"]))
def test_one_gpu_has_nobody_to_talk_to(a_model: Model, recompute: str) -> None:
    """No communication and no bubble, whatever the links are like."""
    silent = node(1, 1, intra_bytes_per_s=1.0, inter_bytes_per_s=1.0, intra_latency_s=1e3, inter_latency_s=1e3)
    for zero_stage in (0, 3):
        plan = Plan(micro_batch=2, num_micro_batches=a_model.global_batch // 2, zero_stage=zero_stage, recompute=recompute)  # type: ignore[arg-type]
        estimate = estimate_step(a_model, silent, plan)
        assert (estimate.exposed_communication_s, estimate.bubble_s) == (0, 0)
        assert estimate.compute_s > 0


@settings(max_examples=25, deadline=None)
@given(trio=trios())
def test_every_part_of_an_estimate_is_a_time(trio: tuple[Model, Cluster, Plan]) -> None:
    """None is negative, and the bubble is there exactly where there is a pipeline."""
    estimate = estimate_step(*trio)
    assert estimate.compute_s > 0 and estimate.exposed_communication_s >= 0 and estimate.memory_bytes > 0
    assert (estimate.bubble_s > 1e-9 * estimate.step_s) == (trio[2].pp > 1)


# --- symmetry
@settings(max_examples=25, deadline=None)
@given(trio=trios())
def test_where_all_links_are_equal_it_makes_no_difference_which_ranks_share_a_node(trio: tuple[Model, Cluster, Plan]) -> None:
    """Links of one kind and no latency: one node of N GPUs and N nodes of one take the same time; no axis is better placed."""
    a_model, cluster, plan = trio
    same = replace(cluster, inter_bytes_per_s=cluster.intra_bytes_per_s, inter_latency_s=0.0, intra_latency_s=0.0)
    together = replace(same, num_nodes=1, gpus_per_node=cluster.num_gpus)
    apart = replace(same, num_nodes=cluster.num_gpus, gpus_per_node=1)
    assert _times(estimate_step(a_model, together, plan)) == pytest.approx(_times(estimate_step(a_model, apart, plan)))


@settings(max_examples=20, deadline=None)
@given(a_model=models, zero_stage=st.integers(0, 3), recompute=st.sampled_from(["none", "full"]))
def test_context_and_data_parallelism_divide_the_tokens_alike(a_model: Model, zero_stage: int, recompute: str) -> None:
    """Twice the sequences on half of each: the same tokens and weights per rank, so the same memory and the same arithmetic."""
    long = replace(a_model, sequence=4096, attention="flash")
    common = {"num_micro_batches": 2, "zero_stage": zero_stage, "recompute": recompute}
    by_data = Plan(dp=4, cp=2, micro_batch=1, **common)  # type: ignore[arg-type]
    by_context = Plan(dp=2, cp=4, micro_batch=2, **common)  # type: ignore[arg-type]
    one, other = (estimate_step(long, node(), plan) for plan in (by_data, by_context))
    assert one.memory_bytes == pytest.approx(other.memory_bytes)
    assert one.compute_s == pytest.approx(other.compute_s)


def _times(estimate: StepEstimate) -> tuple[float, ...]:
    return estimate.compute_s, estimate.exposed_communication_s, estimate.bubble_s


# --- what each technique is for
@settings(max_examples=25, deadline=None)
@given(trio=trios())
def test_recomputing_more_never_keeps_more_and_is_never_faster(trio: tuple[Model, Cluster, Plan]) -> None:
    """Full keeps at most what selective keeps, apart from the layer that is being made again."""
    a_model, cluster, plan = trio
    ways = [replace(plan, recompute=recompute) for recompute in ("none", "selective", "full")]
    none_s, selective_s, full_s = (estimate_step(a_model, cluster, way).step_s for way in ways)
    assert none_s <= selective_s * ROUNDING and selective_s <= full_s * ROUNDING
    deep = replace(a_model, num_layers=64)
    assert memory_bytes(deep, ways[2]) <= memory_bytes(deep, ways[0])


@settings(max_examples=25, deadline=None)
@given(trio=trios())
def test_zero_holds_less_with_each_stage(trio: tuple[Model, Cluster, Plan]) -> None:
    """Optimizer states, then gradients, then weights are divided; the weights gathered for a layer are the price of the last."""
    a_model, _, plan = trio
    deep = replace(a_model, num_layers=64)
    held = [memory_bytes(deep, replace(plan, zero_stage=stage)) for stage in range(3)]
    assert held == sorted(held, reverse=True)
    assert (held[0] > held[2]) == (plan.dp * plan.cp > 1)


@settings(max_examples=25, deadline=None)
@given(trio=trios())
def test_overlap_never_costs(trio: tuple[Model, Cluster, Plan]) -> None:
    """What is hidden is at most all of it."""
    a_model, cluster, plan = trio
    hidden, open_ = (estimate_step(a_model, cluster, replace(plan, overlap=overlap)) for overlap in (True, False))
    assert hidden.step_s <= open_.step_s * ROUNDING
