"""Observations on disk: found again, forgotten by assignment, and made anew when an earlier grader's table is met."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from grader.errors import MachineError
from grader.records import Outcome, RankOutcome, Request
from grader.store import NUM_SUBMISSIONS_KEPT, Store

OUTCOME = Outcome((RankOutcome(0, True, 0),), (), None)


def asked(assignment: str) -> Request:
    """A request of one rank."""
    return Request(assignment=assignment, probe="run", parameters={}, world_size=1, inputs={}, returns={})


def graded(path: Path, assignments: list[str], attempt: int) -> None:
    """One grading: three observations of each assignment, whose files make a submission of their own."""
    store = Store(path)
    for assignment in assignments:
        for case in range(3):
            store.put(f"{assignment}-{attempt}-{case}", f"{assignment}-{attempt}", asked(assignment), OUTCOME)
    store.close()


def kept(path: Path) -> set[str]:
    """The submissions of which anything is left."""
    with sqlite3.connect(path) as database:
        return {name for (name,) in database.execute("select distinct submission from observations")}


def test_nothing_of_one_grading_is_forgotten_however_many_assignments_it_has(tmp_path: Path) -> None:
    """Each assignment's files are a submission of their own: fourteen of them fill no common limit."""
    assignments = [f"assignment_{number}" for number in range(NUM_SUBMISSIONS_KEPT + 6)]
    graded(tmp_path / "store.sqlite", assignments, 0)
    store = Store(tmp_path / "store.sqlite")
    assert all(store.outcome(f"{name}-0-{case}") == OUTCOME for name in assignments for case in range(3))


def test_the_latest_submissions_of_each_assignment_are_kept(tmp_path: Path) -> None:
    """One more than are kept: the first goes, in each assignment; another that was graded once stays."""
    path = tmp_path / "store.sqlite"
    graded(path, ["seldom"], 0)
    for attempt in range(NUM_SUBMISSIONS_KEPT + 1):
        graded(path, ["often", "too"], attempt)
    latest = range(1, NUM_SUBMISSIONS_KEPT + 1)
    assert kept(path) == {"seldom-0"} | {f"{name}-{attempt}" for name in ("often", "too") for attempt in latest}


def test_what_is_looked_up_again_counts_as_used(tmp_path: Path) -> None:
    """The first submission, graded once more from the store, outlives the second."""
    path = tmp_path / "store.sqlite"
    for attempt in range(NUM_SUBMISSIONS_KEPT):
        graded(path, ["often"], attempt)
    store = Store(path)
    assert store.outcome("often-0-1") == OUTCOME
    store.close()
    graded(path, ["often"], NUM_SUBMISSIONS_KEPT)
    assert "often-0" in kept(path) and "often-1" not in kept(path)


def test_a_store_of_another_form_begins_anew(tmp_path: Path) -> None:
    """What an earlier grader left can't be read; it is dropped without a word, and two that open it at once agree."""
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("create table observations (key text primary key, submission text, used_s real, request blob, outcome blob)")
        database.execute("insert into observations values ('k', 's', 0.0, x'00', x'00')")
    first = Store(path)
    assert first.outcome("k") is None
    first.put("k", "s", asked("tiny"), OUTCOME)
    second = Store(path)
    assert second.outcome("k") == OUTCOME and second.request("k") == ("s", asked("tiny"))


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    """The sentence says which file, and what to do about it."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database at all" * 99)
    with pytest.raises(MachineError, match=r"store\.sqlite can't be opened .* remove it to start afresh"):
        Store(path)


def test_a_store_that_does_not_forget_keeps_every_submission(tmp_path: Path) -> None:
    """A class has hundreds, and all of them may be judged again."""
    for attempt in range(NUM_SUBMISSIONS_KEPT + 2):
        store = Store(tmp_path / "store.sqlite", forgets=False)
        store.put(f"key-{attempt}", f"often-{attempt}", asked("often"), OUTCOME)
        store.close()
    assert kept(tmp_path / "store.sqlite") == {f"often-{attempt}" for attempt in range(NUM_SUBMISSIONS_KEPT + 2)}


def test_a_store_takes_over_what_another_holds(tmp_path: Path) -> None:
    """All of it, once; the other is empty then, and may be filled and taken over again."""
    ours, other = Store(tmp_path / "ours.sqlite"), Store(tmp_path / "other.sqlite")
    for key in ("a", "b"):
        other.put(key, "s", asked("tiny"), OUTCOME)
        ours.absorb(other.path)
        assert ours.outcome(key) == OUTCOME and other.outcome(key) is None
    with pytest.raises(MachineError, match=r"nothing\.sqlite can't be taken into"):
        ours.absorb(tmp_path / "nowhere" / "nothing.sqlite")
