"""Notebooks: which cells become which file, and what is said of those that can't."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.records import Assignment, Submission

Take, Pack, Write = Callable[..., Submission], Callable[..., Path], Callable[..., bytes]
TWO = Assignment("two", 2, "Two files", ("first.py", "second.py"), ())


def text(submission: Submission, file: str = "rings.py") -> str:
    """The graded text, "" if there is none."""
    path = Path(submission.folder) / file
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.parametrize(
    "head",
    [
        "%%writefile rings.py",
        "%%writefile starter/rings.py",
        "%%file 'rings.py'",
        '\n%%writefile  "a b/rings.py" ',
        "%%writefile -a rings.py",
    ],
)
def test_a_cell_that_writes_the_file_is_the_file(take: Take, pack: Pack, notebook: Write, head: str) -> None:
    """In whatever folder, quoted or not; the same text as a file has the same hash."""
    folder = pack("folder", {"work.ipynb": notebook("import torch", f"{head}\nx = 1\n", "%%writefile other.py\ny = 2")})
    submission = take(folder)
    assert text(submission) == "x = 1\n" and submission.notes == ()
    assert submission.hash == take(pack("folder", {"rings.py": b"x = 1\n"})).hash == take(folder / "work.ipynb").hash


def test_the_last_cell_wins_and_appending_appends(take: Take, pack: Pack, notebook: Write) -> None:
    """As when the cells are run from top to bottom."""
    cells = ["%%writefile rings.py\nold = 1", "%%writefile rings.py\nx = 1", "%%writefile --append rings.py\ny = 2"]
    assert text(take(pack("folder", {"work.ipynb": notebook(*cells)}))) == "x = 1\ny = 2\n"


def test_tagged_cells_are_joined(take: Take, pack: Pack, notebook: Write) -> None:
    """By the file's name or its stem; untagged cells stay out, and a notebook's own commands are taken out and named."""
    last = ("y = '''\n%s\n'''", ["rings"])
    cells = [("import torch", ["rings"]), "x = 0", ("!pip install it\n%time f()\nx = 1", ["rings.py", "other"]), last]
    submission = take(pack("folder", {"work.ipynb": notebook(*cells)}))
    assert text(submission) == "import torch\nx = 1\ny = '''\n%s\n'''\n"
    (note,) = submission.notes
    assert note.startswith("work.ipynb, cell 3: lines that are a notebook's own commands")


def test_a_broken_cell_is_left_out_with_its_number(take: Take, pack: Pack, notebook: Write) -> None:
    """The other cells and the other files are graded."""
    cells = [("def f(:", ["rings"]), ("x = 1", ["rings"])]
    submission = take(pack("folder", {"work.ipynb": notebook(*cells)}))
    assert text(submission) == "x = 1\n"
    assert submission.notes[0].startswith("work.ipynb, cell 1 is not Python (its line 1: ")
    folder = pack("folder", {"first.py": b"x = 1\n", "work.ipynb": notebook("%%writefile second.py\ndef f(:")})
    assert sorted(take(folder, TWO).files) == ["first.py", "second.py"]


def test_a_file_beside_the_notebook_goes_first(take: Take, pack: Pack, notebook: Write) -> None:
    """Where the file itself was handed in, the cells are not asked."""
    folder = pack("folder", {"rings.py": b"x = 1\n", "work.ipynb": notebook("%%writefile rings.py\nx = 2")})
    assert text(take(folder)) == "x = 1\n"


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
def test_notebooks_come_in_archives_and_folders_too(take: Take, pack: Pack, notebook: Write, kind: str) -> None:
    """Wrapped in a folder, with checkpoints beside it."""
    files = {"a/work.ipynb": notebook("%%writefile rings.py\nx = 1"), "a/.ipynb_checkpoints/work-checkpoint.ipynb": notebook("old")}
    assert text(take(pack(kind, files))) == "x = 1\n"


def test_two_notebooks_with_one_file_are_named(take: Take, pack: Pack, notebook: Write) -> None:
    """Nobody guesses which was meant."""
    folder = pack("folder", {name: notebook(f"%%writefile rings.py\nx = '{name}'") for name in ("a.ipynb", "b.ipynb")})
    submission = take(folder)
    assert submission.files == {} and submission.notes[0].startswith("rings.py is in a.ipynb and in b.ipynb: hand in one of them.")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty: save the notebook"),
        (b" \n", "is empty: save the notebook"),
        (b"{", "can't be read as a notebook (NotJSONError"),
        (b"[]", "can't be read as a notebook"),
        (b"\xff\xfe\x00", "can't be read as a notebook (UnicodeDecodeError"),
        (b'{"nbformat": 99, "cells": []}', "can't be read as a notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', "No cell of work.ipynb gives rings.py: begin the cell with"),
        (b"[" * 100_000, "can't be read as a notebook"),
    ],
)
def test_a_notebook_without_an_answer_says_what_to_do(take: Take, pack: Pack, raw: bytes, words: str) -> None:
    """Empty, damaged or without the cell: an empty submission with a sentence, and other files are graded."""
    submission = take(pack("folder", {"work.ipynb": raw}))
    assert submission.files == {} and words in submission.notes[0]
    assert list(take(pack("folder", {"work.ipynb": raw, "first.py": b""}), TWO).files) == ["first.py"]


def test_an_older_form_of_notebook_is_read(take: Take, pack: Pack) -> None:
    """Version 3 keeps its cells in worksheets."""
    cell = {"cell_type": "code", "input": ["%%writefile rings.py\n", "x = 1"], "language": "python", "metadata": {}, "outputs": []}
    tree = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [cell], "metadata": {}}]}
    assert text(take(pack("folder", {"work.ipynb": json.dumps(tree).encode()}))) == "x = 1\n"


def test_text_that_no_file_can_hold_is_graded(take: Take, pack: Pack, notebook: Write) -> None:
    """Half a surrogate pair in a cell ends in text, not in a crash."""
    submission = take(pack("folder", {"work.ipynb": notebook("%%writefile rings.py\nx = '\ud800'")}))
    assert list(submission.files) == ["rings.py"]
