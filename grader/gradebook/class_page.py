"""The class as one page for the staff, which needs no network and no script, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.gradebook.book import Book
from grader.gradebook.cells import table
from grader.gradebook.insight import NUM_BINS, NUM_FOR_DISCRIMINATION, Analysis, Item
from grader.pictures.web import TEMPLATES as SHARED
from grader.pictures.web import surroundings
from grader.report.files import PRIVATE, write

TEMPLATES = Path(__file__).with_name("templates")
PAGE, TABLE = "class.html", "laws.csv"  # in the folder of a class
LEFT, TOP, WIDTH, HEIGHT = 44.0, 12.0, 640.0, 180.0  # of a plot's ground, in the drawing's units
TICKS = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """Students whose mark lies in one tenth."""

    x: float
    y: float
    width: float
    height: float
    count: int
    label: str


@dataclass(frozen=True, slots=True)
class Dot:
    """One law among the others: how many pass it, and how well it discriminates."""

    x: float
    y: float
    title: str
    is_remarkable: bool


@dataclass(frozen=True, slots=True)
class Plots:
    """What is drawn of one assignment."""

    bars: list[Bar]
    counts: list[tuple[float, int]]  # height and number at the histogram's side
    dots: list[Dot]
    summary: str  # what the histogram shows, in words


def write_page(book: Book, analyses: Sequence[Analysis]) -> Path:
    """Write class.html, for its owner's eyes only. Raises MachineError."""
    states = [entry.state for entry in book.entries.values()]
    text = surroundings(TEMPLATES, SHARED).get_template("class.html.j2").render(
        book=book, analyses=analyses, plots={each.assignment: _plots(each) for each in analyses}, left=LEFT, top=TOP, width=WIDTH,
        height=HEIGHT, states={state: states.count(state) for state in dict.fromkeys(states)}, rate=rate, number=number,
        num_for_discrimination=NUM_FOR_DISCRIMINATION,
    )  # fmt: skip
    write(book.folder / PAGE, text, PRIVATE)
    return book.folder / PAGE


def write_table(book: Book, analyses: Sequence[Analysis]) -> Path:
    """Write laws.csv: a row for each law. Raises MachineError."""
    head = ("assignment", "task", "law", "claim", "evidence", "points", "judged", "passed",
            "pass rate", "point-biserial", "upper-lower 27%", "median seconds", "remark")  # fmt: skip
    write(book.folder / TABLE, table([head, *_rows(analyses)]), PRIVATE)
    return book.folder / TABLE


def rate(value: float | None) -> str:
    """A share in per cent; never 0 % or 100 % of what isn't."""
    if value is None:
        return "–"
    per_cent = round(100 * value)
    return f"{min(99, max(1, per_cent)) if 0 < value < 1 else per_cent} %"


def number(value: float | None) -> str:
    """A coefficient or seconds, to hundredths."""
    return "–" if value is None else f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def _rows(analyses: Sequence[Analysis]) -> Iterator[list[str]]:
    for each in analyses:
        for item in each.items:
            measured = (item.pass_rate, item.point_biserial, item.upper_lower, item.median_s)
            counts = (item.points, item.num_judged, item.num_passed)
            yield [each.assignment, item.task, item.law, item.claim, item.evidence, *map(str, counts),
                   *("" if value is None else f"{value:.3f}" for value in measured), item.remark]  # fmt: skip


def _plots(analysis: Analysis) -> Plots:
    bins = analysis.histogram
    most = -(-max(bins) // TICKS) * TICKS  # so that the numbers at the side are whole
    step = WIDTH / NUM_BINS
    bars = [
        Bar(LEFT + place * step + 2, TOP + HEIGHT * (1 - count / most), step - 4, HEIGHT * count / most, count,
            f"{place * 100 // NUM_BINS}–{(place + 1) * 100 // NUM_BINS} %")
        for place, count in enumerate(bins)
    ]  # fmt: skip
    counts = [(TOP + HEIGHT * (1 - tick / TICKS), most * tick // TICKS) for tick in range(TICKS + 1)]
    dots = [dot for item in analysis.items if (dot := _dot(item)) is not None]
    num = len(analysis.marks)
    summary = f"{num} submission{'s' * (num != 1)}; median {analysis.median:g} of {analysis.possible} points. " + ", ".join(
        f"{bar.label}: {bar.count}" for bar in bars if bar.count
    )
    return Plots(bars, counts, dots, summary)


def _dot(item: Item) -> Dot | None:
    """Pass rate to the right, discrimination (−1 to 1) upwards."""
    if item.pass_rate is None or item.point_biserial is None:
        return None
    title = f"{item.law}: {rate(item.pass_rate)} pass, point-biserial {number(item.point_biserial)}"
    return Dot(LEFT + WIDTH * item.pass_rate, TOP + HEIGHT * (1 - item.point_biserial) / 2, title, bool(item.remark))
