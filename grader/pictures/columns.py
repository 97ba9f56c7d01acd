"""Columns over the moments of a step, stacked by kind, each beside its thin twin by a formula. Nothing here knows what is stacked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from grader.pictures.canvas import Bar, plain, round_values

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 1000.0, 360.0, 90.0, 16.0, 8.0, 52.0
HELD, DERIVED = 0.6, 0.24  # widths, as shares of a moment's room


@dataclass(frozen=True, slots=True)
class Moment:
    """A column: what was held and what is derived, of each kind; no formula: ()."""

    name: str  # "" where the axis has no room for it
    held: tuple[float, ...]
    derived: tuple[float, ...] = ()


@dataclass(slots=True)
class Columns:
    """What the template draws, and the same as rows of a table for who doesn't see it."""

    caption: str
    summary: str
    legend: dict[str, str]  # style -> words
    bars: list[Bar] = field(default_factory=list)
    across: list[tuple[float, list[str]]] = field(default_factory=list)  # a moment's name, word by word
    up: list[tuple[float, str]] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)  # dashed lines
    columns: tuple[str, ...] = ("moment", "kind", "held", "by the formula")
    rows: list[tuple[str, ...]] = field(default_factory=list)
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM


def stack(caption: str, summary: str, legend: dict[str, str], moments: Sequence[Moment], marks: Iterable[tuple[float, str]]) -> Columns:
    """The picture: `legend` has a style for each kind, from the ground up; `marks` are levels with a word on each."""
    picture, marks = Columns(caption, summary, legend), list(marks)
    most = max([sum(side) for each in moments for side in (each.held, each.derived)] + [level for level, _ in marks])
    unit, room = (HEIGHT - BOTTOM - TOP) / most, (WIDTH - LEFT - RIGHT) / len(moments)
    for number, moment in enumerate(moments):
        x = LEFT + room * number
        own = HELD if moment.derived else HELD + DERIVED
        _column(picture, x + room * 0.06, room * own, unit, moment.held, f"{moment.name}, held: ")
        _column(picture, x + room * (0.08 + HELD), room * DERIVED, unit, moment.derived, f"{moment.name}, by the formula: ")
        picture.across.append((x + room * 0.46, moment.name.split()))
        derived = [plain(value) for value in moment.derived] or [""] * len(moment.held)
        picture.rows += [(moment.name, *row) for row in zip(legend.values(), map(plain, moment.held), derived, strict=True)]
    picture.up = [(picture.bottom - value * unit, plain(value)) for value in round_values(most)]
    picture.marks = [(picture.bottom - level * unit, words) for level, words in marks]
    return picture


def _column(picture: Columns, x: float, width: float, unit: float, values: Sequence[float], words: str) -> None:
    so_far = 0.0
    for (style, kind), value in zip(picture.legend.items(), values, strict=bool(values)):
        if value:
            so_far += value
            title = f"{words}{plain(value)} of {kind}"
            picture.bars.append(Bar(x, picture.bottom - so_far * unit, width, value * unit, style, "", title))
