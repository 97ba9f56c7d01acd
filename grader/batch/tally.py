"""How far a batch is: counts, the rate of this session's gradings, and the time that the rest will take at that rate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from grader.ledger import Row, State


@dataclass(slots=True)
class Tally:
    """Counts rows as they become known; `now` is a clock in seconds."""

    num_rows: int
    now: Callable[[], float] = time.monotonic
    counts: Counter[State] = field(default_factory=Counter)
    num_graded: int = 0  # works of this session; what was known already says nothing of the rate
    num_waiting: int = 0  # works that are still to be graded
    _began_s: float | None = None

    def begin(self, num_works: int) -> None:
        """Grading begins: the clock of the rate, too."""
        self.num_waiting, self._began_s = num_works, self.now()

    def graded(self) -> None:
        """One work has ended."""
        self.num_graded, self.num_waiting = self.num_graded + 1, self.num_waiting - 1

    def known(self, row: Row) -> None:
        """A row is known."""
        self.counts[row.state] += 1

    @property
    def per_min(self) -> float:
        """Works per minute of this session; 0 before the first."""
        elapsed_s = self.now() - self._began_s if self._began_s is not None else 0.0
        return 60 * self.num_graded / elapsed_s if elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until all is graded, at the rate so far; None before there is one."""
        return 60 * self.num_waiting / self.per_min if self.per_min else None

    def __str__(self) -> str:
        known = sum(self.counts.values())
        left = "" if self.left_s is None or not self.num_waiting else f", {self.per_min:.1f} a minute, {_spoken(self.left_s)} left"
        return f"{known} of {self.num_rows}{left}"


def _spoken(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
