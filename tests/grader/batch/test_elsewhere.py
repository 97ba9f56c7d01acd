"""Batches by way of submitit, here with its own processes in the place of Slurm's: what jobs leave in the folder becomes the same rows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from grader.batch import grade_class
from grader.batch.slurm import Chunk, SlurmCrew
from grader.batch.work import LEFT, Ended, Job, Work, folder_of, judged_by, look
from grader.course import Course
from grader.errors import UsageError
from grader.ledger import Ledger
from grader.pipeline import grade, opened_runs
from tests.grader.batch.conftest import MORE, ODD, RIGHT


def job_of(course: Course, out: Path) -> Job:
    """A batch over the whole course, into `out`."""
    (out / LEFT).mkdir(parents=True)
    (out / "reports").mkdir()
    return Job(str(course.root), ("sums",), str(out), judged_by(course, course.assignments), shares_store=False)


def works_of(course: Course, job: Job, folder: Path, **codes: bytes) -> list[Work]:
    """A work for each of `codes`."""
    for name, code in codes.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "sums.py").write_bytes(code)
        (folder / name / "more.py").write_bytes(MORE)
    return [look(course.assignments, folder / name, job.judged_by) for name in codes]


def test_jobs_leave_what_rows_and_regrading_need(course: Course, tmp_path: Path) -> None:
    """Reports, words, and observations that end in the batch's own store; a job that dies over a work is followed by another."""
    (course.root / "trouble").write_text("die")
    for name, code in {"ada": RIGHT, "bo": ODD}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "sums.py").write_bytes(code)
        (tmp_path / "in" / name / "more.py").write_bytes(MORE)
    out = tmp_path / "out"
    grade_class(course, course.assignments, tmp_path / "in", out, lambda job: SlurmCrew(job, 1, 600.0, cluster="local"))
    rows = {row.student: row for row in Ledger(out).rows()}
    assert {name: (row.state, row.earned, row.attempts) for name, row in rows.items()} == {"ada": ("marked", 5, 2), "bo": ("marked", 3, 1)}
    assert list((out / LEFT).iterdir()) == []
    with opened_runs(course.root, out, replay=True, forgets=False) as runs:  # which starts no rank
        again = [grade(course, tmp_path / "in" / name, course.assignments, runs=runs, called="x").earned for name in ("ada", "bo")]
    assert again == [5, 3]


def test_a_requeued_job_grades_only_what_has_no_report(course: Course, tmp_path: Path) -> None:
    """Slurm begins a job again from its start when a node has failed; what it had done stays done, and is told once more."""
    job = job_of(course, tmp_path / "out")
    done, todo = works_of(course, job, tmp_path / "in", ada=RIGHT, bo=ODD)
    Chunk(job, (done,), 600.0)()
    report = folder_of(tmp_path / "out", done.key) / "report.json"
    before = report.stat().st_mtime_ns
    (tmp_path / "out" / LEFT / f"{done.key}.json").unlink()
    Chunk(job, (done, todo), 600.0)()
    left = [msgspec.json.decode(path.read_bytes(), type=Ended) for path in sorted((tmp_path / "out" / LEFT).glob("*.json"))]
    assert {ended.key: ended.marks["sums"][0] for ended in left} == {done.key: 5, todo.key: 3}
    assert report.stat().st_mtime_ns == before


def test_without_slurm_it_is_said_before_anything_is_graded(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with what else there is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    job = job_of(course, tmp_path / "out")
    with pytest.raises(UsageError, match=r"no Slurm here: sbatch is not on the PATH\. Use --executor local"):
        next(SlurmCrew(job, 1, 600.0).carry_out(works_of(course, job, tmp_path / "in", ada=RIGHT)))
