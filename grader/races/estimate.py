"""Windows → seconds per call of each racer, the ratio of both, and how far it can be believed.

In round r the windows of n and of m < n calls of the peer take P_n and P_m, the rival's R_n and R_m, those that only hand over H_n.
    f = median of (n · P_m − m · P_n) / (n − m)     what a window costs beside its calls: the way to the racer and back, the keeper's copy
    c = median of (H_n − f) / n                     what it costs to leave one call's outputs in the keeper's memory
    p_r = (P_n − f) / n − c,  s_r = (R_n − f) / n − c,  ratio = median of p_r / s_r
f and c are measured in the peer's process: a rival that dawdles in small windows, or in all, changes neither. If its slope
(R_n − R_m) / (n − m) is the slower account, that one counts: whoever has begun before "go" saves the same in both windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grader.races.windows import ALONE, HAND_OVER, PEER, SUBMISSION, TWIN, Window, chosen

SLOPE_SLACK = 1.05  # the slope is the noisier account: within this it is the same
Z_95 = 1.96
LEAST_SHARE = 0.02  # of a call: what is left of it without handing over; below that nothing can be said


@dataclass(frozen=True, slots=True)
class Estimate:
    """One phase: a rival beside the peer."""

    peer_s: float  # per call
    rival_s: float
    ratio: float  # peer's time over the rival's: 1 as fast, 0.5 half as fast
    low: float  # of an interval that holds the median in 95 of 100 races
    high: float
    fixed_s: float  # of a window
    hand_over_s: float  # of a call
    num_rounds: int
    rival_slow_s: float = math.inf  # per call: the upper end of its interval
    by_slope: bool = False  # the rival's small windows were too slow for its large ones
    peer_rounds_s: tuple[float, ...] = ()  # per call, round by round
    rival_rounds_s: tuple[float, ...] = ()
    testified: float | None = None  # the rival's own clock over the judge's, of its large windows

    @property
    def noise(self) -> float:
        """Half of the interval, relative."""
        return (self.high - self.low) / 2 / self.ratio if self.ratio > 0 else math.inf


def estimate(windows: Sequence[Window], phase: str) -> Estimate | None:
    """What a phase shows; None if it has fewer than two rounds, or if handing over takes all of the peer's time."""
    rival = TWIN if phase == ALONE else SUBMISSION
    peer_large, peer_small = _by_size(windows, phase, PEER)
    rival_large, rival_small = _by_size(windows, phase, rival)
    handing, _ = _by_size(windows, phase, PEER, HAND_OVER)
    rounds = min(map(len, (peer_large, peer_small, rival_large, rival_small, handing)))
    if rounds < 2 or peer_large[0].calls == peer_small[0].calls:
        return None
    n, m = peer_large[0].calls, peer_small[0].calls
    p_n, p_m, r_n, r_m, h_n = (_seconds(each[:rounds]) for each in (peer_large, peer_small, rival_large, rival_small, handing))
    fixed_s = max(0.0, float(np.median((n * p_m - m * p_n) / (n - m))))
    hand_over_s = max(0.0, float(np.median(h_n - fixed_s)) / n)
    peer = (p_n - fixed_s) / n - hand_over_s
    whole, slope = (r_n - fixed_s) / n - hand_over_s, (r_n - r_m) / (n - m) - hand_over_s
    by_slope = float(np.median(slope)) > SLOPE_SLACK * float(np.median(whole))
    mine = slope if by_slope else whole
    if np.median(peer) < LEAST_SHARE * np.median(p_n) / n:
        return None
    # a rival that seems to take no time at all is for the floor to refuse, and must not divide by nothing here
    ratios = peer / np.maximum(mine, 1e-3 * np.median(peer))
    low, high = _interval(ratios)
    testified = float(np.median([each.testified_s for each in rival_large]) / np.median(r_n))
    told = testified if math.isfinite(testified) else None
    return Estimate(
        float(np.median(peer)), float(np.median(mine)), float(np.median(ratios)), low, high, fixed_s, hand_over_s, rounds,
        rival_slow_s=_interval(mine)[1], by_slope=by_slope, testified=told,
        peer_rounds_s=tuple(map(float, peer)), rival_rounds_s=tuple(map(float, mine)),
    )  # fmt: skip


def _by_size(windows: Sequence[Window], phase: str, lane: str, entrant: str = "") -> tuple[list[Window], list[Window]]:
    """Large and small windows, by their turns."""
    mine = sorted(chosen(windows, phase, lane, entrant), key=lambda window: window.turn)
    large = max((window.calls for window in mine), default=0)
    return [window for window in mine if window.calls == large], [window for window in mine if window.calls != large]


def _seconds(windows: Sequence[Window]) -> NDArray[np.float64]:
    return np.array([window.elapsed_s for window in windows])


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The order statistics between which the median of the distribution lies, with 95 %: no assumption on its form."""
    ordered, count = np.sort(values), len(values)
    first = max(0, math.floor((count - Z_95 * math.sqrt(count)) / 2))
    return float(ordered[first]), float(ordered[count - 1 - first])
