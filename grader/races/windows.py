"""A window: one turn of one racer, from the judge's "go" until the keeper holds samples of its outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import msgspec

from grader.records import Event, Outcome

PEER, TWIN, SUBMISSION = "peer", "twin", "submission"
RANKS = ("keeper", PEER, TWIN, SUBMISSION)  # of the run that a race is; each is as many as the race has ranks
ALONE, TOGETHER = "alone", "together"  # before the submission has been imported, and with it
HAND_OVER = "hand over"  # calls that only leave an output in the keeper's memory; also in worker/race.py, which nobody imports
Error = tuple[float | None, float | None]  # over the norm, worst over largest; None: not finite


@dataclass(frozen=True, slots=True)
class Look:
    """One output of one call, at places drawn by lot."""

    slot: int
    name: str
    error: Error  # against a higher precision
    plain: Error  # of a plain implementation in the same dtypes, at the same places


@dataclass(frozen=True, slots=True)
class Window:
    """What one turn showed."""

    phase: str
    lane: str
    entrant: str  # "": the racer's own; HAND_OVER
    turn: int  # windows of one turn were measured beside each other
    calls: int
    elapsed_s: float  # by the judge's clock
    testified_s: float = math.nan  # by the racer's own: testimony
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True, slots=True)
class Peaks:
    """What the device did for the keeper, and what one call needs of it at least."""

    bytes_per_s: float
    flops_per_s: float
    moved_bytes: float
    flops: float
    link_bytes_per_s: float = 0.0  # of one rank, in an all-reduce of the keepers'; 0: no ranks
    sent_bytes: float = 0.0  # by one rank


def to_events(windows: Iterable[Window], peaks: Peaks | None, num_ranks: int = 1) -> tuple[Event, ...]:
    """For the store, beside everything else that was ever observed; a crew of `num_ranks` speaks by its first."""
    told = (Event(0, "peaks", facts=asdict(peaks)),) if peaks is not None else ()
    return told + tuple(
        Event(RANKS.index(window.lane) * num_ranks, "window", window.phase, facts=msgspec.to_builtins(window)) for window in windows
    )


def windows_of(outcome: Outcome) -> tuple[Window, ...]:
    """The windows of a stored race, in the order in which they were measured."""
    told = [event.facts for event in outcome.events if event.kind == "window"]
    return tuple(msgspec.convert({**each, "testified_s": math.nan if each["testified_s"] is None else each["testified_s"]}, Window)
                 for each in told)  # fmt: skip


def peaks_of(outcome: Outcome) -> Peaks | None:
    """What the keeper measured; None if the race never came that far."""
    return next((msgspec.convert(event.facts, Peaks) for event in outcome.events if event.kind == "peaks"), None)


def chosen(windows: Sequence[Window], phase: str, lane: str, entrant: str = "") -> list[Window]:
    """Those of one racer in one phase."""
    return [window for window in windows if (window.phase, window.lane, window.entrant) == (phase, lane, entrant)]
