"""The laws of an assignment as a list: ids to copy, claims, points and evidence, and no hint; and what may not be used."""

from __future__ import annotations

from collections.abc import Sequence

from grader.policy.everywhere import EVERYWHERE
from grader.records import Assignment
from grader.report.page import Page


def list_laws(assignments: Sequence[Assignment], page: Page) -> None:
    """Print every law under its task, what the assignment forbids beside what all forbid, and what an id is good for."""
    for assignment in assignments:
        for task in assignment.tasks:
            page.blank()
            page.spread(task.title, f"{task.points} points", style="bold")
            for law in task.laws:
                page.command(law.id, lead="  ", indent=2)
                page.paragraph(f"{law.claim} ({law.points} point{'s' * (law.points != 1)}, {law.evidence})", indent=4)
        own = [rule for rule in assignment.forbidden if rule not in EVERYWHERE]
        if own:
            page.blank()
            page.paragraph("What may not be used", style="bold")
        for rule in own:
            page.paragraph(f"{', '.join(rule.forbids)}: {rule.reason}", indent=2)
    page.blank()
    page.command("make grade A=NAME K=ID", lead="one law alone", indent=15)
    page.command("make hint LAW=ID", lead="a hint", indent=15)
