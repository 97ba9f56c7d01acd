"""What the tests of intake share: ways to pack files, and to see what comes of them."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.intake import intake
from grader.records import Assignment, Submission

RINGS = Assignment("rings", 1, "Rings", ("rings.py",), ())


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., Submission]:
    """Take in what lies at a path, each time into a new folder."""
    numbers = itertools.count()

    def taken(path: Path, assignment: Assignment = RINGS) -> Submission:
        return intake(assignment, path, into=tmp_path / f"copy-{next(numbers)}")

    return taken


@pytest.fixture
def pack(tmp_path: Path) -> Callable[..., Path]:
    """Write files in one of the ways in which they are handed in: "folder", "zip", "tar" or "tar.gz"."""
    numbers = itertools.count()

    def packed(kind: str, files: dict[str, bytes], name: str = "") -> Path:
        path = tmp_path / (name or f"work-{next(numbers)}" + ("" if kind == "folder" else f".{kind}"))
        if kind == "folder":
            path.mkdir()
            for file, content in files.items():
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                (path / file).write_bytes(content)
        elif kind == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for file, content in files.items():
                    archive.writestr(file, content)
        else:
            with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as archive:
                for file, content in files.items():
                    member = tarfile.TarInfo(file)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        return path

    return packed


@pytest.fixture
def notebook() -> Callable[..., bytes]:
    """A notebook of code cells; a cell is its source, or its source and its tags."""

    def written(*cells: str | tuple[str, list[str]]) -> bytes:
        tree = []
        for number, cell in enumerate(cells):
            source, tags = cell if isinstance(cell, tuple) else (cell, [])
            tree.append({"cell_type": "code", "id": f"c{number}", "metadata": {"tags": tags}, "execution_count": number,
                         "source": source.splitlines(keepends=True), "outputs": []})  # fmt: skip
        return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": tree}).encode()

    return written
