"""The sentence: hand-ins are found and called, what is known is looked up, the rest is graded, and each row is written when it is known."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grader.batch.gather import path_of
from grader.batch.layouts import look_into
from grader.batch.people import Roster
from grader.batch.roll import Entry, call
from grader.batch.tally import Tally
from grader.batch.work import REPORTS, Ended, Job, Work, judged_by, known, look
from grader.course import Course
from grader.errors import MachineError, UsageError
from grader.ledger import LEDGER_NAME, Ledger, Row, alone_in
from grader.records import Assignment

NUM_FAILED_IN_A_ROW = 8  # distinct works: then it is the machine that is ill, and going on would fail the whole class


class Crew(Protocol):
    """Carries works out, here or elsewhere."""

    def carry_out(self, works: Iterable[Work]) -> Generator[Ended]:
        """How each ended, as it ends; each work once, retried where that may help. Closing the generator ends whatever still runs."""
        ...


OpenCrew = Callable[[Job], Crew]
Told = Callable[[Row, Tally], None]


@dataclass(frozen=True, slots=True)
class Class:
    """What a batch has come to."""

    tally: Tally
    remarks: tuple[str, ...]  # of roster and downloads
    is_course_wrong: bool = False


def grade_class(
    course: Course,
    assignments: Sequence[Assignment],
    submissions: Path,
    out: Path,
    open_crew: OpenCrew,
    *,
    roster: Roster | None = None,
    layout: str = "",
    told: Told = lambda row, tally: None,
    remark: Callable[[str], None] = lambda sentence: None,
) -> Class:
    """Grade everything in `submissions` into `out`. What was graded there before, by the same course and grader, is not graded again.

    told    hears of each row that has become known, and how far everything is
    remark  hears, before anything is graded, what is odd about roster and downloads
    Raises UsageError, CourseError or MachineError when nothing can go on; rows that are known stand. Likewise on Ctrl-C.
    """
    found = look_into(submissions, layout)
    entries, remarks = call(found, roster)
    for sentence in (remarks := [f"{len(found.hand_ins)} hand-ins, layout {found.layout}.", *remarks]):
        remark(sentence)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)  # what becomes of a class is nobody else's business on this machine
    (out / REPORTS).mkdir(exist_ok=True)
    with alone_in(out), closing(Ledger(out)) as ledger:
        desk = _Desk(ledger, Tally(len(entries)), told, {row.student: row for row in ledger.rows()})
        _require_same_assignments(desk.earlier.values(), assignments, out)
        job = Job(str(course.root), tuple(each.name for each in assignments), str(out.resolve()), judged_by(course, assignments))
        works = desk.look_up(entries, assignments, submissions, out, job.judged_by)
        desk.tally.begin(len(works))
        with closing(open_crew(job).carry_out(works)) as ending:
            is_course_wrong = desk.write_down(ending)
    return Class(desk.tally, tuple(remarks), is_course_wrong)


class _Desk:
    """Where rows are written."""

    def __init__(self, ledger: Ledger, tally: Tally, told: Told, earlier: dict[str, Row]) -> None:
        self.ledger, self.tally, self.told, self.earlier = ledger, tally, told, earlier
        self._waiting: dict[str, list[Row]] = defaultdict(list)  # rows by the key of the work that they wait for

    def look_up(self, entries: Sequence[Entry], assignments: Sequence[Assignment], folder: Path, out: Path, judge: str) -> list[Work]:
        """Write the rows that are known at once; the works that the others wait for, each of them once."""
        works: dict[str, Work] = {}
        for entry in entries:
            row = Row(entry.person.id, entry.person.name, entry.person.email, entry.person.section, judged_by=judge)
            if entry.hand_in is None:
                self._write([replace(row, state="missing", judged_by="")])
                continue
            try:
                path = path_of(entry.hand_in, out)
                row = replace(row, path=os.path.relpath(path, folder), submitted=entry.hand_in.submitted)
                if entry.refusal:
                    raise UsageError(entry.refusal)
                work = look(assignments, path, judge)
            except UsageError as refusal:
                self._write([replace(row, state="refused", sentence=str(refusal))])
                continue
            except Exception as error:  # ours, on files that somebody made up: the others are graded
                sentence = f"The grader is at fault: {type(error).__name__}: {error}"
                self._write([replace(row, state="machine", sentence=sentence, attempts=1)])
                continue
            row = replace(row, submission=work.submission, report=f"{REPORTS}/{work.key}")
            ended = works.get(work.key) is None and known(out, work.key)
            if ended:
                self._write([_filled(row, ended)])
                continue
            works.setdefault(work.key, work)
            self._waiting[work.key].append(row)
        self.ledger.put(row for rows in self._waiting.values() for row in rows if self.earlier.get(row.student, row).state != "marked")
        return list(works.values())

    def write_down(self, ending: Iterator[Ended]) -> bool:
        """Write rows as their works end; whether the course was found wrong. MachineError when one work after the other fails."""
        num_failed, is_course_wrong = 0, False
        for ended in ending:
            self.tally.graded()
            self._write([_filled(row, ended) for row in self._waiting.pop(ended.key)])
            is_course_wrong |= ended.is_course
            num_failed = num_failed + 1 if ended.state == "machine" and not ended.is_course else 0
            if num_failed == NUM_FAILED_IN_A_ROW:
                raise MachineError(f"{num_failed} submissions one after the other could not be graded; the last: {ended.sentence}. "
                                   "Mend it and give the same command again: what is known stands.")  # fmt: skip
        return is_course_wrong

    def _write(self, rows: list[Row]) -> None:
        """Put rows into the ledger, and tell of them."""
        rows = [self._after(self.earlier.get(row.student), row) for row in rows]
        self.ledger.put(row for row in rows if row != self.earlier.get(row.student))
        for row in rows:
            self.tally.known(row)
            self.told(row, self.tally)

    @staticmethod
    def _after(before: Row | None, row: Row) -> Row:
        """The row to keep. A mark stands until there is another: neither a failing regrade nor a partial download takes it away."""
        if before is not None and before.state == "marked" and row.state == "missing":
            return replace(before, sentence="Not among the latest submissions; the earlier mark stands.")
        if before is None or before.state != "marked" or before.submission != row.submission:
            return row
        if row.state == "machine":
            return replace(before, sentence=f"Could not be graded again, the earlier mark stands: {row.sentence}")
        return replace(row, attempts=before.attempts) if before.report == row.report else row


def _filled(row: Row, ended: Ended) -> Row:
    row = replace(row, state=ended.state, sentence=ended.sentence, marks=ended.marks, provisional=ended.provisional,
                  attempts=ended.attempts, wall_s=ended.wall_s)  # fmt: skip
    return row if ended.state == "marked" else replace(row, report="")


def _require_same_assignments(rows: Iterable[Row], assignments: Sequence[Assignment], out: Path) -> None:
    """UsageError if marks of other assignments would be written over."""
    others = sorted({name for row in rows for name in row.marks} - {each.name for each in assignments})
    if others:
        seen = f"{out / LEDGER_NAME} has marks of {', '.join(others)}, which are not asked for"
        raise UsageError(f"{seen}: name them too (-a), or grade into another folder.")
