"""Broken programs get one exact sentence, at once; right programs that look stuck get none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grader.records import Fault, Limits, MiB, Network, Outcome, TensorSpec
from tests.grader.wire.launch import SUBMISSION, Ranks

SOURCE = (SUBMISSION / "broken.py").read_text().splitlines()


def line_of(function: str, code: str) -> str:
    """ "broken.py:12": the first line of `function` that holds `code`."""
    start = next(number for number, text in enumerate(SOURCE) if text.startswith(f"def {function}("))
    return f"broken.py:{next(number for number in range(start, len(SOURCE)) if code in SOURCE[number]) + 1}"


def fault_of(ranks: Ranks, function: str, world_size: int = 2, **options: Any) -> Fault:
    """The fault of a program that must have one."""
    outcome = ranks.call("broken.py", function, world_size, **options)
    assert outcome.fault is not None
    return outcome.fault


@pytest.mark.parametrize(
    ("function", "world_size", "kind", "rank", "says"),
    [
        ("shape", 2, "mismatch", -1, ["shape mismatch", "all_reduce(sum) float32[8]", "all_reduce(sum) float32[9]"]),
        ("shape_of_the_last", 3, "mismatch", 2, ["rank 0 calls all_reduce(sum) float32[8]", "rank 2 calls all_reduce(sum) float32[9]"]),
        ("dtype", 2, "mismatch", -1, ["dtype mismatch", "float32[8]", "float64[8]"]),
        ("operation", 2, "mismatch", -1, ["operation mismatch", "rank 0 calls all_reduce", "rank 1 calls broadcast"]),
        ("reduction", 2, "mismatch", -1, ["reduction mismatch", "all_reduce(sum)", "all_reduce(max)"]),
        ("root", 2, "mismatch", -1, ["root mismatch", "with root 0", "with root 1"]),
        ("short_send", 2, "mismatch", -1, ["shape mismatch", "send float32[2] to rank 1", "recv float32[4] from rank 0"]),
        ("broadcast_size", 2, "mismatch", -1, ["shape mismatch", "broadcast float32[4]", "broadcast float32[6]"]),
        ("splits", 2, "mismatch", -1, ["split mismatch", "rank 0 sends 12 bytes to rank 1, which expects 8"]),
        ("gather_size", 2, "mismatch", -1, ["shape mismatch", "gather float32[3]", "gather float32[4]"]),
        ("all_send_first", 2, "deadlock", -1, ["every rank is in send", "none has reached its receive", "needs rank 0"]),
        ("all_send_first", 6, "deadlock", -1, ["every rank is in send", "and 3 more"]),
        ("collective_against_receive", 2, "deadlock", -1, ["all_reduce(sum) float32[2]", "needs rank 1", "recv float32[3] from rank 0"]),
        ("wrong_tag", 2, "deadlock", -1, ["to rank 1 tag 3", "from rank 0 tag 4"]),
        ("left_out", 3, "deadlock", 2, ["rank 0 waits in all_reduce(sum) float32[2]", "which needs rank 2; rank 2 has ended its probe"]),
        ("one_call_more", 2, "deadlock", 1, ["rank 1 waits in all_reduce", "rank 0 has ended its probe"]),
        ("groups_crossed", 2, "deadlock", -1, ["in group '1' of ranks [0, 1]", "in group '2' of ranks [0, 1]"]),
        ("cycle_of_three_beside_a_busy_rank", 4, "deadlock", -1, ["of ranks [0, 1]", "of ranks [1, 2]", "of ranks [0, 2]"]),
        ("blocked_in_a_future", 2, "deadlock", -1, ["rank 0 waits in all_reduce", "rank 1 waits in recv"]),
        ("any_source_and_nobody_sends", 2, "deadlock", -1, ["recv float32[2] from any rank", "which needs rank 1"]),
        ("key_that_never_comes", 2, "deadlock", -1, ["rank 0 waits in store_get", "never", "rank 1 waits in barrier"]),
        ("changed_in_flight", 2, "changed_in_flight", 0, ["rank 0 changed the tensor of all_reduce(sum)", ", somewhere between these"]),
        ("view_changed_in_flight", 2, "changed_in_flight", 0, ["rank 0 changed the tensor of send float32[4] to rank 1"]),
        ("raises", 2, "raised", 1, ["rank 1 raised KeyError: 'student bug' at broken.py:", "in raises"]),
        ("all_raise", 2, "raised", 0, ["rank 0 raised NotImplementedError: rank 0 has not been written"]),
        ("crashes", 2, "crashed", 1, ["rank 1 was killed by SIGSEGV", "it was at broken.py:", "in crashes"]),
        ("leaves_with_status_0", 2, "exited", 1, ["rank 1 has exited with status 0 before its probe had returned"]),
        ("forks_and_leaves", 2, "exited", 1, ["rank 1 has exited with status 3 before its probe had returned"]),
    ],
)  # fmt: skip
def test_a_broken_program_is_told_in_one_sentence(
    ranks: Ranks, function: str, world_size: int, kind: str, rank: int, says: list[str]
) -> None:  # fmt: skip
    """The kind, the rank to look at first, and what was called with which shapes and on which lines."""
    fault = fault_of(ranks, function, world_size)
    assert (fault.kind, fault.rank) == (kind, rank), fault
    for words in says:
        assert words in fault.sentence
    if kind in ("mismatch", "deadlock"):
        assert len(fault.lines) >= 2 or function == "one_call_more"
        assert all(re.search(r"\(broken\.py:\d+\)", line) for line in fault.lines), fault.lines


def test_the_line_named_is_the_students(ranks: Ranks) -> None:
    """The innermost line of the submission is named, not the probe's and not torch's."""
    fault = fault_of(ranks, "collective_against_receive")
    assert f"float32[2] ({line_of('collective_against_receive', 'all_reduce')})" in fault.sentence
    assert f"from rank 0 ({line_of('collective_against_receive', 'recv')})" in fault.sentence
    assert ", at broken.py" not in fault.sentence


def test_a_wait_on_another_line_than_its_call_is_named_too(ranks: Ranks) -> None:
    """Who looks at the call alone finds nothing wrong there."""
    fault = fault_of(ranks, "waits_elsewhere")
    called, waited = (line_of("waits_elsewhere", word) for word in ("all_reduce", "work.wait"))
    assert f"float32[2] ({called}), at {waited}, which needs rank 1" in fault.sentence


def test_those_who_wait_for_a_fallen_rank_are_told_as_a_consequence(ranks: Ranks) -> None:
    """The fault is the rank that raised; the waiting of the others stands in the lines."""
    fault = fault_of(ranks, "raises")
    assert "waits" not in fault.sentence
    assert any("rank 0 waits in recv float32[2] from rank 1" in line and "rank 1 has raised KeyError" in line for line in fault.lines)


def test_all_ranks_that_fall_are_told(ranks: Ranks) -> None:
    """Every rank's own error stands in the lines, in rank order, whoever was first."""
    fault = fault_of(ranks, "all_raise", 3)
    assert [line.split(" at ")[0] for line in fault.lines] == [
        f"rank {rank} raised NotImplementedError: rank {rank} has not been written" for rank in range(3)
    ]


@pytest.mark.parametrize(
    ("function", "limits", "kind", "says"),
    [
        ("spins", Limits(cpu_s=0.3), "cpu_limit", ["rank 1 has used 0.3 s of CPU", "in spins"]),
        ("polls_for_ever", Limits(cpu_s=0.3), "cpu_limit", ["it polls all_reduce(sum) float32[2]", "for ever", "in polls_for_ever"]),
        ("sleeps_on_a_lock", Limits(wall_s=0.3), "silent", ["rank 1 has said nothing for 0.3 s", "in sleeps_on_a_lock"]),
        ("closes_its_line", Limits(wall_s=0.3), "silent", ["rank 1 has said nothing"]),
    ],
)
def test_a_rank_that_says_nothing_is_ended_and_named(ranks: Ranks, function: str, limits: Limits, kind: str, says: list[str]) -> None:
    """Spinning, polling for ever and sleeping are told apart, with the line where the rank is."""
    fault = fault_of(ranks, function, limits=limits)
    assert (fault.kind, fault.rank) == (kind, 1), fault
    for words in says:
        assert words in fault.sentence


def test_memory_beyond_the_allowance_is_its_own_kind_of_fault(ranks: Ranks) -> None:
    """An allocation that the run's limit refuses is not just any exception."""
    fault = fault_of(ranks, "allocates_too_much", limits=Limits(extra_bytes=32 * MiB))
    assert fault.kind == "memory" and "more memory than this run allows (32 MiB" in fault.sentence


@pytest.mark.parametrize(
    "function", ["slow_arithmetic", "sleeps_for_a_while", "another_thread_comes_to_the_rescue", "sends_to_itself", "batched"]
)
def test_a_right_program_is_never_declared_stuck(ranks: Ranks, function: str) -> None:
    """Long arithmetic, a sleep, and a wait that only another thread of the same rank can end are no deadlock."""
    assert ranks.call("broken.py", function, 2).fault is None


def test_sends_before_receives_are_fine_where_sends_are_buffered(ranks: Ranks) -> None:
    """The same program deadlocks with rendezvous and ends well with buffers."""
    assert ranks.call("broken.py", "all_send_first", 2, network=Network(rendezvous=False)).fault is None


@pytest.mark.parametrize("late", [False, True])
def test_a_forgotten_wait_is_a_wrong_number_when_delivery_is_late(ranks: Ranks, late: bool) -> None:
    """Late delivery fills a tensor at its wait and not before; plain delivery has filled it by the next barrier."""
    outcome = ranks.call("broken.py", "forgets_to_wait", 2, network=Network(late=late), returns={"x": (TensorSpec("float32", (4,)),)})
    assert outcome.fault is None
    assert [floats(outcome, rank) for rank in range(2)] == ([[1.0] * 4, [2.0] * 4] if late else [[3.0] * 4] * 2)


def floats(outcome: Outcome, rank: int) -> list[float]:
    """The output x of a rank."""
    return memoryview(outcome.ranks[rank].outputs["x"].data).cast("f").tolist()


def test_an_order_that_nccl_may_hang_on_is_found_and_a_batch_is_not(ranks: Ranks) -> None:
    """Both sides send first, unbatched: a finding that names both lines. Batched: none."""
    (finding,) = ranks.call("broken.py", "unbatched_in_one_order", 2).findings
    assert "with NCCL this may hang" in finding and finding.count("broken.py:") == 2
    assert ranks.call("broken.py", "batched", 2).findings == ()


def test_a_tensor_that_is_not_contiguous_is_found(ranks: Ranks) -> None:
    """A column of a matrix goes over the wire; the finding says what NCCL and gloo do with it."""
    (finding,) = ranks.call("broken.py", "strided", 2).findings
    assert "isn't contiguous" in finding and "broken.py:" in finding


def test_a_rank_that_has_answered_and_will_not_leave_holds_up_nobody(ranks: Ranks) -> None:
    """Its answer counts; its exit is not waited for, and it is ended with the run."""
    outcome = ranks.call("broken.py", "refuses_to_leave", 2)
    assert outcome.fault is None
    assert [(rank.answered, rank.exit_status) for rank in outcome.ranks] == [(True, None)] * 2


def test_output_without_end_is_kept_by_its_head_and_tail(ranks: Ranks) -> None:
    """Two megabytes of output block nobody, and little more than the limit is kept of them."""
    outcome = ranks.call("broken.py", "prints_without_end", 1)
    log = outcome.ranks[0].log
    assert outcome.fault is None
    assert log.startswith("the first line\n") and log.endswith("the last line\n") and "bytes left out" in log
    assert len(log) < 2 * Limits().log_bytes + 100


def test_where_the_kernel_does_not_tell_idle_clocks_decide(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the same deadlock is declared after `idle_s` of standing CPU clocks."""
    monkeypatch.setattr("grader.wire.referee.is_asleep_for_ever", lambda pid: None)
    assert fault_of(ranks, "all_send_first", limits=Limits(idle_s=0.3)).kind == "deadlock"
    assert ranks.call("broken.py", "another_thread_comes_to_the_rescue", 2, limits=Limits(idle_s=2.0)).fault is None


def test_equal_runs_show_equal_outcomes(ranks: Ranks) -> None:
    """Events, fault and outputs of a run don't depend on whose frame comes first."""
    for function, world_size in (("another_thread_comes_to_the_rescue", 2), ("left_out", 3), ("all_raise", 3)):
        seen = {
            (outcome.fault, tuple(str(event) for event in outcome.events), outcome.findings, *(rank.exit_status for rank in outcome.ranks))
            for outcome in (ranks.call("broken.py", function, world_size) for _ in range(3))
        }
        assert len(seen) == 1, function


@pytest.mark.parametrize("function", ["woken_by_a_callback", "watches_its_memory"])
def test_what_lands_late_comes_to_nobody_who_waits_unseen(ranks: Ranks, function: str) -> None:
    """A callback that sets an event and a look at the memory are no words: both return where results land at once, and only there."""
    assert ranks.call("broken.py", function, 2).fault is None
    assert fault_of(ranks, function, network=Network(late=True), limits=Limits(idle_s=1.0)).kind == "silent"
