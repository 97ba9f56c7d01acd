"""Runs side by side: noted first, then run; who stalls is not asked again; nobody outlives an interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.errors import NotOnThisProfile
from grader.observe.backlog import Backlog, NotRunYet, Places
from grader.observe.live import Runs
from grader.observe.observer import Case, Observer
from grader.pipeline import opened_runs
from grader.records import Assignment, Limits, Submission, digest
from tests.grader.profile.conftest import pretended

SUBMISSION = """
def same(x):
    return x

def endless(x):
    while True:
        pass
"""
PROBES = """
def call(at, function, number=0):
    return {"y": getattr(at.submission, function)(at.inputs["x"])}
"""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Processes of this test's own."""
    (tmp_path / "tests" / "probes").mkdir(parents=True)
    (tmp_path / "tests" / "probes" / "sums.py").write_text(PROBES)
    (tmp_path / "sums.py").write_text(SUBMISSION)
    tmp_path.chmod(0o755)  # the submission's folder too: a rank may be a user of its own
    with opened_runs(tmp_path, None) as opened:
        yield opened


def opened(runs: Runs, told: Callable[[str], None] = lambda sentence: None) -> tuple[Backlog, Callable[[str], Case]]:
    """-> the backlog on two pretended GPUs, and `observe` for a case by its name."""
    profile = pretended(2)
    backlog = Backlog(runs, profile.gpus, 2, told)
    submission = Submission(str(runs.root), "here", {"sums.py": digest("")})
    observer = Observer(runs, {"sums": Assignment("sums", 1, "Sums", ("sums.py",), ())}, {"sums": submission}, gpu=profile, backlog=backlog)
    return backlog, lambda case: observer.for_case("sums", False, case)


def ask(observe: Case, function: str, **more: Any) -> Any:
    """One rank, one number."""
    import numpy as np

    one = np.ones(1, dtype=np.float32)
    return observe("call", inputs={"x": one}, returns={"y": ("float32", (1,))}, transport="none", function=function, **more)


def test_what_is_asked_for_is_noted_then_run_then_known(runs: Runs) -> None:
    """Equal requests are one run; the store has it afterwards, for a replay."""
    backlog, case = opened(runs)
    for name in ("test_a", "test_b"):
        with pytest.raises(NotRunYet):
            ask(case(name), "same")
    assert backlog.run() == 1 and not backlog.wanted
    seen = ask(case("test_a"), "same")
    assert seen.rank(0)["y"] == 1 and runs.store.outcome(seen.key) is not None


def test_a_test_that_has_met_a_time_out_is_not_run_again(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> None:
    """Its other cases would cost as long; they keep their CPU verdict, and other tests are not concerned."""
    monkeypatch.setattr("grader.observe.profile.STARTING_S", 0.3)
    backlog, case = opened(runs)
    with pytest.raises(NotRunYet):
        ask(case("test_a[1]"), "endless", limits=Limits(cpu_s=0.3), number=1)
    backlog.run()
    with pytest.raises(NotOnThisProfile, match="time-out"):
        ask(case("test_a[2]"), "endless", limits=Limits(cpu_s=0.3), number=2)
    assert ask(case("test_a[1]"), "endless", limits=Limits(cpu_s=0.3), number=1).fault.kind == "cpu_limit"
    with pytest.raises(NotRunYet):
        ask(case("test_b"), "same")


def test_nothing_outlives_an_interruption(monkeypatch: pytest.MonkeyPatch, runs: Runs) -> None:
    """Ctrl-C while an endless run is under way: `run` is left at once, and closing the runs ends the thread that waits for it."""

    def interrupt(sentence: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("grader.observe.backlog.TOLD_EVERY", 1)
    backlog, case = opened(runs, interrupt)
    for function in ("endless", "same"):
        with pytest.raises(NotRunYet):
            ask(case(f"test_{function}"), function)
    with pytest.raises(KeyboardInterrupt):
        backlog.run()
    runs.close()
    for thread in threading.enumerate():
        if thread.name.startswith("observations"):
            thread.join(timeout=30)
            assert not thread.is_alive()


def test_ranks_are_placed_where_it_is_quiet() -> None:
    """A lone rank goes where fewest are, several get a GPU each in order, and nobody exceeds the number of ranks at once."""
    places = Places(pretended(2).gpus, 3)
    with places.taken(1) as first, places.taken(1) as second:
        assert {*first, *second} == {"GPU-0", "GPU-1"}
        entered = threading.Event()

        def pair() -> None:
            with places.taken(2) as both:
                assert both == ("GPU-0", "GPU-1")
                entered.set()

        thread = threading.Thread(target=pair)
        thread.start()
        assert not entered.is_set()  # three are allowed, and two are there
    thread.join(timeout=30)
    assert entered.is_set()
