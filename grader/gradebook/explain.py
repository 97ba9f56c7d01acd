"""One student's marks: how each came about, and how it has changed."""

from __future__ import annotations

from grader.gradebook.book import Book
from grader.gradebook.settle import Finals, total, written
from grader.gradebook.trail import changes_of
from grader.report.page import Page


def show(book: Book, finals: Finals, student: str, page: Page) -> None:
    """Print steps and trail of every assignment of the book, and the sum."""
    row, trail = book.students[student], changes_of(book.folder, student)
    page.paragraph(f"{student} {row.name}".strip(), style="bold")
    for assignment in book.assignments:
        final = finals[student, assignment]
        page.blank()
        page.spread(book.titles[assignment], f"{final.text or 'no mark'} of {final.entry.possible}", style="bold")
        for step in final.steps:
            page.spread(step.sentence, written(step.points) or "–", indent=2)
        if final.entry.report is not None:
            page.command(str(final.entry.report / "report.json"), lead="  law by law", indent=14)
        for change in (change for change in trail if change.assignment == assignment):
            became = f"{change.was or 'no mark'} → {change.now or 'no mark'}"
            page.paragraph(f"{change.at} {change.who}: {became} ({change.why})", lead="  · ", indent=4, style="dim")
    summed = total(finals[student, assignment] for assignment in book.assignments)
    page.blank()
    without = f"; {summed.num_without} without a mark" if summed.num_without else ""
    page.spread("Together", f"{written(summed.points, summed.possible)} of {summed.possible}{without}", style="bold")
