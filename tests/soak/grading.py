"""Grade right answers many times, each with other seeds, half of them with both cores busy: full marks, or the grader rejects right work.

    python -m tests.soak.grading --times 50 [--assignment collectives]

The solution and the variants take turns, but for those that break a rule on purpose. A comment with the grading's number is added to every
file: from it come all inputs, since seeds are made from what was handed in, so `--first 37 --times 1` grades the 37th again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.course import Course, load
from grader.records import Assignment
from grader.selfcheck.overlays import load_overlay, overlay_paths

ROOT = Path(__file__).parents[2]


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


@contextmanager
def busy_cores(num: int) -> Iterator[None]:
    """Other work on the machine, for as long as the block lasts."""
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in range(num)]
    for spinner in spinners:
        spinner.start()
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()


def right_answer(course: Course, assignment: Assignment, number: int, folder: Path) -> str:
    """Write the right answer whose turn it is into `folder`; -> what it is called."""
    variants = [load_overlay(course, assignment, path) for path in overlay_paths(course, "variants", assignment)]
    variants = [variant for variant in variants if not variant.header.policy]
    turn = number % (len(variants) + 1)
    if turn:
        variants[turn - 1].write(course, assignment, folder)
    else:
        folder.mkdir(parents=True)
        for file in assignment.files:
            (folder / file).write_bytes((ROOT / "solutions" / file).read_bytes())
    for file in assignment.files:
        with (folder / file).open("a", encoding="utf-8") as text:
            text.write(f"\n# {number}\n")
    return f"variant {Path(variants[turn - 1].path).stem}" if turn else "solution"


def grade_once(assignment: str, submission: Path, out: Path) -> tuple[int, int, list[str], float]:
    """-> (earned, possible, laws that failed with what was seen, seconds)."""
    began_s = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "grader.cli", "grade", "--submission", submission, "--out", out, "--assignment", assignment],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    report = json.loads((out / "report.json").read_text())
    laws = [law for graded in report["assignments"] for task in graded["tasks"] for law in task["laws"]]
    failed = [f"{law['id']}: {(law['message'] or {}).get('seen', '')}" for law in laws if law["verdict"] != "passed"]
    return report["earned"], report["possible"], failed, time.monotonic() - began_s


def main() -> int:
    """Print a line per grading; 1 if one of them had less than full marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--busy", type=int, default=multiprocessing.cpu_count(), help="cores kept busy in every second grading")
    parser.add_argument("--first", type=int, default=0, help="the number of the first grading")
    parser.add_argument("--assignment", action="append", default=[])
    options = parser.parse_args()
    course = load(ROOT)
    chosen = [each for each in course.assignments if each.name in options.assignment or not options.assignment]
    numbers = range(options.first, options.first + options.times)
    failures = 0
    for number, assignment in itertools.product(numbers, chosen):
        with tempfile.TemporaryDirectory() as place, busy_cores(options.busy if number % 2 else 0):
            name = right_answer(course, assignment, number, Path(place) / "submission")
            earned, possible, failed, seconds = grade_once(assignment.name, Path(place) / "submission", Path(place) / "out")
        failures += earned != possible
        state = "busy" if number % 2 else "idle"
        print(
            f"{number:4} {state} {assignment.name} {name} {earned}/{possible} in {seconds:.1f} s {'; '.join(failed)}".rstrip(), flush=True
        )
    print(f"{len(numbers) * len(chosen) - failures} passed, {failures} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
