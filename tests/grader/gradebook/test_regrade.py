"""Judging a class anew: from what was observed, told before it is written, and never a zero for what isn't known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grader.cli import commands
from grader.course import load
from grader.errors import UsageError
from grader.gradebook.trail import changes_of
from grader.ledger import Ledger, Row, alone_in
from grader.pipeline import grade, opened_runs
from grader.report.files import write_all

SPECIFICATION = """
number: 3
title: Sums
files: [sums.py]
tasks:
  - id: sum
    title: The sum
    regions: [total]
    stub: raise NotImplementedError
    laws:
      - {id: is_large, claim: The sum is large., points: 2, evidence: judged}
      - {id: is_there, claim: There is a sum., points: 3, evidence: judged}
"""
PROBE = """
import torch

def total(at):
    return {"y": torch.tensor(float(at.submission.total()))}
"""
CASES = """
import pytest

@pytest.fixture
def y(observe):
    return float(observe("total", returns={"y": ("float32", ())}, transport="none").rank(0)["y"])

@pytest.mark.law("sum.is_large")
def test_is_large(y):
    assert y >= 3, "too small"

@pytest.mark.law("sum.is_there")
def test_is_there(y):
    assert y == y
"""
SUMS = {"ada": 2, "bob": 3, "eve": 5}


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of two laws, three submissions and the class's folder as a batch leaves it; ranks have really run."""
    root = tmp_path_factory.mktemp("graded")
    files = {"assignments/sums/assignment.yaml": SPECIFICATION, "tests/probes/sums.py": PROBE, "tests/public/test_sums.py": CASES,
             **{f"work/{name}/sums.py": f"def total():\n    return {value}\n" for name, value in SUMS.items()}}  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    course, folder = load(root), root / "class"
    with opened_runs(root, folder, forgets=False) as runs, closing(Ledger(folder)) as ledger:
        for name in SUMS:
            report = grade(course, root / "work" / name, course.assignments, runs=runs, called="what was handed in")
            write_all(report, folder / "reports" / name)
            marks = {"sums": (report.earned, report.possible)}
            ledger.put([Row(name, path=name, state="marked", marks=marks, provisional=True, submission=report.submission, judged_by="j",
                            report=f"reports/{name}")])  # fmt: skip
        ledger.put([Row("zoe", state="machine", sentence="disk full")])
    return root


@pytest.fixture
def root(graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy that a test may change; no rank runs in any of them."""
    shutil.copytree(graded, tmp_path / "it")
    monkeypatch.chdir(tmp_path / "it")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("grader.observe.live.Runs.fresh", lambda *_, **__: pytest.fail("a rank was started"))
    yield tmp_path / "it"


def regrade(*options: str, status: int = 0) -> str:
    """What the command says."""
    ended = CliRunner().invoke(commands, ["regrade", "class", "--submissions", "work", *options], standalone_mode=False)
    assert ended.exception is None, ended.output
    assert ended.return_value == status, ended.output
    return ended.output


def rows(root: Path) -> dict[str, Row]:
    """The ledger's rows by student."""
    with closing(Ledger(root / "class")) as ledger:
        return {row.student: row for row in ledger.rows()}


def move_threshold(root: Path, to: str) -> None:
    """Change the public test."""
    path = root / "tests/public/test_sums.py"
    path.write_text(path.read_text().replace("y >= 3", to))


def test_nothing_has_changed(root: Path) -> None:
    """The same tests give the same marks."""
    assert "Marks that change: 0; that stay: 3; that can't be judged anew: 0." in regrade()


@pytest.mark.parametrize(("to", "says"), [("y >= 2", "1 gain it, 0 lose it"), ("y >= 4", "0 gain it, 1 lose it")])
def test_gains_and_losses_are_told_and_nothing_is_written(root: Path, to: str, says: str) -> None:
    """Per law and per student; without --accept the ledger and the reports are as they were."""
    before = {path: path.read_bytes() for path in (root / "class" / "reports").rglob("*") if path.is_file()}, rows(root)
    move_threshold(root, to)
    said = regrade()
    assert f"sums.sum.is_large: {says}" in said
    assert ("2 → 5" if "2" in to else "5 → 3") in said.replace("3 → 5", "2 → 5")
    assert "Nothing was written" in said
    assert ({path: path.read_bytes() for path in (root / "class" / "reports").rglob("*") if path.is_file()}, rows(root)) == before


def test_what_is_accepted_stands_with_its_reason_and_the_old_is_kept(root: Path) -> None:
    """New reports beside the old, rows that point there, and a trail that tells from, to, why; a second regrade has nothing to do."""
    move_threshold(root, "y >= 4")
    assert "--accept needs --why" in regrade("--accept", status=2)
    regrade("--accept", "--why", "the handout says 4")
    after = rows(root)
    assert {name: row.marks.get("sums") for name, row in after.items()} == {"ada": (3, 5), "bob": (3, 5), "eve": (5, 5), "zoe": None}
    assert json.loads((root / "class" / after["bob"].report / "report.json").read_text())["earned"] == 3
    assert json.loads((root / "class/reports/bob/report.json").read_text())["earned"] == 5
    assert after["ada"].report == "reports/ada"
    first, second = changes_of(root / "class", "bob")
    assert (first.now, second.was, second.now) == ("5", "5", "3")
    assert second.why.startswith("regraded (the handout says 4): no longer passes sums.sum.is_large; 3 of 5 points as graded")
    assert "Marks that change: 0; that stay: 3" in regrade()


def test_nothing_is_accepted_while_a_batch_is_at_work(root: Path) -> None:
    """Both write the same rows; to look on is allowed."""
    move_threshold(root, "y >= 4")
    before = rows(root)
    with alone_in(root / "class"):
        assert "Another `grader batch` or `grader regrade --accept` is working in class" in regrade("--accept", "--why", "x", status=2)
        assert "Nothing was written" in regrade()
    assert rows(root) == before
    assert "Written." in regrade("--accept", "--why", "x")


def test_a_batch_waits_for_no_mark_of_a_regrade(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first look to its last word a regrade that writes is alone."""
    move_threshold(root, "y >= 4")
    looked = []

    def judge_anew(*given: Any, **named: Any) -> Any:
        with pytest.raises(UsageError, match="Another"), alone_in(root / "class"):
            pass
        looked.append(given)
        return grade(*given, **named)

    monkeypatch.setattr("grader.gradebook.regrade.grade", judge_anew)
    regrade("--accept", "--why", "x")
    assert len(looked) == 3


def test_what_is_not_stored_keeps_its_mark(root: Path) -> None:
    """A probe that was edited would have to be run: all marks stand, and it is said whose."""
    path = root / "tests/probes/sums.py"
    path.write_text(path.read_text() + "# edited\n")
    said = " ".join(regrade("--accept", "--why", "x").split())
    assert "no stored observation for sums.sum.is_large and sums.sum.is_there; grade again" in said and "(ada, bob, eve)" in said
    assert "Marks that change: 0; that stay: 0; that can't be judged anew: 3." in said
    assert rows(root)["eve"].marks == {"sums": (5, 5)}


def test_other_files_than_those_that_were_graded_are_not_judged(root: Path) -> None:
    """A later hand-in is a batch's business."""
    (root / "work/ada/sums.py").write_text("def total():\n    return 9\n")
    shutil.rmtree(root / "work/bob")
    said = regrade()
    assert "the files are not those that were graded (ada)" in said
    assert "bob is not there (bob)" in said


def test_a_broken_test_is_the_courses_fault(root: Path) -> None:
    """It must not become anybody's loss."""
    move_threshold(root, "undefined_name")
    assert "The course is wrong" in regrade("--accept", "--why", "x", status=3)
    assert rows(root)["eve"].marks == {"sums": (5, 5)}


def test_observations_outlive_a_regrade(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A student's store forgets all but the latest submissions when it is closed; a class's must not."""
    monkeypatch.setattr("grader.store.NUM_SUBMISSIONS_KEPT", 1)
    move_threshold(root, "y >= 2")
    assert regrade() == regrade()
