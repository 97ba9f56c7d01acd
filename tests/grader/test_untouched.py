"""Where every stub of an assignment stands, as what students got says, nothing is run: the marks are known."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from grader.course import is_untouched, load
from grader.observe.live import Runs
from grader.pipeline import grade
from grader.records import NOT_STARTED, Report

STARTER = "def run(x):\n    raise NotImplementedError('tiny, task t')\n"
TEST = """import pytest


@pytest.mark.law("t.l")
def test_it(observe):
    observe("run").require()
"""


class RanksAreWanted(Exception):
    """Somebody has asked for processes."""


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course as a student has it, with one law; where it is graded, whoever asks for ranks raises RanksAreWanted."""
    for folder in ("tests/probes", "tests/public", "assignments/tiny", "starter"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/probes/tiny.py").write_text("def run(at):\n    return {}\n")
    (tmp_path / "tests/public/test_tiny.py").write_text(TEST)
    (tmp_path / "starter/tiny.py").write_text(STARTER)
    (tmp_path / "assignments/tiny/assignment.yaml").write_text(
        "number: 1\ntitle: Tiny\nfiles: [tiny.py]\ntasks:\n- {id: t, title: T, regions: [t], stub: pass, laws: ["
        "{id: l, claim: C, points: 1, evidence: judged}]}\n"
    )
    release = {"files": {"starter/tiny.py": hashlib.sha256(STARTER.encode()).hexdigest()}}
    (tmp_path / "release.json").write_text(json.dumps(release))

    def refuse(*_: object, **__: object) -> None:
        raise RanksAreWanted

    monkeypatch.setattr(Runs, "prepare", refuse)
    return tmp_path


def graded(root: Path) -> Report:
    """The starter's marks."""
    course = load(root)
    return grade(course, root / "starter", course.assignments)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_untouched_file_is_not_started_without_a_rank(released: Path, line_end: str) -> None:
    """Also where git has changed its line ends: no point, the diagnosis of a stub, and no process."""
    (released / "starter/tiny.py").write_bytes(STARTER.replace("\n", line_end).encode())
    (law,) = graded(released).assignments[0].tasks[0].laws
    assert law.verdict == "failed" and law.earned == 0 and law.message is not None
    assert law.message.diagnosis == NOT_STARTED and "tiny.py is as it was given" in law.message.seen


@pytest.mark.parametrize("how", ["edited", "not a release"])
def test_whatever_else_it_is_it_is_run(released: Path, how: str) -> None:
    """One comment more, or a course that nobody has released: the instructor's, where the starter itself is on trial."""
    if how == "edited":
        (released / "starter/tiny.py").write_text(STARTER + "# mine\n")
    else:
        (released / "release.json").unlink()
    with pytest.raises(RanksAreWanted):
        graded(released)


def test_a_file_that_is_missing_is_not_untouched(released: Path) -> None:
    """Neither in the submission nor in the release."""
    (tiny,) = load(released).assignments
    assert not is_untouched(released, tiny, {})
    (released / "release.json").write_text("{}")
    assert not is_untouched(released, tiny, {"tiny.py": ""})
