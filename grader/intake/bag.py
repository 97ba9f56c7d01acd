"""What was handed in, before anything is chosen from it: names, and a way to read each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from grader.records import MiB

FILE_LIMIT_BYTES = 1 * MiB  # of one source file
NOTEBOOK_LIMIT_BYTES = 16 * MiB  # pictures in its outputs count, and are thrown away
NUM_ENTRIES_LIMIT = 5000
DEPTH_LIMIT = 12  # folders in folders
LITTER = frozenset({"__MACOSX", "__pycache__", "node_modules", "site-packages", "venv"})

Content = tuple[bytes | None, str]  # the bytes; or None, and the sentence that says why not
Read = Callable[[int], Content]  # reads at most so many bytes, or says that there are more


@dataclass(frozen=True, slots=True)
class Bag:
    """Files by their path in what was handed in (with /). Folders, links and devices have an entry too, which refuses to be read."""

    where: str  # in a message: "the folder", "work.zip"
    entries: dict[str, Read]
    notes: tuple[str, ...] = field(default=())

    def folders(self) -> dict[str, list[str]]:
        """Names by the folder that they lie in ("" is the top), shallow folders first, each sorted."""
        found: dict[str, list[str]] = {}
        for path in self.entries:
            folder, _, name = path.rpartition("/")
            found.setdefault(folder, []).append(name)
        order = sorted(found, key=lambda folder: (len(PurePosixPath(folder).parts), folder))
        return {folder: sorted(found[folder]) for folder in order}


def is_litter(path: str) -> bool:
    """Whether nobody means to hand this in: hidden files, what macOS and tools leave behind."""
    return any(part in LITTER or part.startswith(".") for part in path.split("/"))


def with_folders(entries: dict[str, Read]) -> dict[str, Read]:
    """`entries` and, for every folder on the way to one, an entry that refuses."""
    folders = dict.fromkeys(folder for path in entries for folder in _parents(path))
    return {folder: refusing(folder, "is not a regular file: expected Python source") for folder in folders} | entries


def refusing(path: str, why: str) -> Read:
    """A reader that only says why there is nothing to read."""
    return lambda _limit_bytes: (None, f"{path.rpartition('/')[2]} {why}.")


def holding(path: str, content: bytes) -> Read:
    """A reader of bytes that are in memory."""
    return lambda limit_bytes: (content, "") if len(content) <= limit_bytes else (None, too_large(path, limit_bytes))


def too_large(path: str, limit_bytes: int) -> str:
    """The sentence about a file over the limit."""
    kind = "notebook" if path.endswith(".ipynb") else "source file"
    return f"{path.rpartition('/')[2]} is larger than {limit_bytes // MiB} MiB, the limit for one {kind}; it is not graded."


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))
