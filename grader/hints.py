"""Hints in tiers: a nudge, the concept with the handout's section, nearly the answer. One is told at a time, of a law or of its task."""

from __future__ import annotations

import difflib
import json
import time
from pathlib import Path

from grader.course import Course
from grader.errors import MachineError, UsageError
from grader.records import Assignment, Law, Task
from grader.report.page import Page

RECORD = "hints.jsonl"  # in the run folder: a line for each hint that was told
SOURCE_INDENT = 8


def tell(course: Course, wanted: str, more: int, page: Page, out: Path) -> None:
    """Print hint number `more` (from 0) of what `wanted` names, and how to get the next; keep a record where the course wants one.

    wanted  a law's id as a failure shows it, or a task's; a law without hints of its own has its task's
    Raises UsageError for a name that the course has not, or for more hints than there are.
    """
    assignment, task, law = _named(course, wanted)
    of = law if law is not None and law.hints else task
    if more >= len(of.hints):
        raise UsageError(f"{of.id} has {len(of.hints)} hints, and you asked for number {more + 1}; the last is MORE={len(of.hints) - 1}.")
    if assignment.records_hints:
        _record(out, task, of, more)
    about = task.title if of is task else f"{task.title}, {of.id.rpartition('.')[2]}"
    page.paragraph(f"{about}: hint {more + 1} of {len(of.hints)}", style="bold")
    if law is not None and of is task:
        page.paragraph("This hint is for the whole task; the law has none of its own.", indent=2, style="dim")
    page.paragraph(of.hints[more], indent=2)
    page.command(f"assignments/{assignment.name}/handout.md", lead="  read", indent=SOURCE_INDENT)
    if more + 1 < len(of.hints):
        page.command(f"make hint LAW={wanted} MORE={more + 1}", lead="  more", indent=SOURCE_INDENT)
    elif of is law:
        page.command(f"make hint LAW={task.id}", lead="  task", indent=SOURCE_INDENT)
    if assignment.records_hints:
        page.paragraph(f"Your course keeps a record of hints: {out / RECORD}", indent=2, style="dim")


def _named(course: Course, wanted: str) -> tuple[Assignment, Task, Law | None]:
    known: dict[str, tuple[Assignment, Task, Law | None]] = {}
    for assignment in course.assignments:
        for task in assignment.tasks:
            known |= {task.id: (assignment, task, None)} | {law.id: (assignment, task, law) for law in task.laws}
    if not wanted:
        raise UsageError("Which law or task? A failure names the command for its hint; make laws A=... lists all laws.")
    if wanted not in known:
        ends = [name for name in known if name.endswith(f".{wanted}")]
        if len(ends) == 1:
            return known[ends[0]]
        close = ends or difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        examples = close or [course.assignments[0].tasks[0].laws[0].id]
        raise UsageError(f"No law or task is called {wanted!r}; a failure shows its law in brackets. Did you mean {' or '.join(examples)}?")
    return known[wanted]


def _record(out: Path, task: Task, of: Task | Law, more: int) -> None:
    law = {"law": of.id} if of is not task else {}
    line = {"task": task.id, **law, "hint": more + 1, "of": len(of.hints), "at_s": round(time.time())}
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / RECORD).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
    except OSError as error:
        raise MachineError(f"{out / RECORD} can't be written: {error.strerror}") from error
