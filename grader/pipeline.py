"""The sentence: a submission is taken in, observed, judged, scored and reported."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from grader.course import Course, edited_given, find_root, is_untouched, load
from grader.devices import num_cores
from grader.intake import intake
from grader.judge.ports import Progress
from grader.judge.session import Judged, judge
from grader.levels import LEVELS
from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.policy import hits
from grader.ranks.access import let_ranks_in, lives
from grader.ranks.isolation import why_formative
from grader.records import Assignment, Report, Spent, Submission, canonical, digest
from grader.report.files import PRIVATE, write, write_all
from grader.report.json_report import SCHEMA_NAME
from grader.score import is_provisional, score
from grader.store import STORE_NAME, Store

DISTRIBUTIONS = ("torch", "triton", "numpy", "pytest")


def grade(
    course: Course,
    submission_path: Path,
    assignments: Sequence[Assignment],
    *,
    laws: Collection[str] | None = None,
    out: Path | None = None,
    replay: bool = False,
    keyword: str | None = None,
    progress: Progress | None = None,
    runs: Runs | None = None,
    until_failed: bool = False,
    called: str = "",
) -> Report:
    """Carry one submission from files to report.

    laws, keyword   judge only cases of these laws, or those that pytest's -k selects; the others are "not selected"
    out, replay     the run folder, written and kept; replay judges from its store and starts no rank
    until_failed    a law whose case has failed is judged no further
    runs            share processes and store with other gradings; else this one has its own
    called          what the report calls the submission instead of by its path, which is the instructor's; its commands are then those
                    of a student's own course
    Raises UsageError, CourseError or MachineError if there is nothing to report; Ctrl-C while judging ends in a report that says so.
    """
    began_s = time.monotonic()
    with ExitStack() as opened:
        runs = runs or opened.enter_context(opened_runs(course.root, out, replay=replay))
        observer = opened.enter_context(taken_in(submission_path, assignments, runs, called=called))
        origin = "starter" if called else str(submission_path)
        before = runs.spent
        judged = judge(course.root, assignments, observer, origin=origin, laws=laws, keyword=keyword, progress=progress,
                       looks_ahead=not (until_failed or runs.replay) and num_cores() > 1, until_failed=until_failed)  # fmt: skip
    spent = replace(runs.spent.since(before), judge_cpu_s=judged.cpu_s, laws_s=dict(judged.laws_s))
    wall_s = time.monotonic() - began_s
    report = compose(called or str(submission_path), assignments, observer, judged, wall_s, spent, edited_given(course.root))
    if out is not None:
        write_all(report, out)
        write(out / "judge.log", judged.log, PRIVATE)
    return report


def compose(
    origin: str, assignments: Sequence[Assignment], observer: Observer, judged: Judged, wall_s: float, spent: Spent,
    notes: Sequence[str] = (),
) -> Report:  # fmt: skip
    """The one record that every output is rendered from."""
    marks = score(assignments, judged.verdicts)
    submissions, isolation = observer.submissions, observer.runs.isolation()
    return Report(
        schema=SCHEMA_NAME,
        submission=digest(canonical({name: submission.hash for name, submission in submissions.items()})),
        origin=origin,
        earned=sum(mark.earned for mark in marks),
        possible=sum(mark.possible for mark in marks),
        provisional=is_provisional(assignments, marks, judged.has_hidden),
        assignments=marks,
        notes=tuple(dict.fromkeys([*notes, *(note for submission in submissions.values() for note in submission.notes)])),
        environment=environment(),
        isolation=isolation,
        wall_s=wall_s,
        interrupted=judged.interrupted,
        formative=why_formative(isolation, needed_by(assignments)),
        spent=spent,
    )


def needed_by(assignments: Sequence[Assignment]) -> str:
    """The level of isolation that marks for all of these need."""
    return min((each.isolation for each in assignments), default=LEVELS[-1])


@contextmanager
def opened_runs(
    root: Path, out: Path | None, *, replay: bool = False, at_most: str = LEVELS[0], told: Path | None = None, forgets: bool = True
) -> Iterator[Runs]:
    """Processes and a store for one grading or for many; without `out` the store is gone afterwards. `told`: see Runs, `forgets`: Store."""
    with ExitStack() as opened:
        folder = out.resolve() if out else Path(opened.enter_context(tempfile.TemporaryDirectory(prefix=f"grader-{os.getpid()}-")))
        store = Store(folder / STORE_NAME, forgets=forgets)
        opened.callback(store.close)
        runs = Runs(root, store, replay, at_most, told)
        opened.callback(runs.close)
        yield runs


@contextmanager
def taken_in(
    path: Path, assignments: Sequence[Assignment], runs: Runs, flavours: Sequence[str] = (), *, called: str = ""
) -> Iterator[Observer]:
    """An observer of the submission at `path` to `assignments`; the private copies are gone afterwards.

    flavours  of the ranks that will be asked for, begun ahead; (): those that the assignments name
    called    what messages call the submission; "": its path

    Raises UsageError if there is no such folder.
    """
    run_folder = runs.store.path.parent
    for leftover in run_folder.glob("graded-*"):
        if (pid := leftover.name.partition("-")[2]).isdigit() and not lives(int(pid)):  # its grader was killed
            shutil.rmtree(leftover, ignore_errors=True)
    copies = run_folder / f"graded-{os.getpid()}"
    shutil.rmtree(copies, ignore_errors=True)
    try:
        submissions = {each.name: _read(each, intake(each, path, into=copies / each.name), called) for each in assignments}
        let_ranks_in(copies, reading=True)
        untouched = frozenset(each.name for each in assignments if is_untouched(runs.root, each, submissions[each.name].files))
        begun = [each for each in assignments if each.name not in untouched]
        for flavour in flavours or dict.fromkeys(flavour for each in begun for flavour in each.flavours):
            runs.prepare(flavour)
        yield Observer(runs, {each.name: each for each in assignments}, submissions, untouched=untouched)
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def _read(assignment: Assignment, submission: Submission, called: str) -> Submission:
    """The submission with what it uses and may not, under the name that messages shall have for it."""
    return replace(submission, hits=hits(assignment, submission), origin=called or submission.origin)


@contextmanager
def opened_for_developer(root: Path, submission: str, *, out: Path, replay: bool) -> Iterator[tuple[Sequence[Assignment], Observer]]:
    """All assignments of the course around `root`, and an observer: what `pytest -p grader.judge.plugin` needs."""
    course = load(find_root(root))
    with opened_runs(course.root, out, replay=replay) as runs, taken_in(Path(submission), course.assignments, runs) as observer:
        yield course.assignments, observer


def environment() -> dict[str, str]:
    """What the marks were made with."""
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    system = f"{platform.system()} {platform.machine()}"
    return {"python": platform.python_version(), "system": system, "cores": str(num_cores()), **versions}
