"""`grader batch --executor slurm` on a real Slurm. Not among the other tests: `make slurm` needs one, and `.ci/run` brings one up."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from grader.batch import grade_class
from grader.batch.local import LocalCrew
from grader.batch.slurm import SlurmCrew
from grader.course import Course
from grader.errors import UsageError
from grader.ledger import Ledger
from tests.grader.batch.downloads import Files, Student, plain


def table(out: Path) -> dict[str, tuple[str, int, str]]:
    """What must be the same wherever it was graded."""
    return {row.student: (row.state, row.earned, row.submission) for row in Ledger(out).rows()}


def queue_runs_empty(patience_s: float = 60.0) -> bool:
    """Whether nobody has to be sent home: a job that has said its last word still takes a moment to leave."""
    until = time.monotonic() + patience_s
    while subprocess.run(["squeue", "--noheader"], capture_output=True, check=True).stdout:
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def num_nodes() -> int:
    """Of the cluster."""
    return len(subprocess.run(["sinfo", "--noheader", "--Node", "--format=%N"], capture_output=True, check=True).stdout.split())


def test_slurm_gives_the_same_rows_as_this_machine(course: Course, handed: dict[Student, Files], tmp_path: Path) -> None:
    """An array of jobs, two at a time, each with a GPU of the cluster's; nothing is left in its queue."""
    plain(tmp_path / "in", handed)
    settings = {"gres": "gpu:1", "mem": "500M"}
    grade_class(course, course.assignments, tmp_path / "in", tmp_path / "slurm", lambda job: SlurmCrew(job, 2, 600.0, settings))
    grade_class(course, course.assignments, tmp_path / "in", tmp_path / "here", lambda job: LocalCrew(job, 2, 600.0))
    assert table(tmp_path / "slurm") == table(tmp_path / "here")
    assert queue_runs_empty()
    assert not (tmp_path / "slurm" / "slurm").exists()


@pytest.mark.parametrize("word", ["cancel", "die"])
def test_what_failed_is_tried_again_on_another_node(word: str, course: Course, handed: dict[Student, Files], tmp_path: Path) -> None:
    """Whether the whole job was killed, and left no word, or only its process that graded: both get marks, the second time elsewhere."""
    plain(tmp_path / "in", dict(list(handed.items())[:2]))
    (course.root / "trouble").write_text(word)
    grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", lambda job: SlurmCrew(job, 1, 600.0))
    attempts = 2 if word == "cancel" else 1  # of who was to be graded after it, in the same job
    assert sorted((row.state, row.attempts) for row in Ledger(tmp_path / "out").rows()) == [("marked", attempts), ("marked", 2)]
    (first, said), *_, (last, _) = (line.split() for line in (course.root / "nodes").read_text().splitlines())
    assert said == word and (last != first or num_nodes() == 1)
    assert (tmp_path / "out" / "slurm").is_dir()  # its log says what has happened


def test_what_slurm_does_not_take_is_said(course: Course, handed: dict[Student, Files], tmp_path: Path) -> None:
    """With sbatch's own reason."""
    plain(tmp_path / "in", handed)
    nowhere = {"partition": "none"}
    with pytest.raises(UsageError, match=r"Slurm takes no such job: .*partition"):
        grade_class(course, course.assignments, tmp_path / "in", tmp_path / "out", lambda job: SlurmCrew(job, 1, 600.0, nowhere))
