"""The repository → what students get: files by path, chosen by grader/release/allowed.yaml and by what the assignments say."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.records import Assignment
from grader.release.laws import reached
from grader.release.leaks import Leak, scan
from grader.release.notebooks import notebook_of
from grader.release.secrets import ALLOWED, Secrets, collect
from grader.release.texts import render
from grader.starter import LITTER, build

STAMP = "release.json"
MADE_OF_TEMPLATES = {
    "README.md": "README.md.j2",
    ".github/workflows/classroom.yml": "classroom.yml.j2",
    ".devcontainer/devcontainer.json": "devcontainer.json.j2",
}


@dataclass(frozen=True, slots=True)
class Bundle:
    """What students get, and what was looked for in it."""

    name: str  # of the archive and of its only folder, with the version
    version: str
    files: dict[str, bytes]
    assignments: tuple[Assignment, ...]
    secrets: Secrets


def bundle_of(course: Course, url: str = "") -> Bundle:
    """Build the students' bundle; `url` is where its archive will lie, for the notebooks.

    Raises UsageError outside of the instructor's repository, CourseError for a link among what is allowed or a missing file, and as
    `starter.build`. Nothing is written, and whether something leaked is `leaks_of`'s to say.
    """
    require_instructors(course, "release")
    root, ready = course.root, ready_assignments(course)
    name, version = _name_and_version(root)
    laws, left_out = reached(root, [_public(root, each) for each in ready])
    files = {path: (root / path).read_bytes() for path in _allowed(root, ready)}
    files |= {path: text.encode() for path, text in laws.items()}
    files |= {f"starter/{path}": content for path, content in _starters(course, ready)}
    archive = f"{name}-{version}.tar.gz"
    facts = {"assignments": ready, "archive": archive, "version": version, "url": url}
    files |= {path: render(template, **facts).encode() for path, template in MADE_OF_TEMPLATES.items()}
    for each in ready:
        stubs = {file: files[f"starter/{file}"].decode() for file in each.files}
        files[f"notebooks/{each.name}.ipynb"] = notebook_of(each, stubs, archive, url)
    files[STAMP] = stamp(name, version, files, ready)
    return Bundle(f"{name}-{version}", version, dict(sorted(files.items())), ready, collect(course, left_out, laws))


def leaks_of(bundle: Bundle) -> list[Leak]:
    """What must not leave and is in the bundle all the same."""
    return scan(bundle.files, bundle.secrets)


def require_instructors(course: Course, command: str) -> None:
    """UsageError in what students get: some commands need what is not in it."""
    if not (course.root / "solutions").is_dir():
        raise UsageError(
            f"grader {command} belongs to the instructor's repository: it needs solutions/, hidden cases and wrong answers, "
            "which are not part of what students get. Yours are: grade, debug, doctor, upgrade."
        )


def ready_assignments(course: Course) -> tuple[Assignment, ...]:
    """Assignments that a student can be graded on. UsageError if there is none."""
    ready = tuple(each for each in course.assignments if _public(course.root, each).is_file())
    if not ready:
        raise UsageError(f"{course.root} has no assignment with public tests: there is nothing to release.")
    return ready


def stamp(name: str, version: str, files: dict[str, bytes], ready: Sequence[Assignment]) -> bytes:
    """release.json: the version, a hash over everything, each file's hash, and which files are the student's to write."""
    sums = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items()) if path != STAMP}
    yours = [f"starter/{file}" for each in ready for file in each.files] + [f"notebooks/{each.name}.ipynb" for each in ready]
    build_hash = hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:12]
    tree = {"name": name, "version": version, "build": build_hash, "yours": sorted(set(yours) & set(sums)), "files": sums}
    return (json.dumps(tree, indent=1) + "\n").encode()


# --- what is allowed -------------------------------------------------------------------------------------------------
def _public(root: Path, assignment: Assignment) -> Path:
    return root / "tests" / "public" / f"test_{assignment.name}.py"


def _allowed(root: Path, assignments: Iterable[Assignment]) -> Iterator[str]:
    table = yaml.safe_load(ALLOWED.read_text(encoding="utf-8"))
    for pattern in table["course"]:
        yield from _matching(root, pattern)
    for each in assignments:
        for pattern in table["assignment"]:
            yield from _matching(root, pattern.format(name=each.name))
        for pattern in table["assignment_if_there"]:
            yield from _matching(root, pattern.format(name=each.name), must_be=False)


def _matching(root: Path, pattern: str, must_be: bool = True) -> Iterator[str]:
    found = not must_be
    for path in sorted(root.glob(pattern)):
        if path.is_dir() or any(part in LITTER or part.endswith(LITTER) for part in path.parts):
            continue
        if any(place.is_symlink() for place in (path, *path.parents) if place != root and place.is_relative_to(root)):
            raise CourseError(f"{path} is a link or lies behind one: a release copies files only.")
        found = True
        yield path.relative_to(root).as_posix()
    if not found:
        raise CourseError(f"{ALLOWED.name} allows {pattern}, and there is nothing of that kind.")


def _starters(course: Course, ready: Iterable[Assignment]) -> Iterator[tuple[str, bytes]]:
    """starter/ as it must be today, without the files of assignments that are not ready."""
    unready = {file for each in course.assignments for file in each.files} - {file for each in ready for file in each.files}
    yield from ((path, content) for path, content in build(course).items() if path not in unready)


def _name_and_version(root: Path) -> tuple[str, str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["name"], project["version"]
