"""Terms: lateness, slip days, extensions and overrides as layers; what is wrong in the file is told with its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.errors import UsageError
from grader.gradebook.book import Book
from grader.gradebook.settle import Final, settle, total, written
from grader.gradebook.terms import Terms, load
from grader.ledger import Row
from tests.grader.gradebook.conftest import marked

DEADLINES = """
timezone: Europe/Berlin
late: {grace_minutes: 15, per_day: 10% of earned, at_most: 50% of earned, slip_days: 0}
assignments:
  - {assignment: rings, deadline: 2026-10-05 12:00}
"""


def settled(book: Book, text: str, student: str = "0042", assignment: str = "rings") -> Final:
    """One mark under terms."""
    return settle(book, read(book, text))[student, assignment]


def read(book: Book, text: str) -> Terms:
    """Terms from their text."""
    path = book.folder / "terms.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, book)


@pytest.mark.parametrize(
    ("handed_in", "points"),
    [
        ("2026-10-05T12:00:00+02:00", "80"),  # on the second
        ("2026-10-05T12:15:00+02:00", "80"),  # the grace's last moment
        ("2026-10-05T10:15:01+00:00", "72"),  # a second later, in another zone: a day has begun
        ("2026-10-06T12:00:00+02:00", "72"),  # exactly a day
        ("2026-10-06T12:00:01+02:00", "64"),
        ("2026-10-25T12:00:00+01:00", "40"),  # the cap; the clocks were changed meanwhile
    ],
)
def test_each_day_that_has_begun_costs(book_of: Callable[..., Book], handed_in: str, points: str) -> None:
    """Grace forgives a little, beyond it lateness counts from the deadline, and a cap ends it."""
    assert settled(book_of(marked("0042", 80, 0, submitted=handed_in)), DEADLINES).text == points


def test_a_day_has_24_hours_when_clocks_are_changed(book_of: Callable[..., Book]) -> None:
    """Clocks go back in the night: 12:00 to 12:00 is 25 hours, and so the second day has begun."""
    terms = DEADLINES.replace("2026-10-05 12:00", "2026-10-24 12:00")
    assert settled(book_of(marked("0042", 80, 0, submitted="2026-10-25T12:00:00+01:00")), terms).text == "64"
    other = "  - {assignment: data_parallel, deadline: 2026-10-25 12:00}\n"
    deadlines = read(book_of(marked("0042", 80, 0)), terms + other).deadlines
    assert deadlines["data_parallel"] - deadlines["rings"] == timedelta(hours=25)


def test_slip_days_go_to_the_first_deadlines_and_never_to_a_zero(book_of: Callable[..., Book]) -> None:
    """Three days in all, two in one assignment; a mark of nothing spends none."""
    text = """
late: {per_day: 10 points, slip_days: 3, slip_days_each: 2}
assignments:
  - {assignment: data_parallel, deadline: 2026-10-02T12:00+02:00}
  - {assignment: rings, deadline: 2026-10-03T12:00+02:00}
"""
    finals = settle(book := book_of(marked("0042", 80, 90), marked("ada", 80, 0)), read(book, text))
    assert finals["0042", "data_parallel"].text == "80"  # three days late, two of them slip days
    assert finals["0042", "rings"].text == "70"  # two days late, one slip day is left
    assert finals["ada", "rings"].text == "80"  # nothing was spent on the zero before


def test_an_extension_moves_one_students_deadline(book_of: Callable[..., Book]) -> None:
    """It never makes a deadline earlier, and the step names who granted it."""
    late = "2026-10-09T23:00:00+02:00"
    book = book_of(marked("0042", 80, 0, submitted=late), marked("ada", 80, 0, submitted=late))
    text = DEADLINES + 'extensions:\n  - {student: 0042, assignment: rings, until: 2026-10-09 23:59, by: A. Prof, reason: "ill, again"}\n'
    assert settled(book, text).text == "80"
    assert settled(book, text).steps[1].sentence == "extended until 2026-10-09 23:59 CEST by A. Prof: ill, again"
    assert settled(book, text, "ada").text == "40"


def test_an_override_is_the_last_word_and_the_raw_mark_stays(book_of: Callable[..., Book]) -> None:
    """After a regrade the override still stands: it is a layer of its own."""
    text = DEADLINES + "overrides:\n  - {student: 0042, assignment: rings, points: 79.5, by: A. Prof, reason: oral}\n"
    row = marked("0042", 80, 0, submitted="2026-10-09T12:00:00+02:00")
    for book in (book_of(row), book_of(replace(row, marks={"rings": (10, 100), "data_parallel": (0, 100)}))):
        final = settled(book, text)
        assert (final.text, final.entry.earned) == ("79.5", book.entries["0042", "rings"].earned)
        assert final.steps[-1].sentence == "overridden with 79.5 by A. Prof: oral"


def test_no_mark_is_made_of_a_machines_failure(book_of: Callable[..., Book]) -> None:
    """Whatever the terms say of those who handed in nothing; an override may."""
    half_way = {"rings": (0, 100)}  # what an attempt that failed had come to
    without = (Row("m", state="machine", sentence="disk full", marks=half_way), Row("n", state="missing"), Row("r", state="refused"))
    book = book_of(marked("ada", 1, 1), *without)
    text = "without_mark: {missing: zero}\n"
    assert [settled(book, text, student).text for student in ("m", "n", "r")] == ["", "0", ""]
    assert [settled(book, text, student).is_owed for student in ("m", "n", "r")] == [True, False, False]
    assert not settled(book, text + "overrides: [{student: m, assignment: rings, points: 5, by: b, reason: r}]", "m").is_owed


def test_what_is_excused_or_dropped_leaves_the_total(book_of: Callable[..., Book]) -> None:
    """Neither earned nor possible; the last mark of a student is never dropped."""
    book = book_of(marked("0042", 80, 30), marked("ada", 50, 70))
    text = "drop_lowest: 1\nexcused: [{student: ada, assignment: data_parallel, by: b, reason: r}]\n"
    finals = settle(book, read(book, text))
    sums = {student: total(finals[student, name] for name in book.assignments) for student in book.students}
    assert {student: (summed.points, summed.possible) for student, summed in sums.items()} == {"0042": (80, 100), "ada": (50, 100)}


def test_what_comes_after_the_close_earns_nothing(book_of: Callable[..., Book]) -> None:
    """The raw mark is still there."""
    final = settled(book_of(marked("0042", 80, 0, submitted="2026-10-12T12:00:01+02:00")),
                    DEADLINES.replace("slip_days: 0", "closes_after_days: 7, slip_days: 9"))  # fmt: skip
    assert (final.text, final.entry.earned) == ("0", 80)


def test_an_unknown_moment_counts_as_on_time_and_is_said(book_of: Callable[..., Book]) -> None:
    """Some downloads don't say when something was handed in."""
    final = settled(book_of(marked("0042", 80, 0, submitted="")), DEADLINES)
    assert final.text == "80"
    assert "not known" in final.steps[-1].sentence


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("late: {grace_minutes: soon}", 1, "`$.late.grace_minutes`"),
        ("\nlate:\n  per_day: 10%", 3, "expected such as '10% of earned'"),
        ("assignments:\n  - {assignment: ring, deadline: 2026-10-05T12:00Z}", 2, "did you mean rings?"),
        ("assignments:\n  - {assignment: rings, deadline: 2026-10-05 12:00}", 2, "has no offset"),
        ("timezone: Europe/Berlin\nassignments:\n  - {assignment: rings, deadline: 2026-10-05}", 3, "no time of the day"),
        ("timezone: Europe/Berlin\nassignments:\n  - {assignment: rings, deadline: 2026-10-25 02:30}", 3, "twice or never"),
        ("timezone: Europe/Berlin\nassignments:\n  - {assignment: rings, deadline: 2026-03-29 02:30}", 3, "twice or never"),
        ("timezone: Berlin", 1, "knows no time zone 'Berlin'"),
        ("overrides:\n  - {student: 42, assignment: rings, points: 80, by: b, reason: r}", 2, "did you mean 0042?"),
        ("overrides:\n  - {student: 0042, assignment: rings, points: -3, by: b, reason: r}", 2, "no number of points"),
        ("overrides:\n  - {student: 0042, assignment: rings, points: 80, by: b, reason: ''}", 2, "`$.overrides[0].reason`"),
        ("deadline: x", 1, "unknown field `deadline`"),
        ("late: {slip_days: 1}\nlate: {slip_days: 2}", 2, "stands twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(book_of: Callable[..., Book], text: str, line: int, says: str) -> None:
    """A typing error is a sentence and not a wrong mark."""
    with pytest.raises(UsageError) as told:
        read(book_of(marked("0042", 80, 0)), text)
    assert f"terms.yaml:{line}: " in str(told.value)
    assert says in str(told.value)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.fractions(0, 100), st.integers(1, 100))
@example(Fraction(99_999, 1000), 100)
def test_less_than_everything_is_never_written_as_everything(points: Fraction, possible: int) -> None:
    """99.999 of 100 is written 99.99, and what is written is at most a hundredth off."""
    shown = Fraction(written(points, possible))
    assert abs(shown - points) <= Fraction(1, 100)
    assert (shown >= possible) == (points >= possible)


def test_a_class_without_terms_has_its_raw_marks(book_of: Callable[..., Book], tmp_path: Path) -> None:
    """An empty file is one without terms."""
    assert settled(book_of(marked("0042", 80, 0)), "").text == "80"
