"""In the rank: whose new tensors go to the device, what the recorder says of work that a device does, and how ranks leave."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.records import Json
from grader.worker import recorder
from grader.worker.device import NewTensors, capped, enter, new_tensors_on

META = torch.device("meta")
SUBMISSION = """
import torch

def forgets():
    return torch.zeros(2)

def remembers(x):
    return torch.zeros(2, device=x.device)

def through_torch():
    return torch.nn.Linear(2, 2).weight

class Policy(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return hand_on(func, args, kwargs or {})

def hand_on(func, args, kwargs):
    return func(*args, **kwargs)

def forgets_under_its_policy():
    with Policy():
        return torch.zeros(2)
"""
PROBE = """
import torch

def made():
    return torch.zeros(2), torch.nn.Linear(2, 2).weight, torch.ones(2, device="cpu")

def under_a_policy(submission):
    with submission["Policy"]():
        return torch.zeros(2), torch.nn.Linear(2, 2).weight, submission["forgets_under_its_policy"]()

def given(submission):
    return submission["forgets"](), submission["remembers"](torch.ones(1)), submission["through_torch"]()
"""


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Any]:
    """A submission in a folder of its own, and a probe beside it."""
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "sums.py").write_text(SUBMISSION)
    (tmp_path / "probe.py").write_text(PROBE)
    return {
        "submission": runpy.run_path(str(tmp_path / "submission" / "sums.py")),
        "probe": runpy.run_path(str(tmp_path / "probe.py")),
        "folder": str(tmp_path / "submission"),
    }


def test_the_probes_new_tensors_are_on_the_device(modules: dict[str, Any]) -> None:
    """Also those that torch's modules make for it; a device that is named stays."""
    with NewTensors(META, modules["folder"]):
        assert [tensor.device.type for tensor in modules["probe"]["made"]()] == ["meta", "meta", "cpu"]
    assert modules["probe"]["made"]()[0].device.type == "cpu"


def test_a_device_that_the_student_forgot_stays_forgotten(modules: dict[str, Any]) -> None:
    """A forgotten `device=` is the student's mistake on a GPU, also behind a module of torch's; the probe's argument is not."""
    with NewTensors(META, modules["folder"]):
        assert [tensor.device.type for tensor in modules["probe"]["given"](modules["submission"])] == ["cpu", "meta", "cpu"]


def test_a_mode_of_the_students_hands_on_what_others_make(modules: dict[str, Any]) -> None:
    """A casting policy stands between the probe and torch; who made a tensor is still told apart."""
    with NewTensors(META, modules["folder"]):
        made = modules["probe"]["under_a_policy"](modules["submission"])
        assert [tensor.device.type for tensor in made] == ["meta", "meta", "cpu"]


def test_on_the_host_nothing_stands_between_probe_and_torch() -> None:
    """An order without a device, or with a pretended one, leaves the CPU profile as it is."""
    for order in ({}, {"device": "pretend", "gpus": ["GPU-0"]}):
        device = enter(order)
        with capped(device, None, 0), new_tensors_on(device, "/nowhere"):
            assert device.type == "cpu" and torch.overrides._get_current_function_mode() is None


class Pending:
    """A work of a device's: waiting only queues, and it is done when `finish` is called."""

    def __init__(self) -> None:
        self._is_done = threading.Event()
        self.finish = self._is_done.set

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return self._is_done.is_set()


class Failed(Pending):
    """A work that ended in an error."""

    def is_completed(self) -> bool:
        raise RuntimeError("unhandled system error")


class Line:
    """Takes down what is said, and lets a test wait for it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int]] = []
        self._changed = threading.Condition()

    def post(self, header: dict[str, Json]) -> None:
        with self._changed:
            self.said.append((header["event"]["kind"], header["event"]["call"]))
            self._changed.notify_all()

    def student_line(self) -> str:
        return ""

    def hears(self, *expected: tuple[str, int]) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.said == list(expected), timeout=20)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Line, Any]]:
    """recorded(work, calls, is_device) -> the line, and the work behind the recorder."""

    def recorded(work: Any, calls: list[tuple[int, str]], *, is_device: bool) -> tuple[Line, Any]:
        line = Line()
        monkeypatch.setattr(recorder, "_LINE", line)
        monkeypatch.setattr(recorder, "_WATCH", recorder.Watch() if is_device else None)
        return line, recorder.RecordedWork(work, calls)

    return recorded


def test_on_the_host_a_wait_is_the_end_of_a_work(recorded: Callable[..., tuple[Line, Any]]) -> None:
    """gloo's wait returns when the work is done."""
    line, work = recorded(Pending(), [(3, "all_reduce")], is_device=False)
    work.wait()
    assert line.said == [("wait", 3), ("done", 3)]


def test_on_a_device_a_work_is_done_when_the_device_says_so(recorded: Callable[..., tuple[Line, Any]]) -> None:
    """NCCL's wait returns at once; a hang would look like the end. A batch is waited for, and done, as a whole."""
    pending = Pending()
    line, work = recorded(pending, [(3, "send"), (4, "recv")], is_device=True)
    work.wait()
    assert line.said == [("wait", 3), ("wait", 4)]
    pending.finish()
    assert line.hears(("wait", 3), ("wait", 4), ("done", 3), ("done", 4))


def test_a_work_that_failed_on_a_device_is_over(recorded: Callable[..., tuple[Line, Any]]) -> None:
    """Whoever waits is told why; the judge must not take it for a hang."""
    line, _ = recorded(Failed(), [(0, "all_reduce")], is_device=True)
    assert line.hears(("done", 0))
