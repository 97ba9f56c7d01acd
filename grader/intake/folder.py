"""A folder (a git clone with its files is one too), or a single file: links are never followed."""

from __future__ import annotations

import os
import stat
from collections import deque
from functools import partial
from pathlib import Path

from grader.intake.bag import DEPTH_LIMIT, NUM_ENTRIES_LIMIT, Bag, Content, Read, is_litter, too_large


def read_folder(path: Path) -> Bag:
    """Everything under `path`, the nearest first; hidden folders and what tools leave behind aside."""
    entries: dict[str, Read] = {}
    notes: tuple[str, ...] = ()
    waiting: deque[tuple[str, int]] = deque([("", 0)])
    while waiting and not notes:
        folder, depth = waiting.popleft()
        for entry in _scan(path / folder):
            name = f"{folder}/{entry.name}" if folder else entry.name
            entries[name] = partial(read_regular, Path(entry.path))
            if depth < DEPTH_LIMIT and not is_litter(name) and entry.is_dir(follow_symlinks=False):
                waiting.append((name, depth + 1))
            if len(entries) > NUM_ENTRIES_LIMIT and folder:
                notes = (f"The folder holds more than {NUM_ENTRIES_LIMIT} files; only the nearest were looked at.",)
                break
    return Bag("the folder", entries, notes)


def read_single(path: Path) -> Bag:
    """One file on its own."""
    return Bag(f"what was handed in, {path.name}", {path.name: partial(read_regular, path.resolve())})


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not ours to look into
        return []


def read_regular(path: Path, limit_bytes: int) -> Content:
    """The bytes of a regular file, or None and why not. Asked of the opened file, so that nothing can be swapped in between."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            return None, f"{path.name} is a link, and links are not followed: put the file itself into the folder."
        return None, f"{path.name} can't be read: {error.strerror}."
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None, f"{path.name} is not a regular file: expected Python source."
    with os.fdopen(handle, "rb") as stream:
        raw = stream.read(limit_bytes + 1)
    return (raw, "") if len(raw) <= limit_bytes else (None, too_large(path.name, limit_bytes))
