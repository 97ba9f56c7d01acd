"""Gluon kernels for Hopper, where there is none: they compile, and the forward's blocks are dealt out evenly."""

from __future__ import annotations

import importlib
import itertools
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def hopper() -> Iterator[ModuleType]:
    """The module, which imports the readable file."""
    pytest.importorskip("triton")
    before = sys.modules.pop("flash_attention", None)
    sys.path.insert(0, str(ROOT / "solutions"))
    yield importlib.import_module("tests.benchmarks.flash_attention_hopper")
    sys.path.remove(str(ROOT / "solutions"))
    del sys.modules["flash_attention"]
    if before is not None:
        sys.modules["flash_attention"] = before


def compiled(which: str, block_d: int, folder: Path) -> str:
    """What hopper_compiled.py prints."""
    pytest.importorskip("triton")
    environment = {"PYTHONPATH": str(ROOT / "solutions"), "TRITON_CACHE_DIR": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "tests.grader.kernels.hopper_compiled", which, str(block_d), str(folder)]
    seen = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr[-3000:]
    return seen.stdout


def number(name: str, printed: str) -> int:
    """The number that stands behind `name`."""
    found = re.search(rf"(?:^|\W){name}: (\d+)|(\d+) bytes {name}", printed)
    assert found is not None, printed
    return int(found[1] or found[2])


SERIALIZED = re.compile(r"C751[0-8]|serialized")  # ptxas makes products wait for one another


@pytest.mark.parametrize("block_d", [64, 128])
def test_the_forward_compiles_without_spills_and_with_asynchronous_products(block_d: int, tmp_path: Path) -> None:
    """ptxas says what it had to spill, and warns where it makes products wait for one another."""
    printed = compiled("forward", block_d, tmp_path)
    assert number("warps", printed) == 4 * {64: 4, 128: 3}[block_d]  # consumers, and one group of which a warp loads
    assert number("shared bytes", printed) <= 227 * 1024
    assert number("spill stores", printed) == number("spill loads", printed) == 0
    assert not SERIALIZED.search(printed), printed
    assert number("products", printed) > 0


def test_the_backward_compiles_with_asynchronous_products(tmp_path: Path) -> None:
    """In a program's first block and in those with a mask some values are spilt: fewer than the 128 that a thread sums for dk and dv."""
    printed = compiled("backward", 128, tmp_path)
    assert number("warps", printed) == 12
    assert number("shared bytes", printed) <= 227 * 1024
    assert number("spill stores", printed) < 4 * 128
    assert not SERIALIZED.search(printed), printed
    assert number("pairs added", printed) > 0  # a pair of dq's sums in one instruction


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("num_queries", "block_q"), [(1, 128), (1000, 192), (4096, 128)])
def test_every_block_is_worked_on_once_and_programs_end_together(hopper: ModuleType, num_queries: int, block_q: int, causal: bool) -> None:
    """All blocks of all heads, each once; where there are many, no program has much more than another."""
    num_heads, num_programs = 64, 132
    blocks, starts = hopper.schedule(num_heads, num_queries, num_queries, causal, block_q, 8, num_programs)
    num_blocks = -(-num_queries // block_q)
    assert sorted(blocks) == list(range(num_heads * num_blocks))
    assert starts[0] == 0 and starts[-1] == len(blocks) and len(starts) == num_programs + 1 and starts == sorted(starts)
    seen = [min((block % num_blocks + 1) * block_q, num_queries) if causal else num_queries for block in blocks]
    turns = [1 + -(-num_keys // hopper.BLOCK_K) for num_keys in seen]
    loads = [sum(turns[first:last]) for first, last in itertools.pairwise(starts)]
    assert max(loads) <= statistics.mean(loads) + max(turns)
    if causal and num_queries == 4096:
        assert max(loads) <= 1.01 * statistics.mean(loads)  # dealt out one after the other, it would be 1.27
