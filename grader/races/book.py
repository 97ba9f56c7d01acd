"""speed.json: the speed marks of a run folder, with what they were measured on. The leaderboard reads nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from grader.errors import UsageError
from grader.races.verdict import SpeedMark

BOOK_NAME = "speed.json"
SCHEMA = "grader/speed/1"


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
    """Into `folder`; -> the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / BOOK_NAME
    path.write_bytes(msgspec.json.format(msgspec.json.encode(book), indent=1) + b"\n")
    return path


def read(path: Path) -> Book:
    """A file, or that of a run folder. Raises UsageError if it is none of ours."""
    path = path / BOOK_NAME if path.is_dir() else path
    try:
        return msgspec.json.decode(path.read_bytes(), type=Book)
    except OSError as unreadable:
        raise UsageError(f"{path} can't be read: {unreadable.strerror}. `grader race` writes one.") from unreadable
    except (msgspec.DecodeError, RecursionError) as unfit:
        raise UsageError(f"{path} is no {SCHEMA}: {unfit}") from unfit
