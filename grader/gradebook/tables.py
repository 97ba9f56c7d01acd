"""The final marks of a class as tables of our own: CSV and Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from grader.gradebook.book import Book
from grader.gradebook.cells import table
from grader.gradebook.settle import Finals, Total, total, written

TURNS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")  # signs of direction; Hebrew and Arabic letters need none


def to_csv(book: Book, finals: Finals) -> str:
    """A row for each student, without a byte-order mark: marks, sum, what could have been had, and why a mark is missing."""
    head = ("student", "name", "email", "section", *book.assignments, "total", "possible", "without a mark")
    return table([head, *_rows(book, finals)])


def to_markdown(book: Book, finals: Finals) -> str:
    """The same for a page or a mail, without addresses."""
    head = ("student", "name", *(book.titles[name] for name in book.assignments), "total", "possible", "without a mark")
    lines = [f"| {' | '.join(map(_cell, head))} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, (row[0], row[1], *row[4:])))} |" for row in _rows(book, finals)]
    return "\n".join(lines) + "\n"


def _rows(book: Book, finals: Finals) -> Iterator[list[str]]:
    for student, row in book.students.items():
        of_student = [finals[student, name] for name in book.assignments]
        summed = total(of_student)
        without = "; ".join(f"{final.entry.assignment}: {final.entry.state}" for final in of_student if final.points is None)
        yield [student, row.name, row.email, row.section, *(final.text for final in of_student), *_sum(summed), without]


def _sum(summed: Total) -> tuple[str, str]:
    """A sum is only one if nothing is missing from it: else both cells are blank, and the last column says why."""
    if summed.num_without:
        return "", ""
    return written(summed.points, summed.possible), written(Fraction(summed.possible))


def _cell(text: str) -> str:
    """Text of one line: no markup, no picture that would be fetched, and nothing that turns what stands behind it from right to left."""
    return re.sub(r"[\\`*\[\]|<>]", r"\\\g<0>", TURNS.sub("", " ".join(text.split())))
