"""What pytest-benchmark shows of a race is what the judge has measured."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from grader.races.book import write
from tests.grader.races.test_leaderboard import book

ROOT = Path(__file__).parents[3]


def test_rounds_come_out_as_they_were_measured(tmp_path: Path) -> None:
    """Its JSON has the rounds of both racers, their ratio beside them, and no duration of its own making."""
    told = book(2.0)
    write(told, tmp_path)
    chosen = ["--races", str(tmp_path), "--benchmark-json", str(tmp_path / "out.json")]
    command = ["tests/benchmarks/test_races.py", "-q", "-p", "no:cacheprovider", *chosen]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}  # beside others it would not measure
    run = subprocess.run([sys.executable, "-m", "pytest", *command], cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    shown = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    seen = told.marks[0].estimate
    assert seen is not None and len(shown) == 2
    for name, rounds_s in (("peer", seen.peer_rounds_s), ("submission", seen.rival_rounds_s)):
        (each,) = (each for each in shown if name in each["name"])
        assert each["stats"]["median"] == pytest.approx(statistics.median(rounds_s)) and each["stats"]["rounds"] == len(rounds_s)
        assert each["extra_info"]["ratio"] == pytest.approx(0.5)
