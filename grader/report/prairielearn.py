"""PrairieLearn's results.json of an external grader: every law as a test.

The form: PrairieLearn's documentation, "External grading", grading results: `score` is a share; without `gradable` nobody is marked.
"""

from __future__ import annotations

from grader.records import Json, LawMark, Report
from grader.report.junit import message_text


def to_results(report: Report, score: float | None = None) -> Json:
    """The platform's form. score: the share of the points that counts; None: what the report earned.

    What the machine or the course failed at is not gradable, so that it becomes nobody's zero.
    """
    laws = [(task.title, law) for each in report.assignments for task in each.tasks for law in task.laws]
    ours = [law.id for _, law in laws if law.verdict == "error"]
    if ours:
        return {"gradable": False, "format_errors": [f"The grader is at fault, not you: {law} could not be judged." for law in ours]}
    share = report.earned / report.possible if report.possible else 0.0
    said = [f"{report.earned} of {report.possible} points.", *report.notes, *(["The mark is provisional."] if report.provisional else [])]
    return {
        "gradable": True,
        "score": share if score is None else score,
        "message": "\n".join(said),
        "tests": [_test(title, law) for title, law in laws],
    }


def _test(title: str, law: LawMark) -> Json:
    return {
        "name": f"{title}: {law.claim}",
        "description": law.id,
        "points": law.earned,
        "max_points": law.possible,
        "message": "Not judged." if law.verdict == "not_judged" else "",
        "output": message_text(law.message) if law.message else "",
    }
