"""Counts, rate and the time that is left, on a clock of the test's own."""

from __future__ import annotations

from grader.batch.tally import Tally
from grader.ledger import Row


def test_the_time_left_is_told_by_what_was_graded_and_not_by_what_was_known() -> None:
    """Ten rows known at once say nothing of the rate; four works in two minutes do, and the last one leaves nothing to wait for."""
    clock = [0.0]
    tally = Tally(16, lambda: clock[0])
    for number in range(10):
        tally.known(Row(str(number), state="marked"))
    assert str(tally) == "10 of 16" and tally.left_s is None
    tally.begin(5)
    for number in range(4):
        clock[0] += 30.0
        tally.graded()
        tally.known(Row(f"new {number}", state="machine"))
    assert (tally.per_min, tally.left_s) == (2.0, 30.0)
    assert str(tally) == "14 of 16, 2.0 a minute, 30 s left"
    assert tally.counts == {"marked": 10, "machine": 4}
    tally.graded()
    assert str(tally) == "14 of 16"
