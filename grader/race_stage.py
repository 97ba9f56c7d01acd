"""The races of an assignment: their processes are started, led through their turns, and what was seen is stored and judged.

Speed marks stand beside the 100 points and never change them: a laptop can earn every point, and a report without a race is no less
final. They need a GPU; without one a race is "not judged".
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from grader import devices
from grader.course import Course
from grader.frames import Bytes
from grader.observe.live import Runs, openings_of
from grader.observe.profile import GpuProfile
from grader.observe.seeds import secret_of, seed_of
from grader.pipeline import environment, grade, taken_in
from grader.races.book import Book
from grader.races.conduct import Conductor, Plan, cpu_ns, wall_ns
from grader.races.crew import Crew
from grader.races.seats import Fallen, Seat
from grader.races.verdict import SpeedMark, judge, not_raced
from grader.races.windows import PEER, RANKS, SUBMISSION, peaks_of, to_events, windows_of
from grader.records import Assignment, Event, Fault, Json, Network, Outcome, Race, RankOutcome, Request, Submission, canonical, digest

NO_GPU = "No GPU is here that works: speed is raced on one, and counts for nothing until then."
NOT_STORED = "no such race is stored here: submission, race or grader changed since it was run, or it was run on another device"
USUAL = Plan()
Told = Callable[[str], None]


def race_all(
    course: Course,
    path: Path,
    assignments: Sequence[Assignment],
    *,
    runs: Runs,
    profile: GpuProfile,
    plan: Plan = USUAL,
    only: str = "",
    is_proved: bool = False,
    told: Told = lambda sentence: None,
) -> tuple[SpeedMark, ...]:
    """The speed marks of the submission at `path`, race by race.

    only       a part of the races' names
    is_proved  the laws that races need are known to hold; else they are judged first, on the CPU
    Raises UsageError if `path` can't be looked into, MachineError if the machine fails.
    """
    marks = []
    for assignment in assignments:
        races = [race for race in assignment.races if only in race.id]
        if races and not profile.gpus:
            marks += [not_raced(race, NO_GPU) for race in races]
        elif races:
            lost = {} if is_proved else _lost(course, path, assignment, races, runs)
            with taken_in(path, [assignment], runs, profile.flavours or assignment.flavours) as observer:
                for race in races:
                    told(f"{race.id} against {race.against}")
                    marks.append(_raced(race, lost, assignment, observer.submissions[assignment.name], runs, profile, plan))
    return tuple(marks)


def book_of(
    course: Course, path: Path, assignments: Sequence[Assignment], marks: Sequence[SpeedMark], profile: GpuProfile, runs: Runs
) -> Book:
    """The marks with what they were measured on, for speed.json."""
    raced = [each for each in assignments if any(mark.race.startswith(f"{each.name}.") for mark in marks)]
    with taken_in(path, raced, replace(runs, replay=True)) as observer:  # nothing is started to read files
        submission = digest(canonical({name: each.hash for name, each in observer.submissions.items()}))
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Book(submission, str(path), date, commit_of(course.root), environment() | devices.facts(profile.gpus), tuple(marks))


def commit_of(root: Path) -> str:
    """The course's; "" where it lies in no repository."""
    try:
        told = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()


def _lost(course: Course, path: Path, assignment: Assignment, races: Sequence[Race], runs: Runs) -> dict[str, str]:
    """Laws that the races need and that don't hold, with their verdicts."""
    needed = {law for race in races for law in race.needs}
    report = grade(course, path, [assignment], laws=needed, runs=runs) if needed else None
    laws = report.laws() if report else ()
    return {law.id: law.verdict for law in laws if law.id in needed and law.verdict != "passed"}


def _raced(
    race: Race, lost: dict[str, str], assignment: Assignment, submission: Submission, runs: Runs, profile: GpuProfile, plan: Plan
) -> SpeedMark:
    if missing := [law for law in race.needs if law in lost]:
        return not_raced(race, f"It builds on {missing[0]}, which does not hold: {lost[missing[0]].replace('_', ' ')}.")
    if submission.hits:
        return not_raced(race, f"{submission.hits[0].file}:{submission.hits[0].line} uses what {assignment.name} forbids.", "refused")
    if race.ranks > len(profile.gpus):
        return not_raced(race, f"It is a race of {race.ranks} ranks, with a GPU each, and this machine has {len(profile.gpus)}.")
    request = request_of(assignment, race, profile)
    key = runs.key(submission, request, *_sources(runs.root, assignment), canonical(devices.facts(profile.gpus)))
    outcome = runs.store.outcome(key) if runs.replay else None
    if runs.replay and outcome is None:
        return not_raced(race, NOT_STORED)
    if outcome is None:
        try:
            outcome = run_race(assignment, race, submission, request, key, runs, profile, plan)
        except Fallen as fallen:
            return not_raced(race, str(fallen))
        runs.store.put(key, submission.hash, request, outcome)
    clocks = {event.phase: event.facts for event in outcome.events if event.kind == "clocks"}
    return replace(judge(race, windows_of(outcome), peaks_of(outcome), outcome.fault), clocks=clocks)


def request_of(assignment: Assignment, race: Race, profile: GpuProfile) -> Request:
    """A race as an observation: what decides it, but for the machine."""
    is_real = profile.device == "cuda"
    parameters: dict[str, Json] = {"track": race.track, "against": race.against, "on": race.parameters if is_real else race.pretended}
    network = Network("none") if race.ranks == 1 else Network("nccl") if is_real else Network("gloo")
    return Request(
        assignment=assignment.name, probe=f"race {race.track}", parameters=parameters | race.environment,
        world_size=len(RANKS) * race.ranks, inputs={}, returns={}, network=network,
        flavour="cuda" if is_real else assignment.flavours[0], device=profile.device, shares_folder=not is_real,
    )  # fmt: skip


def run_race(
    assignment: Assignment, race: Race, submission: Submission, request: Request, key: str, runs: Runs, profile: GpuProfile, plan: Plan
) -> Outcome:
    """One race on the first GPUs, nobody else on them. Raises Fallen if it fell before the submission had come in."""
    began_s, clocks = time.monotonic(), list[Event]()
    seed = seed_of(secret_of(hidden=True), submission.hash, request.case(), "race")
    with devices.held(), tempfile.TemporaryDirectory(dir=runs.store.path.parent, prefix="nothing-") as nothing:
        openings = race_openings(assignment, race, submission, request, runs, profile, Path(nothing))
        launch = runs.launch(request.flavour, openings)
        try:
            seats = [Seat(each.pid, each.pipes.line, each.pipes.log, each.opening) for each in launch.started]
            crews = {name: Crew(seats[number * race.ranks : (number + 1) * race.ranks]) for number, name in enumerate(RANKS)}

            def look_at_clocks(phase: str) -> None:
                clocks.append(Event(0, "clocks", phase, facts=dict(devices.clocks(profile.gpus[0]))))

            conductor = Conductor(crews, plan, random.Random(seed), look_at_clocks, wall_ns if profile.device == "cuda" else cpu_ns)
            fault = led(conductor, race.ranks)
            look_at_clocks("after")
        finally:
            launch.end()
    ranks = tuple(
        RankOutcome(rank, fault is None or rank != fault.rank, None, log=seat.log.decode(errors="replace"))
        for rank, seat in enumerate(seats)
    )
    return Outcome(ranks, (*to_events(conductor.windows, conductor.peaks, race.ranks), *clocks), fault, wall_s=time.monotonic() - began_s)


def led(conductor: Conductor, num_ranks: int = 1) -> Fault | None:
    """Lead a race to its end -> whose fault it is if it has none; Fallen goes on if nothing of the submission was there yet."""
    try:
        conductor.run()
    except Fallen as fallen:
        name, sentence = conductor.speaks, f"the {conductor.speaks} {fallen}"
        if name == SUBMISSION:
            return Fault("fell", RANKS.index(SUBMISSION) * num_ranks, sentence)
        if not conductor.has_let_in:
            raise Fallen(f"{sentence} {conductor.crews[name].log.decode(errors='replace')[-500:]}".strip()) from None
        return Fault("disturbed", RANKS.index(name) * num_ranks, f"{sentence}, while the submission was there")
    return None


def race_openings(
    assignment: Assignment, race: Race, submission: Submission, request: Request, runs: Runs, profile: GpuProfile, nothing: Path
) -> list[tuple[Json, list[Bytes]]]:
    """What each process is told. Only the last crew gets the submission; `nothing` stands in its place for the others."""
    folder = races_folder(runs.root, assignment)
    files = {"keeper": ("keeper.py", race.track), PEER: ("entrants.py", f"{race.track}_{race.against}")}
    empty = replace(submission, folder=str(nothing), files={})
    openings = []
    for name in RANKS:
        given = submission if name == SUBMISSION else empty
        told = openings_of(runs.root, runs.store.path.parent, assignment, given, request, "")[: race.ranks]
        file, probe = ("entrants.py", f"{race.track}_submission") if name == SUBMISSION else files.get(name, files[PEER])
        for (order, parts), gpu in zip(told, profile.gpus, strict=False):
            order |= {"race": name, "probes": str(folder / file), "probe": probe, "parameters": request.parameters["on"],
                      "world_size": race.ranks, "gpus": [gpu.uuid], "environment": race.environment}  # fmt: skip
            openings.append((order, parts))
    return openings


def races_folder(root: Path, assignment: Assignment) -> Path:
    """Where the entrants of an assignment's races are, and what keeps their memory."""
    return root / "tests" / "races" / assignment.name


def _sources(root: Path, assignment: Assignment) -> list[bytes]:
    return [path.read_bytes() for path in sorted(races_folder(root, assignment).glob("*.py"))]
