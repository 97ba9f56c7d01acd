"""Which races `test_races.py` plays."""

from __future__ import annotations

from pathlib import Path

import pytest

RESULTS = Path(__file__).with_name("results")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--races", type=Path, default=None, help="a run folder or a file of races [default: those in results/]")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without any races there is nothing to play."""
    has_races = config.getoption("--races") or any(RESULTS.glob("races_*.json"))
    return True if collection_path.name == "test_races.py" and not has_races else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A benchmark for each racer of each race that was judged."""
    if "racer" in metafunc.fixturenames:
        from tests.benchmarks.played import racers_in

        chosen = metafunc.config.getoption("--races")
        racers = racers_in([chosen] if chosen else sorted(RESULTS.glob("races_*.json")))
        metafunc.parametrize("racer", racers, ids=str)
