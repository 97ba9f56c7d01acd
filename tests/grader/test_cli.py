"""The command line: one exit code and one sentence for every blame, and a start that nobody has to wait for."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader import cli, pipeline
from grader.errors import CourseError, MachineError, UsageError
from grader.judge.session import Judged
from grader.records import CaseOutcome, CaseVerdict, Message

ROOT = Path(__file__).parents[2]
SPECIFICATION = """
number: 3
title: Sums
files: [sums.py]
tasks:
  - id: ring
    title: The ring
    regions: [ring]
    stub: raise NotImplementedError
    laws: [{id: sum, claim: Sums are sums., points: 2, evidence: judged}]
"""
Run = Callable[..., int]


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one law, as the working folder, with a submission in starter/; no process is started to observe it."""
    (tmp_path / "assignments" / "sums").mkdir(parents=True)
    (tmp_path / "assignments" / "sums" / "assignment.yaml").write_text(SPECIFICATION)
    (tmp_path / "starter").mkdir()
    (tmp_path / "starter" / "sums.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grader.observe.live.Runs.prepare", lambda *_: None)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `grader` with these arguments; gives its exit code."""

    def run_grader(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["grader", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return int(left.value.code or 0)

    return run_grader


def judging(monkeypatch: pytest.MonkeyPatch, outcome: CaseOutcome, *, interrupted: bool = False) -> None:
    """Let the judge give this outcome to the only case."""
    verdict = CaseVerdict("sums.ring.sum", "test_sum", "the only case", False, outcome, Message(seen="seen so"))
    monkeypatch.setattr(pipeline, "judge", lambda *_, **__: Judged((verdict,), interrupted, False, "the log"))


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the judge raise this."""

    def judge(*_: Any, **__: Any) -> Judged:
        raise error

    monkeypatch.setattr(pipeline, "judge", judge)


@pytest.mark.parametrize(
    ("outcome", "interrupted", "code"),
    [("passed", False, 0), ("failed", False, 1), ("course_error", False, 3), ("machine_error", False, 4), ("passed", True, 130)],
)
def test_the_exit_code_says_who_is_to_blame(
    course: Path, run: Run, monkeypatch: pytest.MonkeyPatch, outcome: CaseOutcome, interrupted: bool, code: int
) -> None:
    """0 all passed, 1 a law failed, 3 the course, 4 the machine, 130 Ctrl-C; the run folder is written in each case."""
    judging(monkeypatch, outcome, interrupted=interrupted)
    assert run("grade") == code
    report = json.loads((course / ".grade/latest/report.json").read_text())
    assert (report["possible"], report["earned"], report["interrupted"]) == (2, 2 if outcome == "passed" else 0, interrupted)
    assert {path.name for path in (course / ".grade/latest").iterdir()} >= {"report.json", "junit.xml", "staff.json", "judge.log"}


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UsageError("-k selects nothing"), 2, "-k selects nothing"),
        (CourseError("test_x has no law mark"), 3, "The course is wrong, not you. test_x has no law mark"),
        (MachineError("out of disk"), 4, "The machine is at fault, not you. out of disk"),
        (KeyboardInterrupt(), 130, "Interrupted before there was anything to report."),
    ],
)
def test_a_refusal_is_one_sentence(
    course: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    sentence: str,
) -> None:
    """Whoever is to blame reads one sentence on stderr and no traceback."""
    raising(monkeypatch, error)
    assert run("grade") == code
    assert capsys.readouterr().err == f"{sentence}\n"


@pytest.mark.parametrize(
    ("error", "code"), [(ZeroDivisionError("nobody thought of it"), 3), (MemoryError("none left"), 4), (OSError("gone"), 4)]
)
def test_an_unforeseen_error_leaves_its_account_in_the_run_folder(
    course: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    """A crash of the grader is said in a sentence; the traceback goes to crash.txt of the folder that --out names."""
    raising(monkeypatch, error)
    assert run("grade", "--out", "here") == code
    err = capsys.readouterr().err
    assert "not you" in err and "Traceback" not in err and "crash.txt" in err
    assert type(error).__name__ in (course / "here" / "crash.txt").read_text()


@pytest.mark.parametrize(("number", "code", "advice"), [(errno.EROFS, 2, "Try: name another"), (errno.ENOSPC, 4, "Try: free some space")])
def test_a_run_folder_that_can_not_be_written_is_told_in_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int, advice: str
) -> None:
    """Which folder, why and what to do, and no traceback: another place is the caller's to name, a full disk the machine's fault."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    raising(monkeypatch, OSError(number, os.strerror(number)))
    monkeypatch.setattr(Path, "mkdir", refused)
    assert run("grade", "--out", "here") == code
    err = capsys.readouterr().err
    assert f"The run folder here can't be written: {os.strerror(number)}" in err and advice in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "--assignment", "summs"], "sums"),
        (["grade", "--assignment", "4"], "4"),
        (["grade", "--submission", "startr"], "starter"),
        (["grade", "--profile", "gpu", "--replay"], "--profile cpu"),
        (["grade", "--profile", "tpu"], "gpu"),
        (["grade", "--no-such-option"], "No such option"),
        (["marks"], "No such command"),
        (["debug", "0123"], "--submission"),
        (["debug", "0123", "--submission", "starter"], "0123"),
        (["starter"], "solutions"),
    ],
)
def test_what_the_caller_can_mend_is_code_two(
    course: Path, run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """A mistyped name, option or folder is answered with what was meant or what is there."""
    assert run(*arguments) == 2
    assert says in capsys.readouterr().err


def test_outside_a_course_the_caller_is_told_where_to_go(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started in some other folder, grading is refused as a mistake that can be mended."""
    monkeypatch.chdir(tmp_path)
    assert run("grade") == 2


def test_a_grading_has_a_page_and_a_replay_has_none(
    course: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last lines name the page; a replay makes none, and leaves none of an earlier report."""
    judging(monkeypatch, "failed")
    run("grade")
    assert ".grade/latest/report.html" in capsys.readouterr().out and "seen so" in (course / ".grade/latest/report.html").read_text()
    run("grade", "--replay")
    assert "report.html" not in capsys.readouterr().out and not (course / ".grade/latest/report.html").exists()


def test_a_page_that_fails_takes_no_marks_with_it(
    course: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Marks and exit code are what they were; the page's trouble is a sentence beside them."""
    judging(monkeypatch, "failed")
    monkeypatch.setattr("grader.pictures.web.write_page", lambda *_: {}["picture"])
    assert run("grade") == 1
    said = capsys.readouterr()
    assert "0 of 2 points" in said.out and "The marks stand" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("name", ["sums", "3"])
def test_an_assignment_goes_by_name_or_number(course: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Both ways lead to the same marks."""
    judging(monkeypatch, "passed")
    assert run("grade", "--assignment", name) == 0


def test_nothing_of_a_grading_is_left_but_the_run_folders_files(course: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The private copy of the submission is gone, also one that a killed grader has left; not that of one that still grades."""
    others = course / ".grade/latest" / f"graded-{os.getppid()}"
    others.mkdir(parents=True)
    (course / ".grade/latest/graded-999999999").mkdir()
    judging(monkeypatch, "passed")
    run("grade")
    assert list((course / ".grade/latest").glob("graded-*")) == [others]


def test_help_imports_nothing_heavy() -> None:
    """`grader --help` answers at once: torch, numpy, pytest and rich are imported by the commands that need them."""
    code = (
        "import sys, grader.cli; print([name for name in ('torch', 'numpy', 'pytest', 'rich', 'msgspec', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_judging_process_never_imports_torch() -> None:
    """The pipeline with all that it uses is numpy only, so that replay is quick and no submission can reach torch's state in it."""
    code = "import sys, grader.pipeline, grader.doctor, grader.report.terminal; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
