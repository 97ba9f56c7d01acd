"""Batches by way of submitit, here with its own processes in the place of Slurm's: what jobs leave in the folder becomes the same rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from grader.batch import grade_class
from grader.batch.slurm import Chunk, SlurmCrew, leave
from grader.batch.work import LEFT, Ended, Job, look
from grader.course import Course
from grader.errors import UsageError
from grader.ledger import Ledger
from grader.pipeline import grade, opened_runs
from tests.grader.batch.conftest import EMPTY, MORE, ODD, RIGHT


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


class TwoNodes(SlurmCrew):
    """A cluster in the place of sbatch: ada's job fails on node1, bo's on node2, cy's dies everywhere; settings are kept."""

    FAILS: ClassVar = {"ada": ["node1"], "bo": ["node2"], "cy": ["node1", "node2"]}
    sent: ClassVar[list[tuple[str, str]]] = []

    def _executor(self, minutes: float, num_jobs: int, settings: dict[str, str]) -> Any:
        excluded = settings.get("exclude", "")
        return SimpleNamespace(submit_array=lambda chunks: [self._job(chunk, excluded) for chunk in chunks])

    def _job(self, chunk: Chunk, excluded: str) -> Any:
        out = Path(self.job.out)
        for work in chunk.works:
            name = Path(work.path).name
            self.sent.append((name, excluded))
            free = [node for node in ("node2", "node1") if node not in excluded.split(",")]
            if not free:
                raise RuntimeError("Requested node configuration is not available")
            node = "node1" if name == "ada" and "node1" in free else free[0]
            (out / LEFT / f"{work.key}.node").write_text(node)
            if node not in self.FAILS[name]:
                leave(out, Ended(work.key, "marked", marks={"sums": (5, 5)}, host=node))
            elif name != "cy":
                leave(out, Ended(work.key, "machine", "the disk is full", host=node))
        return SimpleNamespace(done=lambda: True, cancel=lambda: None)


def test_what_failed_on_a_node_is_not_sent_there_again(course: Course, tmp_path: Path) -> None:
    """Each work keeps away from its own nodes, not from everybody's; when none is left it goes anywhere, and then it is the machine's."""
    hand_in(tmp_path / "in", ada=RIGHT, bo=ODD, cy=EMPTY)
    TwoNodes.sent.clear()
    grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", lambda job: TwoNodes(job, 3, 600.0, cluster="local"))
    sent = {name: [excluded for each, excluded in TwoNodes.sent if each == name] for name in TwoNodes.FAILS}
    assert sent == {"ada": ["", "node1"], "bo": ["", "node2"], "cy": ["", "node2", "node1,node2", ""]}
    ended = {row.student: (row.state, row.attempts) for row in Ledger(tmp_path / "out").rows()}
    assert ended == {"ada": ("marked", 2), "bo": ("marked", 2), "cy": ("machine", 3)}
    rows = {row.student: row for row in Ledger(tmp_path / "out").rows()}
    assert "on node2 has ended without a word" in rows["cy"].sentence and rows["cy"].marks == {}
    assert list((tmp_path / "out" / LEFT).iterdir()) == []


def test_without_slurm_it_is_said_before_anything_is_graded(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with what else there is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    hand_in(tmp_path / "in", ada=RIGHT)
    with pytest.raises(UsageError, match=r"no Slurm here: sbatch is not on the PATH\. Use --executor local"):
        grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", lambda job: SlurmCrew(job, 1, 600.0))
    assert [row.state for row in Ledger(tmp_path / "out").rows()] == ["waiting"]
