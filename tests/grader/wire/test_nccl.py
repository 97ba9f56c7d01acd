"""On GPUs a rank that waits may spin: a hang is pending calls and silence, whatever the CPU clocks say. Played by ranks on the host."""

from __future__ import annotations

from grader.records import Fault, Limits, Network
from tests.grader.wire.launch import Ranks, request_for


def fault_of(ranks: Ranks, function: str, limits: Limits) -> Fault:
    """The fault of two ranks that say what the recorder says on GPUs."""
    request = request_for(2, function=function, network=Network("nccl"), limits=limits)
    fault = ranks.run(request, "pending.py", transport="none").fault
    assert fault is not None
    return fault


def test_a_spinning_hang_is_no_endless_computation(ranks: Ranks) -> None:
    """Both ranks burn CPU beyond their limit with a call pending: they hang, and each call is named."""
    fault = fault_of(ranks, "both_spin", Limits(cpu_s=0.2, wall_s=60.0, idle_s=1.0))
    assert fault.kind == "deadlock" and "no rank has gone on for 1 s" in fault.sentence, fault
    assert "rank 0 waits in all_reduce" in fault.sentence and "rank 1 waits in all_reduce" in fault.sentence


def test_a_rank_that_computes_for_ever_is_still_told(ranks: Ranks) -> None:
    """It has no call pending; that another one waits for it is no hang."""
    fault = fault_of(ranks, "one_computes", Limits(cpu_s=0.5, wall_s=60.0, idle_s=0.2))
    assert (fault.kind, fault.rank) == ("cpu_limit", 1), fault
