"""One submission of a class: what decides its report, the report in its folder, and what of it a row needs.

A report's folder is named by a hash of all that decides it: files, the notes on them, course, grader, environment. It comes into being by a
rename when all in it is written, so that a folder is a whole report, whoever wrote it, on whichever machine, and whatever was killed.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grader.course import Course, find_root, load, probe_files, select
from grader.errors import CourseError, MachineError, UsageError
from grader.intake import intake
from grader.ledger import State
from grader.observe.live import GRADER, Runs, given_room
from grader.observe.seeds import secret_of
from grader.pipeline import environment, grade
from grader.records import Assignment, Report, canonical, digest
from grader.report.files import write_all
from grader.store import Store

REPORTS, LEFT = "reports", "left"  # in the folder of a batch: reports, and what processes elsewhere leave for the one that writes rows
CALLED = "what was handed in"  # in reports, which must not name somebody else who handed in the same


@dataclass(frozen=True, slots=True)
class Job:
    """What all works of a batch have in common, as it travels to other processes and machines."""

    root: str
    assignments: tuple[str, ...]
    out: str
    judged_by: str
    shares_store: bool = True  # observations go to the batch's store; False: each process has its own, and leaves them to be collected

    def course(self) -> tuple[Course, tuple[Assignment, ...]]:
        """The course and the assignments that are graded."""
        course = load(find_root(Path(self.root)))
        return course, select(course, self.assignments)


@dataclass(frozen=True, slots=True)
class Work:
    """A submission that is to be graded."""

    key: str  # names the folder of its report
    path: str  # absolute
    submission: str  # hash of its files


@dataclass(frozen=True, slots=True)
class Ended:
    """How a work ended: with a report, or with a failure that is not the submission's."""

    key: str
    state: State  # marked or machine
    sentence: str = ""
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    provisional: bool = False
    submission: str = ""
    wall_s: float = 0.0
    attempts: int = 1
    is_course: bool = False  # the failure is the course's: another try would end the same
    host: str = ""  # the machine that tried, "" if that isn't known


def judged_by(course: Course, assignments: Sequence[Assignment]) -> str:
    """A hash of all but the submission that decides marks: the grader, the tests of `assignments`, the secret, versions."""
    root = course.root
    tests = [root / "tests" / room / f"test_{each.name}.py" for each in assignments for room in ("public", "hidden")]
    probes = [path for each in assignments for path in probe_files(root, each.name)]
    specifications = [root / "assignments" / each.name / "assignment.yaml" for each in assignments]
    rooms = sorted(path for room in (GRADER, given_room(root), root / "tests" / "laws") for path in room.rglob("*.py"))
    files = [path for path in (*tests, *probes, *specifications, *rooms) if path.is_file()]
    contents = (part for path in files for part in (path.name, path.read_bytes()))
    versions = canonical({name: version for name, version in environment().items() if name != "cores"})
    return digest(*(each.name for each in assignments), *contents, secret_of(hidden=True), versions)


def look(assignments: Sequence[Assignment], path: Path, judged_by: str) -> Work:
    """Take the submission in, only to see what decides its report. UsageError if it can't be looked into."""
    with tempfile.TemporaryDirectory(prefix=f"grader-{os.getpid()}-") as folder:
        taken = {each.name: intake(each, path, into=Path(folder) / each.name) for each in assignments}
    hashes = {name: submission.hash for name, submission in taken.items()}
    notes = {name: submission.notes for name, submission in taken.items()}
    return Work(digest(judged_by, canonical(hashes), canonical(notes)), str(path.resolve()), digest(canonical(hashes)))


def folder_of(out: Path, key: str) -> Path:
    """Where the report of that key is, or will be."""
    return out / REPORTS / key


def known(out: Path, key: str) -> Ended | None:
    """How the work of `key` ended, if its report is there already; what a disk has spoilt is taken away and graded again."""
    folder = folder_of(out, key)
    try:
        return _summed(key, msgspec.json.decode((folder / "report.json").read_bytes(), type=Report))
    except (FileNotFoundError, msgspec.MsgspecError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def carry_out(job: Job, course: Course, assignments: Sequence[Assignment], work: Work, runs: Runs) -> Ended:
    """Grade one submission into its folder; whatever goes wrong becomes a sentence. Only Ctrl-C and its like are raised."""
    try:
        report = grade(course, Path(work.path), assignments, runs=runs, called=CALLED)
        if report.submission != work.submission:
            raise MachineError("the files were changed while they were graded")
        ended = _summed(work.key, report)
        if ended.state == "marked":
            if not job.shares_store:
                _leave_observations(runs.store, Path(job.out) / LEFT / f"{work.key}.sqlite")
            _keep(report, folder_of(Path(job.out), work.key))
        return ended
    except CourseError as error:
        return _failed(work.key, f"The course is wrong: {error}", is_course=True)
    except (MachineError, UsageError) as error:  # it could be looked into a moment ago
        return _failed(work.key, str(error))
    except Exception as error:  # ours: it must not stop the other three hundred
        return _failed(work.key, f"The grader is at fault: {type(error).__name__}: {error}")


def _failed(key: str, sentence: str, *, is_course: bool = False) -> Ended:
    return Ended(key, "machine", sentence, is_course=is_course)


def _summed(key: str, report: Report) -> Ended:
    """What a row needs of a report; a report with a fault of ours in it gives no mark."""
    blames = {case.outcome: case.message.seen if case.message else "" for law in report.laws() for case in law.cases}
    for outcome in ("course_error", "machine_error"):
        if outcome in blames:
            return _failed(key, blames[outcome], is_course=outcome == "course_error")
    marks = {each.name: (each.earned, each.possible) for each in report.assignments}
    return Ended(key, "marked", "", marks, report.provisional, report.submission, report.wall_s)


def _keep(report: Report, folder: Path) -> None:
    """The report's folder, whole or not at all, and on the disk before anybody is told of it."""
    draft = folder.with_name(f".{folder.name}-{socket.gethostname()}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    write_all(report, draft)
    try:
        for path in (*draft.iterdir(), draft):
            _flush(path)
        draft.rename(folder)
        _flush(folder.parent)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.is_dir():  # else somebody has written the same report meanwhile
            raise MachineError(f"{folder} can't be written: {error.strerror}") from error


def _leave_observations(store: Store, place: Path) -> None:
    """Move all that `store` holds to a file of its own: SQLite can't be shared over a network's file system, a whole file can."""
    draft = store.path.with_name(place.name)
    with closing(Store(draft, forgets=False)) as left:
        left.absorb(store.path)
    try:
        shutil.copyfile(draft, hidden := place.with_name(f".{place.name}-{socket.gethostname()}-{os.getpid()}"))
        hidden.rename(place)
        draft.unlink()
    except OSError as error:
        raise MachineError(f"{place} can't be written: {error.strerror}") from error


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
