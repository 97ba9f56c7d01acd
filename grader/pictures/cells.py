"""A map of where a tensor differs, as cells whose size says how much of them does."""

from __future__ import annotations

from dataclasses import dataclass

from grader.records import Map

CELL, INSET = 22.0, 1.0


@dataclass(frozen=True, slots=True)
class Cells:
    """What the template draws."""

    words: str
    summary: str
    marked: tuple[tuple[float, float, float, str], ...]  # left, top, size, title
    rows: tuple[str, ...]
    width: float
    height: float
    cell: float = CELL


def draw(seen: Map) -> Cells:
    """The cells of a map: a square fills its cell if everything there differs, and is never too small to be seen."""
    marked = []
    for row, signs in enumerate(seen.rows):
        for column, sign in enumerate(signs):
            if sign not in ". ":
                share = 1.0 if sign == "#" else int(sign) / 10
                size = (CELL - 2 * INSET) * max(0.3, share**0.5)
                words = "everything differs" if sign == "#" else f"about {share:.0%} differ"
                left, top = (place * CELL + (CELL - size) / 2 for place in (column, row))
                marked.append((left, top, size, f"row {row}, column {column}: {words}"))
    summary = f"In {len(marked)} of {sum(len(row.rstrip()) for row in seen.rows)} cells something differs; {seen.words}."
    return Cells(seen.words, summary, tuple(marked), seen.rows, len(seen.rows[0]) * CELL, len(seen.rows) * CELL)
