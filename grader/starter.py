"""solutions/ → starter/: what students begin with, derived and never written by hand."""

from __future__ import annotations

from pathlib import Path

from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.records import Assignment
from grader.regions import find, strip

GIVEN = ("lm", "report.py", "train.py")  # the same in both rooms, when they exist
LITTER = ("__pycache__", ".pyc", ".ipynb_checkpoints", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache")


def build(course: Course) -> dict[str, bytes]:
    """Every file of starter/ by its path in it (with /), as it must be today.

    Raises CourseError when a solution is missing, a task's region is in no file or in two, or a stub breaks its file; UsageError when the
    course has no solutions at all, as in what students get.
    """
    solutions = course.root / "solutions"
    if not solutions.is_dir():
        raise UsageError(f"{course.root} has no solutions/: the starter is derived where they are, in the instructor's repository.")
    files: dict[str, bytes] = {}
    for assignment in course.assignments:
        files |= _starters(assignment, solutions)
    for name in GIVEN:
        place = solutions / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and not _is_litter(path):
                files[path.relative_to(solutions).as_posix()] = path.read_bytes()
    return files


def regenerate(course: Course) -> list[str]:
    """Bring starter/ up to date and return the paths that changed. A file that doesn't belong there is left alone: `stale` names it.

    Raises as `build`, before anything is written; CourseError for a link in the way.
    """
    root, changed = course.root / "starter", []
    for name, content in build(course).items():
        path = root / name
        if any(place.is_symlink() for place in (path, *path.parents) if place.is_relative_to(root)):
            raise CourseError(f"{path} is a link or lies behind one; writing there would change another file. Remove the link first.")
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            changed.append(f"starter/{name}")
    return changed


def stale(course: Course) -> list[str]:
    """One sentence for every file of starter/ that is missing, differs from today's solution or belongs to nobody. Raises as `build`."""
    root, expected = course.root / "starter", build(course)
    present = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if not path.is_dir() and not _is_litter(path)}
    sentences = [f"starter/{name} is missing; `grader starter` makes it." for name in expected if name not in present]
    for name, path in present.items():
        if name not in expected:
            sentences.append(f"starter/{name} is derived from no solution; it is a stray file.")
        elif path.is_symlink() or path.read_bytes() != expected[name]:
            line = _first_difference(path.read_bytes(), expected[name])
            sentences.append(f"starter/{name} is not what its solution gives (from line {line} on); `grader starter` brings it up to date.")
    return sentences


def stubs(assignment: Assignment) -> dict[str, str]:
    """The stub of every region of `assignment`."""
    return {region: task.stub for task in assignment.tasks for region in task.regions}


def _starters(assignment: Assignment, solutions: Path) -> dict[str, bytes]:
    starters: dict[str, bytes] = {}
    homes: dict[str, str] = {}
    for file in assignment.files:
        path = solutions / file
        if not path.is_file():
            raise CourseError(f"solutions/{file} is missing; assignments/{assignment.name}/assignment.yaml names it.")
        source = path.read_text(encoding="utf-8")
        for region in find(source, f"solutions/{file}"):
            if region.name in homes:
                raise CourseError(f"solutions/{file}:{region.first_line}: region {region.name} is in {homes[region.name]} as well.")
            homes[region.name] = file
        starters[file] = strip(source, stubs(assignment), f"solutions/{file}").encode()
    for task in assignment.tasks:
        if lost := [region for region in task.regions if region not in homes]:
            raise CourseError(f"{task.id} names the region {lost[0]}, which is in none of {', '.join(assignment.files)} (solutions/).")
    return starters


def _first_difference(got: bytes, expected: bytes) -> int:
    ours, theirs = got.splitlines(keepends=True), expected.splitlines(keepends=True)
    pairs = enumerate(zip(ours, theirs, strict=False), 1)
    return next((number for number, (a, b) in pairs if a != b), min(len(ours), len(theirs)) + 1)


def _is_litter(path: Path) -> bool:
    return any(part in LITTER or part.endswith(LITTER) for part in path.parts)
