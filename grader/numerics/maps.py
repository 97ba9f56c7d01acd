"""Where a tensor differs, as a map of a few cells: a shard, a column or a corner is seen at once, and a list of indices is not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.records import Map

Mask = np.ndarray[Any, Any]
MOST_ROWS, MOST_COLUMNS = 12, 24  # what a narrow terminal shows beside its labels


def map_of(wrong: Mask, world_size: int | None) -> Map | None:
    """The map of the marked elements; None where none are marked, or some in every cell: there is no place to find.

    world_size  a flat tensor's rows are then the ranks' chunks
    """
    if not wrong.ndim or not wrong.any():
        return None
    if wrong.ndim == 1:
        num_rows = world_size if world_size and 1 < world_size <= wrong.size else 1
        length = -(-wrong.size // num_rows)
        line = np.full(num_rows * length, np.nan)  # what a last chunk lacks is no element
        line[: wrong.size] = wrong
        sheet: Mask = line.reshape(num_rows, length)
        words = f"chunk 0 to {num_rows - 1} of {num_rows}, one below the other" if num_rows > 1 else "the elements in their order"
    else:
        sheet = wrong.reshape(-1, wrong.shape[-1]).astype(np.float64)
        words = f"rows are dim{'s 0 to ' + str(wrong.ndim - 2) if wrong.ndim > 2 else ' 0'}, columns dim {wrong.ndim - 1}"
    shares = _shares(sheet)
    cell = -(-sheet.shape[0] // shares.shape[0]), -(-sheet.shape[1] // shares.shape[1])
    size = "" if cell == (1, 1) else f"; a cell is up to {cell[0]} × {cell[1]} elements"
    return None if shares.all() else Map(words + size, tuple("".join(map(_sign, row)) for row in shares.tolist()))


def _shares(sheet: Mask) -> Mask:
    """The share of marked elements (1; others 0; none there: NaN) in each cell, at most MOST_ROWS by MOST_COLUMNS of nearly equal size."""
    tops, lefts = (_edges(extent, most) for extent, most in zip(sheet.shape, (MOST_ROWS, MOST_COLUMNS), strict=True))
    marked, there = (np.add.reduceat(np.add.reduceat(each, tops, axis=0), lefts, axis=1) for each in (sheet == 1, ~np.isnan(sheet)))
    with np.errstate(invalid="ignore"):
        return np.asarray(marked / there)


def _edges(extent: int, most: int) -> list[int]:
    num = min(extent, most)
    return [number * extent // num for number in range(num)]


def _sign(share: float) -> str:
    """`.` for none, `#` for all, the tenths for what lies between, but never 0; a blank where no element is."""
    return " " if math.isnan(share) else "." if share == 0 else "#" if share == 1 else str(min(9, max(1, int(share * 10))))
