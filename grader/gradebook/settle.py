"""Raw marks and terms become final marks, step by step. Pure: no file, no clock; exact fractions until a mark is written down."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from grader.errors import UsageError
from grader.gradebook.book import UNGRADED, Book, Entry
from grader.gradebook.terms import Terms

DAY = timedelta(days=1)
HUNDREDTH = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Step:
    """One layer of a mark: what it did, and who decided so where somebody did."""

    sentence: str
    points: Fraction | None  # after it
    by: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """One student's final mark in one assignment, and how it came about."""

    entry: Entry
    steps: tuple[Step, ...]
    is_excused: bool = False
    is_dropped: bool = False  # out of the total, as one of the lowest

    @property
    def points(self) -> Fraction | None:
        """The mark; None: there is none, and no zero may be made of that."""
        return self.steps[-1].points

    @property
    def is_owed(self) -> bool:
        """Whether the machine owes it: it has not been graded, and nobody has decided otherwise."""
        return self.points is None and not self.is_excused and self.entry.state in UNGRADED

    @property
    def text(self) -> str:
        """As it is recorded: points to hundredths, "excused", or "" where there is none."""
        return "excused" if self.is_excused else written(self.points, self.entry.possible)


@dataclass(frozen=True, slots=True)
class Total:
    """What counts of a student's marks."""

    points: Fraction
    possible: int
    num_without: int  # assignments that count and have no mark


Finals = dict[tuple[str, str], Final]


def settle(book: Book, terms: Terms) -> Finals:
    """Every final mark. UsageError if the ledger has a moment that can't be read."""
    finals: Finals = {}
    for student in book.students:
        slipped = 0
        entries = sorted(book.of(student), key=lambda entry: _order(entry, terms))
        for entry in entries:
            finals[student, entry.assignment], used = _final(entry, terms, terms.late.slip_days - slipped)
            slipped += used
        counting = [final for entry in entries if (final := finals[student, entry.assignment]).points is not None and not final.is_excused]
        lowest = sorted(counting, key=lambda final: (final.points or 0) / max(final.entry.possible, 1))[: terms.drop_lowest]
        for final in lowest[: max(0, len(counting) - 1)]:  # one mark at least counts
            dropped = Step(f"one of the {terms.drop_lowest} lowest: out of the total", final.points)
            finals[student, final.entry.assignment] = Final(final.entry, (*final.steps, dropped), is_dropped=True)
    return {key: finals[key] for key in book.entries}


def total(finals: Iterable[Final]) -> Total:
    """One student's sum: what is excused or dropped counts neither as earned nor as possible, what has no mark counts as neither too."""
    counting = [final for final in finals if not (final.is_excused or final.is_dropped)]
    marked = [final for final in counting if final.points is not None]
    return Total(sum((final.points or Fraction(0) for final in marked), Fraction(0)), sum(final.entry.possible for final in marked),
                 len(counting) - len(marked))  # fmt: skip


def doubts(finals: Finals, terms: Terms) -> list[str]:
    """What whoever lets these marks out should know of them, in sentences."""
    marked = [final.entry for final in finals.values() if final.entry.earned is not None]
    num_provisional = sum(entry.provisional for entry in marked)
    num_timeless = sum(not entry.submitted and entry.assignment in terms.deadlines for entry in marked)
    said = []
    if num_provisional:
        said.append(f"{num_provisional} of {len(marked)} marks are provisional: hidden cases were not run, or could not be judged.")
    if num_timeless:
        counted = f"{num_timeless} mark{'s' * (num_timeless != 1)} counted as on time"
        said.append(f"{counted}: the download doesn't say when the work was handed in.")
    return said


def written(points: Fraction | None, possible: int | None = None) -> str:
    """Points to hundredths, half up; less than all of them never reads as all. No mark is an empty text."""
    if points is None:
        return ""
    shown = (Decimal(points.numerator) / points.denominator).quantize(HUNDREDTH, ROUND_HALF_UP)
    if possible is not None and points < possible <= shown:
        shown = possible - HUNDREDTH
    text = f"{shown:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _order(entry: Entry, terms: Terms) -> tuple[bool, float, str]:
    """Slip days are used in the order of the class's deadlines; an extension changes no order."""
    deadline = terms.deadlines.get(entry.assignment)
    return (deadline is None, deadline.timestamp() if deadline else 0.0, entry.assignment)


def _final(entry: Entry, terms: Terms, slip_days_left: int) -> tuple[Final, int]:
    """The mark, and the slip days that it used."""
    key = (entry.student, entry.assignment)
    steps, used = [_raw(entry, terms)], 0
    if entry.earned is not None:
        late, used = _late(entry, terms, slip_days_left)
        steps += late
    excused, override = terms.excused.get(key), terms.overrides.get(key)
    if excused is not None:
        steps.append(Step(f"excused by {excused.by}: {excused.reason}", steps[-1].points, excused.by))
    if override is not None:
        points = written(override.points, None)
        steps.append(Step(f"overridden with {points} by {override.by}: {override.reason}", override.points, override.by))
    return Final(entry, tuple(steps), is_excused=excused is not None and override is None), used


def _raw(entry: Entry, terms: Terms) -> Step:
    if entry.earned is not None:
        return Step(f"{entry.earned} of {entry.possible} points as graded", Fraction(entry.earned))
    why = {"missing": "nothing was handed in", "waiting": "not graded yet", "machine": f"the grader's machine failed: {entry.sentence}",
           "refused": f"can't be looked into: {entry.sentence}", "marked": entry.sentence}[entry.state]  # fmt: skip
    is_zero = terms.without_mark.get(entry.state) == "zero"
    return Step(f"{why}; the terms make that zero" if is_zero else f"{why}: no mark", Fraction(0) if is_zero else None)


def _late(entry: Entry, terms: Terms, slip_days_left: int) -> tuple[list[Step], int]:
    """What lateness does to a mark, and the slip days it used."""
    earned, deadline = Fraction(entry.earned or 0), terms.deadlines.get(entry.assignment)
    extension = terms.extensions.get((entry.student, entry.assignment))
    steps = []
    if extension is not None and extension.until is not None:
        steps.append(Step(f"extended until {_said(extension.until, terms)} by {extension.by}: {extension.reason}", earned, extension.by))
        deadline = extension.until if deadline is None else max(deadline, extension.until)
    if deadline is None:
        return steps, 0
    handed_in = _submitted(entry)
    if handed_in is None:
        return [*steps, Step("when it was handed in is not known: taken as on time", earned)], 0
    lateness = handed_in - deadline
    if lateness <= terms.late.grace or not earned:  # nothing is taken from nothing, and no slip day spent on it
        return steps, 0
    days = math.ceil(lateness / DAY)
    said = f"handed in {_said(handed_in, terms)}, {days} day{'s' * (days != 1)} after {_said(deadline, terms)}"
    if terms.late.closes_after_days is not None and lateness > DAY * terms.late.closes_after_days:
        return [*steps, Step(f"{said}: closed after {terms.late.closes_after_days} days", Fraction(0))], 0
    slip = min(days, max(0, slip_days_left), days if terms.late.slip_days_each is None else terms.late.slip_days_each)
    if slip:
        said += f", {slip} of them slip days"
    per_day, at_most = (amount.points(earned, entry.possible) for amount in (terms.late.per_day, terms.late.at_most))
    taken = min(per_day * (days - slip), at_most, earned)
    return [*steps, Step(f"{said}: −{written(taken)}", earned - taken)], slip


def _submitted(entry: Entry) -> datetime | None:
    if not entry.submitted:
        return None
    try:
        moment = datetime.fromisoformat(entry.submitted)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"{entry.student} handed in {entry.assignment} at {entry.submitted!r}, which is no moment with an offset.")
    return moment


def _said(moment: datetime, terms: Terms) -> str:
    return moment.astimezone(terms.zone).strftime("%Y-%m-%d %H:%M %Z")
