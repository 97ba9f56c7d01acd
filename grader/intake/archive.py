"""What zip and tar have in common: nothing is ever written to the disk, and every byte is counted while it is unpacked."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from grader.errors import UsageError
from grader.intake.bag import DEPTH_LIMIT, NUM_ENTRIES_LIMIT, Bag, Read, is_litter, with_folders
from grader.records import MiB

ARCHIVE_LIMIT_BYTES = 64 * MiB  # as it lies on the disk
UNPACKED_LIMIT_BYTES = 128 * MiB
SOURCES = (".py", ".txt", ".ipynb")  # what is unpacked; of everything else only the name is read
UNREAD = {b"Rar!": "RAR", b"7z\xbc\xaf": "7-Zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "Zstandard"}
TRY = "Try: zip or tar.gz the folder that holds your files, and nothing else."


class Refused(UsageError):
    """An archive that can't be graded as a whole."""

    def __init__(self, archive: str, seen: str) -> None:
        super().__init__(f"{archive} {seen}. {TRY}")


class Unpacking:
    """Collects the members of one archive; refuses names that lead elsewhere, and too many, too deep or too large ones."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self.members: dict[str, Read] = {}
        self.num_bytes = 0
        self.num_members = 0

    def path_of(self, name: str) -> str | None:
        """A member's path inside the archive; None for litter. Refused if it would land outside, or if there are too many."""
        self.num_members += 1
        if self.num_members > NUM_ENTRIES_LIMIT:
            raise Refused(self.archive, f"holds more than {NUM_ENTRIES_LIMIT} files, the limit")
        path = name.replace("\\", "/")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or path.startswith("/") or re.match(r"[A-Za-z]:", path) or "\0" in path:
            raise Refused(self.archive, f"holds {name!r}, a name that leads outside of the archive; nothing of it is graded")
        if len(parts) > DEPTH_LIMIT:
            raise Refused(self.archive, f"holds folders in folders, more than {DEPTH_LIMIT} deep: {'/'.join(parts[:3])}/...")
        path = "/".join(parts)
        return None if not path or is_litter(path) else path

    def count(self, num_bytes: int) -> None:
        """Refused when all that was unpacked, or is said to be there, exceeds the limit."""
        self.num_bytes += num_bytes
        if self.num_bytes > UNPACKED_LIMIT_BYTES:
            raise Refused(self.archive, f"unpacks to more than {UNPACKED_LIMIT_BYTES // MiB} MiB, the limit")

    def bag(self) -> Bag:
        """What was collected."""
        return Bag(self.archive, with_folders(self.members))


def read_archive(path: Path, unpack: Callable[[Path], Bag]) -> Bag:
    """The archive at `path`, unpacked into memory; the last one is remembered, since every assignment asks for it."""
    seen = path.stat()
    if seen.st_size > ARCHIVE_LIMIT_BYTES:
        raise Refused(path.name, f"is {seen.st_size // MiB} MiB large; the limit is {ARCHIVE_LIMIT_BYTES // MiB} MiB")
    return _remembered(path.resolve(), unpack, (seen.st_mtime_ns, seen.st_size, seen.st_ino))


def kind_that_is_not_read(head: bytes) -> str:
    """The name of an archive's kind that isn't read here; "" for everything else."""
    return next((kind for magic, kind in UNREAD.items() if head.startswith(magic)), "")


@lru_cache(maxsize=1)
def _remembered(path: Path, unpack: Callable[[Path], Bag], version: tuple[int, ...]) -> Bag:
    try:
        return unpack(path)
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # whatever a library may raise on bytes that somebody made up
        raise Refused(path.name, f"is damaged, or was not sent whole ({type(error).__name__}: {error})") from error
