"""An instructor's own file, as a platform gave it, filled with final marks: their cells and nothing else.

Canvas: the export of its gradebook. A header row, sometimes a row on posting, a row "    Points Possible", then students; an assignment's
column is "Title (its number)" (Instructure: "How do I import grades in the Gradebook?", and canvas-lms, gradebook_importer.rb).
Moodle: an assignment's grading worksheet, one for each assignment; it reads back "Identifier", "Grade" and the last change
(MoodleDocs: "Assignment settings", offline grading worksheet, and moodle, mod/assign/feedback/offline/importgradeslib.php).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from grader.errors import UsageError
from grader.gradebook.book import Book
from grader.gradebook.cells import Sheet
from grader.gradebook.settle import Final, Finals, written

NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


@dataclass(frozen=True, slots=True)
class Platform:
    """What a platform's file is like."""

    name: str
    needs: tuple[str, ...]  # headers without which it is not such a file
    identities: tuple[str, ...]  # columns that may say who a row is
    excused: str = ""  # what it reads as excused; "": the cell is left


CANVAS = Platform("Canvas", ("Student", "ID"), ("SIS User ID", "SIS Login ID", "Integration ID", "ID", "Email"), "EX")
MOODLE = Platform("Moodle", ("Grade",), ("ID number", "Username", "Email address", "Identifier"))
POSSIBLE_ROW = "points possible"
MAXIMUM, CHANGEABLE = "Maximum Grade", "Grade can be changed"


@dataclass(slots=True)
class Filling:
    """What came of filling a file."""

    by: str = ""  # the column that said who is who
    num_set: int = 0
    remarks: list[str] = field(default_factory=list)  # who could not be filled, by name


def fill(
    sheet: Sheet, platform: Platform, book: Book, finals: Finals, *, columns: Mapping[str, str], by: str = "", may_scale: bool = False
) -> Filling:
    """Set the marks' cells of `sheet`.

    columns    assignment -> header of its column; what is not named is looked for by name and title (Moodle: "Grade")
    by         the column that says who a row is; "": the one in which most students of the class are found
    may_scale  marks may be converted where the file's maximum is not ours; without it, that is an error
    Raises UsageError if it is no such file, a column is missing or named twice, two rows are one student, or a maximum differs.
    """
    header = [sheet.text(0, column).strip() for column in range(len(sheet.rows[0]))] if sheet.rows else []
    for name in platform.needs if not columns else ():
        _column(header, name, sheet, f"a file of {platform.name} has one")
    if platform is MOODLE and len(book.assignments) != 1:
        raise UsageError(f"A worksheet of Moodle's is of one assignment, and the class has {', '.join(book.assignments)}: choose with -a.")
    places = {assignment: _place(header, assignment, book, columns, platform, sheet) for assignment in book.assignments}
    rows = [row for row in range(1, len(sheet.rows)) if any(sheet.text(row, column).strip() for column in range(len(header)))]
    limits = next((row for row in rows if sheet.text(row, 0).strip().lower().startswith(POSSIBLE_ROW)), None)
    students = [row for row in rows if limits is None or row > limits]  # what Canvas says of columns stands above them
    filling = Filling()
    owners = _owners(sheet, header, students, platform, book, by, filling)
    for row, student in owners.items():
        for assignment, column in places.items():
            _set(sheet, row, column, finals[student, assignment], platform, _limit(sheet, header, row, column, limits), may_scale, filling)
    for student in book.students.keys() - set(owners.values()):
        filling.remarks.append(f"{_named(book, student)} is in the class and not in {sheet.path.name}")
    filling.remarks.sort()
    return filling


def _place(header: Sequence[str], assignment: str, book: Book, columns: Mapping[str, str], platform: Platform, sheet: Sheet) -> int:
    if assignment in columns:
        return _column(header, columns[assignment], sheet, f"--column names it for {assignment}")
    if platform is MOODLE:
        return _column(header, "Grade", sheet, "its name in your language is told with --column")
    wanted = {_plain(assignment), _plain(book.titles[assignment])}
    found = [column for column, name in enumerate(header) if _plain(re.sub(r"\s*\(\d+\)$", "", name)) in wanted]
    if len(found) != 1:
        seen = f"{len(found)} columns" if found else "no column"
        raise UsageError(f"{sheet.path} has {seen} for {book.titles[assignment]!r}; name it: --column '{assignment}=its header'")
    return found[0]


def _column(header: Sequence[str], name: str, sheet: Sheet, reason: str) -> int:
    found = [column for column, text in enumerate(header) if text == name.strip()]
    if len(found) != 1:
        raise UsageError(f"{sheet.path} has {len(found) or 'no'} column{'s' * (len(found) > 1)} {name!r}, expected one: {reason}. "
                         f"There are: {', '.join(header)}.")  # fmt: skip
    return found[0]


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


# --- who is who ------------------------------------------------------------------------------------------------------
def _owners(
    sheet: Sheet, header: Sequence[str], rows: Sequence[int], platform: Platform, book: Book, by: str, filling: Filling
) -> dict[int, str]:
    """Row -> student. Names decide nothing: two students may share one."""
    known = _known(book)
    candidates = [by] if by else [name for name in platform.identities if name in header]
    matched: dict[str, dict[int, str]] = {}
    for name in candidates:
        column = _column(header, name, sheet, "--by names it")
        matched[name] = {row: known[word] for row in rows if (word := _identity(sheet.text(row, column))) in known}
    if not any(matched.values()):
        seen = ", ".join(f"{name} has such as {_example(sheet, rows, header.index(name))!r}" for name in candidates) or "none is there"
        raise UsageError(f"No row of {sheet.path} is a student of the class, who have ids such as {next(iter(book.students), '')!r}. "
                         f"Looked into: {seen}. Name the column that has them: --by COLUMN")  # fmt: skip
    filling.by = max(matched, key=lambda name: len(matched[name]))
    owners = matched[filling.by]
    _refuse_twice(owners, sheet)
    column, label = header.index(filling.by), 0
    bare = {student.lstrip("0"): student for student in book.students}
    for row in (row for row in rows if row not in owners):
        word, name = sheet.text(row, column).strip(), sheet.text(row, label).strip()
        hint = f"; is it {bare[word]}, whose leading zeros a spreadsheet dropped?" if word and bare.get(word, word) != word else ""
        filling.remarks.append(f"{name or 'a row'} ({word or 'no ' + filling.by}) is in {sheet.path.name} and not in the class{hint}")
    return owners


def _known(book: Book) -> dict[str, str]:
    """Whatever names exactly one student: an id, else an address that nobody shares."""
    addresses = [row.email.strip().casefold() for row in book.students.values()]
    known = {row.email.strip().casefold(): student for student, row in book.students.items()
             if row.email and addresses.count(row.email.strip().casefold()) == 1}  # fmt: skip
    return known | {student.casefold(): student for student in book.students}


def _identity(text: str) -> str:
    """A cell as it is looked up; Moodle's "Participant 123", in any language, is 123."""
    participant = re.fullmatch(r"\D+ (\d+)", text.strip())
    return participant[1] if participant else text.strip().casefold()


def _example(sheet: Sheet, rows: Sequence[int], column: int) -> str:
    return next((sheet.text(row, column) for row in rows if sheet.text(row, column)), "")


def _refuse_twice(owners: Mapping[int, str], sheet: Sheet) -> None:
    first: dict[str, int] = {}
    for row, student in owners.items():
        if student in first:
            raise UsageError(f"{sheet.path} has two rows for {student}: {first[student] + 1} and {row + 1}; expected one.")
        first[student] = row


def _named(book: Book, student: str) -> str:
    name = book.students[student].name
    return f"{student} ({name})" if name else student


# --- one cell --------------------------------------------------------------------------------------------------------
def _limit(sheet: Sheet, header: Sequence[str], row: int, column: int, limits: int | None) -> str:
    """What the file says can be earned there; "" if it doesn't say."""
    if limits is not None:
        return sheet.text(limits, column).strip()
    return sheet.text(row, header.index(MAXIMUM)).strip() if MAXIMUM in header else ""


def _set(sheet: Sheet, row: int, column: int, final: Final, platform: Platform, limit: str, may_scale: bool, filling: Filling) -> None:
    """Write one mark. Without a mark the cell stays as it is: an earlier mark stands until there is a new one."""
    entry, stands = final.entry, sheet.text(row, column)
    if _is_locked(sheet, row):
        filling.remarks.append(f"{entry.student}: {platform.name} says that the mark can't be changed; it stays {stands!r}")
        return
    text = platform.excused if final.is_excused else _scaled(final, limit, may_scale, sheet)
    if text:
        sheet.set(row, column, text)
        filling.num_set += 1
    else:
        kept = f"; the cell keeps {stands!r}" if stands else ""
        filling.remarks.append(f"{entry.student} has no mark in {entry.assignment}: {final.steps[-1].sentence}{kept}")


def _is_locked(sheet: Sheet, row: int) -> bool:
    header = [sheet.text(0, column).strip() for column in range(len(sheet.rows[0]))]
    return CHANGEABLE in header and sheet.text(row, header.index(CHANGEABLE)).strip().casefold() == "no"


def _scaled(final: Final, limit: str, may_scale: bool, sheet: Sheet) -> str:
    """The mark in the file's points, with the file's decimal sign."""
    possible = final.entry.possible
    if final.points is None or not limit:
        return written(final.points, possible)
    if not NUMBER.fullmatch(limit):
        raise UsageError(f"{sheet.path} says {limit!r} where the points of {final.entry.assignment} should stand: is that its column?")
    maximum = Fraction(limit.replace(",", "."))
    if maximum != possible and not may_scale:
        raise UsageError(f"{sheet.path} has {limit} points for {final.entry.assignment}, and the course {possible}. "
                         "Change it there, or convert with --scale.")  # fmt: skip
    text = written(final.points * maximum / possible, None if final.points >= possible else int(maximum))
    return text.replace(".", ",") if "," in limit else text
