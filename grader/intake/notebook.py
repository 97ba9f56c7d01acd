"""A notebook → the source files that its cells hold. It is read and never executed.

A cell that begins with `%%writefile collectives.py` is that file (`-a` appends to it), in whatever folder it is written. A cell that bears
the tag `collectives.py`, or `collectives`, is a piece of it; the pieces are joined in the order in which they stand.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

WRITE = re.compile(r"\s*%%(?:write)?file[ \t]+(?:(-a|--append)[ \t]+)?(\"[^\"\n]+\"|'[^'\n]+'|\S+)[ \t]*\r?(?:\n|$)")
MAGIC = re.compile(r"^[ \t]*(?:[!%?]|\w+\?{1,2}[ \t]*$)")  # IPython's own words, which a Python file can't hold


@dataclass(slots=True)
class Notebook:
    """What a notebook gives: source text by file, and what a student should know about it."""

    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_notebook(raw: bytes, name: str, wanted: Sequence[str]) -> Notebook:
    """The files of `wanted` that the cells of the notebook `name` hold. What can't be read becomes a note; nothing is raised."""
    notebook = Notebook()
    if not raw.strip():
        notebook.notes.append(f"{name} is empty: save the notebook before you hand it in.")
        return notebook
    try:
        cells = list(_code_cells(raw))
    except Exception as error:  # nbformat and what lies beneath it raise what they like on bytes that somebody made up
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        notebook.notes.append(f"{name} can't be read as a notebook ({reason}): download it again as .ipynb.")
        return notebook
    for number, source, tags in cells:
        written = WRITE.match(source)
        if written:
            _write(notebook, written, source, wanted)
            continue
        for file in wanted:
            if tags & {file, file.removesuffix(".py")}:
                _add_piece(notebook, file, source, f"{name}, cell {number}")
    return notebook


def _write(notebook: Notebook, written: re.Match[str], source: str, wanted: Sequence[str]) -> None:
    append, target = written.groups()
    file = target.strip("\"'").replace("\\", "/").rpartition("/")[2]
    if file in wanted:
        before = notebook.files.get(file, "") if append else ""
        notebook.files[file] = before + _ended(source[written.end() :])


def _add_piece(notebook: Notebook, file: str, source: str, where: str) -> None:
    lines = source.splitlines()
    kept = [line for line in lines if not MAGIC.match(line)]
    if len(kept) < len(lines) and not _is_python(source):
        notebook.notes.append(f"{where}: lines that are a notebook's own commands (% or !) are left out of {file}.")
    else:
        kept = lines
    piece = "\n".join(kept)
    if not _is_python(piece):
        notebook.notes.append(f"{where} is not Python{_line_of_error(piece)}; it is left out of {file}, and the rest is graded.")
        return
    notebook.files[file] = notebook.files.get(file, "") + _ended(piece)


def _code_cells(raw: bytes) -> Iterator[tuple[int, str, frozenset[str]]]:
    """(number from 1 over all cells, source, tags) of each code cell."""
    import nbformat.reader  # takes a quarter of a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a notebook's form lacks doesn't matter to its source
        # nbformat.reads would validate, which takes long and tells nothing about sources
        tree: Any = nbformat.convert(nbformat.reader.reads(raw.decode("utf-8-sig")), 4)
    for number, cell in enumerate(tree.get("cells", []), 1):
        if cell.get("cell_type") == "code":
            source = cell.get("source", "")
            tags = cell.get("metadata", {}).get("tags", [])
            yield number, source if isinstance(source, str) else "".join(map(str, source)), frozenset(map(str, tags))


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _line_of_error(source: str) -> str:
    try:
        ast.parse(source)
    except SyntaxError as error:
        return f" (its line {error.lineno}: {error.msg})"
    except (ValueError, RecursionError, MemoryError):
        pass
    return ""
