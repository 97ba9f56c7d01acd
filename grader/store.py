"""Observations on disk: one SQLite file per run folder, in WAL mode; a row is written the moment an outcome is known."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import msgspec

from grader.errors import MachineError
from grader.records import Outcome, Request

STORE_NAME = "store.sqlite"  # in a run folder
SCHEMA = (
    "create table observations (key text primary key, assignment text not null, submission text not null, used_s real not null,"
    " request blob not null, outcome blob not null)",
    "create index by_submission on observations (assignment, submission, used_s)",
)
FORM = 2  # of the table; a store of another form is a cache of no more use, and begins anew
NUM_SUBMISSIONS_KEPT = 8  # of each assignment: a student who grades all evening should not fill the disk


class Store:
    """Requests and outcomes by key. Several processes may share the file, and several threads the store."""

    def __init__(self, path: Path, *, forgets: bool = True) -> None:
        """Open the store at `path`, or begin one. `forgets=False` keeps what all submissions showed. MachineError if it can't be opened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._turn, self._forgets = path, threading.Lock(), forgets
        try:
            self._database = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = normal")
            self._begin()
        except sqlite3.Error as broken:
            raise MachineError(f"{path} can't be opened as a store of observations: {broken}; remove it to start afresh") from broken

    def _begin(self) -> None:
        """Make the table; one that an earlier grader left in another form is dropped in the same transaction."""
        self._database.execute("begin immediate")  # of several that open an old store at once, the first one makes it new
        if self._database.execute("pragma user_version").fetchone() != (FORM,):
            for statement in ("drop table if exists observations", *SCHEMA, f"pragma user_version = {FORM}"):
                self._database.execute(statement)
        self._database.execute("commit")

    def outcome(self, key: str) -> Outcome | None:
        """What was observed under `key`, or None."""
        with self._turn:
            row = self._database.execute("select outcome from observations where key = ?", (key,)).fetchone()
            if row is None:
                return None
            self._database.execute("update observations set used_s = ? where key = ?", (time.time(), key))
        return msgspec.msgpack.decode(row[0], type=Outcome)

    def holds(self, key: str) -> bool:
        """Whether something was observed under exactly this key; asking does not count as use."""
        with self._turn:
            return self._database.execute("select 1 from observations where key = ?", (key,)).fetchone() is not None

    def observation(self, key: str) -> tuple[Request, Outcome] | None:
        """What was asked for and what was seen under `key` or the only key that begins with it; looking does not count as use."""
        with self._turn:
            rows = self._database.execute("select request, outcome from observations where key glob ? limit 2", (f"{key}*",)).fetchall()
        if len(rows) != 1:
            return None
        return msgspec.msgpack.decode(rows[0][0], type=Request), msgspec.msgpack.decode(rows[0][1], type=Outcome)

    def request(self, key: str) -> tuple[str, Request] | None:
        """(submission hash, request) under a key or the only key that begins with it; None if there is no such."""
        with self._turn:
            rows = self._database.execute("select submission, request from observations where key glob ? limit 2", (f"{key}*",)).fetchall()
        return (rows[0][0], msgspec.msgpack.decode(rows[0][1], type=Request)) if len(rows) == 1 else None

    def put(self, key: str, submission: str, request: Request, outcome: Outcome) -> None:
        """Keep one observation; a later one under the same key replaces it."""
        row = (key, request.assignment, submission, time.time(), msgspec.msgpack.encode(request), msgspec.msgpack.encode(outcome))
        try:
            with self._turn:
                self._database.execute("insert or replace into observations values (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as broken:
            raise MachineError(f"{self.path} can't be written: {broken}; is the disk full?") from broken

    def absorb(self, path: Path) -> None:
        """Take over all that the store at `path` holds; that one is left empty."""
        try:
            with self._turn:
                self._database.execute("attach ? as other", (str(path),))
                self._database.execute("insert or ignore into observations select * from other.observations")
                self._database.execute("delete from other.observations")  # committed later than the other file, so never lost
                self._database.execute("detach other")
        except sqlite3.Error as broken:
            raise MachineError(f"{path} can't be taken into {self.path}: {broken}; is the disk full?") from broken

    def close(self) -> None:
        """Forget all but the submissions of each assignment that were used last, where it may, and close."""
        if self._forgets:
            self._database.execute(
                "delete from observations where (assignment, submission) not in (select assignment, submission from ("
                " select assignment, submission, row_number() over (partition by assignment order by max(used_s) desc) as place"
                " from observations group by assignment, submission) where place <= ?)",
                (NUM_SUBMISSIONS_KEPT,),
            )
        self._database.close()
