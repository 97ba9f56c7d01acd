"""Bars over an axis: what most pictures are made of. Nothing here knows what a bar means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

LEFT, WIDTH, MARGIN = 70.0, 1000.0, 8.0  # where the axis begins, the picture's width, and what stays free at its end, in its own units
ROW, THIN, GAP = 26.0, 16.0, 16.0  # a row, a row of less weight, between two groups of rows
AXIS = 34.0
LETTER = 8.0  # about the width of one; a label that doesn't fit is left to the bar's title
KINDS = 4  # styles of equal standing that are told apart by colour and by pattern: compute0 to compute3
HATCHED, DOTTED = ("compute1", "receives", "stuck"), ("compute3", "collective")


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle with a style, a label if it fits, and everything about it as its title."""

    x: float
    y: float
    width: float
    height: float
    style: str
    label: str
    title: str

    @property
    def pattern(self) -> str:
        """What says the style again to who doesn't see its colour."""
        return pattern_of(self.style)


@dataclass(slots=True)
class Picture:
    """What the template draws, and the same as rows of a table for who doesn't see it."""

    caption: str
    summary: str
    height: float = AXIS
    bars: list[Bar] = field(default_factory=list)
    groups: list[tuple[str, float, float]] = field(default_factory=list)  # name, top, height
    ticks: list[tuple[float, str]] = field(default_factory=list)
    legend: dict[str, str] = field(default_factory=dict)  # style -> words
    marks: list[tuple[float, str]] = field(default_factory=list)  # dashed lines
    columns: tuple[str, ...] = ("rank", "from", "to", "what")
    rows: list[tuple[str, ...]] = field(default_factory=list)
    num_left_out: int = 0
    left: float = LEFT
    width: float = WIDTH

    def group(self, name: str, height: float) -> float:
        """Room for a group of rows; where it begins."""
        top = self.height
        self.groups.append((name, top, height))
        self.height += height + GAP
        return top

    def bar(self, x: float, width: float, y: float, height: float, style: str, label: str, title: str) -> None:
        """One bar, at least wide enough to be seen."""
        width = max(width, 1.5)
        self.bars.append(Bar(x, y, width, height - 3, style, label if len(label) * LETTER < width else "", title))

    def close(self) -> Picture:
        """The picture with room below its last row."""
        self.height += AXIS / 2
        return self


@dataclass(frozen=True, slots=True)
class Scale:
    """From 0 to `end`, on the axis."""

    end: float
    left: float = LEFT

    def __call__(self, value: float) -> float:
        return self.left + value * self.unit

    @property
    def unit(self) -> float:
        """Length of 1."""
        return (WIDTH - self.left - MARGIN) / self.end

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their places, at most nine."""
        return [(self(value), plain(value)) for value in round_values(self.end)]


def round_values(end: float) -> Iterable[float]:
    """0, and multiples of 1, 2 or 5 times a power of ten, up to `end`."""
    step = next(base * 10.0**power for power in range(-3, 16) for base in (1, 2, 5) if end / (base * 10.0**power) <= 8)
    return [number * step for number in range(int(end / step) + 1)]


def plain(value: float) -> str:
    """`12,000`, `0.25`: never a power of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def pattern_of(style: str) -> str:
    """hatch, dots, or none."""
    return "hatch" if style in HATCHED else "dots" if style in DOTTED else ""


def on_circle(number: int, count: int, size: float) -> tuple[float, float]:
    """Where the node `number` of `count` stands in a square of that size, the first at the top."""
    turn = 2 * math.pi * number / count - math.pi / 2
    radius = size * 0.36 if count > 1 else 0.0
    return size / 2 + radius * math.cos(turn), size / 2 + radius * math.sin(turn)


def rim_to_rim(a: tuple[float, float], b: tuple[float, float], radius: float = 32.0) -> tuple[float, float, float, float]:
    """An arrow between two nodes of that radius, a little to the right of the straight way: two that point at each other are two arrows."""
    (ax, ay), (bx, by) = a, b
    length = math.hypot(bx - ax, by - ay)
    ux, uy = (bx - ax) / length, (by - ay) / length
    side_x, side_y = -uy * radius * 0.28, ux * radius * 0.28
    start, stop = radius * 1.06, radius * 1.25
    return ax + ux * start + side_x, ay + uy * start + side_y, bx - ux * stop + side_x, by - uy * stop + side_y
