"""Races played through pytest-benchmark: its JSON, save, compare and histogram of what the judge has measured; nothing runs again.

    python -m pytest tests/benchmarks/test_races.py --races .grade/latest --benchmark-histogram
"""

from __future__ import annotations

from typing import Any

from tests.benchmarks.played import PlayedClock, Racer


def test_race(racer: Racer, benchmark: Any) -> None:
    """Each round is one call, as long as it was in that round of the race."""
    clock = PlayedClock(racer.durations_s)
    benchmark.group = f"{racer.race} on {racer.device}"
    benchmark.extra_info.update(racer.told)
    benchmark._timer = clock  # the mark takes a timer when the file is read, and this one belongs to a race
    benchmark.pedantic(clock.turn, rounds=len(racer.durations_s))
    assert benchmark.stats.stats.rounds == len(racer.durations_s)
