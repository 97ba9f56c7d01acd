"""What Autolab reads of an autograder: the last line of its output is JSON with a score for each problem.

The form: Autolab's documentation, "Guide for lab authors", autograders: {"scores": {"problem": points}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from grader.records import Report
from grader.report.classroom import summary


def to_output(report: Report, scores: Mapping[str, float]) -> str:
    """A table to read, then the line that counts; the problems of the assessment are to have the assignments' names."""
    return f"{summary(report)}\n{json.dumps({'scores': dict(scores)}, allow_nan=False)}\n"
