"""Races on a real GPU: solutions beside their peers, half of their speed ten times, and dishonest submissions. Everything lands in --out.

    python -m tests.soak.races --out FOLDER --limit-s 500            # on a GPU
    python -m tests.soak.races --out FOLDER --pretend --steps races  # the same steps where the host plays it

Steps, in this order unless --steps says otherwise: races (every race of the solutions), half (flash_attention.forward called twice, ten
times), cheats (tests/soak/race_cheats.py). What is known is in FOLDER/races.json at any moment; after the limit no new race begins.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader import devices
from grader.course import Course, load
from grader.observe.live import Runs
from grader.observe.profile import GpuProfile
from grader.pipeline import environment, opened_runs
from grader.policy import without_rules
from grader.race_stage import book_of, commit_of, race_all
from grader.races.book import write as write_book
from grader.races.conduct import Plan
from grader.races.verdict import SpeedMark, share
from grader.records import Assignment, Race
from tests.soak.race_cheats import CHEATS, Cheat

ROOT = Path(__file__).parents[2]
PLANS = {"races": Plan(rounds_alone=11, rounds=15, limit_s=30), "half": Plan(rounds_alone=7, rounds=11, limit_s=20),
         "cheats": Plan(rounds_alone=5, rounds=5, least_rounds=5, limit_s=12, window_limit_s=10, start_s=40)}  # fmt: skip
PRETENDED = Plan(window_s=1e-6, rounds_alone=1, rounds=1, window_limit_s=60)  # the interpreter is slow: as few calls as there may be
PRETENDED_GPUS = tuple(devices.Gpu(number, f"GPU-pretend-{number}", "pretended GPU", "none", 0, 0) for number in range(2))
TWICE = """
_once = flash_attention

def flash_attention(*tensors, **options):
    _once(*tensors, **options)
    return _once(*tensors, **options)
"""
HALF_TIMES, HALF_ALLOWED = 10, 0.03
GAIN_ALLOWED = 1.05  # over the upper end of the honest ratio: short races
RESULTS = ROOT / "tests" / "benchmarks" / "results"


class Field:
    """What races need, what they have told, and how much time is left."""

    def __init__(self, options: argparse.Namespace, course: Course, runs: Runs) -> None:
        self.options, self.course, self.runs = options, course, runs
        gpus = PRETENDED_GPUS if options.pretend else devices.found()[:2]
        self.profile = GpuProfile(gpus, "pretend" if options.pretend else "cuda")
        self.until = time.monotonic() + options.limit_s
        when = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit_of(course.root)}
        self.known: dict[str, Any] = {"machine": environment() | devices.facts(gpus) | when}

    def race(self, step: str, assignment: Assignment, path: Path, only: str) -> tuple[SpeedMark, ...]:
        """The marks of the submission at `path`; its laws are proved elsewhere."""
        plan = PRETENDED if self.options.pretend else PLANS[step]
        return race_all(self.course, path, [assignment], runs=self.runs, profile=self.profile, plan=plan, only=only, is_proved=True)

    @property
    def is_over(self) -> bool:
        """No new race begins."""
        return time.monotonic() > self.until

    def tell(self, label: str, mark: SpeedMark, began_s: float, **more: Any) -> None:
        """Keep it and say it."""
        self.known[label] = asdict(mark) | more | {"wall_s": round(time.monotonic() - began_s, 1)}
        (self.options.out / "races.json").write_text(json.dumps(self.known, indent=1))
        alone, seen = mark.alone, mark.estimate
        figures = f"A/A {alone.ratio:.3f} [{alone.low:.3f} {alone.high:.3f}] " if alone else ""
        if seen:
            figures += (f"ratio {seen.ratio:.3f} [{seen.low:.3f} {seen.high:.3f}] peer {seen.peer_s * 1e3:.3f} ms rival "
                        f"{seen.rival_s * 1e3:.3f} ms hand over {seen.hand_over_s * 1e3:.3f} fixed {seen.fixed_s * 1e3:.3f} "
                        f"rounds {seen.num_rounds} testified {seen.testified}")  # fmt: skip
        print(f"{label}: {mark.state} {mark.earned}/{mark.possible} in {self.known[label]['wall_s']} s | {figures} | "
              f"{mark.sentence[:200]} {mark.findings} {more or ''}", flush=True)  # fmt: skip


def step_races(field: Field) -> None:
    """Every race of the solutions, once; what is shown is a speed.json."""
    told = []
    for assignment in field.course.assignments:
        for race in assignment.races:
            if not field.is_over and field.options.only in race.id:
                began_s, lone = time.monotonic(), replace(assignment, races=(race,))
                (mark,) = field.race("races", lone, ROOT / "solutions", race.id)
                field.tell(race.id, mark, began_s)
                told.append(mark)
    raced = [each for each in field.course.assignments if each.races]
    write_book(book_of(field.course, ROOT / "solutions", raced, told, field.profile, field.runs), field.options.out)


def step_half(field: Field) -> None:
    """flash_attention.forward at half of its speed: is the share of the marks the one that half the ratio says?"""
    assignment, race = _race(field, "flash_attention.forward")
    written = _written(field, "twice", "flash_attention.py", (ROOT / "solutions" / "flash_attention.py").read_text() + TWICE)
    (whole,) = field.race("half", assignment, ROOT / "solutions", race.id)
    field.tell("half: whole", whole, time.monotonic())
    if whole.estimate is None:
        return
    # the reference may be above full_at, where marks stop: on this scale its own speed is all, and half of it half
    wide = replace(race, none_at=0.0001, full_at=whole.estimate.ratio)
    expected = share(wide, whole.estimate.ratio / 2)
    for turn in range(HALF_TIMES):
        if field.is_over:
            return
        began_s = time.monotonic()
        (mark,) = field.race("half", replace(assignment, races=(wide,)), written, race.id)
        found = share(wide, mark.estimate.ratio) if mark.estimate else None
        field.tell(f"half {turn + 1}", mark, began_s, expected=expected, found=found,
                   ok=found is not None and abs(found - expected) <= HALF_ALLOWED)  # fmt: skip


def step_cheats(field: Field) -> None:
    """Each ends refused, or with what its honest part takes. First those of which no result says yet that they end as they must."""
    honest: dict[str, float] = {}
    for cheat in sorted(CHEATS, key=_has_ended_well):
        if field.is_over:
            return
        if field.options.only in cheat.name:
            assignment, race = _race(field, cheat.race)
            solution = (ROOT / "solutions" / cheat.file).read_text()
            if race.id not in honest:
                began_s = time.monotonic()
                (mark,) = field.race("cheats", assignment, _written(field, f"honest {race.id}", cheat.file, solution), race.id)
                field.tell(f"honest: {race.id}", mark, began_s)
                honest[race.id] = mark.estimate.high if mark.estimate else 0.0
            began_s = time.monotonic()
            (mark,) = field.race("cheats", assignment, _written(field, cheat.name, cheat.file, solution + cheat.code), race.id)
            field.tell(f"cheat {cheat.name}", mark, began_s, expected=cheat.must, ok=_ends_well(cheat, mark, honest[race.id]))


def _ends_well(cheat: Cheat, mark: SpeedMark, honest_ratio: float) -> bool:
    """Whether the race ended as the cheat's may: see tests/soak/race_cheats.py."""
    gains_nothing = mark.estimate is not None and mark.estimate.low <= GAIN_ALLOWED * honest_ratio
    return {
        "refused": mark.state == "refused",
        "no marks": mark.earned == 0,
        "honest": mark.state in ("refused", "inconclusive") or gains_nothing,
        "known to pass": mark.state != "refused",
    }[cheat.must]


def _has_ended_well(cheat: Cheat) -> bool:
    """In the last stored run on a GPU in which it raced."""
    label = f"cheat {cheat.name}"
    runs = [run for path in RESULTS.glob("races_*.json") for run in json.loads(path.read_text())["runs"] if label in run["marks"]]
    marks = [run["marks"][label] for run in sorted(runs, key=lambda run: run["date"])]
    if not marks:
        return False
    is_judged = marks[-1]["state"] == "judged"  # all that the oldest runs say
    return bool(marks[-1].get("ok", is_judged == (cheat.must in ("honest", "known to pass"))))


def _race(field: Field, wanted: str) -> tuple[Assignment, Race]:
    """The assignment with that race alone, and without rules, which are no wall."""
    ((assignment, race),) = ((each, race) for each in field.course.assignments for race in each.races if race.id == wanted)
    return replace(without_rules(assignment), races=(race,)), race


def _written(field: Field, name: str, file: str, source: str) -> Path:
    folder = field.options.out / "submissions" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / file).write_text(source)
    return folder


STEPS = {"races": step_races, "half": step_half, "cheats": step_cheats}


def main() -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", default="races,cheats,half")
    parser.add_argument("--only", default="", help="a part of a race's or a cheat's name")
    parser.add_argument("--limit-s", type=float, default=500.0)
    parser.add_argument("--pretend", action="store_true", help="the host plays the GPU")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    course = load(ROOT)
    with opened_runs(course.root, options.out) as runs:
        field = Field(options, course, runs)
        print(json.dumps(field.known["machine"]), flush=True)
        for step in options.steps.split(","):
            STEPS[step](field)
    print(f"nobody is left on the GPU: {not devices.tenants()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
