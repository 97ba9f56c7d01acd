"""The GPU stage: the laws that hold on the CPU are judged again where GPUs are, and both verdicts become one report.

A law keeps its points only if its cases pass on both. A case that means nothing on a GPU, or does not fit on the GPUs at hand, keeps its
CPU verdict. The CPU's marks stand at once; the stage may follow on another machine, from the run folder alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader import devices
from grader.course import Course
from grader.errors import CourseError, UsageError
from grader.gpu_trial import trial
from grader.judge.ports import Progress
from grader.judge.session import judge
from grader.observe.backlog import Backlog, Told
from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.observe.profile import GpuProfile
from grader.pipeline import environment, needed_by, taken_in
from grader.ranks.isolation import ON_GPUS, why_formative
from grader.records import NOT_SELECTED, Assignment, CaseVerdict, Message, Report, canonical, digest
from grader.score import is_provisional, score

WAITING = "No GPU is here that works: these are the CPU's marks. The GPU stage waits: run `grader gpu` on this run folder where a GPU is."
RANKS_PER_GPU = 4  # at a time: starting takes seconds and is mostly waiting
NUM_PASSES_LIMIT = 30  # each gets a test one observation further


@dataclass(frozen=True, slots=True)
class Judged:
    """What the stage adds to a report."""

    verdicts: tuple[CaseVerdict, ...]  # of cases that were judged on GPUs
    kept: Counter[str]  # why others keep their CPU verdict
    num_observations: int
    has_hidden: bool
    left: tuple[str, ...]  # sentences on what was found on a GPU afterwards
    wall_s: float
    interrupted: bool = False


def add_gpu_stage(
    course: Course,
    report: Report,
    path: Path,
    assignments: Sequence[Assignment],
    *,
    profile: GpuProfile,
    runs: Runs,
    keyword: str | None = None,
    progress: Progress | None = None,
    told: Told = lambda sentence: None,
    ranks_at_once: int | None = None,
    is_tried: bool = False,
) -> Report:
    """`report` with the verdicts of the GPU stage in it. Without a GPU that works: `report`, which then says what it waits for.

    ranks_at_once  how many ranks of several observations may run side by side; None: RANKS_PER_GPU on each GPU
    is_tried       the caller knows that the GPUs work

    Raises UsageError if the files at `path` are not those that `report` is about.
    """
    trouble = "" if is_tried else trial(profile)
    if trouble:
        return replace(report, waits_for=("gpu",), provisional=True, notes=(*_notes_before(report), f"{WAITING} ({trouble})"))
    laws = [law.id for law in report.laws() if law.verdict == "passed"]
    with taken_in(path, assignments, runs, profile.flavours) as observer:
        if digest(canonical({name: submission.hash for name, submission in observer.submissions.items()})) != report.submission:
            raise UsageError(f"{path} is not what the CPU's marks are about: a file has changed since. Grade it again.")
        judged = judge_on_gpus(course, assignments, observer, profile, laws=laws, keyword=keyword, ranks_at_once=ranks_at_once,
                               progress=progress, told=told)  # fmt: skip
    return merge(assignments, report, judged, profile)


def judge_on_gpus(
    course: Course,
    assignments: Sequence[Assignment],
    observer: Observer,
    profile: GpuProfile,
    *,
    laws: Collection[str],
    keyword: str | None = None,
    ranks_at_once: int | None = None,
    progress: Progress | None = None,
    told: Told = lambda sentence: None,
) -> Judged:
    """Passes of the judge, with runs between them, until a pass misses nothing. One grading at a time on a machine's GPUs."""
    began_s, num_observations, before = time.monotonic(), 0, devices.tenants()
    backlog = Backlog(observer.runs, profile.gpus, ranks_at_once or RANKS_PER_GPU * len(profile.gpus), told)
    there = Observer(observer.runs, observer.assignments, observer.submissions, gpu=profile, backlog=backlog)
    for _ in range(NUM_PASSES_LIMIT):
        seen = judge(course.root, assignments, there, laws=laws, keyword=keyword, progress=progress)
        if not backlog.wanted or seen.interrupted:
            break
        with devices.held(told):
            num_observations += backlog.run()
    else:
        raise CourseError(f"after {NUM_PASSES_LIMIT} passes tests still ask for observations, such as {next(iter(backlog.wanted))[:12]}")
    verdicts, kept = [], Counter[str]()
    for verdict in seen.verdicts:
        if verdict.outcome != "not_judged" and verdict.keys:
            verdicts.append(_on_gpu(verdict))
        elif verdict.message is not None and verdict.message.seen != NOT_SELECTED:
            kept[verdict.message.seen.removeprefix("Not judged: ")] += 1
        elif verdict.message is None:
            kept["it observes no run"] += 1
    left = devices.left_behind(before)
    return Judged(tuple(verdicts), kept, num_observations, seen.has_hidden, left, time.monotonic() - began_s, seen.interrupted)


def merge(assignments: Sequence[Assignment], report: Report, judged: Judged, profile: GpuProfile) -> Report:
    """One report of both: marks are added up anew from all verdicts, and say on what they rest."""
    marks = score(assignments, [case for law in report.laws() for case in law.cases] + list(judged.verdicts))
    has_hidden = any(case.hidden for law in report.laws() for case in law.cases if not _is_unselected(case))
    isolation = report.isolation.removesuffix(ON_GPUS) + (ON_GPUS if judged.verdicts else "")
    return replace(
        report,
        earned=sum(mark.earned for mark in marks),
        possible=sum(mark.possible for mark in marks),
        assignments=marks,
        provisional=is_provisional(assignments, marks, has_hidden),
        notes=(*_notes_before(report), *_notes(judged, profile)),
        environment=report.environment | _where(profile),
        wall_s=report.wall_s + judged.wall_s,
        interrupted=report.interrupted or judged.interrupted,
        waits_for=(),
        isolation=isolation,
        formative=why_formative(isolation, needed_by(assignments)),
    )


def _where(profile: GpuProfile) -> dict[str, str]:
    """The machine of the GPU stage, which may be another than that of the CPU's marks."""
    return {f"gpu_stage_{name}": value for name, value in environment().items()} | devices.facts(profile.gpus)


def _on_gpu(verdict: CaseVerdict) -> CaseVerdict:
    message = verdict.message
    if message is not None:
        message = replace(message, seen=f"On a GPU: {message.seen}", rerun=message.rerun.replace(" K=", " PROFILE=gpu K=", 1))
    return replace(verdict, profile="gpu", id=f"{verdict.id} (gpu)", kind=f"{verdict.kind}, on a GPU", message=message)


def _is_unselected(case: CaseVerdict) -> bool:
    return case.message is not None and case.message == Message(seen=NOT_SELECTED)


def _notes_before(report: Report) -> list[str]:
    """Its notes, but for the one that this stage is still to come."""
    return [note for note in report.notes if not note.startswith(WAITING)]


def _notes(judged: Judged, profile: GpuProfile) -> list[str]:
    kept = "; ".join(f"{count}: {why}" for why, count in judged.kept.most_common())
    where = devices.facts(profile.gpus).get("gpus", "no GPU")
    sentence = f"{len(judged.verdicts)} cases were judged on {where} as well, from {judged.num_observations} runs in {judged.wall_s:.0f} s"
    return [f"{sentence}; {sum(judged.kept.values())} keep their CPU verdict{f' ({kept})' if kept else ''}.", *judged.left]
