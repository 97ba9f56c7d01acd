"""Proofs by grading: the starter, the solution, every mutant, the variants."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec

from grader.course import Course
from grader.errors import CourseError
from grader.policy import without_rules
from grader.records import NOT_STARTED, Assignment, AssignmentMark, LawMark, Message, Report
from grader.selfcheck.findings import Finding, GradeOne, MutantTrial
from grader.selfcheck.overlays import load_overlay

Looks = ParamSpec("Looks")
IMPORT_WALL_S = 120
IMPORT_EACH = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
troubles = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        troubles[name] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(troubles))
"""


def import_troubles(folder: Path, assignment: Assignment) -> dict[str, str]:
    """What importing each file of `assignment` from `folder` raises, by file; run in a process of its own."""
    modules = [file.removesuffix(".py") for file in assignment.files]
    command = [sys.executable, "-c", IMPORT_EACH, str(folder), *modules]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=IMPORT_WALL_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(assignment.files, f"the import didn't end within {IMPORT_WALL_S} s")
    lines = run.stdout.strip().splitlines()
    if run.returncode or not lines:
        return dict.fromkeys(assignment.files, f"the import ended Python with status {run.returncode}")
    return {f"{module}.py": str(trouble) for module, trouble in json.loads(lines[-1]).items()}


def _listed(look: Callable[Looks, Iterator[Finding]]) -> Callable[Looks, list[Finding]]:
    """What a generator finds, as a list: it may have to travel between processes."""

    @functools.wraps(look)
    def listed(*arguments: Looks.args, **options: Looks.kwargs) -> list[Finding]:
        return list(look(*arguments, **options))

    return listed


@_listed
def starter_scores_nothing(course: Course, assignment: Assignment, grade_one: GradeOne) -> Iterator[Finding]:
    """It can be imported, earns 0, every task and law of it was really judged, and what fails is told as not started."""
    folder = course.root / "starter"
    if not folder.is_dir():
        yield Finding(False, "starter", "starter/", "There is no starter; `grader starter` makes it.")
        return
    troubles = import_troubles(folder, assignment)
    for file in assignment.files:
        subject = f"starter/{file}"
        sentence = f"Importing it raises {troubles[file]}" if file in troubles else "It can be imported."
        yield Finding(file not in troubles, "starter", subject, sentence)
    mark, trouble = _graded(assignment, folder, grade_one)
    if mark is None:
        yield Finding(False, "starter", assignment.name, trouble)
        return
    yield Finding(mark.earned == 0, "starter", assignment.name, f"The starter earns {mark.earned} of {mark.possible}; expected 0.")
    laws = {law.id: law for law in mark.laws()}
    for task in assignment.tasks:
        marks = [laws.get(law.id) for law in task.laws]
        verdicts = sorted({law.verdict if law else "missing" for law in marks})
        ok = "failed" in verdicts and set(verdicts) <= {"failed", "not_judged"}
        expected = "expected failed (or not judged, where a need failed)"
        yield Finding(ok, "starter", task.id, f"Its laws on the starter: {', '.join(verdicts)}; {expected}.")
        for law in marks:
            if law and law.verdict == "failed" and (law.message is None or law.message.diagnosis != NOT_STARTED):
                yield Finding(False, "starter", law.id, f"A stub is spoken of as of work that was begun: {_shown(law)}")


@_listed
def solution_earns_everything(assignment: Assignment, folder: Path, grade_one: GradeOne, proof: str, subject: str) -> Iterator[Finding]:
    """Every law passes, or waits for hardware that is not here, and the denominators are the course's."""
    mark, trouble = _graded(assignment, folder, grade_one)
    if mark is None:
        yield Finding(False, proof, subject, trouble)
        return
    possible = {task.id: task.possible for task in mark.tasks}
    expected = {task.id: task.points for task in assignment.tasks}
    if possible != expected or mark.possible != assignment.points:
        seen = f"The report counts {mark.possible} points, {possible}"
        yield Finding(False, proof, subject, f"{seen}; the course has {assignment.points}, {expected}.")
    laws = mark.laws()
    for law in laws:
        if law.verdict not in ("passed", "not_judged"):
            yield Finding(False, proof, subject, f"{law.id} {law.verdict}: {_shown(law)}")
    num_pending = sum(law.verdict == "not_judged" for law in laws)
    pending = f"; {num_pending} laws are not judged on this machine" if num_pending else ""
    pending_points = sum(law.possible for law in laws if law.verdict == "not_judged")
    ok = bool(laws) and num_pending < len(laws) and mark.earned + pending_points == assignment.points
    yield Finding(ok, proof, subject, f"It earns {mark.earned} of {assignment.points}{pending}.")


def variant_earns_everything(course: Course, assignment: Assignment, path: Path, folder: Path, grade_one: GradeOne) -> list[Finding]:
    """Compose the variant `path`, put it into `folder` and grade it on everything."""
    name = path.relative_to(course.root).as_posix()
    try:
        overlay = load_overlay(course, assignment, path)
        composed = overlay.write(course, assignment, folder)
    except CourseError as error:
        return [Finding(False, "variants", name, str(error))]
    broken = " ".join(overlay.rules_broken(assignment))
    if broken != overlay.header.policy:
        return [Finding(False, "variants", name, f"It breaks {broken or 'no rule'}; `policy:` says {overlay.header.policy or 'nothing'}.")]
    assignment = without_rules(assignment) if broken else assignment
    return solution_earns_everything(assignment, composed, grade_one, "variants", name)


def try_mutant(course: Course, assignment: Assignment, path: Path, folder: Path, grade_one: GradeOne, *, full: bool) -> MutantTrial:
    """Compose the mutant `path`, put it into `folder` and grade it: on the law it names only, or on all of them."""
    name = path.relative_to(course.root).as_posix()
    law = ""
    try:
        overlay = load_overlay(course, assignment, path)
        law, word = overlay.header.law, overlay.header.says
        if law not in {known.id for known in assignment.laws()}:
            raise CourseError(f"`law: {law}` is no law of {assignment.name}; expected the full id of the one that must catch it.")
        if not word:
            raise CourseError("`says:` is missing: expected a word that the student's message must contain.")
        path, laws = overlay.write(course, assignment, folder), None if full else (law,)
        broken = overlay.rules_broken(assignment)
        assignment = without_rules(assignment)  # or it would not be run: the laws are to catch it by themselves
        report = grade_one(assignment, path, laws, until_failed=not full)
        if not full and not _caught(_law_of(report, assignment, law), law, word)[0]:
            report = grade_one(assignment, path, laws)  # the first case to fail is not the one that says the word
    except CourseError as error:
        return MutantTrial(name, law, False, str(error), ())
    marks = _mark_of(report, assignment).laws()
    caught_by = tuple(mark.id for mark in marks if mark.verdict == "failed")
    mark = _law_of(report, assignment, law)
    is_caught, sentence = _caught(mark, law, word)
    if broken:
        sentence += f" The policy refuses it: {', '.join(broken)}."
    if full and len(caught_by) > 1:
        sentence += f" Caught by {len(caught_by)} laws."
    return MutantTrial(name, law, is_caught, sentence, caught_by, is_caught and _is_told_first(mark, word))


def _is_told_first(mark: LawMark | None, word: str) -> bool:
    return mark is not None and mark.message is not None and word.lower() in student_text(mark.message).lower()


def _law_of(report: Report, assignment: Assignment, law: str) -> LawMark | None:
    return next((mark for mark in _mark_of(report, assignment).laws() if mark.id == law), None)


def _caught(mark: LawMark | None, law: str, word: str) -> tuple[bool, str]:
    if mark is None or mark.verdict != "failed":
        return False, f"It survives: {law} says {mark.verdict if mark else 'nothing'}; expected failed."
    messages = [mark.message, *(case.message for case in mark.cases if case.outcome == "failed")]
    if not any(word.lower() in student_text(message).lower() for message in messages if message):
        return False, f"{law} catches it, but its message doesn't contain {word!r}: {_shown(mark)}"
    return True, f"{law} catches it and says {word!r}."


def student_text(message: Message) -> str:
    """What a student reads of a failure, apart from commands and the ranks' own output."""
    return " ".join(part for part in (message.seen, message.allowed, message.where, message.diagnosis, message.suggestion) if part)


# --- reports ---------------------------------------------------------------------------------------------------------
def _graded(assignment: Assignment, folder: Path, grade_one: GradeOne) -> tuple[AssignmentMark | None, str]:
    try:
        return _mark_of(grade_one(assignment, folder), assignment), ""
    except CourseError as error:
        return None, str(error)


def _mark_of(report: Report, assignment: Assignment) -> AssignmentMark:
    for mark in report.assignments:
        if mark.name == assignment.name:
            return mark
    raise CourseError(f"The report on {report.origin} has no marks for {assignment.name}.")


def _shown(mark: LawMark) -> str:
    messages = [mark.message, *(case.message for case in mark.cases)]
    return next((student_text(message) for message in messages if message), "without a message")
