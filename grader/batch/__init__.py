"""A class graded in one go: downloads in any platform's layout → a row for every student, whatever breaks, dies or is interrupted.

The same command continues. There is nothing to resume from but what stands on the disk: a report's folder is named by all that decides it
and appears whole; rows are derived from reports. So an interrupted batch, one that was killed, and one over new hand-ins are the same case.
"""

from __future__ import annotations

from grader.batch.grade_class import Class, Crew, grade_class
from grader.batch.layouts import LAYOUTS
from grader.batch.people import Roster, read_roster

__all__ = ["LAYOUTS", "Class", "Crew", "Roster", "grade_class", "read_roster"]
