"""Commands for after a class was graded: marks out, marks explained, marks judged anew, the class seen as a whole."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.commands.asked import ASSIGNMENT, course_of, page_of, teller
from grader.errors import UsageError
from grader.exits import EXIT_MACHINE, with_blame

if TYPE_CHECKING:
    from grader.course import Course
    from grader.gradebook.book import Book
    from grader.gradebook.settle import Finals
    from grader.gradebook.terms import Terms

FORMS = ("csv", "markdown", "canvas", "moodle", "gradescope", "prairielearn", "autolab", "junit", "github")
CLASS = click.argument("folder", metavar="CLASS", type=click.Path(path_type=Path, file_okay=False))
MORE = click.option("--and", "more", multiple=True, type=click.Path(path_type=Path, file_okay=False),
                    help="Another folder of the same class, with other assignments; may be repeated.")  # fmt: skip
TERMS = click.option("--terms", "terms_file", type=click.Path(path_type=Path), default=None,
                     help="Deadlines, late policy, extensions, overrides. [default: terms.yaml in CLASS, if there is one]")  # fmt: skip
SUBMISSIONS = click.option("--submissions", type=click.Path(path_type=Path), required=True, help="The folder that grader batch graded.")


@click.command()
@CLASS
@MORE
@ASSIGNMENT
@TERMS
@click.option("--format", "form", type=click.Choice(FORMS), default="csv", show_default=True)
@click.option("--into", type=click.Path(path_type=Path), default=None, help="canvas, moodle: the platform's file, copied and filled.")
@click.option("--to", type=click.Path(path_type=Path), default=None, help="What to write. [default: a file in CLASS/exports]")
@click.option("--column", "columns", multiple=True, metavar="ASSIGNMENT=HEADER", help="canvas, moodle: the column of an assignment.")
@click.option("--by", default="", metavar="HEADER", help="canvas, moodle: the column that says who a row is.")
@click.option("--scale", is_flag=True, help="canvas, moodle: convert marks where the file has another maximum.")
@click.option("--allow-blanks", is_flag=True, help="Exit 0 although the machine still owes marks.")
@with_blame
def export(folder: Path, more: tuple[Path, ...], wanted: tuple[str, ...], terms_file: Path | None, form: str, into: Path | None,
           to: Path | None, columns: tuple[str, ...], by: str, scale: bool, allow_blanks: bool) -> int:  # fmt: skip
    """Write the final marks of a class for a platform, and their changes into the trail.

    CLASS may also be a run folder, such as .grade/latest: its report is then written in the form of a platform's autograder.
    """
    from grader.gradebook.export import Order, write, write_run
    from grader.gradebook.settle import doubts
    from grader.gradebook.trail import record

    if (folder / "report.json").is_file():
        click.echo(write_run(folder, form, to), nl=False)
        return 0
    course, book, terms, finals = _settled(folder, more, wanted, terms_file)
    order = Order(form, into, to, dict(_column(each, course) for each in columns), by, scale)
    written, remarks = write(book, finals, order)
    changes = record(folder, finals)
    page = page_of()
    for remark in [*remarks, *doubts(finals, terms)]:
        page.paragraph(remark, lead="! ", lead_style="yellow")
    page.paragraph(f"{written}: {len(book.students)} students; new or changed marks: {len(changes)}.")
    owed = [final for final in finals.values() if final.is_owed]
    for final in owed:
        page.paragraph(f"{final.entry.student}, {final.entry.assignment}: {final.steps[-1].sentence}", lead="✗ ", lead_style="red")
    if owed and not allow_blanks:
        page.paragraph(f"Left blank, because the machine owes them: {len(owed)}. Grade them (grader batch goes on where it "
                       "stopped), or say --allow-blanks.")  # fmt: skip
        return EXIT_MACHINE
    return 0


@click.command()
@CLASS
@click.argument("student")
@MORE
@ASSIGNMENT
@TERMS
@with_blame
def explain(folder: Path, student: str, more: tuple[Path, ...], wanted: tuple[str, ...], terms_file: Path | None) -> int:
    """How STUDENT's final marks came about, step by step, and how they have changed."""
    from grader.gradebook.book import nearest
    from grader.gradebook.explain import show

    _, book, _, finals = _settled(folder, more, wanted, terms_file)
    if student not in book.students:
        raise UsageError(f"{student!r} is no student of {folder}: {nearest(student, book.students)}")
    show(book, finals, student, page_of())
    return 0


@click.command()
@CLASS
@MORE
@ASSIGNMENT
@with_blame
def insight(folder: Path, more: tuple[Path, ...], wanted: tuple[str, ...]) -> int:
    """What the class says about the laws: a page (class.html) and a table (laws.csv) for the staff."""
    from grader.gradebook.class_page import write_page, write_table
    from grader.gradebook.insight import analyse

    page, analyses = page_of(), analyse(book := _book(folder, more, wanted))
    for each in analyses:
        page.paragraph(f"{each.title}: {len(each.marks)} submissions, median {each.median:g} of {each.possible}", style="bold")
        for item in (item for item in each.items if item.remark):
            page.paragraph(f"{item.law}: {item.remark} ({item.num_passed} of {item.num_judged} pass)", lead="! ", lead_style="yellow")
    page.paragraph(f"{write_page(book, analyses)} and {write_table(book, analyses)}: for the staff, and readable by you alone.")
    return 0


@click.command()
@CLASS
@SUBMISSIONS
@ASSIGNMENT
@TERMS
@click.option("--accept", is_flag=True, help="Write the new marks; without it, nothing is written.")
@click.option("--why", default="", metavar="TEXT", help="For the trail: what has changed in the course.")
@with_blame
def regrade(folder: Path, submissions: Path, wanted: tuple[str, ...], terms_file: Path | None, accept: bool, why: str) -> int:
    """Judge a class by today's tests, from what is stored of it: who gains, who loses, by which law."""
    from grader.gradebook import regrade as anew
    from grader.gradebook.trail import record
    from grader.ledger import alone_in

    if accept and not why.strip():
        raise UsageError("--accept needs --why: the trail says of each changed mark why it was.")
    course, chosen = course_of(wanted)
    page = page_of()
    with alone_in(folder) if accept else nullcontext():  # from the first look on: a batch may know of another mark meanwhile
        judged = anew.regrade(course, folder, submissions, chosen, teller(page))
        anew.show(judged, page)
        if accept and judged.changes:
            record(folder, _settled(folder, (), (), terms_file)[3])  # the marks until now, should none have been exported
            anew.accept(folder, judged)
            record(folder, _settled(folder, (), (), terms_file)[3],
                   why={(change.student, change.assignment): f"regraded ({why}): {change.why}" for change in judged.changes})  # fmt: skip
            page.paragraph("Written. Earlier reports and marks are kept; `grader explain` shows them.")
        elif judged.changes:
            page.paragraph("Nothing was written: --accept --why TEXT does.")
    return 0


@click.command()
@CLASS
@SUBMISSIONS
@ASSIGNMENT
@with_blame
def similar(folder: Path, submissions: Path, wanted: tuple[str, ...]) -> int:
    """Which submissions are alike beyond what is given: a list for a person to look into, and never a mark."""
    from grader.gradebook.similar import LEAST_SHARE, compare, write_table

    course, chosen = course_of(wanted)
    book, page = _book(folder, (), wanted), page_of()
    likeness = compare(course, book, submissions, chosen, teller(page))
    for pair in likeness.pairs:
        one, other = pair.students
        page.spread(f"{pair.assignment}: {one} and {other}", f"{pair.share:.0%} of {pair.num_shared / pair.share:.0f}")
        page.paragraph(f"{pair.lines[0]} | {pair.lines[1]}", indent=2, style="dim")
    for sentence in likeness.left_out:
        page.paragraph(f"not compared: {sentence}", lead="! ", lead_style="yellow")
    page.paragraph(f"Pairs that share at least {LEAST_SHARE:.0%}: {len(likeness.pairs)}; submissions compared: {likeness.num_compared}. "
                   f"{write_table(book, likeness)} is readable by you alone.")  # fmt: skip
    return 0


COMMANDS = (export, explain, insight, regrade, similar)


def _book(folder: Path, more: tuple[Path, ...], wanted: tuple[str, ...]) -> Book:
    """The class in its folders; of the assignments, those that are meant."""
    from grader.gradebook.book import open_book

    course, chosen = course_of(wanted)
    return open_book((folder, *more), course.assignments, [each.name for each in chosen] if wanted else ())


def _settled(folder: Path, more: tuple[Path, ...], wanted: tuple[str, ...], file: Path | None) -> tuple[Course, Book, Terms, Finals]:
    """The class in its folders, and its marks under its terms."""
    from grader.gradebook.book import open_book
    from grader.gradebook.settle import settle
    from grader.gradebook.terms import TERMS_NAME, Terms, load

    course = course_of(wanted)[0]
    # Slip days and what is dropped depend on all assignments, so all are settled; then those that are meant are taken.
    whole = open_book((folder, *more), course.assignments)
    file = file or (folder / TERMS_NAME if (folder / TERMS_NAME).exists() else None)
    terms = load(file, whole) if file else Terms()
    finals = settle(whole, terms)
    if not wanted:
        return course, whole, terms, finals
    book = _book(folder, more, wanted)
    return course, book, terms, {key: finals[key] for key in book.entries}


def _column(text: str, course: Course) -> tuple[str, str]:
    from grader.course import select

    assignment, sign, header = text.partition("=")
    if not sign or not assignment or not header:
        raise UsageError(f"--column {text!r} is not ASSIGNMENT=HEADER, such as 'collectives=Rings (1234)'.")
    return select(course, [assignment])[0].name, header
