"""Bytes that nobody foresaw: intake gives a submission or one sentence, and never anything else."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.errors import UsageError
from grader.intake import intake
from grader.intake.notebook import read_notebook
from grader.records import Assignment, Submission

RINGS = Assignment("rings", 1, "Rings", ("rings.py",), ())
PLAIN = b"def f():\n    return 1\n" * 20
FEW = settings(max_examples=60, deadline=None, derandomize=True)


def an_archive(kind: str) -> bytes:
    """A right archive to damage."""
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/rings.py", PLAIN)
            archive.writestr("a/notes.txt", b"notes")
    else:
        with tarfile.open(fileobj=stream, mode="w:gz" if kind == "tar.gz" else "w", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo("a/é/rings.py")
            member.size = len(PLAIN)
            archive.addfile(member, io.BytesIO(PLAIN))
    return stream.getvalue()


def taken(raw: bytes, name: str) -> Submission | None:
    """What comes of a file with these bytes; None if it was refused in words."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(raw)
        try:
            return intake(RINGS, Path(folder) / name, into=Path(folder) / "copy")
        except UsageError as refusal:
            assert str(refusal).strip()
            return None


@FEW
@given(st.sampled_from(["zip", "tar", "tar.gz"]), st.data())
def test_a_damaged_archive_is_graded_or_refused(kind: str, data: st.DataObject) -> None:
    """Some bytes changed, some missing: the true text is graded, or a sentence says why nothing is."""
    raw = bytearray(an_archive(kind))
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=6)):
        raw[place] = data.draw(st.integers(0, 255))
    submission = taken(bytes(raw[: data.draw(st.integers(0, len(raw)))]) if data.draw(st.booleans()) else bytes(raw), f"work.{kind}")
    assert submission is None or set(submission.files) <= {"rings.py"}


@FEW
@given(st.binary(max_size=300), st.sampled_from(["work.zip", "work.tar", "work.tar.gz", "rings.py", "work.ipynb", "work"]))
@example(b"PK\5\6" + bytes(18), "work.zip")
@example(b"\x1f\x8b\x08\0", "work.tar.gz")
def test_any_bytes_under_any_name_are_graded_or_refused(raw: bytes, name: str) -> None:
    """Whatever a file is called."""
    submission = taken(raw, name)
    assert submission is None or set(submission.files) <= {"rings.py"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SOURCES = st.text(max_size=30).map("%%writefile rings.py\n".__add__) | st.lists(st.text(max_size=9), max_size=3) | JSON
CELLS = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", 3]), "source": SOURCES},
    optional={"metadata": st.fixed_dictionaries({"tags": st.lists(st.sampled_from(["rings", "rings.py"])) | JSON}) | JSON, "outputs": JSON},
)


@FEW
@given(st.lists(CELLS | JSON, max_size=5) | JSON, st.sampled_from([4, 3, 2, 0, None, "4"]))
def test_any_tree_is_read_as_a_notebook_or_named(cells: Any, version: Any) -> None:
    """Nothing is raised, whatever stands where cells, sources or tags belong."""
    tree = {"nbformat": version, "nbformat_minor": 5, "metadata": {}, "cells": cells, "worksheets": [{"cells": cells}]}
    read = read_notebook(json.dumps(tree).encode(), "work.ipynb", ["rings.py"])
    assert set(read.files) <= {"rings.py"} and all(isinstance(note, str) for note in read.notes)
