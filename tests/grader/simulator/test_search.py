"""Plans: which are possible, which fit, and which is best."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import pytest

from grader.simulator import Cluster, Model, Plan, estimate_step, fits, h100, memory_bytes, plans, search, why_not
from grader.simulator.estimate import Step
from tests.grader.simulator.drawn import model, node

LLAMA_405B = Model(126, 16384, 128, 8, 53248, 128256, 8192, 2048, gated=True, tied=False, bias=False, rotary=True)


@pytest.mark.parametrize("cluster", [node(1, 4), node(2, 2, inter_bytes_per_s=1e8), node(1, 4, memory_bytes=7e8)])
@pytest.mark.parametrize("changes", [{}, {"num_layers": 7, "attention": "dense"}, {"num_experts": 4}])
def test_search_finds_what_trying_everything_finds(cluster: Cluster, changes: dict[str, Any]) -> None:
    """The bounds that spare it work never cost it the best plan."""
    a_model = model(**changes, global_batch=8)
    every = list(plans(a_model, cluster))
    fitting = [plan for plan in every if fits(a_model, cluster, plan)]
    found = search(a_model, cluster)
    assert (found.num_plans, found.num_fitting) == (len(every), len(fitting)) and len(set(every)) == len(every)
    assert found.plan in fitting and found.estimate == estimate_step(a_model, cluster, found.plan)
    assert found.estimate.step_s == pytest.approx(min(estimate_step(a_model, cluster, plan).step_s for plan in fitting))
    assert all(why_not(a_model, cluster, plan) == () for plan in every)


def test_every_axis_and_technique_is_searched() -> None:
    """The space holds each of them, so that none wins for want of another."""
    every = list(plans(model(num_experts=4, attention="dense"), node()))
    for name in ("dp", "tp", "pp", "cp", "ep", "micro_batch", "zero_stage", "recompute", "schedule", "chunks"):
        assert len({getattr(plan, name) for plan in every}) > 1, name


def test_a_search_may_be_among_given_plans() -> None:
    """Impossible ones don't count; the others do, in and out of the space."""
    possible = [Plan(dp=8, num_micro_batches=2), Plan(dp=8, num_micro_batches=1, micro_batch=2, overlap=False)]
    found = search(model(), node(), [Plan(dp=3), *possible])
    assert found.num_plans == 2 and found.plan in possible
    assert found.estimate == min((estimate_step(model(), node(), plan) for plan in possible), key=lambda estimate: estimate.step_s)


def test_what_is_too_large_is_refused() -> None:
    """No plan, and the number of those that were tried."""
    found = search(LLAMA_405B, h100(1))
    assert (found.plan, found.estimate, found.num_fitting) == (None, None, 0) and found.num_plans > 0


def test_a_search_of_16384_gpus_plays_few_of_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are bounded, a handful are timed to the end: that is what keeps it within seconds (tests/benchmarks/simulator_search.py)."""
    timed = []
    whole = Step.estimate
    monkeypatch.setattr(Step, "estimate", lambda step, seconds: timed.append(1) or whole(step, seconds))  # type: ignore[func-returns-value]
    found = search(LLAMA_405B, h100(2048))
    assert found.plan is not None and found.plan.num_gpus == 16384
    assert found.num_plans > 10_000
    assert len(timed) < found.num_plans / 100


REFUSALS = [
    ({"dp": 4}, "dp 4 x tp 1 x pp 1 x cp 1 = 4 ranks, but the cluster has 8 GPUs"),
    ({"num_micro_batches": 3}, "= 24 sequences, but a step has 16"),
    ({"tp": 8, "dp": 1, "num_micro_batches": 16}, "tp 8 doesn't divide both 4 key/value heads"),
    ({"pp": 8, "dp": 1, "num_micro_batches": 16, "schedule": "interleaved", "chunks": 2}, "16 stages, but there are only 8 layers"),
    ({"ep": 2}, "ep 2 doesn't divide both the 1 experts and dp 8"),
    ({"zero_stage": 4}, "ZeRO has the stages 0, 1, 2 and 3, not 4"),
    ({"chunks": 2}, "1f1b has one chunk per rank, not 2"),
    ({"schedule": "interleaved", "chunks": 2}, "needs pp and chunks of at least 2"),
    ({"pp": 4, "dp": 2, "num_micro_batches": 2, "micro_batch": 4, "schedule": "interleaved", "chunks": 2}, "2 isn't one of 4"),
    ({"schedule": "dualpipe"}, "There is no schedule 'dualpipe'"),
    ({"micro_batch": 0}, "at least 1; the smallest is 0"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSALS)
def test_a_plan_that_cannot_be_is_refused_with_the_reason(changes: dict[str, Any], sentence: str) -> None:
    """A sentence for every rule, with the numbers."""
    good = Plan(dp=8, num_micro_batches=2)
    assert why_not(model(), node(), good) == ()
    said = why_not(model(), node(), replace(good, **changes))
    assert any(sentence in reason for reason in said), said


def test_sequences_that_do_not_divide_are_refused() -> None:
    """Context parallelism cuts 2 x cp pieces, sequence parallelism tp."""
    odd = model(sequence=1021)
    assert "2 x cp = 16" in why_not(odd, node(), Plan(cp=8, num_micro_batches=16))[0]
    assert "tp 4 doesn't divide the 1021 tokens" in why_not(odd, node(1, 4), Plan(tp=4, num_micro_batches=16, sequence_parallel=True))[0]


def test_records_travel_as_plain_facts() -> None:
    """asdict and the class itself are inverse to each other."""
    for record in (model(), node(), Plan(dp=2)):
        assert type(record)(**asdict(record)) == record


@pytest.mark.parametrize(("a_model", "published"), [(LLAMA_405B, 405_853_388_800), (model(), None)])
def test_parameters_are_those_of_the_real_model(a_model: Model, published: int | None) -> None:
    """Llama 3.1 405B's to the last one; and the states on one GPU are 16 bytes for each."""
    assert published in (None, a_model.num_parameters)
    plan = Plan(micro_batch=a_model.global_batch)  # nothing to sum
    more = replace(plan, gradient_bytes=4)
    final_norm = a_model.hidden_size * (2 if a_model.bias else 1)
    assert memory_bytes(a_model, more) - memory_bytes(a_model, plan) == pytest.approx(2 * (a_model.num_parameters - final_norm))


def test_experts_are_divided_and_found_by_their_tokens() -> None:
    """ep cuts the experts' states and costs all-to-alls; a router with one expert per token computes what an ordinary layer does."""
    sparse = model(num_experts=8, mlp_size=8192)
    whole, cut = (estimate_step(sparse, node(), Plan(dp=8, num_micro_batches=2, ep=ep)) for ep in (1, 8))
    assert cut.memory_bytes < whole.memory_bytes / 2
    with_traffic = replace(node(), intra_bytes_per_s=1e7)
    slow = [estimate_step(sparse, with_traffic, Plan(dp=8, num_micro_batches=2, ep=ep, overlap=False)) for ep in (1, 8)]
    assert slow[1].exposed_communication_s < slow[0].exposed_communication_s  # tokens travel, but the experts' gradients needn't
    assert math.isclose(whole.bubble_s, 0, abs_tol=1e-12)
