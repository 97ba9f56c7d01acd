"""Entries → leaderboard.html and leaderboard.csv. The page needs no network; columns sort by a click, and without a script stand sorted."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from grader.leaderboard.entries import Entry
from grader.pictures.web import TEMPLATES as STYLES
from grader.report.page import CONTROL

PAGE_NAME, CSV_NAME = "leaderboard.html", "leaderboard.csv"
TEMPLATES = Path(__file__).with_name("templates")
WIDTH, HEIGHT, MARGIN = 120.0, 24.0, 3.0  # of a history, in pixels


@dataclass(frozen=True, slots=True)
class Curve:
    """A history as SVG: the ratio and its band, first to last race; the scale is that of its table."""

    line: str
    band: str
    one: float  # where ratio 1 lies
    words: str  # for those who hear it


def write(entries: Sequence[Entry], out: Path) -> tuple[Path, Path]:
    """Both files, in the folder `out`; -> their paths."""
    import jinja2

    surroundings = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, STYLES]), undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True, finalize=lambda value: CONTROL.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value,
    )  # fmt: skip
    devices = {
        device: {race: _rows(list(same)) for race, same in groupby(races, key=lambda entry: (entry.race, entry.against, entry.possible))}
        for device, races in groupby(entries, key=lambda entry: entry.device)
    }
    out.mkdir(parents=True, exist_ok=True)
    page, table = out / PAGE_NAME, out / CSV_NAME
    page.write_text(surroundings.get_template("leaderboard.html.j2").render(devices=devices, width=WIDTH, height=HEIGHT), encoding="utf-8")
    table.write_text(to_csv(entries), encoding="utf-8")
    return page, table


def to_csv(entries: Sequence[Entry]) -> str:
    """A line for every race that was judged, oldest first; what a spreadsheet might take for a formula is no formula."""
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["device", "race", "against", "racer", "possible", *asdict(entries[0].latest)] if entries else ["device"])
    for entry in entries:
        for point in entry.history:
            told = [entry.device, entry.race, entry.against, entry.racer]
            table.writerow([*(f"'{each}" if each[:1] in "=+-@\t\r" else each for each in told), entry.possible, *asdict(point).values()])
    return lines.getvalue()


def _rows(entries: Sequence[Entry]) -> list[tuple[Entry, Curve]]:
    highest = max(point.high for entry in entries for point in entry.history)
    return [(entry, curve_of(entry, highest)) for entry in entries]


def curve_of(entry: Entry, highest: float) -> Curve:
    """The history of an entry on a scale from 0 to `highest`."""
    step = (WIDTH - 2 * MARGIN) / max(1, len(entry.history) - 1)
    scale = (HEIGHT - 2 * MARGIN) / highest

    def at(place: int, ratio: float) -> str:
        return f"{MARGIN + place * step:.1f},{HEIGHT - MARGIN - ratio * scale:.1f}"

    places = list(enumerate(entry.history))
    upper, lower = [at(place, point.high) for place, point in places], [at(place, point.low) for place, point in places]
    words = ", ".join(f"{point.date[:10]}: {point.ratio:.2f}" for point in entry.history)
    return Curve(" ".join(at(place, point.ratio) for place, point in places), " ".join([*upper, *reversed(lower)]),
                 HEIGHT - MARGIN - scale, words)  # fmt: skip
