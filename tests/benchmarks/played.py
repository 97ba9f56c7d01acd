"""Stored races as what pytest-benchmark takes: a clock that has run already, and who ran by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import UsageError
from grader.races.book import read

COMPARED = ("ratio", "low", "high", "hand_over_s", "fixed_s", "num_rounds")


@dataclass
class PlayedClock:
    """Moves on only when `turn` is called, by the next of the durations that were measured."""

    durations_s: tuple[float, ...]
    now_s: float = 0.0
    _ahead: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ahead = list(reversed(self.durations_s))

    def __call__(self) -> float:
        return self.now_s

    def turn(self) -> None:
        """One call of the racer, as long as it was."""
        self.now_s += self._ahead.pop()


@dataclass(frozen=True)
class Racer:
    """One of the two of a race."""

    race: str
    name: str
    device: str
    durations_s: tuple[float, ...]
    told: dict[str, float]  # for extra_info

    def __str__(self) -> str:
        return f"{self.race}-{self.name}"


def racers_in(paths: Iterable[Path]) -> list[Racer]:
    """Both racers of every race that was judged; of a history the latest. Raises UsageError if there is none."""
    racers = []
    for path in paths:
        book = read(path)[-1]
        for mark in book.marks:
            if mark.state == "judged" and mark.estimate is not None:
                told = {name: getattr(mark.estimate, name) for name in COMPARED}
                for name, rounds_s in ((mark.against, mark.estimate.peer_rounds_s), ("submission", mark.estimate.rival_rounds_s)):
                    racers.append(Racer(mark.race, name, book.environment.get("gpus", ""), rounds_s, told))
    if not racers:
        raise UsageError("No judged race is in any of them; `grader race --out FOLDER` on a GPU, then --races FOLDER.")
    return racers
