"""Commands about speed: race a submission beside its peers on this machine's GPU, and show what races have told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.commands.asked import ASSIGNMENT, OUT, SUBMISSION, course_of, page_of
from grader.errors import UsageError
from grader.exits import with_blame

if TYPE_CHECKING:
    from grader.races.book import Book
    from grader.report.page import Page

LEADS = {"judged": "✓ ", "refused": "✗ ", "inconclusive": "? ", "not_judged": "– "}


@click.command()
@ASSIGNMENT
@SUBMISSION
@OUT
@click.option("--only", default="", metavar="WORD", help="Only races whose name contains this.")
@click.option("--replay", is_flag=True, help="Judge the races that the run folder has stored; start nothing.")
@with_blame
def race(wanted: tuple[str, ...], submission: Path, out: Path, only: str, replay: bool) -> int:
    """Race a submission beside torch's own kernels on this machine's GPU: speed marks, apart from the points."""
    from grader import devices
    from grader.observe.profile import GpuProfile
    from grader.pipeline import opened_runs
    from grader.race_stage import book_of, race_all
    from grader.races.book import write

    course, assignments = course_of(wanted)
    page, profile = page_of(), GpuProfile(devices.found())
    if not any(only in each.id for assignment in assignments for each in assignment.races):
        raise UsageError("No race has that name; assignments with races say so under `races:` in their assignment.yaml.")
    with opened_runs(course.root, out, replay=replay) as runs:
        marks = race_all(course, submission, assignments, runs=runs, profile=profile, only=only,
                         told=lambda step: page.paragraph(step, style="dim"))  # fmt: skip
        book = book_of(course, submission, assignments, marks, profile, runs)
    write(book, out)
    _show(book, page)
    return 1 if any(mark.state == "refused" for mark in marks) else 0


@click.command()
@click.argument("found", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), default=Path(".grade/leaderboard"), show_default=True, help="For page and CSV.")
@click.option("--names", type=click.Path(path_type=Path, exists=True), default=None, help="CSV of folder,name; without it nobody is named.")
@with_blame
def leaderboard(found: tuple[Path, ...], out: Path, names: Path | None) -> int:
    """A page and a CSV of the races in run folders (or in folders of them): by device, with their noise and their history."""
    from grader.leaderboard import entries_of, read_names, write

    entries = entries_of(found, read_names(names) if names else None)
    for path in write(entries, out):
        click.echo(str(path))
    return 0


def _show(book: Book, page: Page) -> None:
    for mark in book.marks:
        earned = f"{mark.earned:g} of {mark.possible}" if mark.state in ("judged", "refused") else mark.state.replace("_", " ")
        page.paragraph(f"{mark.race}: {earned}. {mark.sentence}", lead=LEADS[mark.state])
        for finding in mark.findings:
            page.paragraph(finding, lead="    ", style="dim")
    page.paragraph(f"{book.earned:g} of {book.possible} speed marks; they stand beside the points and change none of them.", style="bold")
