"""A whole class, graded, graded again, killed at random moments, on Slurm: its rate, its memory, and one table however it came about.

python -m tests.soak.whole_class --students 300 -a collectives -a memory_accounting --steps grade,again,layouts,killed,slurm
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from grader.course import find_root, load, select
from grader.ledger import Ledger
from tests.grader.batch.downloads import LAYOUTS, roster_csv
from tests.soak.class_pieces import draw_class

ROOT = Path(__file__).parents[2]
SAMPLE_S = 0.5
TIMES_KILLED = 20
Table = dict[str, tuple[str, dict[str, tuple[int, int]], str]]


def command(options: argparse.Namespace, layout: str, out: Path, *more: str) -> list[str]:
    """The command of an instructor."""
    named = [word for name in options.assignment for word in ("-a", name)]
    places = [str(options.out / "in" / layout), "--roster", str(options.out / "roster.csv"), "--out", str(out)]
    return [sys.executable, "-m", "grader.cli", "batch", *places, *named, "--jobs", str(options.jobs), *more]


def table_of(out: Path) -> Table:
    """What must not depend on how it was graded."""
    return {row.student: (row.state, row.marks, row.submission) for row in Ledger(out).rows()}


def differing(one: Table, other: Table) -> list[str]:
    """Students whose rows differ, with both."""
    names = [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]
    return [f"{name}: {one.get(name)} and {other.get(name)}" for name in names]


class Memory:
    """The memory of a batch while it runs, in MB (unique set sizes: what all its processes would give back), judges and ranks apart."""

    def __init__(self, batch: psutil.Process) -> None:
        self.judges_mb: list[float] = []
        self.all_mb: list[float] = []
        self._batch = batch

    def sample(self) -> None:
        """Look once."""
        judges, ranks = 0.0, 0.0
        for process in [self._batch, *self._batch.children(recursive=True)]:
            try:
                is_rank = "grader.worker" in " ".join(process.cmdline())
                used_mb = process.memory_full_info().uss / 1e6
            except psutil.Error:
                continue
            judges, ranks = (judges, ranks + used_mb) if is_rank else (judges + used_mb, ranks)
        self.judges_mb.append(judges)
        self.all_mb.append(judges + ranks)

    def told(self) -> str:
        """Peaks of each quarter: flat, or they grow with the number of submissions."""
        quarters = [self.judges_mb[len(self.judges_mb) * n // 4 : len(self.judges_mb) * (n + 1) // 4] for n in range(4)]
        peaks = ", ".join(f"{max(quarter, default=0):.0f}" for quarter in quarters)
        return f"peak {max(self.all_mb, default=0):.0f} MB with all ranks; of coordinator and judges by quarter {peaks} MB"


@contextmanager
def watched(process: subprocess.Popen[str]) -> Iterator[Memory]:
    """Sample while the block runs."""
    memory, over = Memory(psutil.Process(process.pid)), threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_S):
            if process.poll() is None:
                memory.sample()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield memory
    finally:
        over.set()
        watcher.join()


def graded(options: argparse.Namespace, layout: str, out: Path, *more: str) -> tuple[float, Memory]:
    """Run the command to its end; seconds and memory. Its words go to OUT.log."""
    began_s = time.monotonic()
    with Path(f"{out}.log").open("a") as log:
        process = subprocess.Popen(command(options, layout, out, *more), cwd=ROOT, stdout=log, stderr=log, text=True)
        with watched(process) as memory:
            process.wait()
    if process.returncode not in (0, 4):
        raise SystemExit(f"the batch ended with {process.returncode}: see {out}.log")
    return time.monotonic() - began_s, memory


def grade(options: argparse.Namespace) -> list[str]:
    """The class from nothing: the undisturbed table."""
    out = options.out / "undisturbed"
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s, memory = graded(options, "plain", out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = table_of(out)
    num_reports = len(list((out / "reports").iterdir()))
    states = {state: sum(row[0] == state for row in rows.values()) for state in sorted({row[0] for row in rows.values()})}
    rate = f"{60 * len(rows) / wall_s:.1f} a minute ({60 * num_reports / wall_s:.1f} different ones, {cpu_s / num_reports:.1f} CPU s each)"
    print(f"grade: {len(rows)} rows, {num_reports} reports in {wall_s:.0f} s: {rate}; {states}; {memory.told()}", flush=True)
    (options.out / "first_s.json").write_text(json.dumps(wall_s))
    return [name for name, row in rows.items() if row[0] == "machine"]


def again(options: argparse.Namespace) -> list[str]:
    """The same once more: nothing has changed, so nothing is graded."""
    first_s, before = json.loads((options.out / "first_s.json").read_text()), table_of(options.out / "undisturbed")
    wall_s, _ = graded(options, "plain", options.out / "undisturbed")
    print(f"again: {wall_s:.1f} s, {first_s / wall_s:.0f} times as fast", flush=True)
    return differing(before, table_of(options.out / "undisturbed"))


def layouts(options: argparse.Namespace) -> list[str]:
    """The same class as every platform gives it, answered by the same reports."""
    before, wrong = table_of(options.out / "undisturbed"), []
    for layout in LAYOUTS:
        wall_s, _ = graded(options, layout, options.out / "undisturbed")
        found = differing(before, table_of(options.out / "undisturbed"))
        print(f"layouts: {layout}: {wall_s:.1f} s, {len(found)} rows differ", flush=True)
        wrong += found
    graded(options, "plain", options.out / "undisturbed")
    return wrong


def killed(options: argparse.Namespace) -> list[str]:
    """SIGKILL to the command at random moments, then the same command to its end."""
    out, dice = options.out / "killed", random.Random(options.seed)
    shutil.rmtree(out, ignore_errors=True)
    longest_s = 2 * json.loads((options.out / "first_s.json").read_text()) / TIMES_KILLED
    for _ in range(TIMES_KILLED):
        moment_s = dice.uniform(0.1, longest_s)
        process = subprocess.Popen(command(options, "plain", out), cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(moment_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        known = sum(row[0] not in ("waiting", "missing") for row in table_of(out).values()) if out.exists() else 0
        print(f"killed after {moment_s:5.1f} s: {known} rows known", flush=True)
    graded(options, "plain", out)
    return differing(table_of(options.out / "undisturbed"), table_of(out))


def slurm(options: argparse.Namespace) -> list[str]:
    """The class once more, by the cluster that is here."""
    out = options.out / "slurm"
    shutil.rmtree(out, ignore_errors=True)
    wall_s, _ = graded(options, "plain", out, "--executor", "slurm")
    print(f"slurm: {wall_s:.0f} s", flush=True)
    return differing(table_of(options.out / "undisturbed"), table_of(out))


STEPS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "grade": grade, "again": again, "layouts": layouts, "killed": killed, "slurm": slurm,
}  # fmt: skip


def main() -> int:
    """Carry out the steps; 1 if any of them has found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=300)
    parser.add_argument("-a", "--assignment", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", default="grade,again,layouts,killed")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(".grade/classoak"))
    options = parser.parse_args()
    options.out = options.out.absolute()
    course = load(find_root(ROOT))
    handed = draw_class(course, select(course, options.assignment), options.students, options.seed)
    shutil.rmtree(options.out / "in", ignore_errors=True)
    for layout, write in LAYOUTS.items():
        write(options.out / "in" / layout, handed)
    (options.out / "roster.csv").write_bytes(roster_csv([*handed]))
    failures = 0
    for name in options.steps.split(","):
        found = STEPS[name](options)
        failures += bool(found)
        print(f"{name}: {'; '.join(found[:5]) or 'as it must be'}", flush=True)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
