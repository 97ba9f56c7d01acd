"""Over gloo the same broken programs are told from the recorder's testimony, CPU clocks and exits."""

from __future__ import annotations

from typing import Any

import pytest

from grader.records import Event, Limits, Network
from grader.wire.testimony import fault_of_recorded_quarrel
from grader.wire.trace import Trace, assemble
from grader.wire.words import EventFields
from tests.grader.wire.launch import Ranks

GLOO = Network("gloo")
BRIEF = Limits(cpu_s=5.0, wall_s=0.5, idle_s=0.5)


@pytest.mark.parametrize(
    ("function", "world_size", "kind", "rank", "says"),
    [
        (
            "collective_against_receive",
            2,
            "deadlock",
            -1,
            ["all_reduce(sum) float32[2] (broken.py:", "recv float32[3] from rank 0"],
        ),
        ("wrong_tag", 2, "deadlock", -1, ["to rank 1 tag 3", "from rank 0 tag 4"]),
        ("blocked_in_a_future", 2, "deadlock", -1, ["rank 0 waits in all_reduce", "rank 1 waits in recv"]),
        ("key_that_never_comes", 2, "deadlock", -1, ["rank 0 waits in store_get", "rank 1 waits in barrier"]),
        ("shape", 2, "mismatch", -1, ["shape mismatch", "all_reduce(sum) float32[8]", "all_reduce(sum) float32[9]"]),
        ("short_send", 2, "mismatch", -1, ["send float32[2] to rank 1", "recv float32[4] from rank 0"]),
        ("raises", 2, "raised", 1, ["rank 1 raised KeyError: 'student bug'"]),
        ("crashes", 2, "crashed", 1, ["rank 1 was killed by SIGSEGV"]),
        ("leaves_with_status_0", 2, "exited", 1, ["rank 1 has exited with status 0"]),
        ("left_out", 3, "raised", 0, ["a rank that it was talking to has gone", "the probe of rank 2 had ended"]),
        ("sleeps_on_a_lock", 2, "silent", 1, ["rank 1 has said nothing", "in sleeps_on_a_lock"]),
    ],
)
def test_a_broken_program_is_told_over_gloo(ranks: Ranks, function: str, world_size: int, kind: str, rank: int, says: list[str]) -> None:
    """A rank that lost its peer is a consequence; who raised, crashed, left or disagreed is the fault."""
    fault = ranks.call("broken.py", function, world_size, network=GLOO, limits=BRIEF).fault
    assert fault is not None and (fault.kind, fault.rank) == (kind, rank), fault
    for words in says:
        assert words in fault.sentence


@pytest.mark.parametrize("function", ["slow_arithmetic", "another_thread_comes_to_the_rescue", "batched"])
def test_a_right_program_ends_well_over_gloo(ranks: Ranks, function: str) -> None:
    """Waiting for a rank that computes, or that sleeps for less than the limits allow, is no hang."""
    outcome = ranks.call("broken.py", function, 2, network=GLOO, limits=Limits(cpu_s=5.0, wall_s=5.0, idle_s=2.0))
    assert outcome.fault is None and outcome.findings == ()


def recorded(rank: int, *calls: dict[str, Any]) -> Trace:
    """A trace of recorded calls."""
    trace = Trace(rank)
    for number, call in enumerate(calls):
        trace.recorded(EventFields(kind="issue", call=number, **call))
    return trace


def matches(events: tuple[Event, ...]) -> list[int]:
    """Their numbers in order."""
    return [event.match for event in events]


def test_recorded_calls_are_matched_by_their_place() -> None:
    """Collectives by their place in the group, messages by their place among those of a pair and a tag."""
    reduce, send = {"op": "all_reduce", "group": [0, 1]}, {"op": "send", "group": [0, 1], "peer": 1}
    left = recorded(0, reduce, send | {"tag": 1}, send | {"tag": 2}, reduce)
    receive = {"op": "recv", "group": [0, 1], "peer": 0}
    right = recorded(1, reduce, receive | {"tag": 2}, receive | {"tag": 1}, reduce, reduce)
    assert matches(assemble([left, right])) == [0, 1, 2, 3, 0, 2, 1, 3, -1]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"op": "broadcast"}, "operation"),
        ({"op": "all_reduce", "reduction": "MAX"}, "reduction"),
        ({"op": "all_reduce", "reduction": "SUM", "dtype": "int32", "shape": [2, 3]}, "dtype"),
        ({"op": "all_reduce", "reduction": "SUM", "dtype": "float32", "shape": [7]}, "shape"),
        ({"op": "all_reduce", "reduction": "SUM", "dtype": "float32", "shape": [6]}, None),
    ],
)
def test_recorded_calls_that_disagree_are_a_quarrel(other: dict[str, Any], what: str | None) -> None:
    """Element counts must agree, the shapes' form need not."""
    own = {"op": "all_reduce", "group": [0, 1], "reduction": "SUM", "dtype": "float32", "shape": [2, 3]}
    fault = fault_of_recorded_quarrel([recorded(0, own), recorded(1, other | {"group": [0, 1]})])
    assert (fault and fault.sentence.split(" mismatch")[0]) == what
