"""The whole proof, in the order in which a mistake would show soonest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader.course import Course
from grader.errors import CourseError
from grader.records import Assignment, digest
from grader.regions import read_header
from grader.selfcheck.crew import Crew
from grader.selfcheck.findings import Finding, GradeOne, MutantTrial, Progress, Proof
from grader.selfcheck.overlays import overlay_paths
from grader.selfcheck.structure import structure
from grader.selfcheck.trials import solution_earns_everything, starter_scores_nothing, try_mutant, variant_earns_everything
from grader.starter import stale

Look = Callable[[GradeOne], list[Finding]]


@dataclass(frozen=True, slots=True)
class Sample:
    """How many are graded when not all are, such as variants of an assignment; the same ones for the same seed, on every machine."""

    count: int
    seed: int = 0

    def of(self, paths: Sequence[Path]) -> list[Path]:
        """`count` of `paths`, in their own order."""
        chosen = set(sorted(paths, key=lambda path: digest(str(self.seed), path.name))[: self.count])
        return [path for path in paths if path in chosen]


def prove(
    course: Course,
    assignments: Sequence[Assignment],
    crew: Crew,
    *,
    full: bool = False,
    sample: Sample | None = None,
    per_law: Sample | None = None,
    progress: Progress | None = None,
) -> Proof:
    """Prove `assignments`. With `full`, every mutant meets every law; `sample` None means every variant, `per_law` None every mutant.

    What is wrong with the course becomes a finding; a machine's fault and the caller's are raised.
    """
    tell = progress or _silent
    findings: list[Finding] = []
    tell("the files")
    findings += _or_finding(lambda: structure(course, assignments), "structure", "tests/")
    findings += _or_finding(lambda: _starter_is_fresh(course), "starter", "starter/")
    with tempfile.TemporaryDirectory(prefix="variants-") as scratch:
        tasks = [task for each in assignments for task in _whole(course, each, None if full else sample, Path(scratch))]
        for (what, _), found in zip(tasks, crew.each([task for _, task in tasks]), strict=True):
            tell(what)
            findings += found
    mutants = try_mutants(course, assignments, crew, full=full, per_law=None if full else per_law, progress=progress)
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
    crew: Crew,
    *,
    full: bool = False,
    only: str = "",
    per_law: Sample | None = None,
    progress: Progress | None = None,
) -> tuple[MutantTrial, ...]:
    """Grade every mutant whose name contains `only`, or a sample of those of each law: on the law it names, or with `full` on all laws."""
    chosen = [(each, path) for each in assignments for path in overlay_paths(course, "mutants", each) if only in path.stem]
    if per_law is not None:
        chosen = _sampled(course, chosen, per_law)
    trials = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        tasks = [
            partial(try_mutant, course, each, path, Path(scratch) / each.name / path.stem, full=full) for each, path in chosen
        ]
        for trial in crew.each(tasks):
            trials.append(trial)
            (progress or _silent)(f"mutant {len(trials)} of {len(tasks)}: {trial.path}")
    return tuple(trials)


def _sampled(course: Course, chosen: Sequence[tuple[Assignment, Path]], per_law: Sample) -> list[tuple[Assignment, Path]]:
    by_law: dict[str, list[Path]] = {}
    for _, path in chosen:
        law = read_header(path.read_text(encoding="utf-8"), path.relative_to(course.root).as_posix()).law
        by_law.setdefault(law, []).append(path)
    kept = {path for paths in by_law.values() for path in per_law.of(paths)}
    return [(assignment, path) for assignment, path in chosen if path in kept]


def _whole(course: Course, assignment: Assignment, sample: Sample | None, scratch: Path) -> Iterator[tuple[str, Look]]:
    """The gradings of everything on one assignment that is no mutant: what it is, and the task."""
    yield f"{assignment.name}: the starter", partial(starter_scores_nothing, course, assignment)
    subject = ", ".join(f"solutions/{file}" for file in assignment.files)
    solution = partial(solution_earns_everything, assignment, course.root / "solutions", proof="solution", subject=subject)
    yield f"{assignment.name}: the solution", solution
    paths = overlay_paths(course, "variants", assignment)
    for path in sample.of(paths) if sample else paths:
        folder = scratch / assignment.name / path.stem
        yield f"{assignment.name}: variant {path.stem}", partial(variant_earns_everything, course, assignment, path, folder)


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
