"""One export: the form that was asked for, into the file that was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import UsageError
from grader.gradebook import per_student, tables, worksheet
from grader.gradebook.book import Book
from grader.gradebook.cells import read_sheet
from grader.gradebook.settle import Finals
from grader.ledger import LEDGER_NAME
from grader.report import github
from grader.report.files import PRIVATE, read_public, write_bytes

EXPORTS = "exports"  # the room for what is written, in the folder of a class
TABLES = {"csv": (tables.to_csv, "marks.csv"), "markdown": (tables.to_markdown, "marks.md")}
GITHUB = "github"
PLATFORMS = {"canvas": worksheet.CANVAS, "moodle": worksheet.MOODLE}


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for."""

    form: str
    into: Path | None = None
    to: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    may_scale: bool = False


def write(book: Book, finals: Finals, order: Order) -> tuple[Path, list[str]]:
    """Write the marks; returns where to, and what has to be said. UsageError if the order can't be carried out."""
    if order.form in PLATFORMS:
        return _filled(book, finals, order)
    if order.into or order.columns or order.by or order.may_scale:
        raise UsageError(f"--into, --column, --by and --scale fill a platform's file; {order.form} makes one of its own.")
    if order.form in per_student.FORMS:
        target = order.to or book.folder / EXPORTS / order.form
        return target, per_student.write_class(book, finals, order.form, target)
    if order.form not in TABLES:
        seen = f"{order.form} is of one run folder, and {book.folder} is a class"
        raise UsageError(f"{seen}: name a run folder, such as .grade/latest, or another --format.")
    make, name = TABLES[order.form]
    target = _target(book, order, name)
    write_bytes(target, make(book, finals).encode("utf-8", "backslashreplace"), PRIVATE)
    return target, []


def write_run(folder: Path, form: str, to: Path | None) -> str:
    """One run folder's report in a platform's form: what is to be printed; with `to`, that file has it and nothing is.

    github: annotations are printed, for they are commands to the runner; `to`, such as $GITHUB_STEP_SUMMARY, gets the summary appended.
    Raises UsageError if the form is a class's, or there is no report.
    """
    if form not in (GITHUB, *per_student.FORMS):
        raise UsageError(f"{form} is of a class, and {folder} has no {LEDGER_NAME}: name the folder that `grader batch` wrote.")
    report = read_public(folder)
    if form == GITHUB:
        if to is not None:
            with to.open("a", encoding="utf-8") as stream:
                stream.write(github.to_summary(report))
        return github.to_annotations(report, report.origin)
    text = per_student.FORMS[form][1](report, None, [])
    if to is None:
        return text
    write_bytes(to, text.encode("utf-8", "backslashreplace"), PRIVATE)
    return ""


def _filled(book: Book, finals: Finals, order: Order) -> tuple[Path, list[str]]:
    platform = PLATFORMS[order.form]
    if order.into is None:
        raise UsageError(f"Name the file that you exported from {platform.name}: --into FILE. It is read, and a filled copy is written.")
    sheet = read_sheet(order.into)
    filling = worksheet.fill(sheet, platform, book, finals, columns=order.columns, by=order.by, may_scale=order.may_scale)
    target = _target(book, order, f"{order.form}-{order.into.name}")
    write_bytes(target, sheet.bytes(), PRIVATE)
    return target, [*filling.remarks, f"{filling.num_set} cells were set; column {filling.by!r} said who is who"]


def _target(book: Book, order: Order, name: str) -> Path:
    target = order.to or book.folder / EXPORTS / name
    if order.into is not None and target.exists() and target.samefile(order.into):
        raise UsageError(f"{target} is your own file, which is not changed: name another with --to.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{target.parent} can't be made a folder ({error.strerror}); name another file with --to.") from error
    return target
