"""The trail of a class: every change of a mark with when, who and why. Rows are added; the database refuses to change one."""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from grader.errors import MachineError
from grader.gradebook.settle import Final, Finals

TRAIL_NAME = "trail.sqlite"  # in the folder of a class
PRIVATE = 0o600
FORM = 1
SCHEMA = f"""
create table if not exists changes (
  number integer primary key, at text not null, who text not null, student text not null, assignment text not null,
  was text not null, now text not null, why text not null, steps text not null);
create index if not exists by_mark on changes (student, assignment, number);
create trigger if not exists changes_stay before update on changes begin select raise(abort, 'a trail is never changed'); end;
create trigger if not exists changes_are_kept before delete on changes begin select raise(abort, 'a trail is never shortened'); end;
pragma user_version = {FORM};
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one final mark."""

    at: str  # ISO 8601, UTC
    who: str
    student: str
    assignment: str
    was: str  # as `Final.text`; "": there was none
    now: str
    why: str
    steps: tuple[str, ...]  # how the new mark came about


def record(folder: Path, finals: Finals, *, who: str = "", why: Mapping[tuple[str, str], str] | None = None) -> tuple[Change, ...]:
    """Write down every mark that is another one than the trail's last word on it, or came about otherwise, and return those changes.

    who  whoever runs this, if the layer that made the difference names nobody; "": the user's name
    why  (student, assignment) -> what comes before the steps that are new
    Raises MachineError if the file can't be written.
    """
    at, user = datetime.now(UTC).isoformat(timespec="seconds"), who or _user()
    with closing(_opened(folder)) as database:
        try:
            database.execute("begin immediate")
            last = _last(database)
            changes = [change for final in finals.values() if (change := _change(final, last, at, user, why or {})) is not None]
            database.executemany(
                "insert into changes (at, who, student, assignment, was, now, why, steps) values (?, ?, ?, ?, ?, ?, ?, ?)",
                [(c.at, c.who, c.student, c.assignment, c.was, c.now, c.why, json.dumps(c.steps, ensure_ascii=False)) for c in changes],
            )
            database.execute("commit")
        except sqlite3.Error as broken:
            raise MachineError(f"{folder / TRAIL_NAME} can't be written: {broken}; is the disk full?") from broken
    return tuple(changes)


def changes_of(folder: Path, student: str) -> tuple[Change, ...]:
    """All that the trail says of a student, oldest first; nothing if there is no trail yet."""
    if not (folder / TRAIL_NAME).is_file():
        return ()
    with closing(_opened(folder)) as database:
        rows = database.execute(
            "select at, who, assignment, was, now, why, steps from changes where student = ? order by number", (student,)
        ).fetchall()
    return tuple(Change(at, who, student, name, was, now, why, tuple(json.loads(steps))) for at, who, name, was, now, why, steps in rows)


def _opened(folder: Path) -> sqlite3.Connection:
    path = folder / TRAIL_NAME
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))  # its readers are chosen before there is anything to read
        database = sqlite3.connect(path, timeout=30.0, isolation_level=None)
        database.execute("pragma synchronous = full")
        (form,) = database.execute("pragma user_version").fetchone()
        if form == 0:
            database.executescript(f"begin immediate; {SCHEMA} commit;")
    except (OSError, sqlite3.Error) as broken:
        raise MachineError(f"{path} can't be opened as the trail of a class: {broken}") from broken
    if form not in (0, FORM):
        raise MachineError(f"{path} has form {form}, and this grader reads form {FORM}")
    return database


Last = dict[tuple[str, str], tuple[str, tuple[str, ...]]]


def _last(database: sqlite3.Connection) -> Last:
    rows = database.execute(
        "select student, assignment, now, steps from changes where number in (select max(number) from changes group by student, assignment)"
    )
    return {(student, assignment): (now, tuple(json.loads(steps))) for student, assignment, now, steps in rows}


def _change(final: Final, last: Last, at: str, user: str, why: Mapping[tuple[str, str], str]) -> Change | None:
    key = (final.entry.student, final.entry.assignment)
    was, before = last.get(key, ("", ()))
    steps = tuple(step.sentence for step in final.steps)
    if final.text == was and (steps == before or not before):  # the first word on a mark is not that there is none
        return None
    new = [step for step in final.steps if step.sentence not in before]
    gone = [f"no longer: {sentence}" for sentence in before if sentence not in steps]
    deciders = dict.fromkeys(step.by for step in new if step.by)
    return Change(at, " and ".join(deciders) or user, final.entry.student, final.entry.assignment, was, final.text,
                  "; ".join(filter(None, [why.get(key, ""), *(step.sentence for step in new), *gone])), steps)  # fmt: skip


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"
