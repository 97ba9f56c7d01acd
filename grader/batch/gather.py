"""What of a hand-in the intake shall look at: platforms put an archive into a folder, and one student's files beside everybody's."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile, is_zipfile

from grader.batch.layouts import HandIn
from grader.intake.archive import ARCHIVE_LIMIT_BYTES
from grader.intake.bag import NUM_ENTRIES_LIMIT, is_litter
from grader.intake.folder import read_regular
from grader.report.files import PRIVATE, write_bytes

SOURCES, ARCHIVES = (".py", ".py.txt", ".ipynb"), (".zip", ".tar", ".tgz", ".tar.gz")
GATHERED = "handed-in"  # in the folder of a batch: what had to be put together


def path_of(hand_in: HandIn, out: Path) -> Path:
    """The folder, archive or file that is to be graded; files that lie beside others' are copied into a folder of their own in `out`."""
    path = _together(hand_in, out) if hand_in.files else hand_in.path
    path = _only_archive(path) or path
    return _unpacked(path, _folder(hand_in, out)) or path


def _together(hand_in: HandIn, out: Path) -> Path:
    """A folder with copies under the names that the student gave them, made anew each time."""
    folder = _folder(hand_in, out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, place in hand_in.files.items():
        content, _refusal = read_regular(place, ARCHIVE_LIMIT_BYTES)
        if content is not None and "/" not in name and not is_litter(name):
            write_bytes(folder / name, content, PRIVATE)
    return folder


def _folder(hand_in: HandIn, out: Path) -> Path:
    person = hand_in.by[0].id
    return out / GATHERED / f"{''.join(filter(str.isalnum, person))[:40]}-{hashlib.sha256(person.encode()).hexdigest()[:8]}"


def _unpacked(path: Path, folder: Path) -> Path | None:
    """The zip that is all there is in the zip at `path`, written into `folder`; None if there is none, or it can't be read."""
    if not path.name.lower().endswith(".zip") or not is_zipfile(path):
        return None
    try:
        with ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not is_litter(name)]
            if len(names) != 1 or not names[0].lower().endswith(ARCHIVES):
                return None
            with archive.open(names[0]) as stream:
                content = stream.read(ARCHIVE_LIMIT_BYTES + 1)
    except (BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, zlib.error):  # the intake has the sentence for it
        return None
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(inner := folder / f"inner{Path(names[0]).suffix}", content, PRIVATE)
    return inner


def _only_archive(path: Path) -> Path | None:
    """The archive that lies in the folder `path`, if it is the only one and no source file lies beside it."""
    archives: list[Path] = []
    if not path.is_dir():
        return None
    num_seen = 0
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not is_litter(name)]
        for name in (name for name in names if not is_litter(name)):
            num_seen += 1
            if name.lower().endswith(SOURCES) or num_seen > NUM_ENTRIES_LIMIT:
                return None
            if name.lower().endswith(ARCHIVES):
                archives.append(Path(folder) / name)
    return archives[0] if len(archives) == 1 and archives[0].is_file() and not archives[0].is_symlink() else None
