"""The bundle: what is in it, what isn't, and that it is the same bytes whenever it is built."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from grader.course import Course, load, probe_files
from grader.errors import CourseError, UsageError
from grader.release import Bundle, bundle_of, leaks_of, require_instructors, tar_gz

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = {path.stem.removeprefix("test_") for path in (ROOT / "tests/public").glob("test_*.py")}


def test_nothing_of_the_real_bundle_tells_an_answer(bundle: Bundle) -> None:
    """Every file was read; there are thousands of lines to look for."""
    assert leaks_of(bundle) == []
    assert len(bundle.secrets.lines) > 1000 and len(bundle.files) > 100


def test_whole_rooms_stay_behind(bundle: Bundle) -> None:
    """Solutions, hidden cases, wrong and unusual answers, the grader's own tests and notes on its weak places."""
    rooms = ("solutions", "tests/hidden", "tests/mutants", "tests/variants", "tests/exploits", "tests/grader", "grader/design")
    assert [path for path in bundle.files if path.startswith(rooms)] == []
    assert not any("__pycache__" in path or path.startswith((".grade", ".git/", ".venv")) for path in bundle.files)


def test_every_assignment_with_public_tests_is_there(bundle: Bundle) -> None:
    """Derived from the folders: specification, handout, starter, probe, public cases, a notebook, and a line in README."""
    assert {each.name for each in bundle.assignments} == PUBLIC
    readme = bundle.files["README.md"].decode()
    for each in bundle.assignments:
        rooms = {f"assignments/{each.name}/{file}" for file in ("assignment.yaml", "handout.md")}
        rooms |= {path.relative_to(ROOT).as_posix() for path in probe_files(ROOT, each.name)}
        rooms |= {f"tests/public/test_{each.name}.py", f"notebooks/{each.name}.ipynb"}
        assert rooms | {f"starter/{file}" for file in each.files} <= bundle.files.keys()
        assert f"| {each.number} | [`{each.name}`](assignments/{each.name}/handout.md) |" in readme


def test_every_import_of_a_law_is_there(bundle: Bundle) -> None:
    """A public case or a law that ships imports nothing of the room that stayed behind."""
    wanted = set()
    for path, content in bundle.files.items():
        if path.startswith(("tests/public/", "tests/laws/")):
            for node in ast.walk(ast.parse(content)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.laws"):
                    place = str(node.module).replace(".", "/")
                    wanted |= {f"{place}.py"} if f"{place}.py" in bundle.files else {f"{place}/{alias.name}.py" for alias in node.names}
    assert wanted and wanted <= bundle.files.keys()


def test_the_stamp_names_version_and_every_file(bundle: Bundle) -> None:
    """release.json is what an upgrade goes by: hashes of all files, and which are the student's."""
    stamp = json.loads(bundle.files["release.json"])
    assert stamp["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sums = {path: hashlib.sha256(content).hexdigest() for path, content in bundle.files.items() if path != "release.json"}
    assert stamp["files"] == sums
    assert set(stamp["yours"]) == {f"starter/{file}" for each in bundle.assignments for file in each.files} | {
        f"notebooks/{name}.ipynb" for name in PUBLIC
    }


def test_the_archive_is_the_same_bytes_twice(course: Course, bundle: Bundle) -> None:
    """Built anew: equal, sorted, with one date, one owner and plain modes, in one folder with the version."""
    first, second = (tar_gz(each.files, each.name) for each in (bundle, bundle_of(course)))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(f"{bundle.name}/{path}" for path in bundle.files)
    told = {(member.mtime, member.uid, member.gid, member.uname, member.mode) for member in members}
    assert told == {(members[0].mtime, 0, 0, "", 0o644)}


def test_students_have_nothing_to_release(bundle: Bundle, tmp_path: Path) -> None:
    """In what students get, the instructor's commands say whose they are."""
    path = tmp_path / "assignments/collectives/assignment.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(bundle.files["assignments/collectives/assignment.yaml"])
    with pytest.raises(UsageError, match="grader mutants belongs to the instructor's repository"):
        require_instructors(load(tmp_path), "mutants")


def test_a_link_among_what_is_allowed_is_refused(course: Course, tmp_path: Path) -> None:
    """A file that is allowed may not be a way to another one."""
    for room in ("assignments", "solutions", "tests", "grader", "datasets", "pyproject.toml", ".gitignore", "CHANGELOG.md", "LICENSE"):
        (tmp_path / room).symlink_to(ROOT / room)
    (tmp_path / "Makefile").write_text("")
    with pytest.raises(CourseError, match="is a link or lies behind one"):
        bundle_of(load(tmp_path))
