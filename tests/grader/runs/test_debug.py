"""`grader debug KEY` puts one rank of a stored observation into a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.records import Network, Outcome, RankOutcome, Request
from grader.store import Store

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
    """The breakpoint stops in the chosen rank, which can be looked at and goes on; the other rank takes part unasked."""
    source = course / "starter/tiny.py"
    source.write_text(source.read_text().replace("breakpoint()", "breakpoint() if dist.get_rank() == 1 else None"))
    seen = debug(course, KEY[:6], "--rank", "1", keys="p mine\nc\n")
    assert "You are rank 1 of 2" in seen.stderr and "tensor([8., 8., 8.])" in seen.stdout
    assert "sum [15.0, 15.0, 15.0]" in seen.stdout and "every rank answered" in seen.stderr, seen.stderr
    assert "right form and values, only grading says: make grade A=tiny" in seen.stderr  # answers of another form would pass here, too


def test_an_unknown_key_or_rank_is_said_in_words(course: Path) -> None:
    """A key that isn't stored, or a rank that isn't there, ends with exit code 2 and what to do."""
    for options, word in (((KEY[:4] + "ffff",), "no single observation"), ((KEY, "--rank", "2"), "ranks 0 to 1")):
        seen = debug(course, *options, keys="")
        assert seen.returncode == 2 and word in seen.stderr
