"""A graded class as its folders hold it: students, and what each earned in each assignment before any policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from grader.errors import UsageError
from grader.ledger import LEDGER_NAME, Ledger, Row, State
from grader.records import Assignment

UNGRADED: frozenset[State] = frozenset({"waiting", "machine"})  # no mark follows from these, and none may be made of them


@dataclass(frozen=True, slots=True)
class Entry:
    """One student's raw result in one assignment."""

    student: str
    assignment: str
    state: State
    earned: int | None  # None: there is no mark, which is not a mark of zero
    possible: int
    submitted: str = ""  # ISO 8601 with its offset; "": not known
    sentence: str = ""  # why there is no mark
    provisional: bool = False
    report: Path | None = None  # the folder of report.json and staff.json


@dataclass(frozen=True, slots=True)
class Book:
    """A class over all of its folders. Students are in the order of their ids, assignments in the course's."""

    folder: Path  # the first one: policy and trail lie there
    students: dict[str, Row]  # the row that says most about who it is
    assignments: tuple[str, ...]
    titles: dict[str, str]
    entries: dict[tuple[str, str], Entry]  # (student, assignment)

    def of(self, student: str) -> list[Entry]:
        """A student's entries, in the course's order."""
        return [self.entries[student, assignment] for assignment in self.assignments]


def open_book(folders: Sequence[Path], assignments: Sequence[Assignment], only: Collection[str] = ()) -> Book:
    """Read the ledgers of `folders`; each assignment stands in one of them. What no student was graded in is left out.

    assignments  the course's
    only         names of those that are meant; (): all
    Raises UsageError if a folder has no ledger, a row names an assignment that the course lacks, two folders have the same one, or there is
    none of those that are meant.
    """
    points = {each.name: each.points for each in assignments}
    owners: dict[str, Path] = {}
    found: dict[str, dict[str, Row]] = {}
    students: dict[str, Row] = {}
    for folder in folders:
        rows = _rows(folder)
        for name in {name for row in rows for name in row.marks}:
            if name not in points:
                seen = f"{folder / LEDGER_NAME} has marks for {name!r}, which this course has no assignment of"
                raise UsageError(f"{seen}: is it a class of this course?")
            if name in owners:
                raise UsageError(f"{owners[name]} and {folder} both have marks for {name}; name the one that counts.")
            owners[name] = folder
        for row in rows:
            found.setdefault(str(folder), {})[row.student] = row
            known = students.get(row.student)
            students[row.student] = row if known is None or not (known.name or known.email) else known
    names = tuple(each.name for each in assignments if each.name in owners and (not only or each.name in only))
    if not names or any(name not in owners for name in only):
        seen = ", ".join(owners)
        try_this = f"there are marks for {seen}; choose among them with -a." if seen else "nothing has a mark yet; `grader batch` goes on."
        raise UsageError(f"{' and '.join(map(str, folders))}: {try_this}")
    entries = {
        (student, name): _entry(student, name, found[str(owners[name])].get(student), points[name], owners[name])
        for student in students
        for name in names
    }
    titles = {each.name: each.title for each in assignments if each.name in names}
    return Book(folders[0], dict(sorted(students.items())), names, titles, entries)


def nearest(word: str, known: Iterable[str]) -> str:
    """A sentence's end that names what `word` may have meant."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else "there is none like it"


def _rows(folder: Path) -> tuple[Row, ...]:
    if not (folder / LEDGER_NAME).is_file():
        raise UsageError(f"{folder} holds no {LEDGER_NAME}: name the folder that `grader batch` wrote.")
    with closing(Ledger(folder)) as ledger:
        return ledger.rows()


def _entry(student: str, assignment: str, row: Row | None, points: int, folder: Path) -> Entry:
    if row is None:
        return Entry(student, assignment, "missing", None, points, sentence=f"no row in {folder}")
    if assignment not in row.marks:
        state = "waiting" if row.state == "marked" else row.state
        return Entry(student, assignment, state, None, points, row.submitted, row.sentence or row.state)
    earned, possible = row.marks[assignment]
    if row.state in UNGRADED:  # whatever marks it has are those of an attempt that failed
        return Entry(student, assignment, row.state, None, possible, row.submitted, row.sentence or row.state)
    return Entry(student, assignment, "marked", earned, possible, row.submitted, "", row.provisional, folder / row.report)
