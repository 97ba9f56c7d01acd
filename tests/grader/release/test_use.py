"""The bundle as a student uses it, and the autograder as the platform does: in a plain folder, with the installed packages, end to end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from grader.course import Course
from grader.records import Assignment
from grader.release import Bundle
from grader.release.gradescope import autograder_of

ROOT = Path(__file__).resolve().parents[3]
QUICK = "mfu_report"  # its cases are formulas, asked in one process each


@pytest.fixture
def quick(bundle: Bundle) -> Assignment:
    """The assignment that is graded fastest."""
    return next(each for each in bundle.assignments if each.name == QUICK)


def grader(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of the grader that lies in `where`, with today's interpreter."""
    return subprocess.run([sys.executable, "-m", "grader.cli", *arguments], cwd=where, capture_output=True, text=True, check=False)


def test_a_student_comes_to_full_public_marks(quick: Assignment, tmp_path: Path, unpack: Callable[..., Path]) -> None:
    """In a folder with a space and an accent: first 0 points, then all, provisional; an edited `lm` is told; other commands are refused."""
    course = unpack(tmp_path / "mon côurs")
    assert grader(course, "grade", "-a", QUICK, "-k", quick.laws()[0].id.rpartition(".")[2]).returncode == 1
    for file in quick.files:
        shutil.copy(ROOT / "solutions" / file, course / "starter" / file)
    with (course / "starter/lm/gpt.py").open("a") as stream:
        stream.write("# mine\n")
    ended = grader(course, "grade", "-a", QUICK)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((course / ".grade/latest/report.json").read_text())
    assert (report["earned"], report["provisional"]) == (quick.points, True) and report["possible"] == quick.points
    assert report["notes"] == ["starter/lm/gpt.py was edited: what counts is graded with the course's own copy."]
    for command in (["selfcheck"], ["mutants"], ["starter"], ["release"]):
        refused = grader(course, *command)
        assert refused.returncode == 2 and f"grader {command[0]} belongs to the instructor's repository" in refused.stderr


def autograded(place: Path, submission: Path | bytes) -> tuple[int, dict[str, object] | None]:
    """What run_autograder makes of a submission in `place`: its exit code, and results.json if there is one."""
    shutil.rmtree(place / "submission", ignore_errors=True)
    (place / "results" / "results.json").unlink(missing_ok=True)
    if isinstance(submission, Path):
        shutil.copytree(submission, place / "submission")
    surroundings = {"AUTOGRADER": str(place), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(["bash", "source/run_autograder"], cwd=place, env=surroundings, check=False)
    results = place / "results" / "results.json"
    return ended.returncode, json.loads(results.read_text()) if results.is_file() else None


def test_gradescopes_platform_gets_results(course: Course, bundle: Bundle, quick: Assignment, tmp_path: Path) -> None:
    """Unpacked as there: full marks with hidden cases for a solution; no results, and so no zero, when the course is broken."""
    (tmp_path / "source").mkdir()
    with zipfile.ZipFile(BytesIO(autograder_of(course, bundle, quick))) as archive:
        archive.extractall(tmp_path / "source")
    (tmp_path / "source/.venv/bin").mkdir(parents=True)
    (tmp_path / "source/.venv/bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "source/.venv/bin/python").chmod(0o755)
    (tmp_path / "answer").mkdir()
    for file in quick.files:
        shutil.copy(ROOT / "solutions" / file, tmp_path / "answer" / file)
    status, results = autograded(tmp_path, tmp_path / "answer")
    assert status == 0 and results is not None
    assert results["score"] == quick.points and "provisional" not in str(results["output"])
    (tmp_path / "source/tests/public" / f"test_{QUICK}.py").write_text("nothing = 1\n")
    (tmp_path / "source/tests/hidden" / f"test_{QUICK}.py").write_text("nothing = 1\n")
    status, results = autograded(tmp_path, tmp_path / "answer")
    assert status != 0 and results is None
    status, results = autograded(tmp_path, b"")
    assert status == 0 and results is not None and results["score"] == 0 and "There is no folder" in str(results["output"])
