"""The simulator and the judge's virtual time say the same of what both can express.

Traces are written here as a run would leave them: a DDP step whose layers are reduced while the next ones compute, and pipelines.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from grader.records import Event
from grader.schedules import FORWARD, Schedule
from grader.simulator import Model, Plan, estimate_step
from grader.simulator.collectives import Group, all_gather_s, all_reduce_s, reduce_scatter_s
from grader.simulator.estimate import Step, layer_costs
from grader.simulator.pipelines import pipeline_s, schedule_of
from grader.wire.virtual_time import collective_seconds, evaluate
from tests.grader.simulator.drawn import model, node


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("num_bytes", [1, 10**9])
def test_a_ring_costs_what_it_costs_on_the_judges_wire(num_ranks: int, num_bytes: int) -> None:
    """Within a node all-reduce, all-gather and reduce-scatter are the same formulas; a tree may be cheaper where latency rules."""
    cluster, group = node(), Group(num_ranks, num_ranks)
    network = (cluster.intra_latency_s, cluster.intra_bytes_per_s)
    wire_s = {op: collective_seconds(op, num_ranks, num_bytes, *network) for op in ("all_reduce", "reduce_scatter")}
    wire_s["all_gather"] = collective_seconds("all_gather", num_ranks, num_bytes / num_ranks, *network)  # type: ignore[arg-type]
    assert reduce_scatter_s(cluster, group, num_bytes) == pytest.approx(wire_s["reduce_scatter"])
    assert all_gather_s(cluster, group, num_bytes) == pytest.approx(wire_s["all_gather"])
    if num_bytes > 1:
        assert all_reduce_s(cluster, group, num_bytes) == pytest.approx(wire_s["all_reduce"])
    assert all_reduce_s(cluster, group, num_bytes) <= wire_s["all_reduce"] * (1 + 1e-12)


# --- data parallelism
def ddp_step(a_model: Model, plan: Plan, compute_s: dict[str, float]) -> list[Event]:
    """One micro-batch: forward, then layer by layer backward with an all-reduce behind each, the embedding's last, then the optimizer."""
    ranks = tuple(range(plan.dp))
    events = []
    for rank in ranks:
        events.append(Event(rank, "compute", cost_s=compute_s["forward"] + compute_s["head_backward"]))
        for layer in range(a_model.num_layers):
            events.append(Event(rank, "compute", cost_s=compute_s["layer_backward"]))
            events.append(_reduction(rank, ranks, layer, 2 * a_model.layer_parameters))
        events.append(_reduction(rank, ranks, a_model.num_layers, 2 * a_model.embedding_parameters))
        events.append(Event(rank, "join"))
        events.append(Event(rank, "compute", cost_s=compute_s["optimizer"]))
    return events


def _reduction(rank: int, ranks: tuple[int, ...], number: int, num_bytes: int) -> Event:
    return Event(rank, "issue", call=number, op="all_reduce", match=number, num_bytes=num_bytes, group=ranks)


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
@pytest.mark.parametrize("bytes_per_s", [1e8, 1e10, 1e12])
def test_a_ddp_step_takes_the_same_time(num_gpus: int, bytes_per_s: float) -> None:
    """Exactly: slow links, where the reductions queue up, and fast ones, where only the last can be seen."""
    a_model, cluster = model(global_batch=num_gpus), node(1, num_gpus, intra_bytes_per_s=bytes_per_s, intra_latency_s=0.0)
    plan = Plan(dp=num_gpus)
    step = Step(a_model, cluster, plan)
    layer, _ = layer_costs(a_model, cluster, plan)
    estimate = estimate_step(a_model, cluster, plan)
    compute_s = {
        "forward": step.forward_s[0],
        "layer_backward": layer.backward_s,
        "head_backward": step.backward_s[0] - a_model.num_layers * layer.backward_s,
        "optimizer": estimate.compute_s - step.forward_s[0] - step.backward_s[0],
    }
    wire_s = evaluate(ddp_step(a_model, plan, compute_s), 0.0, bytes_per_s).end_s
    assert estimate.step_s == pytest.approx(wire_s)
    assert (estimate.exposed_communication_s > 0) == (num_gpus > 1)


# --- pipelines
def pipeline_run(schedule: Schedule, costs: dict[str, list[float]], message_bytes: int) -> list[Event]:
    """Each rank's computations in the schedule's order, with the messages between neighbours."""
    num_stages = len(costs[FORWARD])
    calls = dict.fromkeys(range(len(schedule)), 0)
    events = []
    for rank, actions in enumerate(schedule):
        for kind, stage, micro_batch in actions:
            source, target = (stage - 1, stage + 1) if kind == FORWARD else (stage + 1, stage - 1)
            if 0 <= source < num_stages:
                events += _message(calls, "recv", rank, source % len(schedule), _number(kind, source, micro_batch), message_bytes)
            events.append(Event(rank, "compute", cost_s=costs[kind][stage]))
            if 0 <= target < num_stages:
                events += _message(calls, "send", rank, target % len(schedule), _number(kind, stage, micro_batch), message_bytes)
    return events


def _number(kind: str, stage: int, micro_batch: int) -> int:
    """Of the message that `stage` makes for `micro_batch`."""
    return 2 * (1000 * stage + micro_batch) + (kind == FORWARD)


def _message(calls: dict[int, int], op: str, rank: int, peer: int, number: int, num_bytes: int) -> list[Event]:
    calls[rank] += 1
    pair = (min(rank, peer), max(rank, peer))
    issue = Event(rank, "issue", call=calls[rank], op=op, match=number, num_bytes=num_bytes, group=pair, peer=peer)
    return [issue, Event(rank, "wait", call=calls[rank])]


PIPELINES = [("1f1b", 4, 8, 1), ("1f1b", 3, 2, 1), ("gpipe", 3, 5, 1), ("interleaved", 2, 4, 2), ("interleaved", 4, 8, 2)]


@pytest.mark.parametrize(("schedule", "pp", "num_micro_batches", "chunks"), PIPELINES)
@pytest.mark.parametrize("last", [1.0, 1.5])
def test_a_pipeline_with_free_messages_takes_the_same_time(
    schedule: str, pp: int, num_micro_batches: int, chunks: int, last: float
) -> None:
    """Exactly, with equal stages and with one that has the head: both count computations and waits."""
    plan = Plan(pp=pp, num_micro_batches=num_micro_batches, schedule=schedule, chunks=chunks)  # type: ignore[arg-type]
    forward_s = [1.0] * (pp * chunks - 1) + [last]
    backward_s = [2 * seconds for seconds in forward_s]
    run = pipeline_run(schedule_of(schedule, pp, num_micro_batches, chunks), {"F": forward_s, "B": backward_s}, 1)
    wire_s = evaluate(run, 0.0, math.inf, rendezvous=False).end_s
    assert pipeline_s(plan, forward_s, backward_s) == pytest.approx(wire_s)


def one_f_one_b(a_model: Model, num_micro_batches: int, bytes_per_s: float) -> tuple[float, float, float]:
    """A 1F1B step on four ranks: by the wire, by the simulator, and how long a rank's messages take altogether."""
    cluster = node(1, 4, intra_bytes_per_s=bytes_per_s, intra_latency_s=1e-5)
    silent = replace(cluster, intra_bytes_per_s=math.inf, intra_latency_s=0.0)
    plan = Plan(pp=4, num_micro_batches=num_micro_batches)
    computed, step = Step(a_model, silent, plan), Step(a_model, cluster, plan)
    message_bytes = 2 * a_model.sequence * a_model.hidden_size
    run = pipeline_run(schedule_of("1f1b", 4, num_micro_batches, 1), {"F": computed.forward_s, "B": computed.backward_s}, message_bytes)
    wire_s = evaluate(run, cluster.intra_latency_s, cluster.intra_bytes_per_s, rendezvous=False).end_s
    messages_s = 2 * num_micro_batches * (cluster.intra_latency_s + message_bytes / cluster.intra_bytes_per_s)
    return wire_s, pipeline_s(plan, step.forward_s, step.backward_s), messages_s


@pytest.mark.parametrize("num_micro_batches", [1, 2, 8])
@pytest.mark.parametrize(("vocab_size", "bytes_per_s"), [(8192, 1e9), (8192, 1e11), (64, 1e11)])
def test_a_1f1b_step_takes_the_same_time_messages_included(num_micro_batches: int, vocab_size: int, bytes_per_s: float) -> None:
    """Exactly: with a head that makes the last stage the slowest, and without one while messages are shorter than computations."""
    a_model = model(vocab_size=vocab_size, global_batch=num_micro_batches)
    wire_s, simulated_s, messages_s = one_f_one_b(a_model, num_micro_batches, bytes_per_s)
    assert simulated_s == pytest.approx(wire_s)
    assert messages_s > 1e-3 * simulated_s  # so that they would be missed


def test_where_messages_are_as_long_as_computations_the_wire_is_slower() -> None:
    """There a rank takes in one message at a time, and a gradient may wait behind an activation that nobody needs yet.

    The simulator lets each receiver wait for its own message only: it is below, by no more than a rank's messages.
    """
    wire_s, simulated_s, messages_s = one_f_one_b(model(num_layers=5, vocab_size=64, global_batch=8), 8, 1e9)
    assert simulated_s * 1.01 < wire_s <= simulated_s + messages_s
