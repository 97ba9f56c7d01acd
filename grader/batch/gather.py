"""What of a hand-in the intake shall look at: platforms put an archive into a folder, and one student's files beside everybody's."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from grader.batch.layouts import HandIn
from grader.intake.archive import ARCHIVE_LIMIT_BYTES
from grader.intake.bag import NUM_ENTRIES_LIMIT, is_litter
from grader.intake.folder import read_regular
from grader.report.files import PRIVATE, write_bytes

SOURCES, ARCHIVES = (".py", ".py.txt", ".ipynb"), (".zip", ".tar", ".tgz", ".tar.gz")
GATHERED = "handed-in"  # in the folder of a batch: what had to be put together


def path_of(hand_in: HandIn, out: Path) -> Path:
    """The folder, archive or file that is to be graded; files that lie beside others' are copied into a folder of their own in `out`."""
    if len(hand_in.files) == 1:
        name, place = next(iter(hand_in.files.items()))
        if name == place.name or name.lower().endswith(ARCHIVES):
            return place
    path = _together(hand_in, out) if hand_in.files else hand_in.path
    return _only_archive(path) or path


def _together(hand_in: HandIn, out: Path) -> Path:
    """A folder with copies under the names that the student gave them, made anew each time."""
    person = hand_in.by[0].id
    folder = out / GATHERED / f"{''.join(filter(str.isalnum, person))[:40]}-{hashlib.sha256(person.encode()).hexdigest()[:8]}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, place in hand_in.files.items():
        content, _refusal = read_regular(place, ARCHIVE_LIMIT_BYTES)
        if content is not None and "/" not in name and not is_litter(name):
            write_bytes(folder / name, content, PRIVATE)
    return folder


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
