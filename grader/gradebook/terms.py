"""terms.yaml → a class's terms: deadlines, late policy, extensions, excuses and overrides, as layers over raw marks.

The form of the file; all of it may be left out, and texts need no quotes (an id 0042 stays 0042):

    timezone: Europe/Berlin            # of every moment that has no offset of its own; without it moments need offsets
    late:
      grace_minutes: 15                # as late as this is on time; what is later counts from the deadline
      per_day: 10% of earned           # or "10% of possible", or "5 points"; for each day of 24 hours that has begun
      at_most: 50% of earned           # never more than this is taken
      closes_after_days: 7             # what comes later than this many days earns nothing
      slip_days: 5                     # days a student may be late over all assignments before anything is taken, in the order of deadlines
      slip_days_each: 2                # and so many of them in one assignment
    without_mark: {missing: zero, refused: blank}      # what is written for them; blank where not said
    drop_lowest: 1                     # so many of a student's lowest assignments (by share of points) don't count in the total
    assignments:
      - {assignment: collectives, deadline: 2026-10-05 23:59}
    extensions:
      - {student: 0042, assignment: collectives, until: 2026-10-09 23:59, by: A. Prof, reason: ill}
    excused:                           # leaves the total: neither earned nor possible
      - {student: 0042, assignment: data_parallel, by: A. Prof, reason: ill}
    overrides:                         # the last word on one mark
      - {student: 0042, assignment: collectives, points: 80, by: A. Prof, reason: oral examination}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec

from grader.errors import UsageError
from grader.gradebook.book import Book, nearest
from grader.yaml_file import TEXT_LOADER, YamlFile

TERMS_NAME = "terms.yaml"  # in the folder of a class
AMOUNT = re.compile(r"(?:(?P<percent>\d+(?:\.\d+)?) ?% of (?P<base>earned|possible)|(?P<points>\d+(?:\.\d+)?) points?)")
POINTS = re.compile(r"\d+(?:\.\d+)?")

Sentence = Annotated[str, msgspec.Meta(pattern=r"\S")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Blank = Literal["blank", "zero"]


class _LateText(msgspec.Struct, forbid_unknown_fields=True):
    grace_minutes: Count = 0
    per_day: str = "0 points"
    at_most: str = "100% of earned"
    closes_after_days: Count | None = None
    slip_days: Count = 0
    slip_days_each: Count | None = None


class _WithoutMark(msgspec.Struct, forbid_unknown_fields=True):
    missing: Blank = "blank"
    refused: Blank = "blank"


class _Deadline(msgspec.Struct, forbid_unknown_fields=True):
    assignment: str
    deadline: str


class _Said(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    student: str
    assignment: str
    by: Sentence
    reason: Sentence


class _Extension(_Said, kw_only=True):
    until: str


class _Override(_Said, kw_only=True):
    points: str


class _TermsText(msgspec.Struct, forbid_unknown_fields=True):
    timezone: str = ""
    late: _LateText = msgspec.field(default_factory=_LateText)
    without_mark: _WithoutMark = msgspec.field(default_factory=_WithoutMark)
    drop_lowest: Count = 0
    assignments: list[_Deadline] = []
    extensions: list[_Extension] = []
    excused: list[_Said] = []
    overrides: list[_Override] = []


@dataclass(frozen=True, slots=True)
class Amount:
    """So many points, or a share of those earned or possible."""

    value: Fraction
    base: Literal["points", "earned", "possible"]

    def points(self, earned: Fraction, possible: int) -> Fraction:
        """In points, of a mark."""
        return self.value * {"points": Fraction(1), "earned": earned, "possible": Fraction(possible)}[self.base]


@dataclass(frozen=True, slots=True)
class Late:
    """What lateness costs."""

    grace: timedelta = timedelta(0)
    per_day: Amount = Amount(Fraction(0), "points")
    at_most: Amount = Amount(Fraction(1), "earned")
    closes_after_days: int | None = None
    slip_days: int = 0
    slip_days_each: int | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody decided for one student in one assignment, and why."""

    by: str
    reason: str
    until: datetime | None = None  # of an extension
    points: Fraction | None = None  # of an override


Key = tuple[str, str]  # student, assignment


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a class; as they come, none: raw marks are final."""

    late: Late = Late()
    without_mark: dict[str, Blank] = field(default_factory=dict)  # by the state
    drop_lowest: int = 0
    deadlines: dict[str, datetime] = field(default_factory=dict)
    extensions: dict[Key, Said] = field(default_factory=dict)
    excused: dict[Key, Said] = field(default_factory=dict)
    overrides: dict[Key, Said] = field(default_factory=dict)
    zone: tzinfo = UTC  # in which moments are told


def load(path: Path, book: Book) -> Terms:
    """Read `path`. UsageError names file, line and path of the first thing that is wrong, a student who isn't in the class too."""
    file = YamlFile(path, UsageError, missing="name the class's terms with --terms, or leave the option out.", loader=TEXT_LOADER)
    if file.tree is None:
        return Terms()
    text = file.convert(_TermsText, strict=False)
    zone = _zone(text.timezone, file)
    deadlines: dict[str, datetime] = {}
    for i, each in enumerate(text.assignments):
        _check_known(each.assignment, book.assignments, f"$.assignments[{i}].assignment", "graded assignment", file)
        if each.assignment in deadlines:
            raise file.error(f"$.assignments[{i}].assignment", f"{each.assignment} has a deadline already")
        deadlines[each.assignment] = _moment(each.deadline, zone, f"$.assignments[{i}].deadline", file)
    per_day, at_most = (_amount(getattr(text.late, name), f"$.late.{name}", file) for name in ("per_day", "at_most"))
    extensions, excused, overrides = (
        _said(getattr(text, room), room, zone, book, file) for room in ("extensions", "excused", "overrides")
    )
    return Terms(
        late=Late(timedelta(minutes=text.late.grace_minutes), per_day, at_most,
                  text.late.closes_after_days, text.late.slip_days, text.late.slip_days_each),
        without_mark={"missing": text.without_mark.missing, "refused": text.without_mark.refused},
        drop_lowest=text.drop_lowest, deadlines=deadlines, extensions=extensions, excused=excused, overrides=overrides, zone=zone or UTC,
    )  # fmt: skip


def _said(texts: Sequence[_Said], room: str, zone: ZoneInfo | None, book: Book, file: YamlFile) -> dict[Key, Said]:
    said: dict[Key, Said] = {}
    for i, text in enumerate(texts):
        where = f"$.{room}[{i}]"
        _check_known(text.student, book.students, f"{where}.student", "student of this class", file)
        _check_known(text.assignment, book.assignments, f"{where}.assignment", "graded assignment", file)
        key = (text.student, text.assignment)
        if key in said:
            raise file.error(where, f"{text.student} has one of these in {text.assignment} already; expected the one that counts")
        until = _moment(text.until, zone, f"{where}.until", file) if isinstance(text, _Extension) else None
        if isinstance(text, _Override) and not POINTS.fullmatch(text.points):
            raise file.error(f"{where}.points", f"{text.points!r} is no number of points; expected such as 80 or 79.5")
        said[key] = Said(text.by, text.reason, until, Fraction(text.points) if isinstance(text, _Override) else None)
    return said


def _check_known(word: str, known: Collection[str], where: str, what: str, file: YamlFile) -> None:
    if word not in known:
        raise file.error(where, f"{word!r} is no {what}; {nearest(word, known)}")


def _amount(text: str, where: str, file: YamlFile) -> Amount:
    found = AMOUNT.fullmatch(text.strip())
    if found is None:
        raise file.error(where, f"{text!r} is no amount; expected such as '10% of earned', '10% of possible' or '5 points'")
    if found["points"]:
        return Amount(Fraction(found["points"]), "points")
    return Amount(Fraction(found["percent"]) / 100, "earned" if found["base"] == "earned" else "possible")


def _zone(name: str, file: YamlFile) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        raise file.error("$.timezone", f"this machine knows no time zone {name!r}; expected such as Europe/Berlin") from None


def _moment(text: str, zone: ZoneInfo | None, where: str, file: YamlFile) -> datetime:
    """A moment in UTC: differences between moments of one zone would ignore its summer time."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise file.error(where, f"{text!r} is no moment; expected such as 2026-10-05 23:59") from None
    if len(text.strip()) <= len("2026-10-05"):
        raise file.error(where, f"{text!r} says no time of the day; expected such as {text.strip()} 23:59")
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    if zone is None:
        raise file.error(where, f"{text!r} has no offset, and there is no `timezone`; expected either")
    early, late = (moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if early.utcoffset() != late.utcoffset():  # the hour is skipped, or comes twice, where clocks are changed
        raise file.error(where, f"on that night {text!r} comes twice or never in {zone.key}; expected an offset, such as {text} {early:%z}")
    return early.astimezone(UTC)
