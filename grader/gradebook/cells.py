"""Comma-separated values: other people's files, of which single cells are set and no other byte changes, and our own, safe to open."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import UsageError

DELIMITERS = ",;\t|"
# A spreadsheet runs a cell that begins so, in some places with signs of double width (OWASP: CSV injection); and one that splits lines at
# semicolons or tabs, as other languages' do, or sees no quotes, begins a cell in the middle of ours.
SIGNS = "=+@\\-" + "".join(chr(ord(sign) + 0xFEE0) for sign in "=+@-")
FORMULA = re.compile(rf"\A(?=[\t\r\n])|(?:\A|(?<=[,;\t\r\n]))(?=[^\S\t\r\n]*[{SIGNS}])")
BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@dataclass(slots=True)
class Sheet:
    """A file of rows. A cell is kept as it was written, quotes and all, until it is set."""

    path: Path
    delimiter: str
    encoding: str
    bom: bytes
    rows: list[list[str]] = field(default_factory=list)  # the cells' raw text
    ends: list[str] = field(default_factory=list)  # each row's line end

    def text(self, row: int, column: int) -> str:
        """A cell's value; "" where the row is too short to have it."""
        raw = self.rows[row][column] if column < len(self.rows[row]) else ""
        return raw[1:-1].replace('""', '"') if len(raw) > 1 and raw[0] == raw[-1] == '"' else raw

    def set(self, row: int, column: int, value: str) -> None:
        """Give a cell another value; the row grows if it is too short. An equal value leaves its spelling."""
        cells = self.rows[row]
        cells.extend([""] * (column + 1 - len(cells)))
        if self.text(row, column) != value:
            was_quoted = cells[column].startswith('"')
            cells[column] = _quoted(value) if was_quoted or re.search(rf'["\r\n{re.escape(self.delimiter)}]', value) else value

    def bytes(self) -> bytes:
        """The file."""
        lines = (self.delimiter.join(cells) + end for cells, end in zip(self.rows, self.ends, strict=True))
        return self.bom + "".join(lines).encode(self.encoding)


def read_sheet(path: Path) -> Sheet:
    """Read a file, whatever its delimiter, byte-order mark and line ends. UsageError if it can't be read or a quote isn't closed."""
    try:
        return parse_sheet(path.read_bytes(), path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error


def parse_sheet(raw: bytes, path: Path) -> Sheet:
    """As `read_sheet`, of bytes; `path` is for sentences."""
    bom = next((mark for mark in BOMS if raw.startswith(mark)), b"")
    encoding = BOMS.get(bom, "utf-8")
    try:
        text = raw[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not {encoding}: {error.reason} at byte {error.start}. Save it as “CSV UTF-8”.") from None
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    sheet = Sheet(path, max(DELIMITERS, key=header.count), encoding, bom)
    _split(text, sheet)
    return sheet


def table(rows: Iterable[Sequence[str]]) -> str:
    """Our own rows as CSV (RFC 4180): quoted where needed, and no cell that a spreadsheet would run."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerows([guarded(cell) for cell in row] for row in rows)
    return stream.getvalue()


def guarded(text: str) -> str:
    """`text` that a spreadsheet shows and doesn't run: an apostrophe goes before what would begin a formula. Numbers stay numbers."""
    return text if re.fullmatch(r"-?\d+(\.\d+)?", text) else FORMULA.sub("'", text)


def _split(text: str, sheet: Sheet) -> None:
    """Cut `text` into raw cells: a quote opens only at a cell's beginning, and within quotes everything is the cell's."""
    cell = re.compile(rf'("(?:[^"]|"")*"|(?!")[^{re.escape(sheet.delimiter)}\r\n]*)({re.escape(sheet.delimiter)}|\r\n|\r|\n|\Z)')
    cells: list[str] = []
    at = 0
    while at < len(text) or cells:
        found = cell.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise UsageError(f"{sheet.path}:{line}: a quoted cell has no end, or something stands after its end. Save it as CSV once more.")
        cells.append(found[1])
        at = found.end()
        if found[2] != sheet.delimiter:
            sheet.rows.append(cells)
            sheet.ends.append(found[2])
            cells = []


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
