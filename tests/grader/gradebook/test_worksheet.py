"""Filling an instructor's file: their cells, and no other byte; who can't be filled is named."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.errors import UsageError
from grader.gradebook.book import Book, open_book
from grader.gradebook.cells import guarded, parse_sheet, read_sheet, table
from grader.gradebook.settle import settle
from grader.gradebook.tables import to_markdown
from grader.gradebook.terms import Said, Terms
from grader.gradebook.worksheet import CANVAS, MOODLE, Filling, Platform, fill
from grader.ledger import Row
from tests.grader.gradebook.conftest import COURSE, marked, write_class

# As Canvas exports it: Instructure, "How do I export grades in the Gradebook?".
CANVAS_FILE = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Rings (4711),Data parallel (4712),Final Score\r\n"
    ",,,,,Manual Posting,,\r\n"
    '    Points Possible,,,,,100.00,100.00,(read only)\r\n'
    '"Lovelace, Ada",17,0042,ada,"A ""early""",,,12.5\r\n'
    '"Noether, Emmy",18,0043,emmy,B,50,,\r\n'
    '"Student, Test",99,,b1f,A,,,\r\n'
)
# As Moodle gives it: MoodleDocs, "Assignment settings", with a byte-order mark.
MOODLE_FILE = (
    "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (grade),Feedback comments\n"
    'Participant 17,Ada Lovelace,ada@x.org,Submitted,,"100,00",Yes,-,"line one\nline two"\n'
    'Participant 18,Ada Lovelace,other@x.org,Submitted,3,"100,00",No,-,\n'
)


def filled(path: Path, text: str, platform: Platform, book: Book, **options: object) -> tuple[str, Filling]:
    """The file's text after filling, with its bytes' BOM and line ends."""
    path.write_bytes(text.encode())
    sheet = read_sheet(path)
    filling = fill(sheet, platform, book, settle(book, Terms()), **({"columns": {}} | options))
    return sheet.bytes().decode(), filling


def test_canvas_gets_its_cells_and_nothing_else(tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """Quotes, rows above the students and other columns come back byte for byte; an id keeps its zeros."""
    book = book_of(marked("0042", 80, 90), marked("0043", 70, 0), marked("0044", 1, 1))
    text, filling = filled(tmp_path / "c.csv", CANVAS_FILE, CANVAS, book)
    expected = CANVAS_FILE.replace('early""",,,', 'early""",80,90,').replace("B,50,,", "B,70,0,")
    assert text == expected
    assert (filling.by, filling.num_set) == ("SIS User ID", 4)
    assert filling.remarks == ["0044 is in the class and not in c.csv", "Student, Test (no SIS User ID) is in c.csv and not in the class"]


def test_no_mark_leaves_what_stands(tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """A machine's failure is never a zero, and an earlier mark stands until there is a new one."""
    broken = Row("0043", state="machine", sentence="disk full")
    text, filling = filled(tmp_path / "c.csv", CANVAS_FILE, CANVAS, book_of(marked("0042", 80, 90), broken))
    assert "B,50,,\r\n" in text
    assert filling.remarks[0] == "0043 has no mark in data_parallel: the grader's machine failed: disk full: no mark"
    assert filling.remarks[1].endswith("the cell keeps '50'")


def test_who_is_excused_is_excused_there(tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """Canvas reads EX; Moodle has no word for it, and its cell stays."""
    book = book_of(marked("0042", 80, 90))
    terms = replace(Terms(), excused={("0042", "rings"): Said("A. Prof", "ill")})
    sheet = parse_sheet(CANVAS_FILE.encode(), tmp_path / "c.csv")
    fill(sheet, CANVAS, book, settle(book, terms), columns={})
    assert [sheet.text(3, column) for column in (5, 6)] == ["EX", "90"]


def test_moodle_is_filled_by_participant_with_its_decimal_comma(tmp_path: Path) -> None:
    """Students of one name are told apart; what Moodle has locked is named; the byte-order mark stays."""
    rows = [Row(student, "Ada Lovelace", state="marked", marks={"rings": (points, 100)}) for student, points in (("17", 71), ("18", 9))]
    book = _one(tmp_path, *rows)
    text, filling = filled(tmp_path / "m.csv", MOODLE_FILE.replace("100,00", "50,00"), MOODLE, book, may_scale=True)
    assert text == MOODLE_FILE.replace("100,00", "50,00").replace('Submitted,,"', 'Submitted,"35,5","')
    assert filling.by == "Identifier"
    assert filling.remarks == ["18: Moodle says that the mark can't be changed; it stays '3'"]


def test_addresses_find_students_unless_two_share_one(tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """Whatever names exactly one student will do."""
    rows = [Row(name, email=email, state="marked", marks={"rings": (5, 100)}) for name, email in
            (("a1", "ADA@x.org"), ("b1", "other@x.org"), ("b2", "other@x.org"))]  # fmt: skip
    _, filling = filled(tmp_path / "m.csv", MOODLE_FILE, MOODLE, _one(tmp_path, *rows))
    assert (filling.by, filling.num_set) == ("Email address", 1)
    assert {f"{student} is in the class and not in m.csv" for student in ("b1", "b2")} <= set(filling.remarks)


def _one(folder: Path, *rows: Row) -> Book:
    return open_book([write_class(folder / "one", rows)], COURSE)


def test_lost_zeros_are_named_and_not_guessed(tmp_path: Path, book_of: Callable[..., Book]) -> None:
    """A spreadsheet made 42 of 0042: whether they are one person is for a person to say."""
    text = CANVAS_FILE.replace(",0042,", ",42,")
    out, filling = filled(tmp_path / "c.csv", text, CANVAS, book_of(marked("0042", 80, 90), marked("0043", 70, 0)))
    assert 'early""",,,' in out
    assert filling.remarks[1].startswith("Lovelace, Ada (42) is in c.csv and not in the class; is it 0042, whose leading zeros")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (CANVAS_FILE.replace("Rings (4711)", "Ringe (4711)"), {}, "no column for 'Rings'; name it: --column 'rings=its header'"),
        (CANVAS_FILE.replace("100.00,100.00", "50,100"), {}, "has 50 points for rings, and the course 100"),
        (CANVAS_FILE, {"columns": {"rings": "Final Score", "data_parallel": "Data parallel (4712)"}}, "says '(read only)'"),
        (CANVAS_FILE, {"by": "Matrikel"}, "no column 'Matrikel'"),
        (CANVAS_FILE, {"by": "Section"}, "No row of"),
        (CANVAS_FILE.replace("0043", "0042"), {}, "two rows for 0042: 4 and 5"),
        (CANVAS_FILE.replace("ID,SIS", "Id,SIS", 1), {}, "no column 'ID'"),
        (CANVAS_FILE.replace('early"""', 'early""'), {}, "a quoted cell has no end"),
        (CANVAS_FILE.replace("Student,", "", 1), {}, "no column 'Student'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    tmp_path: Path, book_of: Callable[..., Book], text: str, options: dict[str, object], says: str
) -> None:
    """A file that isn't what it should be fills nothing."""
    with pytest.raises(UsageError) as told:
        filled(tmp_path / "c.csv", text, CANVAS, book_of(marked("0042", 80, 90), marked("0043", 70, 0)), **options)
    assert says in str(told.value)


CELLS = st.text(st.sampled_from('ab,;"\n\t =é😀'), max_size=6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=4), delimiter=st.sampled_from(",;\t"),
       end=st.sampled_from(["\n", "\r\n"]), bom=st.booleans(), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))  # fmt: skip
def test_every_table_comes_back_byte_for_byte(
    rows: list[list[str]], delimiter: str, end: str, bom: bool, quoting: int
) -> None:
    """What isn't set is as it was written, and the cells are those that Python's reader sees."""
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([["head", "x"], *rows])
    raw = ("\ufeff" * bom + stream.getvalue()).encode()
    sheet = parse_sheet(raw, Path("t.csv"))
    assert sheet.bytes() == raw
    assert [[sheet.text(row, column) for column in range(len(cells))] for row, cells in enumerate(sheet.rows)] == [["head", "x"], *rows]
    sheet.set(1, 1, 'new"')
    read_again = list(csv.reader(io.StringIO(sheet.bytes().decode("utf-8-sig"), newline=""), delimiter=delimiter))
    assert read_again == [["head", "x"], [rows[0][0], 'new"', *rows[0][2:]], *rows[1:]]


def test_a_value_that_stands_already_keeps_its_spelling() -> None:
    """Also where we would have quoted it."""
    raw = b'head,x\nin 5" pipes,3\n'
    sheet = parse_sheet(raw, Path("t.csv"))
    sheet.set(1, 0, 'in 5" pipes')
    assert sheet.bytes() == raw


@pytest.mark.parametrize("text", ["=1+1", "+49 30", "-cmd", "@SUM", "  =1", "\N{FULLWIDTH EQUALS SIGN}1"])
def test_no_cell_of_ours_is_a_formula(text: str) -> None:
    """A name is whatever a student typed; a negative number is a number."""
    (cell,) = next(csv.reader(io.StringIO(table([[text]]), newline="")))
    assert cell == f"'{text}"
    assert guarded("-3.5") == "-3.5"
    assert guarded("Anna-Lena; a@b.org") == "Anna-Lena; a@b.org"


NAMES = st.text(st.sampled_from("aé李א\u202e\\|<`*[](!)&_'\",;\t\r\n =+-@\N{FULLWIDTH EQUALS SIGN}"), max_size=9)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(names=st.lists(NAMES, min_size=1, max_size=3), delimiter=st.sampled_from(",;\t"),
       quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_NONE]))  # fmt: skip
@example(names=[",="], delimiter=",", quoting=csv.QUOTE_NONE)
def test_no_name_is_a_formula_however_lines_are_split(names: list[str], delimiter: str, quoting: Any) -> None:
    """Also for a program that splits at other signs than ours, or sees no quotes; and by ours each cell comes back, but for apostrophes."""
    text = table([["0042", *names]])
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting):
        assert not [cell for cell in row if cell.lstrip().startswith(("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}"))]
    (row,) = csv.reader(io.StringIO(text, newline=""))
    assert [cell.replace("'", "") for cell in row] == ["0042", *(name.replace("'", "") for name in names)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(names=st.lists(NAMES, min_size=2, max_size=2))
def test_whatever_students_are_called_every_form_has_a_row_for_each(names: list[str]) -> None:
    """Markdown: a line each, of as many cells as the heading. Canvas, Moodle: names come back as they were, marks in their cells."""
    called = list(zip(("0042", "0043"), names, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        rows = [marked(student, 80, 7, name=name) for student, name in called]
        book = open_book([write_class(Path(folder) / "class", rows)], COURSE)
        lines = to_markdown(book, settle(book, Terms())).splitlines()
        assert [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in lines] == [8] * 4
        assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`]|\u202e", "".join(lines[2:]))
        rings = open_book([Path(folder) / "class"], COURSE, ["rings"])
        for platform, identity, columns, its in (
            (CANVAS, "SIS User ID", ["Rings (1)", "Data parallel (2)"], book), (MOODLE, "ID number", ["Grade"], rings),
        ):  # fmt: skip
            stream, blank = io.StringIO(), [""] * len(columns)
            head = ["Student", "ID", identity, *columns]
            csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([head, *([name, "9", student, *blank] for student, name in called)])
            text, filling = filled(Path(folder) / "f.csv", stream.getvalue(), platform, its)
            marks = ["80", "7"][: len(columns)]
            assert [*csv.reader(io.StringIO(text, newline=""))] == [head, *([name, "9", student, *marks] for student, name in called)]
            assert filling.remarks == []
