"""A small graded class: two assignments, and students in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from grader.gradebook.book import Book, open_book
from grader.ledger import Ledger, Row
from grader.records import Assignment, AssignmentMark, CaseVerdict, Law, LawMark, LawVerdict, Message, Report, Task, TaskMark
from grader.report.files import write_all
from grader.report.json_report import SCHEMA_NAME

MONDAY_NOON = "2026-10-05T12:00:00+02:00"


def assignment(name: str, number: int, claims: Iterable[str] = ("sends", "adds", "waits", "ends")) -> Assignment:
    """An assignment of one task; each claim has 25 points."""
    laws = tuple(Law(f"{name}.task.{claim}", f"It {claim}.", 25, "judged") for claim in claims)
    task = Task(f"{name}.task", "A task", laws, (), "raise")
    return Assignment(name, number, name.replace("_", " ").capitalize(), (f"{name}.py",), (task,))


COURSE = (assignment("rings", 1), assignment("data_parallel", 2))


def report(passed: dict[str, Iterable[str]], submission: str = "s") -> Report:
    """A report on assignments of COURSE: the claims that hold in each; the others fail."""
    marks = tuple(_marked(each, set(passed[each.name])) for each in COURSE if each.name in passed)
    return Report(SCHEMA_NAME, submission, "work", sum(m.earned for m in marks), sum(m.possible for m in marks), False, marks, (),
                  {"python": "3.12"}, "isolation C", 1.5)  # fmt: skip


def _marked(each: Assignment, passed: set[str]) -> AssignmentMark:
    laws = tuple(_law(law, law.id.rpartition(".")[2] in passed) for law in each.laws())
    earned = sum(law.earned for law in laws)
    return AssignmentMark(each.name, each.title, earned, each.points, (TaskMark(f"{each.name}.task", "A task", earned, each.points, laws),))


def _law(law: Law, holds: bool) -> LawMark:
    message = None if holds else Message(seen="rank 1 sent 3", allowed="2", where=f"{law.id.partition('.')[0]}.py:41 in it")
    case = CaseVerdict(law.id, f"test_{law.id}[2]", "two ranks", False, "passed" if holds else "failed", message, "" if holds else "seed 7")
    verdict: LawVerdict = "passed" if holds else "failed"
    return LawMark(law.id, law.claim, verdict, law.evidence, law.points * holds, law.points, message, (case,), ("cpu",))


def write_class(folder: Path, rows: Iterable[Row]) -> Path:
    """A folder as a batch leaves it, without reports."""
    with closing(Ledger(folder)) as ledger:
        ledger.put(rows)
    return folder


def marked(student: str, rings: int, data_parallel: int, name: str = "", submitted: str = MONDAY_NOON, **others: str) -> Row:
    """A student who was graded in both assignments."""
    marks = {"rings": (rings, 100), "data_parallel": (data_parallel, 100)}
    return Row(student, name, others.get("email", ""), "A", f"{student}.zip", submitted, "marked", "", marks, False, f"h{student}", "j",
               f"reports/{student}")  # fmt: skip


@pytest.fixture
def book_of(tmp_path: Path) -> Callable[..., Book]:
    """Rows → the book of a class that has them."""

    def make(*rows: Row) -> Book:
        return open_book([write_class(tmp_path / "class", rows)], COURSE)

    return make


def write_reports(folder: Path, reports: dict[str, Report]) -> None:
    """Each student's report, where the ledger's row says."""
    for student, each in reports.items():
        write_all(each, folder / "reports" / student)
