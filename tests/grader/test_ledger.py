"""The ledger of a class: rows come back as they went in, several processes may write, and marks of another form are never thrown away."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from grader.errors import MachineError
from grader.ledger import LEDGER_NAME, Ledger, Row

ROW = Row("ada", "Ada Lovelace", "ada@example.org", "A", "ada_rings.py", "2026-11-30T12:00:00+00:00", "marked", "",
          {"collectives": (90, 100), "data_parallel": (40, 100)}, True, "a1", "b2", "reports/ada", 2, 14.5)  # fmt: skip


def test_a_row_comes_back_as_it_went_in(tmp_path: Path) -> None:
    """Every field survives, in this process and in the next one, and the sums are those of the assignments."""
    ledger = Ledger(tmp_path)
    ledger.put([ROW, Row("zoe")])
    ledger.put([replace(ROW, attempts=3)])
    ledger.close()
    kept = Ledger(tmp_path).rows()
    assert kept == (replace(ROW, attempts=3), Row("zoe"))
    assert (kept[0].earned, kept[0].possible) == (130, 200)


def test_writers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """Eight writers with a connection each."""

    def write(number: int) -> None:
        ledger = Ledger(tmp_path)
        for row in range(10):
            ledger.put([Row(f"{number}-{row}")])
        ledger.close()

    with ThreadPoolExecutor(8) as crew:
        list(crew.map(write, range(8)))
    assert len(Ledger(tmp_path).rows()) == 80


def test_a_ledger_of_another_form_is_refused_and_stays(tmp_path: Path) -> None:
    """A store is a cache and may begin anew; marks may not."""
    Ledger(tmp_path).put([ROW])
    database = sqlite3.connect(tmp_path / LEDGER_NAME)
    database.execute("pragma user_version = 99")
    database.close()
    with pytest.raises(MachineError, match="form 99"):
        Ledger(tmp_path)
    database = sqlite3.connect(tmp_path / LEDGER_NAME)
    assert database.execute("select count(*) from rows").fetchone() == (1,)


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    """A sentence with the path, not a trace of SQLite's."""
    (tmp_path / LEDGER_NAME).write_text("not a database, " * 100)
    with pytest.raises(MachineError, match=LEDGER_NAME):
        Ledger(tmp_path)
