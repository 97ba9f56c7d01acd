"""speed.json: the speed marks of a run folder and what they were measured on; beside it their history. Leaderboards read nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from grader.errors import UsageError
from grader.races.verdict import SpeedMark

BOOK_NAME = "speed.json"  # the latest
HISTORY_NAME = "speeds.jsonl"  # all, a line each
SCHEMA: Literal["grader/speed/1"] = "grader/speed/1"


class Book(msgspec.Struct, frozen=True):
    """The races of one submission on one device."""

    submission: str  # hash of the raced files
    origin: str  # what the user named
    date: str  # ISO 8601, UTC
    commit: str  # of the course; "": no repository
    environment: dict[str, str]  # versions, device, driver
    marks: tuple[SpeedMark, ...]
    schema: Literal["grader/speed/1"] = SCHEMA

    @property
    def earned(self) -> float:
        """Speed marks; they stand beside the points."""
        return sum(mark.earned for mark in self.marks)

    @property
    def possible(self) -> int:
        """Of the races that were judged or refused: nobody loses a mark to a machine."""
        return sum(mark.possible for mark in self.marks if mark.state in ("judged", "refused"))


def write(book: Book, folder: Path) -> Path:
    """Into `folder`, and a line into its history; -> the file."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = msgspec.json.encode(book)
    path = folder / BOOK_NAME
    path.write_bytes(msgspec.json.format(packed, indent=1) + b"\n")
    with (folder / HISTORY_NAME).open("ab") as history:
        history.write(packed + b"\n")
    return path


def read(path: Path) -> tuple[Book, ...]:
    """The books of a run folder, oldest first: its history, or its speed.json alone; or those of a file of either form.

    Raises UsageError if it is none of ours.
    """
    if path.is_dir():
        path = path / HISTORY_NAME if (path / HISTORY_NAME).exists() else path / BOOK_NAME
    try:
        packed = path.read_bytes()
        return tuple(msgspec.json.decode(each, type=Book) for each in (packed.splitlines() if path.suffix == ".jsonl" else [packed]))
    except OSError as unreadable:
        raise UsageError(f"{path} can't be read: {unreadable.strerror}. `grader race` writes one.") from unreadable
    except (msgspec.DecodeError, RecursionError) as unfit:
        raise UsageError(f"{path} is no {SCHEMA}: {unfit}") from unfit
