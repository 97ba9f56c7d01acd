"""Do the GPUs of this machine work at all? A product and a sum on them, without a submission, through the whole chain that grades."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from grader import devices
from grader.errors import CourseError, MachineError, SubmissionError
from grader.observe.backlog import Backlog, NotRunYet
from grader.observe.observer import Case, Observer
from grader.observe.profile import GpuProfile
from grader.pipeline import opened_runs
from grader.records import Assignment, Submission, digest

NUM_PASSES = 2  # one that notes what is wanted, one that gets it
PROBE = """
import torch
import torch.distributed as dist

def product(at):
    return {"y": at.inputs["x"] @ torch.ones(3, 1)}

def total(at):
    dist.all_reduce(at.inputs["x"])
    return {"y": at.inputs["x"]}
"""


def trial(profile: GpuProfile) -> str:
    """One rank multiplies, and one rank on each GPU adds: "" if they give what they should, else what went wrong."""
    world_size = len(profile.gpus)
    if not world_size:
        return "nvidia-smi shows none"
    ones = np.ones((2, 3), dtype=np.float32)
    with ExitStack() as opened:
        root = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix=f"grader-{os.getpid()}-")))
        runs = opened.enter_context(opened_runs(root, None))
        assignment, submission = _empty_course(root)
        backlog = Backlog(runs, profile.gpus, world_size)
        observer = Observer(runs, {"trial": assignment}, {"trial": submission}, gpu=profile, backlog=backlog)
        observe = observer.for_case("trial", False, "trial")
        try:
            product = _now(observe, backlog, "product", inputs={"x": ones}, returns={"y": ("float32", (2, 1))}, transport="none")
            total = _now(observe, backlog, "total", inputs={"x": ones}, returns={"y": ("float32", (2, 3))}, world_size=world_size)
            sums = [float(product.rank(0)["y"].max()), *(float(total.rank(rank)["y"].max()) for rank in range(world_size))]
        except SubmissionError as failed:
            return f"{failed} {failed.message.output}".strip()
        except MachineError as failed:
            return str(failed)
    expected = [3.0] + [float(world_size)] * world_size
    return "" if sums == expected else f"their sums are {sums}, expected {expected}"


def _now(observe: Case, backlog: Backlog, probe: str, **asked: Any) -> Any:
    for _ in range(NUM_PASSES):
        try:
            return observe(probe, **asked)
        except NotRunYet:
            with devices.held():
                backlog.run()
    raise CourseError(f"the trial's {probe} was run and is still wanted")


def _empty_course(root: Path) -> tuple[Assignment, Submission]:
    for name, text in (("tests/probes/trial.py", PROBE), ("submission/trial.py", "")):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    return Assignment("trial", 0, "Trial", ("trial.py",), ()), Submission(str(root / "submission"), "trial", {"trial.py": digest("")})
