"""One export: the form that was asked for, into the file that was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import UsageError
from grader.gradebook import tables, worksheet
from grader.gradebook.book import Book
from grader.gradebook.cells import read_sheet
from grader.gradebook.settle import Finals
from grader.report.files import PRIVATE, write_bytes

EXPORTS = "exports"  # the room for what is written, in the folder of a class
TABLES = {"csv": (tables.to_csv, "marks.csv"), "markdown": (tables.to_markdown, "marks.md")}
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
    make, name = TABLES[order.form]
    target = _target(book, order, name)
    write_bytes(target, make(book, finals).encode("utf-8", "backslashreplace"), PRIVATE)
    return target, []


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
