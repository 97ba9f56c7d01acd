"""Do the files agree with each other? Nothing is run here but pytest's collection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.course import Course, probe_files
from grader.records import Assignment, Task
from grader.selfcheck.collect import MarkedTest, collect
from grader.selfcheck.findings import Finding
from grader.selfcheck.overlays import ROOMS, stray_files
from grader.starter import GIVEN, LITTER

# Words of a law's id that name no subject.
SMALL_WORDS = frozenset({
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "each", "every", "for", "from", "gives", "has", "have", "in", "into", "is",
    "it", "its", "no", "not", "of", "on", "only", "or", "that", "the", "to", "with",
})  # fmt: skip
STEM_LENGTH = 5  # "divides", "divided" and "division" tell of one thing


def structure(course: Course, assignments: Sequence[Assignment]) -> list[Finding]:
    """Findings on handouts, points, test marks and stray files. Raises CourseError if a test file can't be collected."""
    findings = [finding for assignment in assignments for finding in _handout(course, assignment)]
    for assignment in assignments:
        findings += _cases(course, assignment)
    return findings + list(_strays(course))


def _judged(ok: bool, subject: str, good: str, bad: str) -> Finding:
    return Finding(ok, "structure", subject, good if ok else bad)


# --- the handout -----------------------------------------------------------------------------------------------------
def _handout(course: Course, assignment: Assignment) -> Iterator[Finding]:
    path = course.handout(assignment)
    name = path.relative_to(course.root).as_posix()
    if not path.is_file():
        yield _judged(False, name, "", "There is no handout.")
        return
    text = path.read_text(encoding="utf-8")
    stated = re.search(rf"\b{assignment.points} points\b", text) is not None
    total = f"{assignment.points} points"
    yield _judged(stated, name, f"It states {total}.", f"It nowhere says `{total}`, the sum of the laws.")
    for task in assignment.tasks:
        yield _task_points(text, task, name)
        lost = [region for region in task.regions if not re.search(rf"\b{region}\b", text)]
        yield _judged(not lost, task.id, "The handout names all that is to be written.", f"{name} never mentions {', '.join(lost)}.")
        for law in task.laws:
            missing = _words_not_in(law.id.rpartition(".")[2], text)
            bad = f"{name} says nothing of {', '.join(missing)}: a rule that is tested has to be stated."
            yield _judged(not missing, law.id, "The handout speaks of it.", bad)


def _task_points(text: str, task: Task, name: str) -> Finding:
    """A table row or a heading that begins with the task's id or title states its points."""
    id_ = task.id.rpartition(".")[2]
    named = re.compile(rf"^(\||#+)[^|\n]*(`{id_}`|{re.escape(task.title)}).*$", re.MULTILINE | re.IGNORECASE)
    figures = (re.search(r"\|\s*(\d+)\s*\|\s*$|\b(\d+) points", line[0]) for line in named.finditer(text))
    stated = {int(figure[1] or figure[2]) for figure in figures if figure}
    gives = f"gives it {' and '.join(map(str, sorted(stated)))} points" if stated else "has no table row or heading that gives its points"
    good, bad = f"The handout gives it {task.points} points.", f"{name} {gives}; its laws sum to {task.points}."
    return _judged(stated == {task.points}, task.id, good, bad)


def _words_not_in(claim: str, text: str) -> list[str]:
    """The subject words of `claim` that `text` lacks; none when it has half of them, for a handout may say it in other words."""
    words = [word for word in claim.split("_") if word not in SMALL_WORDS]
    missing = [word for word in words if not re.search(rf"\b{word[:STEM_LENGTH]}", text, re.IGNORECASE)]
    return missing if 2 * len(missing) > len(words) else []


# --- the cases -------------------------------------------------------------------------------------------------------
def _cases(course: Course, assignment: Assignment) -> Iterator[Finding]:
    tests = collect(course.root, [path for room in ("public", "hidden") if (path := _test_file(course, room, assignment)).is_file()])
    known = {law.id for law in assignment.laws()}
    for test in tests:
        if len(test.marks) != 1 or f"{assignment.name}.{test.marks[0]}" not in known:
            yield _judged(False, f"{test.file}::{test.name}", "", _mark_trouble(test, assignment))
    for law in assignment.laws():
        mine = [test for test in tests if test.marks == (law.id.partition(".")[2],)]
        num_hidden = sum(test.is_hidden for test in mine)
        num_public = len(mine) - num_hidden
        bad = f"No public test is marked with it ({num_hidden} hidden): expected one in tests/public/test_{assignment.name}.py."
        yield _judged(num_public > 0, law.id, f"{num_public} public and {num_hidden} hidden cases.", bad)


def _mark_trouble(test: MarkedTest, assignment: Assignment) -> str:
    if len(test.marks) != 1:
        return f'It bears {len(test.marks) or "no"} law marks; expected one, such as @pytest.mark.law("<task>.<claim>").'
    return f"It is marked {test.marks[0]!r}, which is no law of {assignment.name}."


def _test_file(course: Course, room: str, assignment: Assignment) -> Path:
    return course.root / "tests" / room / f"test_{assignment.name}.py"


# --- stray files -----------------------------------------------------------------------------------------------------
def _strays(course: Course) -> Iterator[Finding]:
    names, probes = {assignment.name for assignment in course.assignments}, course.root / "tests" / "probes"
    allowed = {
        "tests/public": {f"test_{name}.py" for name in names},
        "tests/hidden": {f"test_{name}.py" for name in names},
        "tests/probes": {path.relative_to(probes).parts[0] for name in names for path in probe_files(course.root, name)},
        "solutions": {file for assignment in course.assignments for file in assignment.files} | set(GIVEN),
    }
    strays = [path for room in ROOMS for path in stray_files(course, room)]
    for room, expected in allowed.items():
        present = sorted((course.root / room).iterdir()) if (course.root / room).is_dir() else []
        strays += [path for path in present if path.name not in expected | {"__init__.py"} and not path.name.endswith(LITTER)]
    for path in strays:
        yield _judged(False, path.relative_to(course.root).as_posix(), "", "It belongs to no assignment; it is a stray file.")
    if not strays:
        yield _judged(True, "solutions/ and tests/", "No stray file.", "")
