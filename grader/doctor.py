"""`grader doctor`: what this machine offers, looked at and tried rather than assumed, and what to do about each lack."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from grader import devices
from grader.errors import MachineError, SubmissionError
from grader.gpu_trial import trial
from grader.levels import LEVELS
from grader.observe.observer import Observer
from grader.observe.profile import GpuProfile
from grader.pipeline import opened_runs
from grader.ranks.access import let_ranks_in
from grader.ranks.isolation import level_in
from grader.records import Assignment, GiB, Submission, Transport, digest
from grader.remedies import IN_GENERAL, remedy
from grader.report.page import Page

PYTHONS = ((3, 11), (3, 13))  # the oldest and the newest that the course runs on
PACKAGES = {"torch": ((2, 11), None), "triton": ((3, 6), (3, 9)), "numpy": ((2, 0), None)}  # at least, below
LEAST_CORES, LEAST_DISK_BYTES = 2, 1 * GiB
PROBE = """import torch.distributed as dist

def total(at):
    x = at.inputs["x"]
    dist.all_reduce(x)
    return {"y": x}
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    seen: str
    advice: str = ""  # what to do about it, if it is not ok
    is_needed: bool = True  # without it nothing can be graded


def examine() -> list[Check]:
    """Look at everything; starts two ranks twice, which takes some seconds."""
    packages = [_package(name, least, below) for name, (least, below) in PACKAGES.items()]
    checks = [_python(), *packages, _cores(), _disk(), _gpu()]
    if any(check.name == "torch" and check.ok for check in checks):
        checks += [*two_ranks(), *_ranks_on_gpus()]
    return checks


def show(checks: list[Check], page: Page) -> None:
    """Print the checks, each with what to do if it isn't as it should be, and what follows."""
    indent = max(len(check.name) for check in checks) + 4
    for check in checks:
        sign, style = ("✓", "green") if check.ok else ("✗", "red") if check.is_needed else ("–", "yellow")
        page.paragraph(check.seen, lead=f"{sign} {check.name}", indent=indent, lead_style=style)
        if not check.ok and check.advice:
            page.paragraph(check.advice, lead="  try", indent=indent, lead_style="dim")
    lacks = [check.name for check in checks if check.is_needed and not check.ok]
    page.paragraph(
        f"Nothing can be graded here until this is mended: {', '.join(lacks)}." if lacks else "This machine can grade.", style="bold"
    )


def two_ranks() -> Iterator[Check]:
    """Two ranks add a tensor on the judge's wire, and again on gloo: the whole chain from judge to rank and back."""
    with opened_for_two() as observer:
        yield _two_ranks_on(observer, "wire", "two ranks, wire")
        yield _two_ranks_on(observer, "gloo", "two ranks, gloo")
        yield from levels(observer.runs.isolation(), observer.runs.witnessed())


@contextmanager
def opened_for_two(at_most: str = LEVELS[0]) -> Iterator[Observer]:
    """An observer of an empty submission, in a course of its own whose one probe is `total`."""
    with tempfile.TemporaryDirectory(prefix=f"grader-{os.getpid()}-") as folder, opened_runs(Path(folder), None, at_most=at_most) as runs:
        root = Path(folder)
        let_ranks_in(root)
        (root / "tests" / "probes").mkdir(parents=True)
        (root / "tests" / "probes" / "doctor.py").write_text(PROBE)
        (root / "submission").mkdir()
        (root / "submission" / "doctor.py").write_text("")
        submission = Submission(str(root / "submission"), "doctor", {"doctor.py": digest("")})
        yield Observer(runs, {"doctor": Assignment("doctor", 0, "Doctor", ("doctor.py",), ())}, {"doctor": submission})


def levels(label: str, witnessed: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """The level that a canary has witnessed, and of each stronger one why it is not to be had here and what would bring it."""
    reached = level_in(label)
    yield Check("isolation", reached != LEVELS[-1], label, IN_GENERAL["C"], is_needed=False)
    for level in LEVELS[: LEVELS.index(reached)].removesuffix("C"):
        why = "; ".join(dict.fromkeys(each["refused"].get(level, "not tried: its user may not change users") for each in witnessed))
        yield Check(f"level {level}", False, f"not here: {why or 'no rank was started'}", remedy(level, why), is_needed=False)


def _two_ranks_on(observer: Observer, transport: Transport, name: str) -> Check:
    advice = "Start it again when the machine is less busy; if it stays so, show this line to whoever keeps the course."
    ones = np.ones(3, dtype=np.float32)
    observe = observer.for_case("doctor", False, name)
    try:
        seen = observe("total", world_size=2, inputs={"x": [ones, 2 * ones]}, returns={"y": ("float32", (3,))}, transport=transport)
        sums = [seen.rank(rank)["y"].tolist() for rank in range(2)]
    except (SubmissionError, MachineError) as error:
        return Check(name, False, str(error), advice)
    expected = [[3.0] * 3] * 2
    return Check(name, sums == expected, "add a tensor as they should" if sums == expected else f"{sums}, expected {expected}", advice)


def _python() -> Check:
    oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
    ok = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    return Check("Python", ok, platform.python_version(), f"Use Python {oldest} to {newest}: make setup PYTHON=/path/to/python{oldest}")


def _package(name: str, least: tuple[int, int], below: tuple[int, int] | None) -> Check:
    wanted = f"{name} {'.'.join(map(str, least))} or newer" + (f", below {'.'.join(map(str, below))}" if below else "")
    is_needed = name != "triton"  # there is none on macOS: its laws are not judged there
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", f"Expected {wanted}; `make setup` installs it.", is_needed)
    parts = version.split("+")[0].split(".")
    ok = (found := (int(parts[0]), int(parts[1]))) >= least and (below is None or found < below)
    return Check(name, ok, version, f"Expected {wanted}; `make setup` installs it.", is_needed)


def _cores() -> Check:
    cores = devices.num_cores()
    advice = "Grading works on one core and takes about twice as long."
    return Check("cores", cores >= LEAST_CORES, str(cores), advice, is_needed=False)


def _disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    seen = f"{free / GiB:.1f} GiB free in {folder}"
    return Check(
        "disk", free >= LEAST_DISK_BYTES, seen, f"Free some space, or set TMPDIR to a folder with {LEAST_DISK_BYTES / GiB:.0f} GiB."
    )


def _gpu() -> Check:
    gpus = devices.found()
    if not gpus:
        return Check("GPU", True, "none, and none is needed")
    told = devices.facts(gpus)
    seen = f"{told['gpus']}, driver {told['gpu_driver']}, {int(told['gpu_memory_bytes']) / GiB:.0f} GiB each"
    return Check("GPU", True, seen + "".join(f"; {tenant}" for tenant in devices.tenants()))


def _ranks_on_gpus() -> Iterator[Check]:
    """What the GPU profile stands on; a machine without GPUs has nothing to try."""
    gpus = devices.found()
    if gpus:
        trouble = trial(GpuProfile(gpus))
        advice = "Grade with --profile cpu until this is mended."
        yield Check("ranks, NCCL", not trouble, trouble or f"{len(gpus)} add a tensor as they should", advice, is_needed=False)
