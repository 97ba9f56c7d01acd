"""How long one two-rank check takes: on the judge's wire, on gloo, and the way most courses do it, with torch.multiprocessing.spawn.

    python -m pytest tests/benchmarks/test_a_check_on_two_ranks.py

All three in one run; only their ratios travel to another machine.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from grader.course import find_root, load, select
from grader.intake import intake
from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.store import Store

NUM_ELEMENTS = 12_000
ROOT = find_root(Path(__file__).parent)
FRESH = itertools.count()  # a new input each time, so that the store never answers


@pytest.fixture(scope="module")
def observe(tmp_path_factory):
    """`observe` for the reference solution of collectives, live."""
    folder = tmp_path_factory.mktemp("bench")
    assignment = select(load(ROOT), ["collectives"])[0]
    runs = Runs(ROOT, Store(folder / "store.sqlite"))
    runs.prepare()
    submission = intake(assignment, ROOT / "solutions", into=folder / "submission")
    yield Observer(runs, {"collectives": assignment}, {"collectives": submission}).for_case("collectives", False, "benchmark")
    runs.close()


@pytest.mark.parametrize("transport", ["wire", "gloo"])
@pytest.mark.benchmark(group="two-rank all-reduce check")
def test_observed(benchmark, observe, transport):
    """One observation from request to verdict."""

    def check():
        x = [np.full(NUM_ELEMENTS, next(FRESH), np.float32) for _ in range(2)]
        returns = {"x": ("float32", (NUM_ELEMENTS,))}
        seen = observe("in_place", world_size=2, inputs={"x": x}, returns=returns, transport=transport, function="ring_all_reduce")
        assert (seen.rank(0)["x"] == x[0] + x[1]).all()

    check()  # the zygote's import of torch is paid once per grading, not per check
    benchmark.pedantic(check, rounds=15)


@pytest.mark.benchmark(group="two-rank all-reduce check")
def test_spawned(benchmark):
    """The same check with torch.multiprocessing.spawn and a file store."""
    import torch.multiprocessing as mp

    from tests.benchmarks.spawned_check import check

    def spawn():
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(check, (folder, NUM_ELEMENTS), nprocs=2)

    benchmark.pedantic(spawn, rounds=3)
