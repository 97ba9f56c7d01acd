"""Tar archives, plain or with gzip: read once, from the first byte to the last."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import IO, Any

from grader.intake.archive import SOURCES, Unpacking
from grader.intake.bag import NOTEBOOK_LIMIT_BYTES, Bag, Read, holding, refusing

GZIP = b"\x1f\x8b"


def unpack_tar(path: Path) -> Bag:
    """The sources in the tar at `path`; refused as soon as more has been unpacked than may be."""
    unpacking = Unpacking(path.name)
    with path.open("rb") as raw:
        is_gzip = raw.read(len(GZIP)) == GZIP
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if is_gzip else raw as plain:
            counted: Any = Counted(plain, unpacking)  # tarfile asks a stream for `read` alone
            with tarfile.open(fileobj=counted, mode="r|", errorlevel=2) as archive:
                for member in archive:
                    name = unpacking.path_of(member.name)
                    if name is not None and not member.isdir():
                        unpacking.members[name] = _read(archive, member, name)
    return unpacking.bag()


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> Read:
    if member.issym() or member.islnk():
        return refusing(name, "is a link, and links are not followed: put the file itself into the archive")
    if not member.isreg():
        return refusing(name, "is not a regular file: expected Python source")
    if not name.lower().endswith(SOURCES):
        return holding(name, b"")
    stream = archive.extractfile(member)
    return holding(name, stream.read(NOTEBOOK_LIMIT_BYTES + 1) if stream else b"")


class Counted:
    """A stream that counts what is read from it."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, unpacking: Unpacking) -> None:
        self._stream, self._unpacking = stream, unpacking

    def read(self, size: int) -> bytes:
        """At most `size` bytes. Refused beyond the archive's limit."""
        content = self._stream.read(size)
        self._unpacking.count(len(content))
        return content
