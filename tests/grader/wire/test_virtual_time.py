"""Virtual time equals theory, and is one value whatever the real clock did."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import CourseError
from grader.records import Event, Network
from grader.wire.virtual_time import collective_seconds, evaluate
from tests.grader.wire.launch import Ranks

LAYER_BYTES = 16 * 16 * 4
BUFFERED = Network(rendezvous=False)


def events_of(ranks: Ranks, function: str, world_size: int, network: Network = BUFFERED, **arguments: Any) -> tuple[Event, ...]:
    """The trace of a program that must end well."""
    outcome = ranks.call("timed.py", function, world_size, network=network, **arguments)
    assert outcome.fault is None, outcome.fault
    return outcome.events


def rounds(events: tuple[Event, ...], phase: str | None = None) -> float:
    """Time at latency 1 and infinite bandwidth."""
    return evaluate(events, latency_s=1.0, bandwidth_bytes_per_s=math.inf, phase=phase).end_s


# --- messages
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_a_ring_takes_two_times_n_minus_one_rounds(ranks: Ranks, world_size: int) -> None:
    """Latency 1 and infinite bandwidth count the rounds: 2(N - 1)."""
    assert rounds(events_of(ranks, "ring_all_reduce", world_size), "ring") == 2 * (world_size - 1)


def test_bandwidth_counts_the_bytes_of_every_round(ranks: Ranks) -> None:
    """At latency 0 a ring's time is 2(N - 1) chunks over the bandwidth: 2(N - 1)/N of the tensor."""
    events = events_of(ranks, "ring_all_reduce", 4)
    assert evaluate(events, latency_s=0.0, bandwidth_bytes_per_s=16.0, phase="ring").end_s == pytest.approx(2 * 3 / 4 * 64 / 16)


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_recursive_doubling_takes_log2_n_rounds(ranks: Ranks, world_size: int) -> None:
    """Both directions of an exchange share a round."""
    assert rounds(events_of(ranks, "recursive_doubling", world_size)) == math.log2(world_size)


@pytest.mark.parametrize(("world_size", "num_chunks"), [(2, 4), (4, 1), (4, 6)])
def test_a_pipelined_chain_takes_n_minus_two_plus_chunks_rounds(ranks: Ranks, world_size: int, num_chunks: int) -> None:
    """Chunk by chunk along the chain: N - 2 + C chunk-times."""
    events = events_of(ranks, "chain_in_chunks", world_size, num_chunks=num_chunks)
    assert rounds(events) == world_size - 2 + num_chunks
    assert evaluate(events, latency_s=0.0, bandwidth_bytes_per_s=16.0).end_s == world_size - 2 + num_chunks


def test_a_rank_sends_one_message_at_a_time(ranks: Ranks) -> None:
    """One that sends to all others at once still needs N - 1 rounds: a flat broadcast doesn't beat a tree."""
    assert rounds(events_of(ranks, "one_sends_to_all", 4)) == 3


def test_receives_that_were_posted_early_block_no_later_one(ranks: Ranks) -> None:
    """The way into a rank is taken by whoever comes first, not by whoever was expected first."""
    assert rounds(events_of(ranks, "receives_in_another_order_than_they_come", 3)) == 3


# --- overlap
@pytest.mark.parametrize(
    ("function", "theory_s"),
    [
        ("flat_data_parallel", 6 * 3 + 6 * 1.0),
        ("overlapped_data_parallel", 6 * 3 + 1.0),
        ("torch_data_parallel", 6 * 3 + 1.0),
        ("looking_data_parallel", 6 * 3 + 6 * 1.0),
        ("future_data_parallel", 6 * 3 + 6 * 1.0),
    ],
)
def test_overlap_hides_all_but_the_last_all_reduce(ranks: Ranks, function: str, theory_s: float) -> None:
    """Six layers of 1 + 2, an all-reduce of 1 each: flat 24, overlapped 19, and so is torch's own DDP; the same where results land late.

    Who looks until it is done, or waits for what follows from its future, has waited: 24.
    """
    networks = (BUFFERED, BUFFERED, Network(rendezvous=False, late=True))
    seen = {evaluate(events_of(ranks, function, 2, network), 0.0, LAYER_BYTES, phase="step").end_s for network in networks}
    assert seen == {theory_s}


@pytest.mark.parametrize(("prefetch", "theory_s"), [(False, 6 * 1.5), (True, 6 + 0.5)])
def test_prefetch_hides_all_but_the_first_all_gather(ranks: Ranks, prefetch: bool, theory_s: float) -> None:
    """Six layers of 1, a gather of half: 9 without prefetch and 6.5 with it."""
    events = events_of(ranks, "fully_sharded_forward", 2, prefetch=prefetch)
    assert evaluate(events, 0.0, LAYER_BYTES, phase="step").end_s == theory_s


@pytest.mark.parametrize(("function", "bubble"), [("pipeline_1f1b", 3 / 11), ("pipeline_interleaved", 3 / 19)])
def test_the_bubble_of_torchs_schedules_is_the_published_one(ranks: Ranks, function: str, bubble: float) -> None:
    """(P - 1)/(M + P - 1) for 1F1B at P = 4, M = 8, and half the depth with two chunks."""
    timeline = evaluate(events_of(ranks, function, 4), 0.0, math.inf, phase="step", rendezvous=False)
    assert timeline.idle_fraction(0) == pytest.approx(bubble)


# --- from events alone
def issue(rank: int, call: int, op: str, match: int, *, peer: int = -1, num_bytes: int = 0, phase: str = "") -> Event:
    """A call of a world of two."""
    return Event(rank, "issue", phase, call, op, match, num_bytes, group=(0, 1), peer=peer)


def wait(rank: int, call: int, op: str, match: int, phase: str = "") -> Event:
    """Its wait."""
    return Event(rank, "wait", phase, call, op, match, group=(0, 1))


def compute(rank: int, cost_s: float, phase: str = "") -> Event:
    """Declared arithmetic."""
    return Event(rank, "compute", phase, cost_s=cost_s)


def test_a_phase_counts_from_its_own_start_on_each_rank() -> None:
    """What was computed before, or is waited for from before, takes no time inside the phase."""
    events = [
        compute(0, 50.0), issue(0, 0, "all_reduce", 0, num_bytes=8), wait(0, 0, "all_reduce", 0, "step"), compute(0, 2.0, "step"),
        issue(1, 0, "all_reduce", 0, num_bytes=8), wait(1, 0, "all_reduce", 0), compute(1, 3.0, "step"),
    ]  # fmt: skip
    assert evaluate(events, 1.0, 1.0, phase="step").end_s == 3.0


def test_rendezvous_holds_the_sender_and_buffers_do_not() -> None:
    """A send whose receive comes at 10 ends at 11 with rendezvous and takes no time with buffers."""
    events = [
        issue(0, 0, "send", 0, peer=1, num_bytes=4), wait(0, 0, "send", 0),
        compute(1, 10.0), issue(1, 0, "recv", 0, peer=0), wait(1, 0, "recv", 0),
    ]  # fmt: skip
    held = evaluate(events, 1.0, math.inf)
    assert held.end_s == 11.0 and held.lanes[0][-1].end_s == 11.0
    assert evaluate(events, 1.0, math.inf, rendezvous=False).end_s == 10.0


def test_a_transfer_that_must_wait_for_its_way_out_keeps_nobody_from_the_way_in() -> None:
    """Rank 0 sends 10 bytes to rank 2, then 1 to rank 3; meanwhile, at 5, rank 1's byte reaches rank 3."""
    events = [
        issue(0, 0, "send", 0, peer=2, num_bytes=10), issue(0, 1, "send", 1, peer=3, num_bytes=1),
        wait(0, 0, "send", 0), wait(0, 1, "send", 1),
        compute(1, 5.0), issue(1, 0, "send", 2, peer=3, num_bytes=1), wait(1, 0, "send", 2),
        issue(2, 0, "recv", 0, peer=0), wait(2, 0, "recv", 0),
        issue(3, 0, "recv", 2, peer=1), issue(3, 1, "recv", 1, peer=0), wait(3, 0, "recv", 2), wait(3, 1, "recv", 1),
    ]  # fmt: skip
    assert [span.end_s for span in evaluate(events, 0.0, 1.0).lanes[3]] == [6.0, 11.0]


def test_what_was_never_matched_takes_no_time() -> None:
    """The trace of a run that broke off can be played too."""
    assert evaluate([compute(0, 1.0), issue(0, 0, "recv", -1, peer=1), wait(0, 0, "recv", -1)], 5.0, 1.0).end_s == 1.0


def test_a_trace_that_cannot_be_played_says_so() -> None:
    """A buffered run in which both send first has no time with rendezvous."""
    events = [event for rank in (0, 1) for event in (
        issue(rank, 0, "send", rank, peer=1 - rank), wait(rank, 0, "send", rank), issue(rank, 1, "recv", 1 - rank, peer=1 - rank),
        wait(rank, 1, "recv", 1 - rank))]  # fmt: skip
    assert evaluate(events, 1.0, math.inf, rendezvous=False).end_s == 1.0
    with pytest.raises(CourseError, match="never end"):
        evaluate(events, 1.0, math.inf)


@given(st.integers(2, 2000), st.integers(0, 10**9), st.floats(0, 1e-3), st.floats(1e6, 1e12))
def test_an_all_reduce_costs_a_reduce_scatter_and_an_all_gather(n: int, num_bytes: int, latency_s: float, bandwidth: float) -> None:
    """The all-gather of what the reduce-scatter left: one N-th of the tensor each."""
    whole = collective_seconds("all_reduce", n, num_bytes * n, latency_s, bandwidth)
    costs = (latency_s, bandwidth)
    halves = collective_seconds("reduce_scatter", n, num_bytes * n, *costs) + collective_seconds("all_gather", n, num_bytes, *costs)
    assert whole == pytest.approx(halves)


@given(st.randoms(use_true_random=False))
def test_the_order_in_which_ranks_are_listed_changes_no_time(random: Any) -> None:
    """Only each rank's own order is part of a trace."""
    lanes = [
        [compute(rank, random.random()), issue(rank, 0, "all_reduce", 0, num_bytes=9), compute(rank, random.random()),
         issue(rank, 1, "send" if rank else "recv", 1, peer=1 - rank, num_bytes=rank * 5), wait(rank, 0, "all_reduce", 0),
         wait(rank, 1, "send" if rank else "recv", 1)]
        for rank in (0, 1)
    ]  # fmt: skip
    left = [event for lane in lanes for event in lane]
    right = [event for lane in reversed(lanes) for event in lane]
    assert evaluate(left, 0.5, 7.0).end_s == evaluate(right, 0.5, 7.0).end_s
