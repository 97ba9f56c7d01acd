"""What several commands ask in the same words, and the first things that they do with the answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.devices import num_cores
from grader.exits import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader.course import Course
    from grader.records import Assignment, Report
    from grader.report.page import Page

ASSIGNMENT = click.option(
    "--assignment", "-a", "wanted", multiple=True, metavar="NAME|NUMBER", help="This one only; may be repeated. [default: all]"
)
SUBMISSION = click.option(
    "--submission", type=click.Path(path_type=Path), default=Path("starter"), show_default=True, help="What to grade."
)
OUT = click.option("--out", type=click.Path(path_type=Path), default=LATEST, show_default=True, help="The run folder.")
JOBS = click.option(
    "--jobs", "-j", type=click.IntRange(1), default=num_cores, show_default="one per core", help="Gradings that run side by side."
)
KEYWORD = click.option("-k", "keyword", default=None, metavar="WORDS", help="A task, a law, or words of tests as pytest's -k takes them.")


def course_of(wanted: tuple[str, ...]) -> tuple[Course, tuple[Assignment, ...]]:
    """The course around the working folder, and the assignments that are meant."""
    from grader.course import find_root, load, select

    course = load(find_root())
    return course, select(course, wanted)


def page_of() -> Page:
    """The terminal, or whatever stands in its place."""
    from grader.report.page import Page

    return Page(sys.stdout)


def teller(page: Page) -> Callable[[str], None]:
    """Says each step on a terminal, and nothing into a file."""
    return (lambda step: page.paragraph(step, style="dim")) if page.console.is_terminal else lambda step: None


def show(report: Report, out: Path) -> None:
    """Write report.html beside the report, from what the run folder has stored. A page that fails takes no marks with it."""
    from contextlib import closing

    from grader.pictures.web import write_page
    from grader.store import STORE_NAME, Store

    try:
        with closing(Store(out / STORE_NAME)) as store:
            write_page(report, store, out)
    except Exception as error:
        what = f"report.html could not be made ({type(error).__name__}: {error})"
        click.echo(f"{what}. The marks stand; please tell whoever keeps the course.", err=True)
