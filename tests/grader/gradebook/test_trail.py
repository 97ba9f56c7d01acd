"""The trail: every change of a mark is kept, with who and why, and nothing of it can be changed."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader.gradebook.book import Book
from grader.gradebook.settle import settle
from grader.gradebook.terms import Said, Terms
from grader.gradebook.trail import TRAIL_NAME, changes_of, record
from tests.grader.gradebook.conftest import marked


def test_each_change_says_from_to_who_and_why(book_of: Callable[..., Book]) -> None:
    """First marks, then an override, then its end; what didn't change leaves no row."""
    book = book_of(marked("ada", 80, 90), marked("zoe", 1, 2))
    overridden = replace(Terms(), overrides={("ada", "rings"): Said("A. Prof", "oral", None, 95)})
    first = record(book.folder, settle(book, Terms()), who="me")
    assert [(c.student, c.assignment, c.was, c.now) for c in first[:2]] == [("ada", "rings", "", "80"), ("ada", "data_parallel", "", "90")]
    assert {c.who for c in first} == {"me"}
    (change,) = record(book.folder, settle(book, overridden), who="me")
    assert (change.was, change.now, change.who, change.why) == ("80", "95", "A. Prof", "overridden with 95 by A. Prof: oral")
    (back,) = record(book.folder, settle(book, Terms()), who="me")
    assert (back.now, back.who, back.why) == ("80", "me", "no longer: overridden with 95 by A. Prof: oral")
    assert [change.now for change in changes_of(book.folder, "ada")] == ["80", "90", "95", "80"]
    assert record(book.folder, settle(book, Terms())) == ()


def test_a_trail_is_added_to_and_never_changed(book_of: Callable[..., Book]) -> None:
    """Not even by whoever opens the file with another program, unless the rule itself is taken away."""
    book = book_of(marked("ada", 80, 90))
    record(book.folder, settle(book, Terms()))
    database = sqlite3.connect(book.folder / TRAIL_NAME)
    for statement in ("update changes set now = '100'", "delete from changes"):
        with pytest.raises(sqlite3.IntegrityError, match="a trail is never"):
            database.execute(statement)
    assert stat.S_IMODE((book.folder / TRAIL_NAME).stat().st_mode) == 0o600


def test_who_is_the_user_if_nobody_else_decided(book_of: Callable[..., Book], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container a user may have no name, and is a number then."""
    monkeypatch.setattr("getpass.getuser", lambda: (_ for _ in ()).throw(OSError()))
    book = book_of(marked("ada", 80, 90))
    assert record(book.folder, settle(book, Terms()))[0].who.startswith("user ")


def test_a_class_without_a_trail_has_no_changes(tmp_path: Path) -> None:
    """And reading makes no file."""
    assert changes_of(tmp_path, "ada") == ()
    assert list(tmp_path.iterdir()) == []
