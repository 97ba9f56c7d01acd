"""What a race earns: marks from the ratio, or why there are none. Pure: a stored race has the same verdict for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from grader.races.estimate import Estimate, estimate
from grader.races.windows import ALONE, PEER, SUBMISSION, TOGETHER, Look, Peaks, Window
from grader.records import Fault, Race

# judged: marks by the ratio · refused: no marks, and why · inconclusive: the machine was too noisy, and no mark follows from that
# not judged: nothing was raced
State = Literal["judged", "refused", "inconclusive", "not_judged"]

NOISE_LIMIT = 0.05  # of A/A, and of the interval: of two equal programs one would earn a twentieth of the way to the peer more
DISTURBED = 1.10  # the peer beside the submission over the peer before it: clocks move by less, another load on the device by more
PLAIN_NORM, PLAIN_WORST = 2.0, 4.0  # times a plain implementation's error in the same dtypes; the worst of thousands strays further
RESOLUTION = 1e-6  # float32's, for plain implementations that happen to be exact
FLOOR_MARGIN = 1.25  # the keeper's own copy and product are not the best that the device can do
LINK_MARGIN = 2.0  # nor its all-reduce: other collectives find other ways; a link that was not to be used is ten times as fast
CLOCKS_DIFFER = 0.5  # of a large window, the racer's own clock tells less than this


@dataclass(frozen=True, slots=True)
class SpeedMark:
    """One race, judged."""

    race: str
    claim: str
    against: str
    state: State
    earned: float
    possible: int
    sentence: str
    estimate: Estimate | None = None
    alone: Estimate | None = None  # A/A: the peer beside its twin
    findings: tuple[str, ...] = ()
    clocks: dict[str, dict[str, str]] = field(default_factory=dict)  # by moment: what the device ran at


def share(race: Race, ratio: float) -> float:
    """0 at `none_at`, 1 at `full_at`, linear between."""
    return min(1.0, max(0.0, (ratio - race.none_at) / (race.full_at - race.none_at)))


def not_raced(race: Race, why: str, state: State = "not_judged") -> SpeedMark:
    """A mark without a race."""
    return SpeedMark(race.id, race.claim, race.against, state, 0.0, race.marks, why)


def judge(race: Race, windows: Sequence[Window], peaks: Peaks | None, fault: Fault | None) -> SpeedMark:
    """The mark of a race that was run. What refuses comes first: no noise makes up for a wrong output."""
    alone, seen = estimate(windows, ALONE), estimate(windows, TOGETHER)
    findings = _findings(seen)

    def mark(state: State, sentence: str, earned: float = 0.0) -> SpeedMark:
        return SpeedMark(race.id, race.claim, race.against, state, earned, race.marks, sentence, seen, alone, findings)

    if refusal := (fault.sentence if fault is not None else "") or _wrong(windows, SUBMISSION) or _impossible(seen, peaks):
        return mark("inconclusive" if fault is not None and fault.kind == "disturbed" else "refused", refusal)
    if doubt := _doubt(race, alone, seen) or _wrong(windows, PEER):
        return mark("inconclusive", doubt)
    assert seen is not None
    part = share(race, seen.ratio)
    slower = f"{seen.ratio:.2f} of {race.against}'s speed ({seen.low:.2f} to {seen.high:.2f})"
    return mark("judged", f"{slower}: {part:.0%} of the marks, none at {race.none_at}, all at {race.full_at}", round(part * race.marks, 2))


def _wrong(windows: Sequence[Window], lane: str) -> str:
    """The first output that a looked-at call of this racer got wrong; "" if none."""
    for window in windows:
        if window.lane == lane:
            for look in window.looks:
                if wrong := _differs(look):
                    whose = "" if lane == SUBMISSION else f"the peer, {lane}: "
                    return f"{whose}in window {window.turn} of {window.calls} calls, call {look.slot}: {wrong}"
    return ""


def _differs(look: Look) -> str:
    kinds = (("‖error‖ / ‖exact‖", PLAIN_NORM), ("largest error / largest value", PLAIN_WORST))
    for (what, times), mine, plain in zip(kinds, look.error, look.plain, strict=True):
        if mine is None:
            return f"{look.name} holds NaN or infinity, or was never written"
        allowed = times * (plain or 0.0) + RESOLUTION
        if mine > allowed:
            return f"{look.name} is wrong: {what} is {mine:.2g}, allowed {allowed:.2g} ({times:g} times a plain implementation's)"
    return ""


def floor_s(peaks: Peaks) -> float:
    """No call is faster than this: its bytes at the device's bandwidth, its FLOPs at the device's speed, or its messages at the link's."""
    link_s = peaks.sent_bytes / peaks.link_bytes_per_s / LINK_MARGIN if peaks.link_bytes_per_s else 0.0
    return max(peaks.moved_bytes / peaks.bytes_per_s / FLOOR_MARGIN, peaks.flops / peaks.flops_per_s / FLOOR_MARGIN, link_s)


def _impossible(seen: Estimate | None, peaks: Peaks | None) -> str:
    if seen is None or peaks is None or seen.rival_slow_s >= floor_s(peaks):
        return ""
    return (f"a call took {_ms(seen.rival_slow_s)} at most, but on this device it can't take less than {_ms(floor_s(peaks))}: it moves "
            f"{peaks.moved_bytes:.3g} bytes at {peaks.bytes_per_s:.3g} per second and needs {peaks.flops:.3g} FLOPs "
            f"at {peaks.flops_per_s:.3g}"
            + (f", and sends {peaks.sent_bytes:.3g} bytes at {peaks.link_bytes_per_s:.3g}" if peaks.link_bytes_per_s else "")
            + ", all measured here")  # fmt: skip


def _doubt(race: Race, alone: Estimate | None, seen: Estimate | None) -> str:
    """Why the machine says nothing; "" if it does."""
    if alone is None or seen is None:
        return "there are too few windows, or a call is nothing beside what a window costs"
    if max(abs(alone.ratio - 1), alone.noise) > NOISE_LIMIT:
        return f"the peer beside its own twin came to {alone.ratio:.3f} ({alone.low:.3f} to {alone.high:.3f}): too noisy here; race again"
    if seen.noise > NOISE_LIMIT and share(race, seen.low) != share(race, seen.high):  # beyond either threshold noise decides nothing
        return f"the ratio lies between {seen.low:.3f} and {seen.high:.3f}: too noisy; race again on a quiet machine"
    if seen.peer_s > DISTURBED * alone.peer_s:
        return f"the peer took {_ms(alone.peer_s)} a call before the submission was there and {_ms(seen.peer_s)} beside it: race again"
    return ""


def _findings(seen: Estimate | None) -> tuple[str, ...]:
    if seen is None:
        return ()
    found = []
    if seen.by_slope:
        found.append("large windows gained on small ones, as if their work had begun before it was called for: the difference counts")
    if seen.testified is not None and not (CLOCKS_DIFFER < seen.testified <= 1.0):
        found.append(f"its own clock tells {seen.testified:.2f} of the time that the judge has measured")
    return tuple(found)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
