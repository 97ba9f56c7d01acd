"""Zip archives."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

from grader.intake.archive import SOURCES, Refused, Unpacking
from grader.intake.bag import NOTEBOOK_LIMIT_BYTES, Bag, Read, holding, refusing

ENCRYPTED = 0x1


def unpack_zip(path: Path) -> Bag:
    """The sources in the zip at `path`. What a member says of its own size is checked against what comes out of it."""
    unpacking = Unpacking(path.name)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = unpacking.path_of(member.filename)
            if name is None or member.is_dir():
                continue
            unpacking.members[name] = _read(archive, member, name, unpacking)
    return unpacking.bag()


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, unpacking: Unpacking) -> Read:
    mode = member.external_attr >> 16
    if stat.S_ISLNK(mode):
        return refusing(name, "is a link, and links are not followed: put the file itself into the archive")
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        return refusing(name, "is not a regular file: expected Python source")
    if not name.lower().endswith(SOURCES):
        unpacking.count(0)
        return holding(name, b"")
    if member.flag_bits & ENCRYPTED:
        raise Refused(unpacking.archive, f"is encrypted ({name} is); it must open without a password")
    unpacking.count(max(0, member.file_size - NOTEBOOK_LIMIT_BYTES))  # a bomb that says what it is
    with archive.open(member) as stream:
        content = stream.read(NOTEBOOK_LIMIT_BYTES + 1)
    unpacking.count(len(content))
    return holding(name, content)
