"""The ledger of a class: a row for every student, written the moment it is known. One SQLite file in the folder of a batch."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from grader.errors import MachineError, UsageError

LEDGER_NAME = "class.sqlite"  # in the folder of a batch
LOCK = ".lock"  # there, too
FORM = 1  # of the rows; a ledger of another form is refused: marks are no cache

# waiting: not graded yet · marked: report.json stands · refused: what was handed in can't be looked into, which its sender can mend
# machine: the grader's machine failed, and no mark follows from that · missing: on the roster, and nothing was handed in
State = Literal["waiting", "marked", "refused", "machine", "missing"]


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of one student's work. Marks are raw: extensions, late days and overrides are layers over them."""

    student: str  # the roster's id; without a roster, what the platform's file names call the student
    name: str = ""
    email: str = ""
    section: str = ""
    path: str = ""  # what was handed in, relative to the folder of submissions; "": nothing
    submitted: str = ""  # when, in ISO 8601 with its offset; "": the download doesn't say
    state: State = "waiting"
    sentence: str = ""  # why it was refused, or what failed on the machine
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)  # assignment -> points earned, points possible
    provisional: bool = False
    submission: str = ""  # hash of what was graded
    judged_by: str = ""  # hash of the course and the grader that judged it
    report: str = ""  # the folder of its report.json and staff.json, relative to the ledger's; students who hand in together share one
    attempts: int = 0  # how often a machine has tried
    wall_s: float = 0.0

    @property
    def earned(self) -> int:
        """Points over all assignments."""
        return sum(earned for earned, _ in self.marks.values())

    @property
    def possible(self) -> int:
        """Points that could have been had."""
        return sum(possible for _, possible in self.marks.values())


class Ledger:
    """The rows of one class by student. Several processes and threads may share the file."""

    def __init__(self, folder: Path) -> None:
        """Open the ledger in `folder`, or begin one. Raises MachineError if it can't be opened or has another form."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._turn = folder / LEDGER_NAME, threading.Lock()
        try:
            self._database = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            self._database.execute("pragma journal_mode = wal")
            self._database.execute("pragma synchronous = full")  # a row that was told of survives a cut of the power
            self._database.execute("create table if not exists rows (student text primary key, row blob not null)")
            self._database.execute("begin immediate")
            (form,) = self._database.execute("pragma user_version").fetchone()
            if form == 0:
                self._database.execute(f"pragma user_version = {FORM}")
            self._database.execute("commit")
        except sqlite3.Error as broken:
            raise MachineError(f"{self.path} can't be opened as the ledger of a class: {broken}") from broken
        if form not in (0, FORM):
            raise MachineError(f"{self.path} has form {form}, and this grader reads form {FORM}: grade into another folder")

    def put(self, rows: Iterable[Row]) -> None:
        """Write rows, all or none of them; each replaces the one of the same student."""
        packed = [(row.student, msgspec.msgpack.encode(row)) for row in rows]
        try:
            with self._turn:
                self._database.execute("begin immediate")
                self._database.executemany("insert or replace into rows values (?, ?)", packed)
                self._database.execute("commit")
        except sqlite3.Error as broken:
            raise MachineError(f"{self.path} can't be written: {broken}; is the disk full?") from broken

    def rows(self) -> tuple[Row, ...]:
        """All rows, by student."""
        with self._turn:
            found = self._database.execute("select row from rows order by student").fetchall()
        return tuple(msgspec.msgpack.decode(packed, type=Row) for (packed,) in found)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Within it nobody else writes marks in the folder of a class. UsageError if somebody does already; a dead process holds nothing."""
    try:
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise UsageError(f"{folder} is no folder of a class that can be written to: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen = f"Another `grader batch` or `grader regrade --accept` is working in {folder}"
            raise UsageError(f"{seen}: wait until it is done, or take another folder.") from None
        yield
