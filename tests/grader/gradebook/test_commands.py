"""The commands as an instructor types them: files, sentences, exit codes."""

from __future__ import annotations

import csv
import io
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import commands
from grader.course import Course
from grader.gradebook.trail import changes_of
from grader.ledger import Row
from tests.grader.gradebook.conftest import COURSE, marked, report, write_class, write_reports

ROOT = Path(__file__).resolve().parents[3]
EVIL = '=HYPERLINK("http://evil","x")'
ADA = Row("0042", "Ada, \"the\" Lovelace", "ada@x.org", "A", "0042.zip", "2026-10-05T12:00:00+02:00", "marked", "",
          {"collectives": (90, 100), "data_parallel": (40, 100)})  # fmt: skip
OTHER = replace(ADA, student="0043", name=EVIL, email="zoë@x.org", marks={"collectives": (0, 100), "data_parallel": (100, 100)})
BROKEN = Row("0044", "Ada, \"the\" Lovelace", state="machine", sentence="the disk is full")


@pytest.fixture(autouse=True)
def in_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands look for the course around the working folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: object, status: int = 0) -> Result:
    """A command's end, which must have this exit code."""
    ended = CliRunner().invoke(commands, [str(each) for each in arguments], standalone_mode=False)
    assert ended.exception is None, ended.output
    assert ended.return_value == status, ended.output
    return ended


def test_a_csv_keeps_zeros_apart_from_nothing(tmp_path: Path) -> None:
    """A machine's failure is blank, named, and ends with the machine's exit code unless that is allowed; a zero is a zero."""
    folder = write_class(tmp_path / "class", [ADA, OTHER, BROKEN])
    said = run("export", folder, status=4).output
    assert "0044, collectives: the grader's machine failed: the disk is full: no mark" in said
    path = folder / "exports" / "marks.csv"
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    assert rows[1] == ["0042", 'Ada, "the" Lovelace', "ada@x.org", "A", "90", "40", "130", "200", ""]
    assert rows[2] == ["0043", f"'{EVIL}", "zoë@x.org", "A", "0", "100", "100", "200", ""]
    assert rows[3][4:] == ["", "", "", "", "collectives: machine; data_parallel: machine"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    run("export", folder, "--allow-blanks")


def test_explain_tells_a_mark_step_by_step_with_its_trail(tmp_path: Path) -> None:
    """Raw, late, final, then where its laws are told and what the trail has."""
    folder = write_class(tmp_path / "class", [replace(ADA, report="reports/ada"), OTHER])
    run("export", folder)
    deadline = "{assignment: collectives, deadline: 2026-10-04T12:00+02:00}"
    (folder / "terms.yaml").write_text(f"late: {{per_day: 10 points}}\nassignments: [{deadline}]")
    run("export", folder)
    said = run("explain", folder, "0042").output
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[0].startswith("0042 Ada")
    assert "90 of 100 points as graded 90" in lines
    assert "handed in 2026-10-05 10:00 UTC, 1 day after 2026-10-04 10:00 UTC: −10 80" in lines
    assert any("90 → 80 (handed in" in line for line in lines)
    assert f"law by law {folder}/reports/ada/report.json" in lines
    assert lines[-1] == "Together 120 of 200"
    assert len(changes_of(folder, "0042")) == 3
    assert "did you mean 0042?\n" in run("explain", folder, "042", status=2).output


def test_the_platforms_file_is_copied_and_filled(tmp_path: Path) -> None:
    """It is never written itself, and what has to be known of it is said."""
    folder = write_class(tmp_path / "class", [ADA, OTHER])
    mine = tmp_path / "gradebook.csv"
    mine.write_text("Student,ID,SIS User ID,Collectives (7),DP (8)\nAda,1,0042,,\n", encoding="utf-8")
    assert "name it: --column 'data_parallel=its header'" in run("export", folder, "--format", "canvas", "--into", mine, status=2).output
    ended = run("export", folder, "--format", "canvas", "--into", mine, "--column", "data_parallel=DP (8)")
    assert (folder / "exports" / "canvas-gradebook.csv").read_text() == "Student,ID,SIS User ID,Collectives (7),DP (8)\nAda,1,0042,90,40\n"
    assert "0043" in ended.output
    assert "your own file" in run("export", folder, "--format", "canvas", "--into", mine, "--to", mine, "--column", "data_parallel=DP (8)",
                                  status=2).output  # fmt: skip
    assert ",,\n" in mine.read_text()


def test_one_assignment_is_settled_under_the_terms_of_all(tmp_path: Path) -> None:
    """With -a the others are left out of the file, but slip days that they used are used."""
    rings = write_class(tmp_path / "rings", [replace(ADA, marks={"collectives": (90, 100)})])
    parallel = write_class(tmp_path / "dp", [replace(ADA, marks={"data_parallel": (40, 100)})])
    (rings / "terms.yaml").write_text("late: {per_day: 10 points, slip_days: 1}\nassignments:\n"
                                      "  - {assignment: collectives, deadline: 2026-10-04T12:00+02:00}\n"
                                      "  - {assignment: data_parallel, deadline: 2026-10-04T18:00+02:00}\n")  # fmt: skip
    run("export", rings, "--and", parallel, "-a", "data_parallel", "--format", "markdown")
    assert (rings / "exports" / "marks.md").read_text().splitlines()[2].split(" | ")[2] == "30"
    assert "both have marks for collectives" in run("export", rings, "--and", rings, status=2).output


def test_a_folder_without_a_class_is_said(tmp_path: Path) -> None:
    """Before a ledger is made there by looking."""
    assert "holds no class.sqlite" in run("export", tmp_path, status=2).output
    assert list(tmp_path.iterdir()) == []


def test_what_a_mark_lacks_is_said_when_it_is_let_out(tmp_path: Path) -> None:
    """No hidden cases, no time of handing in."""
    folder = write_class(tmp_path / "class", [replace(ADA, provisional=True, submitted=""), OTHER])
    (folder / "terms.yaml").write_text("assignments: [{assignment: collectives, deadline: 2026-10-04T12:00+02:00}]")
    said = run("export", folder).output
    assert "2 of 4 marks are provisional" in said
    assert "1 mark counted as on time" in said


def test_insight_names_what_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says where page and table are."""
    monkeypatch.setattr("grader.commands.instructors.course_of", lambda wanted: (Course(tmp_path, COURSE), COURSE))
    folder = write_class(tmp_path / "class", [replace(marked("ada", 25, 0), marks={"rings": (25, 100)})])
    write_reports(folder, {"ada": report({"rings": ["sends"]})})
    said = run("insight", folder).output
    assert "rings.task.adds: nobody passes it (0 of 1 pass)" in said
    assert (folder / "class.html").is_file() and (folder / "laws.csv").is_file()


def test_similar_lists_pairs_and_changes_no_mark(tmp_path: Path) -> None:
    """Who is like whom, where, and how much of how much."""
    rows = [replace(ADA, student=name, path=name, marks={"data_parallel": (1, 100)}) for name in ("a", "b")]
    folder = write_class(tmp_path / "class", rows)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data_parallel.py").write_text((ROOT / "solutions/data_parallel.py").read_text())
    before = (folder / "class.sqlite").read_bytes()
    said = run("similar", folder, "--submissions", tmp_path).output
    assert "data_parallel: a and b" in said and "Pairs that share at least 50%: 1; submissions compared: 2." in " ".join(said.split())
    assert (folder / "class.sqlite").read_bytes() == before
