"""Files → submission: a private copy of exactly the files that are graded, as plain UTF-8 text.

A folder, a git clone, a zip, a tar.gz, a notebook or a single file may be handed in. Whatever else lies in it stays there; what a student
would want to know about it becomes a note.
"""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path
from zipfile import is_zipfile

from grader.errors import UsageError
from grader.intake.archive import kind_that_is_not_read, read_archive
from grader.intake.bag import FILE_LIMIT_BYTES, NOTEBOOK_LIMIT_BYTES, Bag
from grader.intake.behind import hidden_libraries, imports_left_behind
from grader.intake.choose import home, standing_for
from grader.intake.clone import is_bare_repository, read_repository
from grader.intake.folder import read_folder, read_single
from grader.intake.notebook import read_notebook
from grader.intake.tarred import GZIP, unpack_tar
from grader.intake.text import as_text
from grader.intake.zipped import unpack_zip
from grader.records import Assignment, Submission

__all__ = ["FILE_LIMIT_BYTES", "NOTEBOOK_LIMIT_BYTES", "intake"]

SINGLE_FILES = (".py", ".py.txt", ".ipynb")
TAR = (257, b"ustar")  # where a tar says what it is


def intake(assignment: Assignment, path: Path, *, into: Path) -> Submission:
    """Copy the files of `assignment` from what was handed in at `path` into `into`, a folder that doesn't exist yet and only we can read.

    Graded text is UTF-8 without a byte-order mark and with plain line ends, so that one answer has one hash on every system and in every
    archive. A file that can't be graded (a link, over 1 MiB, not text) is left out with a note; the others are graded. UsageError when
    there is nothing at `path` that could be looked into, or when an archive is damaged, unsafe or too large.
    """
    bag = open_bag(path, assignment)
    into.mkdir(mode=0o700, parents=True)
    texts, notes = _texts(bag, assignment)
    hashes: dict[str, str] = {}
    for file, text in texts.items():
        (into / file).write_bytes(text)
        hashes[file] = hashlib.sha256(text).hexdigest()
    return Submission(folder=str(into), origin=str(path), files=hashes, notes=tuple(dict.fromkeys(notes)))


def open_bag(path: Path, assignment: Assignment) -> Bag:
    """What lies at `path`, by its content and not by its name. UsageError if it is nothing that can be handed in."""
    wanted = " and ".join(assignment.files)
    if path.is_dir():
        return read_repository(path) if is_bare_repository(path) else read_folder(path)
    if not path.exists():
        raise UsageError(_not_there(path, wanted))
    if not path.is_file():
        raise UsageError(f"{path} is neither a folder nor a file: name what holds {wanted}.")
    with path.open("rb") as stream:
        head = stream.read(TAR[0] + len(TAR[1]))
    if head.startswith(GZIP) or head[TAR[0] :] == TAR[1] or path.name.endswith((".tar", ".tgz", ".tar.gz")):
        return read_archive(path, unpack_tar)
    if is_zipfile(path) or head.startswith(b"PK") or path.suffix == ".zip":
        return read_archive(path, unpack_zip)
    if path.name.lower().endswith(SINGLE_FILES):
        return read_single(path)
    kind = kind_that_is_not_read(head)
    seen = f"is a {kind} archive, which is not read" if kind else "is none of the kinds of file that are read"
    raise UsageError(f"{path} {seen}. Hand in a folder, a .zip, a .tar.gz, a notebook (.ipynb) or {wanted}.")


# --- from the bag to the files ---------------------------------------------------------------------------------------
def _texts(bag: Bag, assignment: Assignment) -> tuple[dict[str, bytes], list[str]]:
    """The plain text of each file that can be graded, and the notes."""
    folder, doubt = home(bag, assignment)
    if doubt:
        return {}, [*bag.notes, doubt]
    names = bag.folders().get(folder, [])
    texts: dict[str, bytes] = {}
    notes = list(bag.notes)
    absent: list[str] = []
    for file in assignment.files:
        name, remark = standing_for(file, names, bag.where)
        if name is None:
            absent.append(file)
            continue
        raw, refusal = bag.entries[f"{folder}/{name}" if folder else name](FILE_LIMIT_BYTES)
        text, remarks = as_text(raw, file) if raw is not None else (None, [refusal])
        notes += [remark, *remarks]
        if text is not None:
            texts[file] = text
            notes += imports_left_behind(text, file, names, assignment)
    from_cells, told = _from_notebooks(bag, folder, names, absent)
    notes += told + hidden_libraries(names, assignment)
    return texts | from_cells, [note for note in notes if note]


def _from_notebooks(bag: Bag, folder: str, names: list[str], absent: list[str]) -> tuple[dict[str, bytes], list[str]]:
    """The files of `absent` that the folder's notebooks hold; what two of them hold is graded from neither."""
    notebooks = [name for name in names if name.lower().endswith(".ipynb")] if absent else []
    texts: dict[str, bytes] = {}
    notes: list[str] = []
    holders: dict[str, list[str]] = {file: [] for file in absent}
    for name in notebooks:
        raw, refusal = bag.entries[f"{folder}/{name}" if folder else name](NOTEBOOK_LIMIT_BYTES)
        if raw is None:
            notes.append(refusal)
            continue
        read = read_notebook(raw, name, absent)
        notes += read.notes
        for file, source in read.files.items():
            holders[file].append(name)
            text, remarks = as_text(source.encode("utf-8", "backslashreplace"), file)
            notes += remarks
            texts[file] = text or b""
    for file, found in holders.items():
        if len(found) > 1:
            del texts[file]
            notes.append(f"{file} is in {' and in '.join(found)}: hand in one of them. Until then it is not graded.")
        elif not found and notebooks:
            notes.append(f"No cell of {' or '.join(notebooks)} gives {file}: begin the cell with %%writefile {file}, or give it that tag.")
        elif not found:
            notes.append(f"{file} is not in {bag.where}.")
    return texts, notes


def _not_there(path: Path, wanted: str) -> str:
    parent = next(folder for folder in path.absolute().parents if folder.is_dir())
    folders = sorted(entry.name for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    close = difflib.get_close_matches(path.name, folders, n=3) or folders[:6]
    there = f"{parent} holds {', '.join(close)}" if close else f"{parent} holds no folder"
    return f"There is no folder {path}. {there}. Name the folder that holds {wanted}, or an archive or a notebook of it."
