"""Grade the reference solution many times, half of them with both cores busy: full marks, or the grader is not deterministic.

python -m tests.soak.grading --times 50 [--assignment collectives]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def grade_once(assignments: list[str]) -> tuple[int, int, list[str], float]:
    """-> (earned, possible, laws that failed with what was seen, seconds)."""
    with tempfile.TemporaryDirectory() as out:
        named = [word for name in assignments for word in ("--assignment", name)]
        began_s = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "grader.cli", "grade", "--submission", "solutions", "--out", out, *named],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        report = json.loads((Path(out) / "report.json").read_text())
        laws = [law for assignment in report["assignments"] for task in assignment["tasks"] for law in task["laws"]]
        failed = [f"{law['id']}: {(law['message'] or {}).get('seen', '')}" for law in laws if law["verdict"] != "passed"]
        return report["earned"], report["possible"], failed, time.monotonic() - began_s


def main() -> int:
    """Print a line per grading; 1 if one of them had less than full marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--busy", type=int, default=multiprocessing.cpu_count(), help="cores kept busy in every second grading")
    parser.add_argument("--assignment", action="append", default=[])
    options = parser.parse_args()
    failures = 0
    for number in range(options.times):
        with busy_cores(options.busy if number % 2 else 0):
            earned, possible, failed, seconds = grade_once(options.assignment)
        failures += earned != possible
        print(f"{number + 1:3} {'busy' if number % 2 else 'idle'} {earned}/{possible} in {seconds:5.1f} s {'; '.join(failed)}", flush=True)
    print(f"{options.times - failures} passed, {failures} failed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
