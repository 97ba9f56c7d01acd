"""From races to the page that a class looks at."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from grader.errors import UsageError
from grader.leaderboard import entries_of, read_names, write
from grader.leaderboard.page import to_csv
from grader.race_stage import led
from grader.races.book import Book, read
from grader.races.book import write as write_book
from grader.races.verdict import judge
from grader.records import Race
from tests.grader.races.puppets import CALL_S, Stage

RACE = Race("squares.squares", "As fast as the peer.", "squares", "peer", 20, 0.25, 0.75, "It is a test.")
HOPPER, TURING = {"gpus": "1 × Hopper", "gpu_driver": "580"}, {"gpus": "1 × Turing", "gpu_driver": "580"}


def book(times: float, date: str = "2026-01-01T00:00:00+00:00", device: dict[str, str] = HOPPER, submission: str = "0123456789ab") -> Book:
    """One race at so many times the peer's time."""
    stage = Stage(times * CALL_S)
    fault = led(stage.conductor)
    return Book(submission, "starter", date, "", device, (judge(RACE, stage.conductor.windows, None, fault),))


def test_a_book_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With all before it, oldest first; something else is refused in a sentence."""
    first, second = book(2.0), book(1.0, "2026-01-02T00:00:00+00:00")
    write_book(first, tmp_path)
    assert read(write_book(second, tmp_path)) == (second,)
    assert read(tmp_path) == (first, second) and (first.earned, first.possible) == (10.0, 20)
    (tmp_path / "speed.json").write_text('{"marks": 3}')
    with pytest.raises(UsageError, match="is no grader/speed/1"):
        read(tmp_path / "speed.json")


def test_the_fastest_stands_first_on_each_device_and_history_is_kept(tmp_path: Path) -> None:
    """Folders below a folder are racers; what a racer did before is one line with what he did last."""
    for racer, books in {
        "ada": [book(2.0), book(1.0, "2026-01-03T00:00:00+00:00", submission="feedfeedfeed")],
        "bob": [book(1.5, submission="beefbeefbeef"), book(4.0, device=TURING, submission="beefbeefbeef")],
    }.items():
        for number, each in enumerate(books):
            write_book(each, tmp_path / racer / str(number))
    entries = entries_of([tmp_path], {"ada": "Ada L."})
    assert [(entry.device[:10], entry.racer, round(entry.latest.ratio, 3), len(entry.history)) for entry in entries] == [
        ("1 × Hopper", "Ada L.", 1.0, 2), ("1 × Hopper", "racer beefbeef", 0.667, 1), ("1 × Turing", "racer beefbeef", 0.25, 1)
    ]  # fmt: skip
    page, table = (path.read_text() for path in write(entries, tmp_path / "out"))
    assert page.index("Ada L.") < page.index("racer beefbeef") and "bob" not in page + table
    assert "2026-01-01: 0.50, 2026-01-03: 1.00" in page
    assert not re.search(r"(src|href)\s*=|https?://(?!www\.w3\.org)", page), "it must need no network"
    assert len(list(csv.DictReader(io.StringIO(table)))) == 4


def test_names_can_harm_neither_page_nor_spreadsheet(tmp_path: Path) -> None:
    """They come from a file that others have filled in."""
    write_book(book(1.0), tmp_path / "eve")
    (tmp_path / "names.csv").write_text("eve,=HYPERLINK(<script>)\n")
    entries = entries_of([tmp_path], read_names(tmp_path / "names.csv"))
    page, table = (path.read_text() for path in write(entries, tmp_path / "out"))
    assert "&lt;script&gt;)" in page and page.count("<script>") == 1
    assert "'=HYPERLINK" in table
    (tmp_path / "names.csv").write_text("eve\n")
    with pytest.raises(UsageError, match=r"names\.csv:1: 1 columns"):
        read_names(tmp_path / "names.csv")


def test_only_what_was_judged_is_on_the_board(tmp_path: Path) -> None:
    """Refused and inconclusive races stand nowhere; an empty board is a page, no folder at all is a sentence."""
    refused = book(1.0)
    write_book(replace_marks(refused, "refused"), tmp_path / "eve")
    entries = entries_of([tmp_path])
    assert entries == () and to_csv(entries) == "device\n"
    assert "No race has been judged yet" in write(entries, tmp_path / "out")[0].read_text()
    with pytest.raises(UsageError, match=r"No speed\.json"):
        entries_of([tmp_path / "out"])


def replace_marks(told: Book, state: str) -> Book:
    """The book with its marks in another state."""
    return Book(told.submission, told.origin, told.date, told.commit, told.environment,
                tuple(replace(mark, state=state) for mark in told.marks))  # fmt: skip
