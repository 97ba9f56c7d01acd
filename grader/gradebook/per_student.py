"""A file for each student, in the form that a platform's autograder would have written; and the same of a single run folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from grader.gradebook.book import Book
from grader.gradebook.settle import Final, Finals, total, written
from grader.records import Json, Report, digest
from grader.report import autolab, gradescope, junit, prairielearn
from grader.report.files import PRIVATE, read_public, write

LONGEST_NAME = 100  # letters; a file system has 255 bytes

# Form -> (file, how it is made of a report and the points that count in each of its assignments; None: as they were graded)
Points = dict[str, float] | None
Make = Callable[[Report, Points, list[str]], str]


def _json(tree: Json) -> str:
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _gradescope(report: Report, points: Points, said: list[str]) -> str:
    results = gradescope.to_results(report)
    if points is not None:
        results |= {"score": sum(points.values()), "output": "\n".join([results["output"], *said])}
    return _json(results)


def _prairielearn(report: Report, points: Points, said: list[str]) -> str:
    share = None if points is None else sum(points.values()) / max(report.possible, 1)
    return _json(prairielearn.to_results(replace(report, notes=(*report.notes, *said)), share))


def _autolab(report: Report, points: Points, said: list[str]) -> str:
    return autolab.to_output(report, points if points is not None else {each.name: each.earned for each in report.assignments})


FORMS: dict[str, tuple[str, Make]] = {
    "gradescope": ("results.json", _gradescope),
    "prairielearn": ("results.json", _prairielearn),
    "autolab": ("autolab.txt", _autolab),
    "junit": ("junit.xml", lambda report, points, said: junit.to_xml(report)),
}


def write_class(book: Book, finals: Finals, form: str, target: Path) -> list[str]:
    """A folder for each student in `target`; returns who has no file, and why. UsageError if a report can't be read."""
    file, make = FORMS[form]
    left_out = []
    for student in book.students:
        of_student = {name: finals[student, name] for name in book.assignments}
        without = [final for final in of_student.values() if final.points is None or final.entry.report is None]
        if without:
            left_out.append(f"{student} has no file: {without[0].entry.assignment}: {without[0].steps[-1].sentence}")
            continue
        folder = target / folder_name(student)
        folder.mkdir(parents=True, exist_ok=True)
        points = {name: float(written(final.points, final.entry.possible)) for name, final in of_student.items()}
        write(folder / file, make(_report_of(book, of_student), points, _said(of_student)), PRIVATE)
    return left_out


def folder_name(student: str) -> str:
    """An id as a folder: whatever it contains, it names one folder and leads nowhere else."""
    name = quote(student, safe="@+ ", errors="surrogatepass")
    name = name if student.strip(".") else name.replace(".", "%2E")
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{digest(student)[:12]}"


def _report_of(book: Book, of_student: dict[str, Final]) -> Report:
    """One report of all assignments of the book, which may lie in several folders."""
    reports = {final.entry.report: None for final in of_student.values()}
    read = {folder: read_public(folder) for folder in reports if folder is not None}
    marks = tuple(mark for report in read.values() for mark in report.assignments if mark.name in book.assignments)
    first = next(iter(read.values()))
    return replace(first, assignments=marks, earned=sum(mark.earned for mark in marks), possible=sum(mark.possible for mark in marks),
                   notes=tuple(dict.fromkeys(note for report in read.values() for note in report.notes)),
                   provisional=any(report.provisional for report in read.values()))  # fmt: skip


def _said(of_student: dict[str, Final]) -> list[str]:
    """What came on top of the marks as graded; nothing if nothing did."""
    steps = [f"{name}: {step.sentence}" for name, final in of_student.items() for step in final.steps[1:]]
    summed = total(of_student.values())
    return [*steps, f"Together {written(summed.points, summed.possible)} of {summed.possible} points."] if steps else []
