"""`grader debug KEY` puts one rank of a stored observation into a terminal."""

from __future__ import annotations

import bdb
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import find_root
from grader.debug import where_it_stops
from grader.records import Network, Outcome, RankOutcome, Request, Submission
from grader.store import Store
from grader.worker.debug import tell

ROOT = Path(__file__).parents[3]
KEY = "0123456789abcdef"
SUBMISSION = """
import torch, torch.distributed as dist
def run(inputs):
    mine = torch.full((3,), 7.0 + dist.get_rank())
    breakpoint()
    dist.all_reduce(mine)
    print("sum", mine.tolist())
    return {}
"""


@pytest.fixture
def course(tmp_path: Path) -> Iterator[Path]:
    """A course with one probe, a submission with a breakpoint, and one stored observation of it on two ranks."""
    for folder in ("tests/probes", "tests/public", "assignments/tiny", "solutions", "starter"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/probes/tiny.py").write_text("def run(at):\n    return at.submission.run(at.inputs)\n")
    (tmp_path / "starter/tiny.py").write_text(SUBMISSION)
    (tmp_path / "assignments/tiny/assignment.yaml").write_text(
        "number: 1\ntitle: Tiny\nfiles: [tiny.py]\ntasks:\n- {id: t, title: T, regions: [t], stub: pass, laws: ["
        "{id: l, claim: C, points: 1, evidence: judged}]}\n"
    )
    store = Store(tmp_path / "run/store.sqlite")
    request = Request(assignment="tiny", probe="run", parameters={}, world_size=2, inputs={}, returns={}, network=Network())
    store.put(KEY, "somebody", request, Outcome((RankOutcome(0, True, 0), RankOutcome(1, True, 0)), (), None))
    store.close()
    yield tmp_path


def debug(course: Path, *options: str, keys: str) -> subprocess.CompletedProcess[str]:
    """Run the command with these keys typed at its terminal."""
    command = [sys.executable, "-m", "grader.cli", "debug", *options, "--out", "run", "--submission", "starter"]
    return subprocess.run(command, cwd=course, env={"PYTHONPATH": str(ROOT)}, input=keys, capture_output=True, text=True, timeout=120)


def test_one_rank_is_in_your_hands_and_the_others_run_beside_it(course: Path) -> None:
    """A plain breakpoint stops in the chosen rank, which can be looked at and goes on; the other rank passes it by and takes part."""
    seen = debug(course, KEY[:6], "--rank", "1", keys="p mine\nc\n")
    assert "You are rank 1 of 2" in seen.stderr and "tensor([8., 8., 8.])" in seen.stdout
    assert "sum [15.0, 15.0, 15.0]" in seen.stdout and "every rank answered" in seen.stderr, seen.stderr
    assert "right form and values, only grading says: make grade A=tiny" in seen.stderr  # answers of another form would pass here, too
    assert "BdbQuit" not in seen.stderr


def test_a_run_that_another_rank_has_ended_is_told_in_a_sentence(course: Path) -> None:
    """Not by the grader's traceback about a line that is closed: which rank fell, and where one's own stood, also within a phase."""
    fails = "    if dist.get_rank() == 1: raise ValueError('mine alone')\n    dist.all"
    (course / "starter/tiny.py").write_text(SUBMISSION.replace("    dist.all", fails))
    probe = "def run(at):\n    with at.phase('inside'):\n        return at.submission.run(at.inputs)\n"
    (course / "tests/probes/tiny.py").write_text(probe)
    seen = debug(course, KEY, keys="c\n")
    assert "--- rank 1 raised ValueError: mine alone at tiny.py:" in seen.stderr
    assert "The run is over: another rank has ended it" in seen.stderr and "You were at tiny.py:7." in seen.stderr
    assert "/grader/" not in seen.stderr and "Traceback" not in seen.stderr


def test_an_exception_of_ones_own_is_told_without_the_graders_frames(capsys: pytest.CaptureFixture[str]) -> None:
    """Python's traceback, down to its causes, but for the grader's frames; who leaves the debugger is told so."""
    try:
        try:
            find_root(Path("/nowhere"))
        except Exception as cause:
            raise ValueError("mine alone") from cause
    except ValueError as raised:
        tell(ValueError, raised, raised.__traceback__)
    told = capsys.readouterr().err
    assert "ValueError: mine alone" in told and "/nowhere is not inside a course" in told and "test_debug.py" in told
    assert "/grader/course.py" not in told
    tell(bdb.BdbQuit, bdb.BdbQuit(), None)
    assert capsys.readouterr().err == "You have left the debugger, and the run with it.\n"


def test_a_file_without_a_breakpoint_is_said_to_stop_nowhere(course: Path) -> None:
    """Who has put none is told to, rather than that everything ran."""
    submission = Submission(str(course / "starter"), "starter", {"tiny.py": ""})
    assert "It stops at your breakpoint(), in this rank alone" in where_it_stops(submission)
    (course / "starter/tiny.py").write_text(SUBMISSION.replace("breakpoint()", "pass"))
    assert where_it_stops(submission).startswith("It stops nowhere: tiny.py has no breakpoint().")


def test_an_unknown_key_or_rank_is_said_in_words(course: Path) -> None:
    """A key that isn't stored, or a rank that isn't there, ends with exit code 2 and what to do."""
    for options, word in (((KEY[:4] + "ffff",), "no single observation"), ((KEY, "--rank", "2"), "ranks 0 to 1")):
        seen = debug(course, *options, keys="")
        assert seen.returncode == 2 and word in seen.stderr
