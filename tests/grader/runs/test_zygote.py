"""The clean process that forks ranks: started, ended and swept after, whatever happens to it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from grader.errors import MachineError
from grader.observe.live import Runs
from grader.ranks import zygote as zygotes
from grader.ranks.zygote import Zygote
from tests.soak.killed import kill_after


def test_a_zygote_that_still_imports_is_ended_at_once() -> None:
    """Nobody waits for torch in order to throw it away."""
    started = Zygote()
    began_s = time.monotonic()
    started.close()
    assert not started.alive() and time.monotonic() - began_s < 2.0


def test_a_zygote_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own last words are in the machine error."""
    broken = Zygote("no_such_flavour")
    with pytest.raises(MachineError, match="no_such_flavour"):
        broken.wait_ready()
    broken.close()


def test_a_killed_zygote_is_replaced_and_blames_nobody(runs: Runs, submit) -> None:
    """The machine may kill a process; the next observation starts another, and the submission's answer counts."""
    submit("def run(inputs):\n    return {}\n")("run").require()
    psutil.Process(runs._zygotes["torch"]._process.pid).kill()
    assert submit("def run(inputs):\n    return {}  # again\n")("run").fault is None


def test_folders_of_dead_judges_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose name carries the PID of a process that is gone is removed; those of the living stay."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = {f"grader-{gone.pid}-x": False, f"grader-{os.getpid()}-x": True, "grader-notes-of-a-student": True}
    for name in names:
        (tmp_path / name).mkdir()
    zygotes.sweep_leftovers()
    assert {name: (tmp_path / name).exists() for name in names} == names


@pytest.mark.parametrize("after_s", [0.5, 4.0, 7.0])
def test_a_killed_grader_leaves_nothing(after_s: float) -> None:
    """SIGKILL while it starts, while it imports, while ranks run: no process and no folder is left."""
    assert kill_after(after_s) == []
