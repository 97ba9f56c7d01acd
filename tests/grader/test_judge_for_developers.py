"""`pytest -p grader.judge.plugin`: the judge beside pytest's own options, for whoever writes a course."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader.errors import LawBroken, NotJudged, UsageError
from grader.records import Assignment, Law, Message, Task

TESTS = """
import pytest

@pytest.mark.law("ring.sum")
@pytest.mark.parametrize("probe", ["fine", "broken", "gpu"])
def test_sum(observe, probe):
    observe(probe)
"""
Run = Callable[..., tuple[int, str]]


class FakeCase:
    """Does what the probe's name asks for."""

    keys = ("0123abcd",)
    kind = "a small one"
    rests_on_facts = False

    def __call__(self, probe: str, **_: Any) -> None:
        if probe == "broken":
            raise LawBroken(Message(seen="saw 3", allowed="allowed 2", diagnosis="one too many"))
        if probe == "gpu":
            raise NotJudged("no GPU here")

    def how_to(self) -> Message:
        return Message(seen="")


class FakeObserver:
    """One fake for every case."""

    def for_case(self, *_: Any) -> FakeCase:
        return FakeCase()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run pytest with the plugin on one test file of a small course; gives its exit code and what it printed."""
    law = Law("sums.ring.sum", "Sums are sums.", 2, "judged")
    sums = Assignment("sums", 1, "Sums", ("sums.py",), (Task("sums.ring", "The ring", (law,), (), ""),))

    @contextmanager
    def opened_for_developer(root: Path, submission: str, *, out: Path, replay: bool) -> Iterator[Any]:
        if submission == "nowhere":
            raise UsageError("There is no folder nowhere.")
        yield (sums,), FakeObserver()

    door = ModuleType("a_door_for_tests")
    door.opened_for_developer = opened_for_developer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, door.__name__, door)
    monkeypatch.setattr("grader.judge.plugin.DEVELOPER_DOOR", door.__name__)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    test_file = tmp_path / "tests" / "public" / "test_sums.py"
    test_file.parent.mkdir(parents=True)
    test_file.write_text(TESTS)

    def run_pytest(*options: str) -> tuple[int, str]:
        elsewhere = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "tests"}
        status = pytest.main(["-p", "grader.judge.plugin", "-q", "-rs", "-p", "no:warnings", str(test_file), *options])
        sys.modules.update(elsewhere)
        captured = capsys.readouterr()
        return int(status), captured.out + captured.err

    return run_pytest


def test_a_developer_reads_the_judgement_and_not_a_traceback(run: Run) -> None:
    """The law's claim, what was seen and allowed, and the observation's key; what cannot be judged here is a skip with its reason."""
    status, text = run("--submission", "solutions")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed, 1 skipped" in text
    for part in ("law: Sums are sums.", "seen: saw 3", "allowed: allowed 2", "diagnosis: one too many", "0123abcd", "no GPU here"):
        assert part in text
    assert "Traceback" not in text and "raise LawBroken" not in text


def test_pytests_own_options_work_beside_it(run: Run) -> None:
    """-x stops, -k chooses by case and by law, --lf runs what failed last."""
    assert "1 failed, 1 passed in" in run("--submission", "solutions", "-x")[1]
    assert "1 passed, 2 deselected" in run("--submission", "solutions", "-k", "sums.ring.sum and fine")[1]
    assert "1 failed, 2 deselected" in run("--submission", "solutions", "-k", "broken")[1]
    assert "1 failed" in (text := run("--submission", "solutions", "--lf")[1]) and "passed" not in text


def test_a_submission_that_is_not_there_is_said_in_a_sentence(run: Run) -> None:
    """A mistyped path ends in pytest's usage error and no traceback."""
    status, text = run("--submission", "nowhere")
    assert status == pytest.ExitCode.USAGE_ERROR and "There is no folder nowhere." in text and "Traceback" not in text


def test_collecting_needs_no_submission(run: Run) -> None:
    """Listing the cases starts nothing."""
    status, text = run("--submission", "nowhere", "--collect-only")
    assert status == pytest.ExitCode.OK and "test_sum[gpu]" in text
