"""The functions of task roofline, against sums over what each operation moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close
from grader.records import Message
from tests.laws.fused_kernels.cases import at_home
from tests.laws.fused_kernels.saying import about

Row = dict[str, Any]
HOST = "a formula, computed on the host"
SUGGESTION = {
    "arithmetic_intensity": "Operations for each byte; section 2 says what holds where there are none.",
    "attainable_flops": "The lower of two roofs, section 2.",
    "matmul_intensity": "2 m k n operations for each product; its two inputs and its output travel once each (section 2).",
    "chain_bytes": "Go through the chain, and note what each operation reads and writes (section 3).",
}
RELATIVE = 1e-12  # float64, a handful of roundings


def judge_intensity(observe: Any, pairs: list[tuple[float, float]], *, kind: str = "") -> None:
    """arithmetic_intensity for each pair of operations and bytes."""
    rows = [{"num_flops": flops, "num_bytes": num_bytes} for flops, num_bytes in pairs]
    right = [flops / num_bytes if num_bytes else (np.inf if flops else 0.0) for flops, num_bytes in pairs]
    others = {
        "bytes for each operation": [_inverse(x) for x in right],
        "infinity wherever no byte moves, also without any work": [np.inf if not moved else flops / moved for flops, moved in pairs],
    }
    _compare(observe, "arithmetic_intensity", rows, right, others, kind)


def judge_roof(observe: Any, rows: list[tuple[float | str, float, float]], *, kind: str = "") -> None:
    """attainable_flops for each (intensity, peak, bandwidth)."""
    given = [{"intensity": i, "peak_flops_per_s": peak, "memory_bytes_per_s": band} for i, peak, band in rows]
    right = [peak if i == "inf" else min(peak, float(i) * band) for i, peak, band in rows]
    others = {
        "the peak alone": [peak for _, peak, _ in rows],
        "intensity times bandwidth alone": [np.inf if i == "inf" else float(i) * band for i, _, band in rows],
        "infinity times no bandwidth, which is NaN": [np.nan if i == "inf" and not band else peak for i, peak, band in rows],
        "the higher of the two roofs": [np.inf if i == "inf" else max(peak, float(i) * band) for i, peak, band in rows],
    }
    _compare(observe, "attainable_flops", given, right, others, kind)


def judge_matmul(observe: Any, rows: list[tuple[int, int, int, int, int]], *, kind: str = "") -> None:
    """matmul_intensity for each (m, k, n, itemsize, batch)."""
    given = [dict(zip(("m", "k", "n", "itemsize", "batch"), row, strict=True)) for row in rows]
    right, halves, without_output, shared = [], [], [], []
    for m, k, n, itemsize, batch in rows:
        flops = sum(2 * m * k * n for _ in range(batch))
        moved = sum((m * k + k * n + m * n) * itemsize for _ in range(batch))
        right.append(flops / moved)
        halves.append(flops / 2 / moved)
        without_output.append(flops / (batch * (m * k + k * n) * itemsize))
        shared.append(flops / ((batch * (m * k + m * n) + k * n) * itemsize))
    others = {
        "one operation for each multiply-add, where 2 are due": halves,
        "the intensity without the output's bytes": without_output,
        "the intensity of a batch that shares one (k, n) matrix; each product has its own": shared,
    }
    _compare(observe, "matmul_intensity", given, right, others, kind)


def judge_chains(observe: Any, rows: list[tuple[list[int], int, int]], *, kind: str = "") -> None:
    """chain_bytes, fused and not, for each (other operands, elements, itemsize)."""
    given, right, one_way, never_empty = [], [], [], []
    for others, elements, itemsize in rows:
        for fused in (False, True):
            given.append({"others": others, "num_elements": elements, "itemsize": itemsize, "fused": fused})
            right.append(_walk(others, fused) * elements * itemsize)
            one_way.append((sum(others) + max(0, len(others) + 1 if not fused else 2)) * elements * itemsize if others else 0)
            never_empty.append(right[-1] if others else 2 * elements * itemsize)
    wrong_ways = {
        "each intermediate counted once; it is written and read": one_way,
        "a read and a write of a chain without operations, which moves nothing": never_empty,
    }
    told = _compare(observe, "chain_bytes", given, right, wrong_ways, kind)
    kinds = told.facts(0)["kinds"]
    if any(each != "int" for each in kinds):
        odd = next(each for each in kinds if each != "int")
        raise LawBroken(Message(seen=f"chain_bytes returned a {odd}.", allowed="Bytes are an int."))


def _walk(others: list[int], fused: bool) -> int:
    """Tensors that travel, operation by operation."""
    travels = 0
    for index, more in enumerate(others):
        reads_first = not fused or index == 0
        writes = not fused or index == len(others) - 1
        travels += reads_first + more + writes
    return travels


def _compare(observe: Any, asked: str, given: list[Row], right: list[float], others: dict[str, list[float]], kind: str) -> Any:
    seen = observe("roofline", inputs={}, returns={"told": ("float64", (len(given),))}, asked=asked, arguments=given, host=HOST,
                   kind=kind, **at_home())  # fmt: skip
    expected = np.array(right, np.float64)
    allowed = np.where(np.isfinite(expected), RELATIVE * np.abs(expected), 0.0)
    hints = Hints(others={words: np.array(values, np.float64) for words, values in others.items()}, suggestion=SUGGESTION[asked])
    with about(asked):
        assert_close(seen.rank(0)["told"], expected, allowed=allowed, what=asked, hints=hints)
    return seen


def _inverse(x: float) -> float:
    return 1 / x if x else np.inf
