"""Bars as an SVG that is the same text for the same figures, on any machine: so that a test can say whether it is up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABELS, ROW, TOP = 760, 250, 22, 34  # pixels
STYLE = "font: 12px sans-serif"


@dataclass(frozen=True)
class Bar:
    """One figure; low and high are the ends of its interval."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def drawn(title: str, bars: Sequence[Bar], *, mark: float | None = None) -> str:
    """A bar for each figure, with its interval as a whisker; a vertical line at `mark`."""
    largest = max(max(bar.value, bar.high or 0.0) for bar in bars)
    scale = (WIDTH - LABELS - 60) / largest
    height = TOP + ROW * len(bars) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" style="{STYLE}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="8" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        y, length = TOP + ROW * number, scale * bar.value
        lines.append(f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{escape(bar.label)}</text>')
        lines.append(f'<rect x="{LABELS}" y="{y + 4}" width="{length:.1f}" height="{ROW - 8}" fill="#4c78a8"/>')
        if bar.low is not None and bar.high is not None:
            low, high = (LABELS + scale * end for end in (bar.low, bar.high))
            lines.append(f'<path d="M{low:.1f} {y + 11}H{high:.1f}" stroke="#222" stroke-width="2"/>')
        end = LABELS + scale * max(bar.value, bar.high or 0.0)
        lines.append(f'<text x="{end + 6:.1f}" y="{y + 15}">{bar.value:.4g}</text>')
    if mark is not None:
        at = LABELS + scale * mark
        lines.append(f'<path d="M{at:.1f} {TOP}V{height - 8}" stroke="#c33" stroke-dasharray="4 3"/>')
    return "\n".join([*lines, "</svg>", ""])
