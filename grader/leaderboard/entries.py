"""speed.json files → entries: one for each race of each racer on each device, the latest, with what came before it.

Racers are folders: `FOLDER` if it holds a speed.json itself, else each folder in it with whatever lies below. Nobody is named unless a
file of names says so: the others are called after the hash of the first thing that they raced, which tells nothing of who they are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.errors import UsageError
from grader.races.book import BOOK_NAME, HISTORY_NAME, Book, read
from grader.races.verdict import SpeedMark

SHORT = 8  # letters of a hash


@dataclass(frozen=True, slots=True)
class Point:
    """One race that was judged."""

    date: str  # ISO 8601
    submission: str
    ratio: float
    low: float
    high: float
    noise: float  # of the peer beside its twin: how far their ratio or its interval strays from 1
    milliseconds: float  # of a call
    peer_milliseconds: float
    earned: float


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands on the board in one line."""

    device: str  # and its driver
    race: str
    against: str
    racer: str
    possible: int
    history: tuple[Point, ...]  # oldest first

    @property
    def latest(self) -> Point:
        """What counts."""
        return self.history[-1]


def entries_of(found: Sequence[Path], names: Mapping[str, str] | None = None) -> tuple[Entry, ...]:
    """All judged races below these folders, by device, race and falling ratio. Raises UsageError if there is no speed.json at all."""
    points: dict[tuple[str, str, str, str, int], list[Point]] = {}
    racers = [(name, books) for folder in found for name, books in _racers(folder)]
    if not racers:
        raise UsageError(f"No {BOOK_NAME} is in {', '.join(map(str, found))}. `grader race --out FOLDER` writes one.")
    for name, books in racers:
        racer = (names or {}).get(name) or f"racer {books[0].submission[:SHORT]}"
        for book in books:
            device = f"{book.environment.get('gpus', 'no GPU')}, driver {book.environment.get('gpu_driver', 'unknown')}"
            for mark, point in _judged(book):
                points.setdefault((device, mark.race, mark.against, racer, mark.possible), []).append(point)
    entries = [Entry(*key, tuple(each)) for key, each in points.items()]
    return tuple(sorted(entries, key=lambda entry: (entry.device, entry.race, -entry.latest.ratio, entry.racer)))


def read_names(path: Path) -> dict[str, str]:
    """A CSV of folder,name. Raises UsageError for a line of another form."""
    with path.open(newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.reader(lines) if row]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise UsageError(f"{path}:{number}: {len(row)} columns; expected folder,name.")
    return {folder.strip(): name.strip() for folder, name in rows}


def _racers(folder: Path) -> Iterator[tuple[str, list[Book]]]:
    """(name of the folder, its books by date)."""
    if any((folder / name).exists() for name in (BOOK_NAME, HISTORY_NAME)):
        yield folder.resolve().name, _sorted(read(folder))
        return
    for below in sorted(each for each in folder.iterdir() if each.is_dir()):
        runs = sorted({path.parent for name in (BOOK_NAME, HISTORY_NAME) for path in below.rglob(name)})
        if books := [book for run in runs for book in read(run)]:
            yield below.name, _sorted(books)


def _sorted(books: Sequence[Book]) -> list[Book]:
    return sorted(books, key=lambda book: book.date)


def _judged(book: Book) -> Iterator[tuple[SpeedMark, Point]]:
    for mark in book.marks:
        if mark.state == "judged" and mark.estimate is not None and mark.alone is not None:
            seen, alone = mark.estimate, mark.alone
            yield mark, Point(book.date, book.submission, seen.ratio, seen.low, seen.high, max(abs(alone.ratio - 1), alone.noise),
                              seen.rival_s * 1e3, seen.peer_s * 1e3, mark.earned)  # fmt: skip
