"""Batches by way of submitit, here with its own processes in the place of Slurm's: what jobs leave in the folder becomes the same rows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from grader.batch import grade_class
from grader.batch.slurm import Chunk, SlurmCrew
from grader.batch.work import LEFT, Ended, Job, look
from grader.course import Course
from grader.errors import UsageError
from grader.ledger import Ledger
from grader.pipeline import grade, opened_runs
from tests.grader.batch.conftest import MORE, ODD, RIGHT


def hand_in(folder: Path, **codes: bytes) -> None:
    """A folder for each student."""
    for name, code in codes.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "sums.py").write_bytes(code)
        (folder / name / "more.py").write_bytes(MORE)


def test_jobs_leave_what_rows_and_regrading_need(course: Course, tmp_path: Path) -> None:
    """Reports, words, and observations that end in the batch's own store. A job that dies over a work is followed by another; one that
    Slurm begins again from its start tells once more what it had done, and does not do it again."""
    (course.root / "trouble").write_text("die")
    hand_in(tmp_path / "in", ada=RIGHT, bo=ODD)
    out, jobs = tmp_path / "out", []

    def crew(job: Job) -> SlurmCrew:
        jobs.append(job)
        return SlurmCrew(job, 1, 600.0, cluster="local")

    grade_class(course, course.assignments, tmp_path / "in", out, crew)
    rows = {row.student: row for row in Ledger(out).rows()}
    assert {name: (row.state, row.earned, row.attempts) for name, row in rows.items()} == {"ada": ("marked", 5, 2), "bo": ("marked", 3, 1)}
    assert list((out / LEFT).iterdir()) == []
    with opened_runs(course.root, out, replay=True, forgets=False) as runs:  # which starts no rank
        again = [grade(course, tmp_path / "in" / name, course.assignments, runs=runs, called="x").earned for name in ("ada", "bo")]
    assert again == [5, 3]

    written = {path: path.stat().st_mtime_ns for path in out.glob("reports/*/*")}
    Chunk(jobs[0], tuple(look(course.assignments, tmp_path / "in" / name, jobs[0].judged_by) for name in rows), 600.0)()
    left = [msgspec.json.decode(path.read_bytes(), type=Ended) for path in (out / LEFT).glob("*.json")]
    assert sorted(ended.marks["sums"] for ended in left) == [(3, 5), (5, 5)]
    assert written == {path: path.stat().st_mtime_ns for path in out.glob("reports/*/*")}


def test_without_slurm_it_is_said_before_anything_is_graded(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with what else there is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    hand_in(tmp_path / "in", ada=RIGHT)
    with pytest.raises(UsageError, match=r"no Slurm here: sbatch is not on the PATH\. Use --executor local"):
        grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", lambda job: SlurmCrew(job, 1, 600.0))
    assert [row.state for row in Ledger(tmp_path / "out").rows()] == ["waiting"]
