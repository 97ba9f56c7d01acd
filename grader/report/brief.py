"""What a student reads after each save: one failure explained, the others named, and where the points stand."""

from __future__ import annotations

from collections.abc import Sequence

from grader.records import LawMark, Report, Task
from grader.report.causes import Cause
from grader.report.page import Page
from grader.report.selection import headline, passes_in_part
from grader.report.terminal import explain, is_not_started

NAMED = 6  # laws, beside the one that is explained


def render(report: Report, failed: Sequence[LawMark], waiting: Sequence[Task], page: Page, *, is_whole: bool, wall_s: float) -> None:
    """Print a round of grading.

    failed    laws that failed in it
    waiting   tasks that are not started and were left out
    is_whole  everything that is started was judged; False: only what had failed before
    """
    page.blank()
    begun = sorted(failed, key=lambda law: (is_not_started(law), Cause([law]).weight))
    if begun:
        explain(Cause([begun[0]]), page)
        page.blank()
    for law in begun[1 : NAMED + 1]:
        page.paragraph(law.id, lead="✗ ", lead_style="red")
    if len(begun) > NAMED + 1:
        page.paragraph(f"… and {len(begun) - NAMED - 1} more laws fail", indent=2)
    if waiting:
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        page.paragraph(f"not started: {waiting[0].title} ({waiting[0].id}){others}", lead="– ", lead_style="yellow")
    judged = [law for law in report.laws() if law.verdict in ("passed", "failed")]
    passed = sum(law.verdict == "passed" for law in judged)
    if any(map(passes_in_part, report.laws())):  # a word of -k takes cases, which give no points
        words = headline(report)
    else:
        words = f"{report.earned} of {report.possible} points" if is_whole else f"{passed} of the {len(judged)} laws that failed now pass"
    page.paragraph(f"{words}; {wall_s:.1f} s", style="bold green" if is_whole and not (failed or waiting) else "bold")
