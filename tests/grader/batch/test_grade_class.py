"""Rows and what is graded for them: nothing twice, nothing lost, and no failure of ours becomes a zero. The gradings are played."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.batch import grade_class
from grader.batch import work as works_of
from grader.batch.people import Person, Roster
from grader.batch.work import Ended, Job, Work, carry_out
from grader.course import Course
from grader.errors import CourseError, MachineError, UsageError
from grader.ledger import Ledger, Row
from grader.observe.live import Runs
from grader.records import AssignmentMark, CaseOutcome, CaseVerdict, LawMark, Message, Report, TaskMark
from tests.grader.batch.conftest import EMPTY, MORE, ODD, RIGHT


def report_of(submission: str, outcome: CaseOutcome = "passed") -> Report:
    """A report of one law."""
    case = CaseVerdict("sums.pair.adds", "test", "the only case", False, outcome, Message(seen=f"seen: {outcome}"))
    earned = 5 if outcome == "passed" else 0
    law = LawMark("sums.pair.adds", "It adds.", "passed" if earned else "failed", "judged", earned, 5, None, (case,))
    mark = AssignmentMark("sums", "Sums", earned, 5, (TaskMark("sums.pair", "The pair", earned, 5, (law,)),))
    return Report("grader-report/1", submission, "x", earned, 5, True, (mark,), (), {}, "isolation C", 1.5)


End = CaseOutcome | Report | BaseException


@dataclass
class Played:
    """A crew of one, here, whose gradings end as a test says: an outcome of the only case, a report, or something that is raised."""

    course: Course
    ends: Callable[[Work], End]
    graded: list[str] = field(default_factory=list)  # base names, in order
    wrong: bool = False  # what the batch said of the course

    def __call__(self, job: Job) -> Played:
        self.job = job
        return self

    def carry_out(self, works: Iterable[Work]) -> Generator[Ended]:
        """One after the other, with whatever `carry_out` does about the end."""
        for self.work in works:
            self.graded.append(Path(self.work.path).name)
            yield carry_out(self.job, self.course, self.course.assignments, self.work, Runs(self.course.root, None))  # type: ignore[arg-type]

    def grade(self, *_: Any, **__: Any) -> Report:
        """In the place of the pipeline's."""
        end = self.ends(self.work)
        if isinstance(end, BaseException):
            raise end
        return end if isinstance(end, Report) else report_of(self.work.submission, end)


@pytest.fixture
def play(course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Played]:
    """play(ends) grades what is in `in` into `out`; gives the crew."""
    (tmp_path / "in").mkdir()

    def play(ends: Callable[[Work], End] = lambda work: "passed", **options: Any) -> Played:
        crew = Played(course, ends)
        monkeypatch.setattr(works_of, "grade", crew.grade)
        crew.wrong = grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", crew, **options).is_course_wrong
        return crew

    return play


def hand_in(tmp_path: Path, **codes: bytes) -> None:
    """A folder for each student."""
    for name, code in codes.items():
        (tmp_path / "in" / name).mkdir(exist_ok=True)
        (tmp_path / "in" / name / "sums.py").write_bytes(code)
        (tmp_path / "in" / name / "more.py").write_bytes(MORE)


def rows(tmp_path: Path) -> dict[str, Row]:
    """The ledger, by student."""
    return {row.student: row for row in Ledger(tmp_path / "out").rows()}


def test_the_same_files_are_graded_once_and_reports_are_shared(play: Callable[..., Played], tmp_path: Path) -> None:
    """Two who handed in the same have one report; a second batch grades nothing, a changed submission alone is graded again."""
    hand_in(tmp_path, ada=RIGHT, bo=RIGHT, cy=ODD)
    assert play().graded == ["ada", "cy"]
    first = rows(tmp_path)
    assert first["ada"].report == first["bo"].report != first["cy"].report
    assert first["ada"].marks == {"sums": (5, 5)} and (tmp_path / "out" / first["ada"].report / "staff.json").is_file()
    assert play().graded == [] and rows(tmp_path) == first
    hand_in(tmp_path, bo=EMPTY)
    assert play(lambda work: "failed").graded == ["bo"]
    assert rows(tmp_path) == first | {"bo": replace(first["bo"], marks={"sums": (0, 5)}, report=rows(tmp_path)["bo"].report,
                                                    submission=rows(tmp_path)["bo"].submission)}  # fmt: skip


def test_a_report_that_a_disk_has_spoilt_is_made_again(play: Callable[..., Played], tmp_path: Path) -> None:
    """A mark never rests on half a file, and no file that can't be read ends a batch."""
    hand_in(tmp_path, ada=RIGHT, bo=ODD)
    play()
    for name, content in {"ada": b'{"schema": "gra', "bo": b""}.items():
        (tmp_path / "out" / rows(tmp_path)[name].report / "report.json").write_bytes(content)
    before = rows(tmp_path)
    assert play().graded == ["ada", "bo"] and rows(tmp_path) == before


def test_another_grader_or_course_judges_anew(play: Callable[..., Played], course: Course, tmp_path: Path) -> None:
    """A test that changed decides other marks, so all is judged again; the old report stays where it is."""
    hand_in(tmp_path, ada=RIGHT)
    play()
    before = rows(tmp_path)["ada"]
    hidden = course.root / "tests" / "hidden" / "test_sums.py"
    hidden.write_text(hidden.read_text() + "\n")
    assert play().graded == ["ada"]
    after = rows(tmp_path)["ada"]
    assert after.judged_by != before.judged_by and after.submission == before.submission
    assert (tmp_path / "out" / before.report).is_dir() and (tmp_path / "out" / after.report).is_dir()


FAILURES: list[End] = ["machine_error", MachineError("no space"), MemoryError("all of it"), ZeroDivisionError("ours"), UsageError("gone")]


@pytest.mark.parametrize("end", FAILURES, ids=str)
def test_no_failure_of_ours_is_a_zero(end: End, play: Callable[..., Played], tmp_path: Path) -> None:
    """A case that the machine failed, an error of the grader's: no marks, no report, a sentence; the others are graded."""
    hand_in(tmp_path, ada=RIGHT, bo=ODD)
    play(lambda work: end if work.path.endswith("ada") else "passed")
    ada, bo = rows(tmp_path).values()
    assert (ada.state, ada.marks, ada.report) == ("machine", {}, "") and ada.sentence
    assert (bo.state, bo.earned) == ("marked", 5)
    assert play().graded == ["ada"] and rows(tmp_path)["ada"].state == "marked"  # and the next batch tries again


@pytest.mark.parametrize("end", ["course_error", CourseError("a test is broken")], ids=str)
def test_a_wrong_course_is_said_and_gives_no_marks(end: End, play: Callable[..., Played], tmp_path: Path) -> None:
    """It is neither the student's nor the machine's: no mark, and the batch knows whose fault it is."""
    hand_in(tmp_path, ada=RIGHT)
    assert play(lambda work: end).wrong
    assert (rows(tmp_path)["ada"].state, rows(tmp_path)["ada"].marks) == ("machine", {})


def test_an_earlier_mark_stands_when_a_regrade_fails(play: Callable[..., Played], course: Course, tmp_path: Path) -> None:
    """Of the same files, whatever the machine does; other files have no mark before there is one."""
    hand_in(tmp_path, ada=RIGHT, bo=ODD)
    play()
    before = rows(tmp_path)
    hidden = course.root / "tests" / "hidden" / "test_sums.py"
    hidden.write_text(hidden.read_text() + "\n")
    hand_in(tmp_path, bo=EMPTY)
    play(lambda work: "machine_error")
    after = rows(tmp_path)
    assert (after["ada"].marks, after["ada"].report) == (before["ada"].marks, before["ada"].report) and "stands" in after["ada"].sentence
    assert (after["bo"].state, after["bo"].marks) == ("machine", {})


def test_a_mark_stands_when_the_next_download_lacks_its_student(play: Callable[..., Played], tmp_path: Path) -> None:
    """Sections are downloaded one after the other: who is absent from the second keeps what the first has given."""
    roster = Roster((Person("ada"), Person("bo"), Person("cy")))
    hand_in(tmp_path, ada=RIGHT)
    play(roster=roster)
    assert {name: row.state for name, row in rows(tmp_path).items()} == {"ada": "marked", "bo": "missing", "cy": "missing"}
    (tmp_path / "in" / "ada").rename(tmp_path / "in" / "bo")
    play(roster=roster)
    seen = {name: (row.state, row.earned) for name, row in rows(tmp_path).items()}
    assert seen == {"ada": ("marked", 5), "bo": ("marked", 5), "cy": ("missing", 0)}


def test_files_that_change_while_they_are_graded_give_no_mark(play: Callable[..., Played], tmp_path: Path) -> None:
    """A report is filed under the files that it is of, or not at all."""
    hand_in(tmp_path, ada=RIGHT)
    play(lambda work: report_of("other files"))
    assert "were changed" in rows(tmp_path)["ada"].sentence and not list((tmp_path / "out" / "reports").iterdir())


def test_a_machine_that_fails_every_time_ends_the_batch(play: Callable[..., Played], tmp_path: Path) -> None:
    """After eight in a row it is no use to fail three hundred; what is known stands, and the rest waits."""
    hand_in(tmp_path, **{f"s{number:02}": ODD + b"#" * number for number in range(12)})
    with pytest.raises(MachineError, match="8 submissions one after the other could not be graded; the last: the disk is full"):
        play(lambda work: MachineError("the disk is full"))
    assert [row.state for row in rows(tmp_path).values()] == ["machine"] * 8 + ["waiting"] * 4


def test_whatever_ends_it_rows_that_are_known_stand(play: Callable[..., Played], tmp_path: Path) -> None:
    """Ctrl-C after the second row: it is raised, the crew is told, and both rows are in the ledger; the others wait."""
    hand_in(tmp_path, ada=RIGHT, bo=ODD, cy=EMPTY)
    told = []

    def stop(row: Row, _tally: Any) -> None:
        told.append(row.student)
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(told=stop)
    assert {name: row.state for name, row in rows(tmp_path).items()} == {"ada": "marked", "bo": "marked", "cy": "waiting"}
    assert play().graded == ["cy"]


def test_marks_of_other_assignments_are_not_written_over(play: Callable[..., Played], tmp_path: Path) -> None:
    """A ledger has one row for each student: a batch over other assignments belongs into another folder."""
    hand_in(tmp_path, ada=RIGHT)
    ledger = Ledger(tmp_path / "out")
    ledger.put([Row("ada", state="marked", marks={"rings": (3, 4)})])
    with pytest.raises(UsageError, match="has marks of rings, which are not asked for"):
        play()
    assert rows(tmp_path)["ada"].marks == {"rings": (3, 4)}


def test_an_error_of_ours_in_the_intake_is_one_row(play: Callable[..., Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's bytes that nobody foresaw stop nobody else."""
    hand_in(tmp_path, ada=RIGHT, bo=ODD)
    real = works_of.intake

    def intake(assignment: Any, path: Path, *, into: Path) -> Any:
        if path.name == "ada":
            raise RecursionError("too deep")
        return real(assignment, path, into=into)

    monkeypatch.setattr(works_of, "intake", intake)
    assert play().graded == ["bo"]
    assert rows(tmp_path)["ada"].state == "machine" and "RecursionError" in rows(tmp_path)["ada"].sentence
