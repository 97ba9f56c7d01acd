"""`grade --profile gpu` and `grader gpu`, on a machine without GPUs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import cli, devices
from grader.course import Course
from tests.grader.profile.conftest import RIGHT, Submit, pretended


@pytest.fixture
def run(course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run `grader` in the course's folder, into `out`; gives its exit code."""
    monkeypatch.chdir(course.root)
    monkeypatch.setattr(devices, "found", lambda: ())

    def run_grader(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["grader", *arguments, "--out", str(tmp_path / "out")])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return int(left.value.code or 0)

    return run_grader


def test_without_gpus_the_cpus_marks_decide_the_exit_code(
    run: Callable[..., int], submit: Submit, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They stand; the report, on the screen and in the file, says that the GPU stage is still to come, also when asked again."""
    folder = str(submit(RIGHT))
    assert run("grade", "--profile", "gpu", "--submission", folder) == 0
    assert run("gpu") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("still to be judged: gpu") == 2 and text.count("grader gpu") == 2
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["earned"], report["waits_for"], report["provisional"]) == (9, ["gpu"], True)
    assert len(report["notes"]) == 1


def test_a_stage_needs_marks_to_be_added_to(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """The caller is told what to do first."""
    assert run("gpu") == 2
    assert "grade into it first" in capsys.readouterr().err


def test_a_stage_is_added_once(
    run: Callable[..., int], submit: Submit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one would count its cases twice."""
    monkeypatch.setattr("grader.observe.profile.GpuProfile", lambda gpus: pretended(2))
    assert run("grade", "--profile", "gpu", "--submission", str(submit(RIGHT))) == 0
    assert "cpu and gpu" in capsys.readouterr().out
    assert run("gpu") == 2
    assert "already" in capsys.readouterr().err
