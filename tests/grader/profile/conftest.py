"""Pretended GPUs, a machine whose nvidia-smi says what a test wants, and a course of three laws whose cases run on both profiles."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course import Course
from grader.devices import Gpu
from grader.observe.profile import GpuProfile
from tests.grader.small_course import Submit, laid_out, runs, submitting

__all__ = ["Submit", "runs"]  # fixtures are found by being here

SPECIFICATION = """
number: 3
title: Sums
files: [sums.py]
tasks:
  - id: ring
    title: The ring
    regions: [ring]
    stub: raise NotImplementedError
    laws:
      - {id: sum, claim: Sums are sums., points: 2, evidence: judged}
      - {id: double, claim: Twice is two times., points: 3, evidence: judged}
      - {id: rounds, claim: There and back is two rounds., points: 4, evidence: witnessed}
"""
PROBES = """
def total(at):
    return {"y": at.submission.total(at.inputs["x"])}

def double(at):
    return {"y": at.submission.double(at.inputs["x"])}
"""
TESTS = '''
import numpy as np
import pytest

X = {"x": np.arange(4, dtype=np.float32)}
Y = {"y": ("float32", (4,))}

@pytest.mark.law("ring.sum")
@pytest.mark.parametrize("world_size", [2, 3])
def test_sum(observe, world_size):
    """Sums are sums."""
    seen = observe("total", world_size=world_size, inputs=X, returns=Y)
    assert (seen.rank(0)["y"] == world_size * X["x"]).all(), "the sum is no sum"

@pytest.mark.law("ring.double")
def test_double(observe):
    """Twice is two times, in two steps."""
    first = observe("double", transport="none", inputs=X, returns=Y).rank(0)["y"]
    again = observe("double", transport="none", inputs={"x": np.array(first)}, returns=Y).rank(0)["y"]
    assert (again == 4 * X["x"]).all(), "twice twice is not four times"

@pytest.mark.law("ring.rounds")
def test_rounds(observe):
    """There and back."""
    assert observe("total", world_size=2, inputs=X, returns=Y).virtual_time().end_s == 2.0, "there and back is two rounds"
'''
HIDDEN = '''
import numpy as np
import pytest

@pytest.mark.law("ring.double")
def test_double(observe):
    """Twice is two times, of drawn numbers."""
    seen = observe("double", transport="none", inputs=lambda rng: {"x": rng.standard_normal(5)}, returns={"y": ("float64", (5,))},
                   kind="drawn numbers", host="it is about the host" if HOST else "")
    assert (seen.rank(0)["y"] == 2 * seen.input("x", 0)).all(), "twice is not two times"
'''
RIGHT = """
import torch.distributed as dist

def total(x):
    dist.all_reduce(x)
    return x

def double(x):
    return 2 * x
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Public and hidden cases of three laws; one of these only the wire can show."""
    root = tmp_path_factory.mktemp("course")
    written = {
        "assignments/sums/assignment.yaml": SPECIFICATION,
        "tests/probes/sums.py": PROBES,
        "tests/public/test_sums.py": TESTS,
        "tests/hidden/test_sums.py": HIDDEN.replace("HOST", "False"),
    }
    return laid_out(root, written)


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """A folder with sums.py."""
    return submitting(tmp_path / "submission", "sums.py")


def pretended(count: int) -> GpuProfile:
    """The GPU profile, played on the host by gloo."""
    return GpuProfile(tuple(Gpu(n, f"GPU-{n}", "pretended", "none", 0, 0) for n in range(count)), "pretend")


@pytest.fixture
def two_gpus() -> GpuProfile:
    """Two GPUs that are none."""
    return pretended(2)


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let nvidia-smi answer with these lines on GPUs and on processes; None: it fails, as without a driver."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def answers(gpus: str | None, processes: str = "") -> None:
        program = folder / "nvidia-smi"
        lines = ["#!/bin/sh", 'case "$1" in']
        lines += [f"--query-gpu=*) cat <<'END'\n{gpus}\nEND\n;;"] if gpus is not None else ["--query-gpu=*) exit 9 ;;"]
        program.write_text("\n".join([*lines, f"--query-compute-apps=*) cat <<'END'\n{processes}\nEND\n;;", "esac"]) + "\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    return answers
