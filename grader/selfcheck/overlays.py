"""Mutants and variants on disk → whole submissions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from grader.course import Course
from grader.errors import CourseError
from grader.policy import hits_in
from grader.records import Assignment
from grader.regions import Header, compose, find, read_header
from grader.starter import LITTER

ROOMS = ("mutants", "variants")


@dataclass(frozen=True, slots=True)
class Overlay:
    """A wrong or unusual answer, composed onto today's solution."""

    path: str  # from the course's root
    header: Header
    file: str  # the assignment's file that it changes
    source: str  # that file, whole

    def rules_broken(self, assignment: Assignment) -> list[str]:
        """Ids of the rules that the changed file breaks, each once."""
        own = {file.removesuffix(".py") for file in assignment.files}
        return list(dict.fromkeys(hit.rule for hit in hits_in(self.source, self.file, assignment.forbidden, assignment.permitted, own)))

    def write(self, course: Course, assignment: Assignment, folder: Path) -> Path:
        """Put the whole submission into `folder`, which is made, and return it."""
        folder.mkdir(parents=True)
        for file in assignment.files:
            text = self.source if file == self.file else (course.root / "solutions" / file).read_text(encoding="utf-8")
            (folder / file).write_text(text, encoding="utf-8")
        return folder


def overlay_paths(course: Course, room: str, assignment: Assignment) -> list[Path]:
    """The files of `tests/<room>/<assignment>/`, by name."""
    return sorted(path for path in (course.root / "tests" / room / assignment.name).glob("*.py") if path.is_file())


def stray_files(course: Course, room: str) -> list[Path]:
    """What lies in `tests/<room>/` and is no overlay of an assignment: other kinds of files, deeper folders, folders of no assignment."""
    root = course.root / "tests" / room
    overlays = {path for assignment in course.assignments for path in overlay_paths(course, room, assignment)}
    files = (path for path in sorted(root.rglob("*")) if not path.is_dir() or path.is_symlink())
    return [path for path in files if path not in overlays and not any(part.endswith(LITTER) for part in path.parts)]


def load_overlay(course: Course, assignment: Assignment, path: Path) -> Overlay:
    """Read and compose one mutant or variant. CourseError if it is malformed, no longer fits the solution, or is the solution itself.

    An overlay changes one file; a file without regions stands for a whole one, named by `file:` where the assignment has several.
    """
    name = path.relative_to(course.root).as_posix()
    text = path.read_text(encoding="utf-8")
    header = read_header(text, name)
    if header.file and header.file not in assignment.files:
        raise CourseError(f"{name}: `file: {header.file}` is none of {', '.join(assignment.files)}.")
    solutions = {file: (course.root / "solutions" / file).read_text(encoding="utf-8") for file in assignment.files}
    regions = find(text, name)
    if regions:
        homes = [file for file, source in solutions.items() if any(r.name == regions[0].name for r in find(source, file))]
        file = homes[0] if homes else assignment.files[0]
        whole = compose(solutions[file], text, file, name)
    else:
        if not header.file and len(assignment.files) > 1:
            raise CourseError(f"{name}: expected `file: <one of {', '.join(assignment.files)}>` in the docstring of a whole file.")
        file, whole = header.file or assignment.files[0], text
    if _same_program(whole, solutions[file], name):
        raise CourseError(f"{name} is today's solution itself: nothing in it differs.")
    return Overlay(name, header, file, whole)


def _same_program(ours: str, theirs: str, name: str) -> bool:
    try:
        return ast.dump(ast.parse(ours)) == ast.dump(ast.parse(theirs))
    except SyntaxError as error:
        raise CourseError(f"{name}:{error.lineno}: this is not Python: {error.msg}.") from None
