"""forward_traffic_bytes against section 7 of the handout, counted here tile by tile instead of by its formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_equal
from tests.laws.flash_attention.cases import home

# batch, heads, queries, keys, head dim, itemsize, block_q, block_k, causal
Row = tuple[int, int, int, int, int, int, int, int, bool]
PUBLIC_ROWS: list[Row] = [
    (1, 1, 128, 128, 64, 2, 64, 64, False),
    (2, 3, 128, 128, 64, 4, 32, 64, True),
    (1, 4, 100, 77, 40, 2, 32, 16, False),
    (1, 2, 100, 300, 16, 4, 64, 32, True),
    (1, 2, 200, 90, 16, 4, 32, 16, True),
    (1, 1, 4096, 4096, 64, 2, 128, 64, True),
]
HIDDEN_ROWS: list[Row] = [
    (3, 5, 1, 1000, 128, 2, 64, 128, True),
    (1, 2, 300, 100, 64, 4, 64, 32, True),
    (2, 1, 97, 97, 256, 2, 16, 128, True),
    (1, 1, 33, 20, 16, 4, 128, 64, False),
    (1, 7, 1000, 1000, 80, 2, 48, 40, True),
]


def run_rows(observe: Any, rows: list[Row], *, kind: str = "") -> Any:
    """The function on each row."""
    table = np.array(rows, np.int64)
    return observe("traffic", inputs={"rows": table}, returns={"num_bytes": ("int64", (len(rows),))}, **home(), kind=kind,
                   host="a formula, computed on the host")  # fmt: skip


def judge_rows(seen: Any, rows: list[Row]) -> None:
    """Each row's bytes are those of its tiles."""
    others = {
        "the bytes with all blocks visited": np.array([counted(row, visits_all=True) for row in rows]),
        "the bytes with the causal mask aligned to the start": np.array([counted(row, at_start=True) for row in rows]),
        "the bytes with blocks of queries that see nothing counted below zero": np.array([_below_zero(row) for row in rows]),
        "the bytes without lse": np.array([counted(row) - 4 * row[0] * row[1] * row[2] for row in rows]),
    }
    assert_equal(
        seen.rank(0)["num_bytes"], np.array([counted(row) for row in rows]), what="bytes of the forward pass", hints=Hints(others=others)
    )


def counted(row: Row, *, visits_all: bool = False, at_start: bool = False) -> int:
    """Walk over the tiles and add up what each loads."""
    batch, heads, queries, keys, head_dim, itemsize, block_q, block_k, causal = row
    total = 0
    for first_q in range(0, queries, block_q):
        rows = range(first_q, min(first_q + block_q, queries))
        total += 2 * len(rows) * head_dim * itemsize + 4 * len(rows)
        for first_k in range(0, keys, block_k):
            offset = 0 if at_start else keys - queries
            if visits_all or not causal or first_k <= rows[-1] + offset:
                total += 2 * (min(first_k + block_k, keys) - first_k) * head_dim * itemsize
    return batch * heads * total


def _below_zero(row: Row) -> int:
    """A sin: the formula without its "0 if negative"."""
    batch, heads, queries, keys, head_dim, itemsize, block_q, block_k, causal = row
    total = counted(row)
    for first_q in range(0, queries if causal else 0, block_q):
        seen = min(first_q + block_q, queries) + keys - queries
        total += batch * heads * 2 * head_dim * itemsize * min(0, -(-seen // block_k) * block_k)
    return total
