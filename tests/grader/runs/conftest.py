"""A course of one assignment with one probe, so that whole runs can be tried on submissions written in a test."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.records import Assignment, Submission, digest
from grader.store import Store

PROBES = """
def run(at, **parameters):
    with at.phase("run"):
        return at.submission.run(at.inputs, **parameters)

def answer_with_facts(at):
    at.report(cores=2)
    at.mark("moment", depth=3)
    return {"y": at.inputs["x"] * 2}
"""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Live runs, one zygote for all tests of this folder."""
    root = tmp_path_factory.mktemp("course")
    (root / "tests" / "probes").mkdir(parents=True)
    (root / "tests" / "probes" / "tiny.py").write_text(PROBES)
    live = Runs(root, Store(root / "run" / "store.sqlite"))
    live.prepare()
    yield live
    live.close()
    live.store.close()


@pytest.fixture
def no_walls(runs: Runs) -> Iterator[None]:
    """Ranks that may reach whatever their user may: what stands between them and harm is then the process tree."""
    runs.at_most, at_most = "D", runs.at_most
    yield
    runs.at_most = at_most


Observe = Callable[..., object]


@pytest.fixture
def submit(runs: Runs, tmp_path: Path) -> Callable[[str], Observe]:
    """submit(source) -> `observe` for a submission whose only file is that source."""

    def submit(source: str) -> Observe:
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "tiny.py").write_text("import os, sys, time, torch, torch.distributed as dist\n" + textwrap.dedent(source).lstrip())
        files = {"tiny.py": digest((folder / "tiny.py").read_bytes())}
        tiny = Assignment("tiny", 1, "Tiny", ("tiny.py",), ())
        observer = Observer(runs, {"tiny": tiny}, {"tiny": Submission(str(folder), "tiny.py", files)})
        return observer.for_case("tiny", False, "test_tiny")

    return submit
