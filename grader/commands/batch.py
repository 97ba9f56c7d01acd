"""The command that grades a class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.commands.asked import ASSIGNMENT, JOBS, course_of, page_of
from grader.errors import UsageError
from grader.exits import EXIT_COURSE, EXIT_INTERRUPTED, EXIT_MACHINE, with_blame

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader.batch import Class
    from grader.batch.grade_class import OpenCrew
    from grader.batch.tally import Tally
    from grader.ledger import Row
    from grader.report.page import Page

PLATFORMS = ("gradescope", "moodle", "github", "canvas", "plain")


@click.command()
@click.argument("submissions", type=click.Path(path_type=Path))
@ASSIGNMENT
@click.option("--roster", type=click.Path(path_type=Path), default=None, help="CSV with a heading: who is in the class.")
@click.option("--layout", type=click.Choice(PLATFORMS), default=None, help="Whose download it is. [default: what it looks like]")
@JOBS
@click.option("--executor", type=click.Choice(["local", "slurm"]), default="local", show_default=True, help="Where gradings run.")
@click.option("--slurm", "settings", multiple=True, metavar="NAME=VALUE", help="For sbatch, such as gres=gpu:1; may be repeated.")
@click.option("--minutes", type=click.IntRange(1), default=60, show_default=True, help="One grading that takes longer is taken for stuck.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(".grade/class"), show_default=True, help="The folder of the class.")
@with_blame
def batch(
    submissions: Path, wanted: tuple[str, ...], roster: Path | None, layout: str | None, jobs: int,
    executor: str, settings: tuple[str, ...], minutes: int, out: Path,
) -> int:  # fmt: skip
    """Grade everything in SUBMISSIONS: a download of Gradescope, Canvas, Moodle or GitHub Classroom, or one thing for each student.

    The same command continues after an interruption, and grades only what has changed since.
    """
    from grader.batch import grade_class, read_roster

    course, assignments = course_of(wanted)
    page = page_of()
    people = read_roster(roster) if roster else None
    try:
        graded = grade_class(
            course, assignments, submissions, out, _opener(executor, jobs, 60.0 * minutes, settings),
            roster=people, layout=layout or "", told=_teller(page), remark=page.paragraph,
        )  # fmt: skip
    except KeyboardInterrupt:
        page.paragraph(f"Interrupted. What is known stands in {out}; the same command goes on from there.")
        return EXIT_INTERRUPTED
    return _concluded(page, graded, out)


def _opener(executor: str, num_jobs: int, limit_s: float, settings: tuple[str, ...]) -> OpenCrew:
    """Who grades, once it is known what all gradings have in common."""
    if executor == "slurm":
        try:
            from grader.batch.slurm import SlurmCrew
        except ModuleNotFoundError as absent:  # students' environments have none
            raise UsageError("--executor slurm needs submitit, which isn't here: .venv/bin/pip install submitit") from absent
        told = dict(each.lstrip("-").partition("=")[::2] for each in settings)
        return lambda job: SlurmCrew(job, num_jobs, limit_s, told)
    if settings:
        raise UsageError("--slurm says how Slurm's jobs are begun: it needs --executor slurm.")
    from grader.batch.local import LocalCrew

    return lambda job: LocalCrew(job, num_jobs, limit_s)


def _teller(page: Page) -> Callable[[Row, Tally], None]:
    def told(row: Row, tally: Tally) -> None:
        mark = f"{row.earned} of {row.possible}" if row.state == "marked" else f"{row.state}: {row.sentence}".rstrip(": ")
        page.paragraph(f"{row.student}: {mark}", lead=f"[{tally}] ")

    return told


def _concluded(page: Page, graded: Class, out: Path) -> int:
    counts = graded.tally.counts
    told = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    page.paragraph(f"{told}; rows and reports are in {out}.", style="bold")
    if graded.is_course_wrong:
        return EXIT_COURSE
    return EXIT_MACHINE if counts["machine"] else 0
