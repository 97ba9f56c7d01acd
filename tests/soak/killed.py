"""SIGKILL to the grader at random moments: no process, folder, mount, namespace or segment of it may be left, and the store must be whole.

python -m tests.soak.killed --times 50
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from grader.store import STORE_NAME, Store

ROOT = Path(__file__).parents[2]
TIDY_WITHIN_S = 5.0


def kill_after(seconds: float, submission: str = "solutions") -> list[str]:
    """Grade, kill the grader after `seconds`, and say what is left of it TIDY_WITHIN_S later; [] when nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "tmp"
        temporary.mkdir()
        command = [
            sys.executable,
            "-m",
            "grader.cli",
            "grade",
            "--assignment",
            "collectives",
            "--submission",
            submission,
            "--out",
            f"{folder}/out",
        ]
        grader = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds)
        grader.send_signal(signal.SIGKILL)
        grader.wait()
        until = time.monotonic() + TIDY_WITHIN_S
        while (left := remains(temporary)) and time.monotonic() < until:
            time.sleep(0.05)
        return left + harm(Path(folder) / "out" / STORE_NAME)


def remains(temporary: Path) -> list[str]:
    """Processes that were started with this temporary folder, what lies in it or is mounted below it, and segments that they made.

    A namespace lives as long as a process in it, a mount of it, or an open descriptor on it: with the processes it is gone, too.
    """
    left = [f"folder {path}" for path in temporary.iterdir()]
    left += [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if str(temporary) in line]
    left += [f"segment {name}" for name in os.listdir("/dev/shm") if "grader" in name]
    for process in psutil.process_iter(["pid", "name"]):
        try:
            if process.environ().get("TMPDIR") == str(temporary):
                left.append(f"process {process.pid}: {' '.join(process.cmdline())}")
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return left


def harm(store: Path) -> list[str]:
    """What is wrong with the store of a grader that was killed: it may lack rows, and none may be broken."""
    if not store.exists():
        return []
    with contextlib.closing(sqlite3.connect(store)) as database:
        told = database.execute("pragma integrity_check").fetchone()[0]
        keys = [key for (key,) in database.execute("select key from observations")] if has_table(database) else []
    with contextlib.closing(Store(store)) as opened:
        unread = [key for key in keys if opened.observation(key) is None]
    return ([f"store: {told}"] if told != "ok" else []) + [f"store: {key} can't be read" for key in unread]


def has_table(database: sqlite3.Connection) -> bool:
    """Whether the grader came so far."""
    return bool(database.execute("select 1 from sqlite_master where name = 'observations'").fetchone())


def main() -> int:
    """Kill so often, at moments of a run that are drawn anew each time; 1 if anything was ever left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--longest-s", type=float, default=14.0, help="about as long as a grading takes")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    moments = random.Random(options.seed)
    failures = 0
    for number in range(options.times):
        moment_s = moments.uniform(0.1, options.longest_s)
        left = kill_after(moment_s)
        failures += bool(left)
        print(f"{number + 1:3} killed after {moment_s:5.2f} s: {'; '.join(left) or 'nothing left'}", flush=True)
    print(f"{options.times - failures} passed, {failures} failed (seed {options.seed})")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
