"""Proves the course: its files agree, its solution earns everything, its starter nothing, and every wrong answer on record is caught."""

from grader.selfcheck.crew import Alone, Crew, Several
from grader.selfcheck.findings import Finding, GradeOne, MutantTrial, Progress, Proof
from grader.selfcheck.prove import Sample, prove, try_mutants
from grader.selfcheck.table import shares, table

__all__ = [
    "Alone",
    "Crew",
    "Finding",
    "GradeOne",
    "MutantTrial",
    "Progress",
    "Proof",
    "Sample",
    "Several",
    "prove",
    "shares",
    "table",
    "try_mutants",
]
