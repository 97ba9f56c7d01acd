"""The whole proof, in the order in which a mistake would show soonest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.course import Course
from grader.errors import CourseError
from grader.records import Assignment, digest
from grader.selfcheck.findings import Finding, GradeOne, MutantTrial, Progress, Proof
from grader.selfcheck.overlays import load_overlay, overlay_paths
from grader.selfcheck.structure import structure
from grader.selfcheck.trials import solution_earns_everything, starter_scores_nothing, try_mutant
from grader.starter import stale


@dataclass(frozen=True, slots=True)
class Sample:
    """How many variants of each assignment are graded when not all are; the same ones for the same seed, on every machine."""

    count: int
    seed: int = 0

    def of(self, paths: Sequence[Path]) -> list[Path]:
        """`count` of `paths`, in their own order."""
        chosen = set(sorted(paths, key=lambda path: digest(str(self.seed), path.name))[: self.count])
        return [path for path in paths if path in chosen]


def prove(
    course: Course,
    assignments: Sequence[Assignment],
    grade_one: GradeOne,
    *,
    full: bool = False,
    sample: Sample | None = None,
    progress: Progress | None = None,
) -> Proof:
    """Prove `assignments`. With `full`, every mutant meets every law; `sample` None means every variant.

    What is wrong with the course becomes a finding; a machine's fault and the caller's are raised.
    """
    tell = progress or _silent
    findings: list[Finding] = []
    tell("the files")
    findings += _or_finding(lambda: structure(course, assignments), "structure", "tests/")
    findings += _or_finding(lambda: _starter_is_fresh(course), "starter", "starter/")
    for assignment in assignments:
        tell(f"{assignment.name}: the starter")
        findings += starter_scores_nothing(course, assignment, grade_one)
        tell(f"{assignment.name}: the solution")
        subject = ", ".join(f"solutions/{file}" for file in assignment.files)
        findings += solution_earns_everything(assignment, course.root / "solutions", grade_one, "solution", subject)
        findings += _variants(course, assignment, grade_one, None if full else sample, tell)
    mutants = try_mutants(course, assignments, grade_one, full=full, progress=progress)
    findings += [trial.finding() for trial in mutants]
    laws = tuple(law for assignment in assignments for law in assignment.laws())
    named = {trial.law for trial in mutants}
    for law in laws:
        sentence = "A mutant names it." if law.id in named else "No mutant names it: nothing shows that it can fail."
        findings.append(Finding(law.id in named, "mutants", law.id, sentence))
    return Proof(tuple(findings), mutants, laws)


def try_mutants(
    course: Course,
    assignments: Sequence[Assignment],
    grade_one: GradeOne,
    *,
    full: bool = False,
    only: str = "",
    progress: Progress | None = None,
) -> tuple[MutantTrial, ...]:
    """Grade every mutant whose name contains `only`: on the law it names, or with `full` on all laws."""
    trials = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        for assignment in assignments:
            for path in (path for path in overlay_paths(course, "mutants", assignment) if only in path.stem):
                (progress or _silent)(f"{assignment.name}: mutant {path.stem}")
                trials.append(try_mutant(course, assignment, path, Path(scratch) / assignment.name / path.stem, grade_one, full=full))
    return tuple(trials)


def _variants(course: Course, assignment: Assignment, grade_one: GradeOne, sample: Sample | None, tell: Progress) -> list[Finding]:
    paths = overlay_paths(course, "variants", assignment)
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="variants-") as scratch:
        for path in sample.of(paths) if sample else paths:
            name = path.relative_to(course.root).as_posix()
            tell(f"{assignment.name}: variant {path.stem}")
            try:
                folder = load_overlay(course, assignment, path).write(course, assignment, Path(scratch) / path.stem)
            except CourseError as error:
                findings.append(Finding(False, "variants", name, str(error)))
                continue
            findings += solution_earns_everything(assignment, folder, grade_one, "variants", name)
    return findings


def _starter_is_fresh(course: Course) -> list[Finding]:
    sentences = stale(course)
    fresh = Finding(True, "starter", "starter/", "It is the stripped solution, file by file.")
    return [Finding(False, "starter", sentence.partition(" ")[0], sentence) for sentence in sentences] or [fresh]


def _or_finding(look: Callable[[], list[Finding]], proof: str, subject: str) -> list[Finding]:
    try:
        return look()
    except CourseError as error:
        return [Finding(False, proof, subject, str(error))]


def _silent(step: str) -> None:
    """Nobody wants to know what is tried next."""
