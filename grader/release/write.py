"""Writes a release, after looking for leaks in it; and looks for leaks in what somebody else has made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.records import Assignment
from grader.release.archives import tar_gz
from grader.release.bundle import Bundle, bundle_of, leaks_of
from grader.release.gradescope import autograder_of
from grader.release.leaks import Leak, scan
from grader.report.files import PRIVATE, PUBLIC, write_bytes

SHOWN = 20


def write(course: Course, out: Path, url: str = "", autograders: Sequence[Assignment] = ()) -> Iterator[str]:
    """Write the students' archive into `out`, and an upload to Gradescope for each of `autograders`; says what was written.

    Raises CourseError, and writes nothing, if something in the bundle must not leave.
    """
    bundle = bundle_of(course, url)
    if leaks := leaks_of(bundle):
        listed = "\n".join(map(str, leaks[:SHOWN])) + (f"\n... and {len(leaks) - SHOWN} more" if len(leaks) > SHOWN else "")
        raise CourseError(f"{len(leaks)} leaks, so nothing was written:\n{listed}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} can't be made a folder ({error.strerror}); name another with --out.") from error
    path = out / f"{bundle.name}.tar.gz"
    content = tar_gz(bundle.files, bundle.name)
    write_bytes(path, content, PUBLIC)
    yield f"{path}: {len(bundle.files)} files, {len(bundle.assignments)} assignments, {len(content) / 1e6:.1f} MB. For students."
    for each in (assignment for assignment in autograders if assignment in bundle.assignments):
        path = out / f"autograder-{each.name}-{bundle.version}.zip"
        write_bytes(path, autograder_of(course, bundle, each), PRIVATE)
        yield f"{path}: with hidden cases. For Gradescope, and for nobody else."


def leaks_in(course: Course, path: Path, bundle: Bundle | None = None) -> list[Leak]:
    """What must not leave and is in `path`: an unpacked bundle, a clone with its history, an archive, a single file."""
    bundle = bundle or bundle_of(course)
    if path.is_file():
        return scan({path.name: path.read_bytes()}, bundle.secrets)
    found = {each.relative_to(path).as_posix(): each for each in sorted(path.rglob("*")) if each.is_file() and not each.is_symlink()}
    files = {name: each.read_bytes() for name, each in found.items() if not name.startswith((".git/", ".venv/"))}
    return scan(files, bundle.secrets, allowed=bundle.files.keys()) + scan(_history(path, set(bundle.files.values())), bundle.secrets)


def _history(path: Path, known: set[bytes]) -> dict[str, bytes]:
    """Every object of the repository at `path`, reachable or not, by its hash; files that a release has today aside."""
    if not (path / ".git").exists():
        return {}
    git = ["git", "-C", str(path), "-c", "core.fsmonitor=false", "cat-file", "--batch", "--batch-all-objects"]
    ended = subprocess.run(git, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode:
        raise UsageError(f"{path} has a history that git can't read: {ended.stderr.decode('utf-8', 'replace').strip()}")
    objects: dict[str, bytes] = {}
    rest = ended.stdout
    while rest:
        head, _, rest = rest.partition(b"\n")
        name, kind, size = head.decode().split()
        content, rest = rest[: int(size)], rest[int(size) + 1 :]
        if content not in known:
            objects[f".git/{kind}/{name}"] = content
    return objects


