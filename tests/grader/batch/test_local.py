"""Whole batches on this machine, with processes: every layout gives the same marks, and whatever dies, the table is the undisturbed one."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.batch import Class, grade_class, read_roster
from grader.batch.local import LocalCrew
from grader.course import Course
from grader.errors import UsageError
from grader.ledger import Ledger, Row
from tests.grader.batch.downloads import LAYOUTS, Files, Student, plain, roster_csv

ROOT = Path(__file__).parents[3]
SMALL = {"ada": b"def add(a, b):\n    return a + b\n", "bo": b"def add(a, b):\n    return a * b\n"}
# The class of conftest.py: state and points of each student.
TABLE = {1: ("marked", 5), 2: ("marked", 3), 3: ("marked", 5), 4: ("marked", 0), 5: ("marked", 0), 6: ("marked", 0), 7: ("refused", 0),
         8: ("marked", 0), 9: ("marked", 0), 10: ("marked", 0), 11: ("marked", 5), 12: ("missing", 0)}  # fmt: skip


def graded(course: Course, folder: Path, students: Sequence[Student], *, out: Path, limit_s: float = 600.0, **options: Any) -> Class:
    """Grade what is in `folder` with one process."""
    (folder.parent / "roster.csv").write_bytes(roster_csv(students))
    roster = read_roster(folder.parent / "roster.csv")
    return grade_class(course, course.assignments, folder, out, lambda job: LocalCrew(job, 1, limit_s), roster=roster, **options)


def rows_of(out: Path) -> dict[str, Row]:
    """What the ledger has, by student."""
    return {row.student: row for row in Ledger(out).rows()}


def table(rows: Mapping[str, Row]) -> dict[int, tuple[str, int]]:
    """State and points, by the number of the student."""
    return {int(row.student): (row.state, row.earned) for row in rows.values()}


def test_every_layout_gives_the_same_rows(course: Course, handed: dict[Student, Files], students: list[Student], tmp_path: Path) -> None:
    """The same class from five platforms: the first is graded, and all the others are answered by the reports of the first."""
    out, num_graded = tmp_path / "out", {}
    for name, write in LAYOUTS.items():
        write(tmp_path / name, handed)
        num_graded[name] = graded(course, tmp_path / name, students, out=out).tally.num_graded
        rows = rows_of(out)
        assert (name, table(rows)) == (name, TABLE)
        assert all((tmp_path / name / row.path).exists() for row in rows.values() if row.state != "missing")
    assert num_graded == {"gradescope": 7, "moodle": 0, "canvas": 0, "github": 0, "plain": 0}
    assert rows["0000001"].report == rows["0000003"].report == rows["0000011"].report  # one answer, packed in three ways
    assert "Week 1" not in (out / rows["0000003"].report / "report.json").read_text()  # and nothing in it says whose it is


def test_a_machines_failure_is_tried_again(course: Course, tmp_path: Path) -> None:
    """The process dies over the first submission, another has no memory for it: the third try is the one that counts."""
    plain(tmp_path / "in", {Student(name, name, name, 1): {"sums.py": code, "more.py": b""} for name, code in SMALL.items()})
    (course.root / "trouble").write_text("die - - memory")  # the other submission's two calls come between the tries
    done = graded(course, tmp_path / "in", [], out=tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    seen = {row.student: (row.state, row.earned, row.attempts) for row in rows.values()}
    assert seen == {"ada": ("marked", 5, 3), "bo": ("marked", 3, 1)}
    assert done.tally.num_graded == 2


def test_what_is_stuck_is_ended_and_gets_no_mark(course: Course, tmp_path: Path) -> None:
    """With no time allowed each grading is stuck: three tries, a row without a mark, and the class is done all the same."""
    plain(tmp_path / "in", {Student("ada", "Ada", "ada", 1): {"sums.py": SMALL["ada"], "more.py": b""}})
    graded(course, tmp_path / "in", [], out=tmp_path / "out", limit_s=0.0)
    row = rows_of(tmp_path / "out")["ada"]
    assert (row.state, row.marks, row.attempts, row.report) == ("machine", {}, 3, "") and "not graded within" in row.sentence


def batch(course: Course, folder: Path, out: Path) -> subprocess.Popen[str]:
    """The command, as an instructor gives it."""
    command = [sys.executable, "-m", "grader.cli", "batch", str(folder), "--out", str(out), "--jobs", "1"]
    surroundings = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    # Whoever runs these tests in the background has told all that they start to ignore Ctrl-C.
    return subprocess.Popen(command, cwd=course.root, env=surroundings, stdout=subprocess.PIPE, text=True, preexec_fn=_hears_ctrl_c)


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_killed_at_any_row_the_same_command_ends_with_the_same_table(
    course: Course, handed: dict[Student, Files], tmp_path: Path
) -> None:
    """SIGKILL when the first row is told, when the first grading is and the second hangs, and later on; then it is left alone."""
    plain(tmp_path / "in", handed)
    out, trouble = tmp_path / "out", course.root / "trouble"
    for num_told, words in ((1, ""), (2, "- - hang"), (4, "")):
        trouble.write_text(words)
        killed = batch(course, tmp_path / "in", out)
        assert killed.stdout is not None
        told = itertools.islice((line for line in killed.stdout if line.startswith("[")), num_told)
        assert len(list(told)) == num_told
        killed.send_signal(signal.SIGKILL)
        killed.stdout.read()  # ends when its processes have: they hold the other end
        killed.wait()
    trouble.unlink()
    last = batch(course, tmp_path / "in", out)
    said = last.communicate()[0]
    assert last.returncode == 0 and "10 marked, 1 refused" in said
    assert table(rows_of(out)) == {number: row for number, row in TABLE.items() if number != 12}
    assert not [path for path in out.iterdir() if path.name.startswith("graded-")]


def test_interrupted_it_says_how_to_go_on(course: Course, handed: dict[Student, Files], tmp_path: Path) -> None:
    """Ctrl-C once the first row is known: 130, no process is left, that row stands, and the sentence names the command's folder."""
    plain(tmp_path / "in", handed)
    interrupted = batch(course, tmp_path / "in", tmp_path / "out")
    assert interrupted.stdout is not None
    first = next(line for line in interrupted.stdout if line.startswith("["))
    interrupted.send_signal(signal.SIGINT)
    assert "the same command goes on from there" in interrupted.stdout.read()
    assert interrupted.wait() == 130
    assert "0000007: refused" in first and rows_of(tmp_path / "out")["0000007"].state == "refused"


def test_two_batches_do_not_share_a_folder(course: Course, handed: dict[Student, Files], tmp_path: Path) -> None:
    """The second is refused while the first works; it would write the same rows."""
    plain(tmp_path / "in", handed)

    def again(*_: Any) -> None:
        graded(course, tmp_path / "in", [], out=tmp_path / "out")

    with pytest.raises(UsageError, match="Another `grader batch`"):
        graded(course, tmp_path / "in", [], out=tmp_path / "out", told=again)
