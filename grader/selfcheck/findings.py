"""What a proof of the course consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.errors import CourseError
from grader.records import Assignment, Law, Report

Progress = Callable[[str], None]  # told what is tried next


class GradeOne(Protocol):
    """The pipeline, as handed in: grades one submission on one assignment, all laws or only those named by full id."""

    def __call__(self, assignment: Assignment, path: Path, laws: tuple[str, ...] | None = None, *, until_failed: bool = False) -> Report:
        """The report on the folder `path`; with `until_failed` a law is judged until one of its cases fails."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and how it stands."""

    ok: bool
    proof: str  # which of the proofs: structure | starter | solution | mutants | variants
    subject: str  # a law's or task's id, or a path
    sentence: str


@dataclass(frozen=True, slots=True)
class MutantTrial:
    """A wrong answer that was graded."""

    path: str  # from the course's root
    law: str  # the law that must catch it
    is_caught: bool  # that law failed and its message contains the word
    sentence: str
    caught_by: tuple[str, ...]  # all laws that failed, of those that were tried
    is_told_first: bool = False  # the word stands in the message that the student reads, not only in that of another case

    @property
    def assignment(self) -> str:
        return self.path.split("/")[-2]

    def finding(self) -> Finding:
        return Finding(self.is_caught, "mutants", self.path, self.sentence)


@dataclass(frozen=True, slots=True)
class Proof:
    """All findings on some assignments of a course."""

    findings: tuple[Finding, ...]
    mutants: tuple[MutantTrial, ...]
    laws: tuple[Law, ...]

    @property
    def bad(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok)

    @property
    def num_caught(self) -> int:
        return sum(trial.is_caught for trial in self.mutants)

    @property
    def laws_without_mutants(self) -> tuple[str, ...]:
        """Ids of the laws that no mutant names, in the course's order."""
        named = {trial.law for trial in self.mutants}
        return tuple(law.id for law in self.laws if law.id not in named)

    def summary(self) -> str:
        """The counts in one line."""
        missing = self.laws_without_mutants
        return (
            f"{self.num_caught} of {len(self.mutants)} mutants caught; {len(missing)} of {len(self.laws)} laws without a mutant; "
            f"{len(self.bad)} of {len(self.findings)} findings are bad."
        )

    def require(self) -> None:
        """Raises CourseError that lists everything bad."""
        if self.bad:
            lines = [f"- {finding.subject}: {finding.sentence}" for finding in self.bad]
            raise CourseError("\n".join([f"The course doesn't hold together. {self.summary()}", *lines]))
