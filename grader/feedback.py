"""Commands that teach rather than mark: grading again on save, and hints, one at a time."""

from __future__ import annotations

from pathlib import Path

import click

from grader.asked import ASSIGNMENT, KEYWORD, OUT, SUBMISSION, course_of, page_of
from grader.exits import with_blame


@click.command()
@ASSIGNMENT
@SUBMISSION
@OUT
@KEYWORD
@with_blame
def watch(wanted: tuple[str, ...], submission: Path, out: Path, keyword: str | None) -> int:
    """Grade again whenever a file is saved; what failed last is judged first. Ctrl-C ends it."""
    from grader.watch import watch as keep_watching

    course, assignments = course_of(wanted)
    return keep_watching(course, submission, assignments, page_of(), out=out, keyword=keyword)


@click.command()
@click.argument("law")
@click.option("--more", "-m", count=True, help="One hint further; may be repeated.")
@OUT
@with_blame
def hint(law: str, more: int, out: Path) -> int:
    """A nudge towards LAW (or a task); with --more the concept and its section in the handout; with --more --more nearly the answer."""
    from grader.hints import tell

    tell(course_of(())[0], law, more, page_of(), out)
    return 0
