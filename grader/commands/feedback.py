"""Commands that teach rather than mark: grading again on save, laws by their ids, hints one at a time, a run as a trace."""

from __future__ import annotations

from pathlib import Path

import click

from grader.commands.asked import ASSIGNMENT, KEYWORD, OUT, SUBMISSION, course_of, page_of, show
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
    return keep_watching(course, submission, assignments, page_of(), out=out, keyword=keyword, show=show)


@click.command()
@ASSIGNMENT
@with_blame
def laws(wanted: tuple[str, ...]) -> int:
    """Every law's id, claim, points and evidence, and what may not be used; no hints."""
    from grader.report.laws import list_laws

    list_laws(course_of(wanted)[1], page_of())
    return 0


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


@click.command()
@click.argument("key")
@click.option("--to", type=click.Path(path_type=Path), default=None, help="The file to write. [default: trace-KEY.json in the run folder]")
@OUT
@with_blame
def trace(key: str, to: Path | None, out: Path) -> int:
    """Write an observation's run for Perfetto (ui.perfetto.dev) or chrome://tracing; a failure prints its KEY."""
    from grader.pictures.chrome import write_trace

    click.echo(f"{write_trace(out, key, to)}: open it in ui.perfetto.dev or chrome://tracing; one unit of virtual time is 1 ms.")
    return 0


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist/site"), show_default=True, help="The folder for the pages.")
@with_blame
def site(out: Path) -> int:
    """Build the course's pages: every handout with its laws, and a map of topics, reading and libraries. No network, no script."""
    from grader.site import write_site

    pages = write_site(course_of(())[0], out)
    click.echo(f"{len(pages)} pages; open {pages[0]}")
    return 0
