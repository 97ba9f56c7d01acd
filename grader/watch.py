"""`grader watch`: grades again whenever a file is saved. Processes stay warm, and what failed last is judged first."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from watchfiles import PythonFilter
from watchfiles import watch as changes_in

from grader.course import Course
from grader.errors import UsageError
from grader.exits import EXIT_INTERRUPTED
from grader.observe.live import Runs
from grader.pipeline import grade, opened_runs
from grader.records import Assignment, LawMark, Report, Task
from grader.report.brief import render
from grader.report.files import write_all
from grader.report.page import Page

Show = Callable[[Report, Path], None]
FIRST_LOOK_MS = 200  # the system watches from here on, so that nothing saved during the first grading is missed


def watch(
    course: Course, submission: Path, assignments: Sequence[Assignment], page: Page, *, out: Path, keyword: str | None, show: Show
) -> int:
    """Grade `submission` now and after every save, and `show` each report, until Ctrl-C. Raises UsageError if there is no such thing."""
    if not submission.exists():
        raise UsageError(f"{submission} does not exist; name the folder that you work in with --submission (make: SUBMISSION=...)")
    try:
        with opened_runs(course.root, out) as runs:
            for flavour in dict.fromkeys(flavour for each in assignments for flavour in each.flavours):
                runs.prepare(flavour)  # also where all stubs stand still: the first save shall not wait for torch
            rounds = Rounds(course, submission, assignments, page, out, keyword, runs, show)
            for _ in saves(submission, out):
                if not rounds.one():
                    break
                page.paragraph("waiting for the next save; Ctrl-C ends", style="dim")
    except KeyboardInterrupt:
        pass
    return EXIT_INTERRUPTED


def saves(submission: Path, out: Path) -> Iterator[None]:
    """Once at the beginning, then once for every burst of saves in `submission`; what the grader itself writes into `out` doesn't count."""
    folder, only = (submission, None) if submission.is_dir() else (submission.parent, submission.resolve())
    python = PythonFilter(ignore_paths=[out.resolve()], extra_extensions=[".ipynb"])
    is_first = True
    for changes in changes_in(folder.resolve(), watch_filter=None if only else python, rust_timeout=FIRST_LOOK_MS, yield_on_timeout=True):
        if is_first or any(only in (None, Path(path)) for _, path in changes):
            is_first = False
            yield


@dataclass(slots=True)
class Rounds:
    """One grading after another, and what the last one left to be mended."""

    course: Course
    submission: Path
    assignments: Sequence[Assignment]
    page: Page
    out: Path
    keyword: str | None
    runs: Runs
    show: Show
    failed: list[str] = field(default_factory=list)  # laws, in the course's order

    def one(self) -> bool:
        """Judge the laws that failed last; once all of them pass, every law of what is started. False after Ctrl-C."""
        began_s = time.monotonic()
        waiting = [task for each in self.assignments for task in each.tasks if is_untouched(task, each, self.submission)]
        started = [law.id for each in self.assignments for task in each.tasks if task not in waiting for law in task.laws]
        again = [law for law in self.failed if law in started]
        try:
            judged, report = again, self._grade(again) if again else None
            if report is None or not (report.interrupted or failures(report)):
                judged, report = started, self._grade(started)
        except UsageError as error:  # a file that is half saved, or a word of -k that selects nothing now
            self.page.paragraph(str(error), style="yellow")
            return True
        if report.interrupted:
            return False
        failed = failures(report)
        self.failed = [law.id for law in failed]
        render(report, failed, waiting, self.page, is_whole=judged is started, wall_s=time.monotonic() - began_s)
        self.show(report, self.out)
        return True

    def _grade(self, laws: Collection[str]) -> Report:
        report = grade(self.course, self.submission, self.assignments, laws=laws, keyword=self.keyword, runs=self.runs, until_failed=True)
        write_all(report, self.out)
        return report


def failures(report: Report) -> list[LawMark]:
    """Laws that failed, or that an error of ours kept from being judged."""
    return [law for law in report.laws() if law.cases and law.verdict in ("failed", "error")]


def is_untouched(task: Task, assignment: Assignment, submission: Path) -> bool:
    """Whether the stub still stands wherever the starter had it. An archive isn't looked into: it counts as begun."""
    files = [submission / name for name in assignment.files]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    return sum(text.count(task.stub.splitlines()[0]) for text in texts) >= len(task.regions)
