"""A course whose one assignment is a loop: what it takes is known, because it is how often the loop goes round."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import Course
from grader.devices import Gpu
from grader.observe.profile import GpuProfile
from grader.races.conduct import Plan
from tests.grader.small_course import Submit, laid_out, runs, submitting

__all__ = ["Submit", "runs"]  # fixtures are found by being here

SPECIFICATION = """
number: 3
title: Squares
files: [squares.py]
tasks:
  - id: square
    title: The square
    regions: [square]
    stub: raise NotImplementedError
    laws:
      - {id: right, claim: Squares are squares., points: 2, evidence: judged}
races:
  - id: squares
    claim: As fast as the peer.
    track: squares
    against: peer
    marks: 10
    none_at: 0.25
    full_at: 0.75
    why: It is a test.
    pretended: {length: 4096}
"""
KEEPER = '''
import torch

class squares:
    precision = "float32"

    def __init__(self, device, length):
        self.device, self.length = device, length
        self.inputs, self.outputs = {"x": ("float32", (length,))}, {"y": ("float32", (length,))}
        self.moved_bytes, self.flops = 8 * length, length

    def fill(self, inputs, generator):
        inputs["x"].normal_(generator=generator)

    def places(self, generator):
        return torch.randint(self.length, (64,), generator=generator).to(self.device)

    def exact(self, inputs, places):
        return {"y": inputs["x"][places].double() ** 2}

    def plain(self, inputs, places):
        return {"y": inputs["x"][places] ** 2}

    def taken(self, outputs, places):
        return {"y": outputs["y"][places]}
'''
# A call of the peer's goes round so often that a window is some milliseconds; what a submission takes is a multiple of that.
ENTRANTS = """
def squared(x, rounds):
    for _ in range(rounds):
        y = x * x
    return y

def squares_peer(at, length):
    def call(inputs, outputs):
        outputs["y"].copy_(squared(inputs["x"], 1000))
    return call

def squares_submission(at, length):
    def call(inputs, outputs):
        outputs["y"].copy_(at.submission.square(inputs["x"]))
    return call
"""
TIMES = """
def square(x):
    for _ in range({rounds}):
        y = x * x
    return y
"""
QUICK = Plan(window_s=0.03, rounds_alone=9, rounds=9, least_rounds=5, limit_s=20.0, window_limit_s=10.0)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """One assignment, one race."""
    root = tmp_path_factory.mktemp("course")
    written = {
        "assignments/squares/assignment.yaml": SPECIFICATION,
        "tests/probes/squares.py": "",
        "tests/races/squares/keeper.py": KEEPER,
        "tests/races/squares/entrants.py": ENTRANTS,
    }
    return laid_out(root, written)


@pytest.fixture
def submit(tmp_path: Path) -> Submit:
    """A folder with squares.py."""
    return submitting(tmp_path / "submission", "squares.py")


@pytest.fixture
def played() -> GpuProfile:
    """A GPU that the host plays."""
    return GpuProfile((Gpu(0, "GPU-0", "pretended", "none", 0, 0),), "pretend")
