"""A class judged anew from what is stored, after a test or a threshold has changed: who gains, who loses, by which law."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.exits import LATEST
from grader.ledger import Ledger, Row
from grader.pipeline import grade, opened_runs
from grader.records import Assignment, AssignmentMark, Report, canonical, digest
from grader.report.files import read, write_all
from grader.report.json_report import to_json
from grader.report.page import Page
from grader.store import STORE_NAME

REPORTS = "reports"  # in the folder of a class
NUM_NAMED = 5  # students in one sentence


@dataclass(frozen=True, slots=True)
class Change:
    """One student's raw mark in one assignment, before and after."""

    student: str
    assignment: str
    was: int
    now: int
    gained: tuple[str, ...]  # laws that pass now
    lost: tuple[str, ...]  # laws that no longer do

    @property
    def why(self) -> str:
        """Which laws changed, for the trail."""
        words = (("now passes", self.gained), ("no longer passes", self.lost))
        return "; ".join(f"{word} {', '.join(laws)}" for word, laws in words if laws) or "other points for its laws"


@dataclass(slots=True)
class Regrade:
    """What judging anew comes to; nothing of it is written yet."""

    changes: list[Change] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # why a mark can't be judged anew -> whose
    num_same: int = 0  # marks that stay
    reports: dict[str, Report] = field(default_factory=dict)  # by the row's folder of its old one

    def by_law(self) -> dict[str, tuple[int, int]]:
        """Law -> students who gain it, students who lose it."""
        gained = [law for change in self.changes for law in change.gained]
        lost = [law for change in self.changes for law in change.lost]
        return {law: (gained.count(law), lost.count(law)) for law in sorted({*gained, *lost})}


def regrade(
    course: Course, folder: Path, submissions: Path, assignments: Sequence[Assignment], told: Callable[[str], None] = lambda step: None
) -> Regrade:
    """Judge every marked row of the class in `folder` by today's tests, from its store; `submissions` is what was graded.

    What has no stored observation, or whose files have changed, is unknown: its mark stands. Raises UsageError if there is no store or
    no such folder, CourseError if the tests themselves are broken.
    """
    if not (folder / STORE_NAME).is_file():
        raise UsageError(f"{folder} has no {STORE_NAME}: nothing that was observed is stored there, so grade the class again.")
    if not submissions.is_dir():
        raise UsageError(f"{submissions} is no folder: name the one that `grader batch` graded.")
    with closing(Ledger(folder)) as ledger:
        rows = [row for row in ledger.rows() if row.state == "marked"]
    anew = Regrade()
    shared: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        shared[row.report].append(row)
    with opened_runs(course.root, folder, replay=True, forgets=False) as runs:
        runs.told = LATEST  # commands in messages are those of a student's own course
        for number, (place, owners) in enumerate(shared.items(), 1):
            told(f"{number} of {len(shared)}: {owners[0].student}")
            old, path = read(folder / place), submissions / owners[0].path
            chosen = [each for each in assignments if each.name in owners[0].marks]
            if not path.exists():
                anew.unknown[f"{path} is not there"] += [row.student for row in owners]
                continue
            new = grade(course, path, chosen, runs=runs, called=old.origin)
            _compare(old, new, owners, anew, place)
    return anew


def accept(folder: Path, anew: Regrade) -> None:
    """Write the new reports beside the old ones, then all rows at once. Raises MachineError."""
    places = {}
    for place, report in anew.reports.items():
        places[place] = f"{REPORTS}/regraded-{digest(canonical(to_json(report)))}"
        write_all(report, folder / places[place])
    with closing(Ledger(folder)) as ledger:
        ledger.put(
            replace(row, marks=row.marks | _marks(anew.reports[row.report]), provisional=anew.reports[row.report].provisional,
                    report=places[row.report], judged_by="")  # no batch made this mark: the next one judges it again, from the store
            for row in ledger.rows()
            if row.state == "marked" and row.report in places
        )  # fmt: skip


def show(anew: Regrade, page: Page) -> None:
    """Print it: law by law, student by student, and what can't be told."""
    for law, (num_gain, num_lose) in anew.by_law().items():
        page.paragraph(f"{law}: {num_gain} gain it, {num_lose} lose it", style="bold")
    for change in sorted(anew.changes, key=lambda change: (change.assignment, change.student)):
        lead, style = f"{change.assignment} ", "green" if change.now > change.was else "red"
        page.spread(f"{change.student}: {change.why}", f"{change.was} → {change.now}", lead=lead, indent=len(lead), lead_style=style)
    for why, students in anew.unknown.items():
        named = ", ".join(students[:NUM_NAMED]) + (f" and {len(students) - NUM_NAMED} more" if len(students) > NUM_NAMED else "")
        page.paragraph(f"Not judged anew, the marks stand: {why} ({named})", lead="! ", lead_style="yellow")
    num_unknown = sum(map(len, anew.unknown.values()))
    summed = f"Marks that change: {len(anew.changes)}; that stay: {anew.num_same}; that can't be judged anew: {num_unknown}."
    page.paragraph(summed, style="bold")


def _marks(report: Report) -> dict[str, tuple[int, int]]:
    return {each.name: (each.earned, each.possible) for each in report.assignments}


def _compare(old: Report, new: Report, owners: Iterable[Row], anew: Regrade, place: str) -> None:
    """What the new report changes for its owners; assignments that can't be judged anew keep the old one's marks."""
    before = {each.name: each for each in old.assignments}
    after: dict[str, AssignmentMark] = {}  # those that change
    for mark in new.assignments:
        why = _unknown(mark, old, new)
        for row in owners:
            if why:
                anew.unknown[f"{mark.name}: {why}"].append(row.student)
                continue
            change = _change(row.student, before.get(mark.name), mark)
            if change is None:
                anew.num_same += 1
            else:
                after[mark.name] = mark
                anew.changes.append(change)
    if after:
        marks = tuple(after.get(each.name, each) for each in old.assignments)
        anew.reports[place] = replace(new, assignments=marks, earned=sum(mark.earned for mark in marks),
                                      possible=sum(mark.possible for mark in marks), submission=old.submission,
                                      isolation=old.isolation, wall_s=old.wall_s)  # fmt: skip


def _unknown(mark: AssignmentMark, old: Report, new: Report) -> str:
    """Why this assignment can't be judged anew; "" if it can. Raises CourseError if a test is broken."""
    if old.submission != new.submission:
        return "the files are not those that were graded"
    for case in (case for law in mark.laws() for case in law.cases):
        if case.outcome == "course_error":
            raise CourseError(f"{case.law}: {case.message.seen if case.message else case.id}\n{case.staff}")
    missing = sorted({law.id for law in mark.laws() if any(case.outcome == "machine_error" for case in law.cases)})
    named = " and ".join([*missing[:2], *(["others"] if len(missing) > 2 else [])])
    return f"no stored observation for {named}; grade again (grader batch)" if missing else ""


def _change(student: str, before: AssignmentMark | None, after: AssignmentMark) -> Change | None:
    had, has = _passed(before), _passed(after)
    if before is not None and (had, before.earned, before.possible) == (has, after.earned, after.possible):
        return None
    return Change(student, after.name, before.earned if before else 0, after.earned, tuple(sorted(has - had)), tuple(sorted(had - has)))


def _passed(mark: AssignmentMark | None) -> set[str]:
    return {law.id for law in mark.laws() if law.verdict == "passed"} if mark else set()
