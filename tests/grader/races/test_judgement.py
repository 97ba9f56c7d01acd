"""From turns to marks, by puppets whose time is known exactly."""

from __future__ import annotations

import math
import random
import socket
from dataclasses import replace
from typing import Any

import pytest

from grader import frames
from grader.race_stage import led
from grader.races.seats import Fallen, Seat
from grader.races.verdict import NOISE_LIMIT, SpeedMark, judge
from grader.races.windows import PEER, SUBMISSION, TOGETHER, TWIN, peaks_of, to_events, windows_of
from grader.records import Outcome, Race
from tests.grader.races.puppets import CALL_S, Stage

RACE = Race("squares.squares", "As fast as the peer.", "squares", "peer", 20, 0.25, 0.75, "It is a test.")


def raced(*arguments: Any, **options: Any) -> SpeedMark:
    """The mark of a race of puppets, by way of what the store would hold."""
    stage = Stage(*arguments, **options)
    fault = led(stage.conductor)
    stored = Outcome((), to_events(stage.conductor.windows, stage.conductor.peaks), fault)
    return judge(RACE, windows_of(stored), peaks_of(stored), stored.fault)


@pytest.mark.parametrize(("times", "earned"), [(0.5, 20), (1.0, 20), (4 / 3, 20), (2.0, 10), (4.0, 0), (9.0, 0)])
def test_marks_are_linear_in_the_ratio(times: float, earned: float) -> None:
    """None at a quarter of the peer's speed, all at three quarters, half of them in the middle; what a window costs beside is taken off."""
    mark = raced(times * CALL_S)
    assert mark.state == "judged" and mark.earned == pytest.approx(earned, abs=0.01) and mark.findings == ()
    assert mark.estimate is not None and mark.estimate.ratio == pytest.approx(1 / times, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_half_the_speed_is_half_of_the_marks_in_ten_noisy_races(seed: int) -> None:
    """Windows that stray by 3 % each leave the mark within 3 % of all marks."""
    mark = raced(2 * CALL_S, noise=0.03, seed=seed)
    assert mark.state == "judged" and abs(mark.earned - 10) <= 0.03 * 20


def test_too_noisy_a_machine_is_inconclusive() -> None:
    """The peer beside its twin tells, before anything of the submission has run."""
    mark = raced(noise=0.4, seed=3)
    assert (mark.state, mark.earned) == ("inconclusive", 0) and "its own twin" in mark.sentence


@pytest.mark.parametrize(("share_of_a_call", "state"), [(0.2, "judged"), (2.0, "inconclusive"), (9.0, "judged")])
def test_noise_beyond_a_threshold_decides_nothing(share_of_a_call: float, state: str) -> None:
    """A submission whose windows stray by 40 % has its mark where the whole interval says the same: all, or none."""
    lot = random.Random(0)
    mark = raced(lambda calls: share_of_a_call * CALL_S * calls * lot.uniform(0.6, 1.4))
    assert mark.estimate is not None and mark.estimate.noise > NOISE_LIMIT and mark.state == state


@pytest.mark.parametrize(("error", "word"), [((0.02, 2e-3), "error‖"), ((1.6e-3, 0.5), "largest error"), ((None, None), "never written")])
def test_a_wrong_output_is_refused(error: tuple[Any, Any], word: str) -> None:
    """In a lower precision, wrong in one place, or left as NaN: fast as it may be."""
    mark = raced(CALL_S / 2, error=error)
    assert (mark.state, mark.earned) == ("refused", 0) and word in mark.sentence


def test_a_time_below_the_devices_own_is_refused() -> None:
    """1e8 bytes at 1e12 bytes per second: 0.1 ms a call, with the margin 0.08."""
    assert raced(1.1e-4 / 1.25).state == "judged"
    mark = raced(0.9e-4 / 1.25)
    assert (mark.state, mark.earned) == ("refused", 0) and "can't take less than" in mark.sentence


def test_dawdling_in_small_windows_gains_nothing() -> None:
    """Who takes longer where there are few calls makes the slope flat; the whole counts."""
    mark = raced(lambda calls: 2 * CALL_S * calls if calls > 20 else 2 * CALL_S * calls + 0.03)
    assert mark.estimate is not None and mark.estimate.ratio == pytest.approx(0.5)


def test_a_head_start_gains_nothing() -> None:
    """Whoever has begun before he was called saves the same in every window: then the difference counts, and is told."""
    mark = raced(lambda calls: 2 * CALL_S * calls - 0.01)
    assert mark.estimate is not None and mark.estimate.ratio == pytest.approx(0.5) and "had begun before" in mark.findings[0]


def test_a_peer_that_is_slowed_down_gives_no_marks() -> None:
    """It was measured before anything of the submission was there."""
    mark = raced(peer_beside_s=1.2 * CALL_S)
    assert (mark.state, mark.earned) == ("inconclusive", 0) and "before the submission was there" in mark.sentence


def test_who_falls_is_told_apart() -> None:
    """The submission's own end is its own; the peer's, while it was there, gives no marks and no blame."""
    own, others = raced(falls=SUBMISSION), raced(falls=PEER)
    assert (own.state, own.sentence) == ("refused", "the submission has ended")
    assert others.state == "inconclusive" and "while the submission was there" in others.sentence


def test_a_clock_that_is_set_back_is_told() -> None:
    """Its own clock is testimony: it changes no mark, and is compared."""
    stage = Stage()
    stage.conductor.run()
    said = [window.testified_s for window in stage.conductor.windows]
    windows = windows_of(Outcome((), to_events(stage.conductor.windows, None), None))
    assert [window.testified_s for window in windows] == said and not any(map(math.isnan, said))
    mark = judge(RACE, [replace(window, testified_s=1e-6) for window in windows], None, None)
    assert mark.earned == 20 and "its own clock tells 0.00" in mark.findings[0]


def test_only_one_racer_is_awake_at_a_time() -> None:
    """The others are frozen, and the submission is opened after the last round of peer and twin."""
    stage = Stage()
    stage.conductor.run()
    assert stage.opened == ["keeper", PEER, TWIN, SUBMISSION]
    windows = stage.conductor.windows
    assert {window.lane for window in windows if window.phase == TOGETHER} == {PEER, SUBMISSION}
    assert all(set(awake) - {TWIN} <= {name} for name, awake in stage.ran)  # the twin is let go to its end


def test_the_order_is_drawn_anew_in_every_round() -> None:
    """So that no racer knows when it comes, nor after whom."""
    stage = Stage()
    stage.conductor.run()
    rounds: dict[int, list[Any]] = {}
    for window in stage.conductor.windows:
        rounds.setdefault(window.turn, []).append((window.lane, window.entrant, window.calls))
    assert len({tuple(each) for each in rounds.values()}) > len(rounds) // 2
    assert len({tuple(sorted(each)) for each in rounds.values()}) == 2  # of peer and twin, of peer and submission


def test_a_question_that_was_never_asked_is_out_of_turn() -> None:
    """Code beside the racer may say "done" on its line, but not with a number that comes next: those have been used."""
    mine, its = socket.socketpair()
    with mine, its:
        seat = Seat(0, mine, -1, ({}, []))
        for number in (0, 1, 1):
            its.sendall(b"".join(frames.pack({"op": "race", "id": number, "say": "done"}, [])))
        assert [seat.hear("done", 5.0).id for _ in range(2)] == [0, 1]
        with pytest.raises(Fallen, match="out of turn"):
            seat.hear("done", 5.0)
