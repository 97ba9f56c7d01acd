"""The command that grades a class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.asked import ASSIGNMENT, course_of, page_of
from grader.devices import num_cores
from grader.exits import EXIT_COURSE, EXIT_INTERRUPTED, EXIT_MACHINE, with_blame

if TYPE_CHECKING:
    from grader.batch import Class
    from grader.batch.tally import Tally
    from grader.ledger import Row
    from grader.report.page import Page

PLATFORMS = ("gradescope", "moodle", "github", "canvas", "plain")


@click.command()
@click.argument("submissions", type=click.Path(path_type=Path))
@ASSIGNMENT
@click.option("--roster", type=click.Path(path_type=Path), default=None, help="CSV with a heading: who is in the class.")
@click.option("--layout", type=click.Choice(PLATFORMS), default=None, help="Whose download it is. [default: what it looks like]")
@click.option("--jobs", "-j", type=click.IntRange(1), default=num_cores, show_default="one per core", help="Gradings side by side.")
@click.option("--minutes", type=click.IntRange(1), default=60, show_default=True, help="One grading that takes longer is taken for stuck.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(".grade/class"), show_default=True, help="The folder of the class.")
@with_blame
def batch(
    submissions: Path, wanted: tuple[str, ...], roster: Path | None, layout: str | None, jobs: int, minutes: int, out: Path
) -> int:
    """Grade everything in SUBMISSIONS: a download of Gradescope, Canvas, Moodle or GitHub Classroom, or one thing for each student.

    The same command continues after an interruption, and grades only what has changed since.
    """
    from grader.batch import grade_class, read_roster
    from grader.batch.local import LocalCrew

    course, assignments = course_of(wanted)
    page = page_of()
    people = read_roster(roster) if roster else None
    try:
        graded = grade_class(
            course, assignments, submissions, out, lambda job: LocalCrew(job, jobs, 60.0 * minutes),
            roster=people, layout=layout or "", told=_teller(page), remark=page.paragraph,
        )  # fmt: skip
    except KeyboardInterrupt:
        page.paragraph(f"Interrupted. What is known stands in {out}; the same command goes on from there.")
        return EXIT_INTERRUPTED
    return _concluded(page, graded, out)


def _teller(page: Page):  # type: ignore[no-untyped-def]
    def told(row: Row, tally: Tally) -> None:
        mark = f"{row.earned} of {row.possible}" if row.state == "marked" else f"{row.state}: {row.sentence}".rstrip(": ")
        page.paragraph(f"{row.student}: {mark}", lead=f"[{tally}] ")

    return told


def _concluded(page: Page, graded: Class, out: Path) -> int:
    counts = graded.tally.counts
    page.paragraph(", ".join(f"{number} {state}" for state, number in sorted(counts.items())) + f"; rows and reports are in {out}.", style="bold")
    if graded.is_course_wrong:
        return EXIT_COURSE
    return EXIT_MACHINE if counts["machine"] else 0
