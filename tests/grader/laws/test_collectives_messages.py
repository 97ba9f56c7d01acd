"""What the laws of collectives suggest: the simpler law first, where two are broken by one mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.errors import LawBroken, SubmissionError
from grader.observe.observation import ANOTHER_PIECE, Observation
from grader.records import Fault, Message, Network, Outcome, Request
from tests.laws.collectives.values import LATE, WRONG_ANYWAY, assert_same_bits, judge_late


def judge(is_right: bool, _: object) -> None:
    """Breaks a law unless the run is right, with the advice of runs whose messages land late."""
    if not is_right:
        raise LawBroken(Message(seen="wrong", suggestion=LATE))


@pytest.mark.parametrize(("plain", "suggestion"), [(True, LATE), (False, WRONG_ANYWAY)])
def test_waits_are_suspected_only_where_nothing_else_is(plain: bool, suggestion: str) -> None:
    """A run that is wrong also where messages land at once sends the student to its values."""
    with pytest.raises(LawBroken) as broken:
        judge_late(judge, False, None, plain=lambda: plain)
    assert broken.value.message.suggestion == suggestion
    judge_late(judge, True, None, plain=lambda: pytest.fail("a right run is looked at once"))


def test_a_plain_run_that_stands_still_says_nothing_of_values() -> None:
    """The waits stay suspected."""

    def stands_still() -> bool:
        raise SubmissionError(Message(seen="deadlock"))

    with pytest.raises(LawBroken) as broken:
        judge_late(judge, False, None, plain=stands_still)
    assert broken.value.message.suggestion == LATE


def test_equal_infinities_are_no_difference() -> None:
    """Beside them one last bit is still a matter of order."""
    ours = np.asarray([np.inf, 1], np.float32)
    with pytest.raises(LawBroken) as broken:
        assert_same_bits(ours, np.asarray([np.inf, 1 + 2**-23], np.float32), what="x", whose="rank 0", suggestion="Which order?")
    assert broken.value.message.suggestion == "Which order?"


@pytest.mark.parametrize(
    ("other", "means"),
    [
        (np.float32(1 + 2**-23), "differ in their bits"),
        (np.float32(1.5), "differ by more than rounding"),
        (np.float32(np.nan), "more than"),
    ],
)
def test_wrong_values_are_no_matter_of_the_last_bit(other: Any, means: str) -> None:
    """Two orders of adding up differ by roundings; whatever differs by more is wrong elsewhere."""
    with pytest.raises(LawBroken) as broken:
        assert_same_bits(np.full(3, other, np.float32), np.ones(3, np.float32), what="x", whose="rank 0", suggestion="Which order?")
    assert means in broken.value.message.diagnosis
    assert ("Which order?" in broken.value.message.suggestion) == (means == "differ in their bits")


@pytest.mark.parametrize(("op", "is_piece"), [("recv", True), ("all_reduce", False)])
def test_a_message_of_another_size_is_another_piece(op: str, is_piece: bool) -> None:
    """Sends and receives that don't fit are told apart from collectives in another order."""
    request = Request(assignment="a", probe="p", parameters={}, world_size=2, inputs={}, returns={}, network=Network())
    lines = ("rank 0 calls send float32[4] to rank 1", f"rank 1 calls {op} float32[3] from rank 0")
    seen = Observation(
        request, Outcome((), (), Fault("mismatch", -1, "shape mismatch: they differ", lines)), key="", how_to=lambda: Message("")
    )
    with pytest.raises(SubmissionError) as raised:
        seen.require()
    assert (raised.value.message.suggestion == ANOTHER_PIECE) == is_piece
    assert raised.value.message.kind == "mismatch"
