"""Hints in tiers: a nudge, the concept with the handout's section, nearly the answer. One is told at a time."""

from __future__ import annotations

import difflib
import json
import time
from pathlib import Path

from grader.course import Course
from grader.errors import MachineError, UsageError
from grader.records import Assignment, Task
from grader.report.page import Page

RECORD = "hints.jsonl"  # in the run folder: a line for each hint that was told
SOURCE_INDENT = 8


def tell(course: Course, wanted: str, more: int, page: Page, out: Path) -> None:
    """Print hint number `more` (from 0) of the task that `wanted` names, and how to get the next; keep a record where the course wants one.

    wanted  a law's id as a failure shows it, or a task's
    Raises UsageError for a name that the course has not, or for more hints than there are.
    """
    assignment, task = _task(course, wanted)
    if more >= len(task.hints):
        raise UsageError(f"{task.id} has {len(task.hints)} hints, and you have asked for number {more + 1}.")
    if assignment.records_hints:
        _record(out, task, more)
    page.paragraph(f"{task.title}, hint {more + 1} of {len(task.hints)}", style="bold")
    page.paragraph(task.hints[more], indent=2)
    page.command(f"assignments/{assignment.name}/handout.md", lead="  read", indent=SOURCE_INDENT)
    if more + 1 < len(task.hints):
        page.command(f"make hint LAW={wanted} MORE={more + 1}", lead="  more", indent=SOURCE_INDENT)
    if assignment.records_hints:
        page.paragraph(f"Your course keeps a record of hints: {out / RECORD}", indent=2, style="dim")


def _task(course: Course, wanted: str) -> tuple[Assignment, Task]:
    known: dict[str, tuple[Assignment, Task]] = {}
    for assignment in course.assignments:
        for task in assignment.tasks:
            known |= dict.fromkeys([task.id, *(law.id for law in task.laws)], (assignment, task))
    if wanted not in known:
        ends = [name for name in known if name.endswith(f".{wanted}")]
        if len(ends) == 1:
            return known[ends[0]]
        close = ends or difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        examples = close or [course.assignments[0].tasks[0].laws[0].id]
        raise UsageError(f"No law or task is called {wanted!r}; a failure shows its law in brackets. Did you mean {' or '.join(examples)}?")
    return known[wanted]


def _record(out: Path, task: Task, more: int) -> None:
    line = {"task": task.id, "hint": more + 1, "of": len(task.hints), "at_s": round(time.time())}
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / RECORD).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
    except OSError as error:
        raise MachineError(f"{out / RECORD} can't be written: {error.strerror}") from error
