"""Leaks, planted one by one into the real bundle: each is found where it was put."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course import Course
from grader.regions import find
from grader.release import Bundle, leaks_in, scan
from grader.release.leaks import TELLING
from grader.release.secrets import Secrets, _add_course_secret, reduced

ROOT = Path(__file__).resolve().parents[3]


def line_of(bundle: Bundle, home: str, least: int = 60) -> str:
    """The first telling line of a file that is a secret."""
    for line in (ROOT / home).read_text(encoding="utf-8").splitlines():
        if len(reduced(line)) >= least and reduced(line) in bundle.secrets.lines:
            return line
    raise AssertionError(f"{home} has no telling line")


def region() -> str:
    """The first whole region of the collectives' solution."""
    return "\n".join(find((ROOT / "solutions/collectives.py").read_text(), "solutions/collectives.py")[0].body)


def cell(**fields: object) -> bytes:
    """A notebook with one cell."""
    filled = {"cell_type": "code", "id": "a", "metadata": {}, "source": [], "outputs": [], "execution_count": None} | fields
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [filled]}).encode()


def zipped(name: str, content: bytes) -> bytes:
    """A zip with one file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


SOLUTION, HIDDEN = "solutions/data_parallel.py", "tests/hidden/test_collectives.py"
MUTANT = sorted((ROOT / "tests/mutants/data_parallel").glob("*.py"))[0].relative_to(ROOT).as_posix()
VARIANT = "tests/variants/data_parallel/another_hand.py"
Plant = Callable[[Bundle], tuple[str, bytes]]


def added(path: str, home: str, shape: str = "{}") -> Plant:
    """A telling line of `home`, in a shape, at the end of one of the bundle's files."""
    return lambda bundle: (path, bundle.files[path] + shape.format(line_of(bundle, home)).encode() + b"\n")


PLANTS: dict[str, Plant] = {
    "a solution's line in a handout": added("assignments/data_parallel/handout.md", SOLUTION),
    "in a comment of the starter": added("starter/data_parallel.py", SOLUTION, "# {}"),
    "in the grader": added("grader/score.py", SOLUTION),
    "in a probe": added("tests/probes/data_parallel.py", SOLUTION),
    "in README, quoted": added("README.md", SOLUTION, "> `{}`"),
    "in the workflow": added(".github/workflows/classroom.yml", SOLUTION, "# {}"),
    "with other spaces": lambda bundle: ("LICENSE", re.sub(r" +", "   ", line_of(bundle, SOLUTION)).encode()),
    "broken over lines": lambda bundle: ("LICENSE", line_of(bundle, SOLUTION).strip().replace(" ", "\n").encode()),
    "a whole region among other code": lambda bundle: ("grader/score.py", bundle.files["grader/score.py"] + region().encode()),
    "a hidden case in a public file": added("tests/public/test_collectives.py", HIDDEN),
    "a hidden case in the changelog": added("CHANGELOG.md", HIDDEN, "- tests: {}"),
    "a mutant's line": added("datasets/corpora.py", MUTANT),
    "an unusual answer's line": added("starter/train.py", VARIANT),
    "a mutant's name": lambda bundle: ("LICENSE", f"not like {Path(MUTANT).name}".encode()),
    "a notebook's output": lambda bundle: ("notebooks/collectives.ipynb", cell(outputs=[{"output_type": "stream", "text": ["0.5"]}])),
    "a notebook's metadata": lambda bundle: ("notebooks/collectives.ipynb", cell(metadata={"solution": "yes"})),
    "a notebook's attachment": lambda bundle: ("notebooks/collectives.ipynb", cell(attachments={"a.png": {"image/png": "AAAA"}})),
    "a notebook's cell": lambda bundle: ("notebooks/collectives.ipynb", cell(source=[line_of(bundle, SOLUTION) + "\n"])),
    "a compiled cache": lambda bundle: ("grader/__pycache__/score.cpython-312.pyc", b"\0" + line_of(bundle, SOLUTION).encode() + b"\0"),
    "a grading's leavings": lambda bundle: (".grade/latest/staff.json", b"[]"),
    "in a zip": lambda bundle: ("datasets/more.bin", zipped("a.txt", line_of(bundle, SOLUTION).encode())),
    "in base64": lambda bundle: ("datasets/README.md", base64.b64encode(line_of(bundle, SOLUTION).encode())),
    "in gzip": lambda bundle: ("datasets/more.bin", gzip.compress(line_of(bundle, HIDDEN).encode())),
    "in UTF-16": lambda bundle: ("datasets/README.md", line_of(bundle, SOLUTION).encode("utf-16")),
    "in JSON": lambda bundle: ("grader/report/report.schema.json", json.dumps({"a": [line_of(bundle, SOLUTION)]}).encode()),
    "a file that nobody allowed": lambda bundle: ("notes.txt", b"nothing"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_found(bundle: Bundle, plant: str) -> None:
    """Where it was put, and nowhere else."""
    path, content = PLANTS[plant](bundle)
    leaks = scan({"Makefile": bundle.files["Makefile"], path: content}, bundle.secrets, allowed=bundle.files.keys())
    assert leaks and all(leak.path.startswith(path) for leak in leaks)


def test_at_least_twenty_kinds_are_planted() -> None:
    """The count that the course claims."""
    assert len(PLANTS) >= 20


def test_a_finding_says_line_and_home(bundle: Bundle) -> None:
    """Enough to go there and take it out."""
    line = line_of(bundle, SOLUTION)
    (leak,) = scan({"LICENSE": b"one\ntwo\n" + line.encode()}, bundle.secrets)
    assert (leak.path, leak.line) == ("LICENSE", 3) and SOLUTION in str(leak) and "region" in str(leak)


def test_short_lines_that_everybody_writes_are_no_leak(bundle: Bundle) -> None:
    """An idiom in the grader's code is one; a run of a solution's short lines is not."""
    short = [s.text for s in bundle.secrets.lines.values() if len(s.text) < TELLING and "solutions/" in s.what]
    assert scan({"grader/score.py": short[0].encode()}, bundle.secrets) == []
    assert scan({"README.md": short[0].encode()}, bundle.secrets)


@pytest.mark.parametrize("form", ["plain", "hex", "base64"])
def test_the_secret_behind_hidden_seeds_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """As it is, in hex and in base64."""
    secret = b"0123456789abcdef-of-this-year"
    (tmp_path / "secret").write_bytes(secret)
    monkeypatch.setenv("GRADER_SECRET_FILE", str(tmp_path / "secret"))
    secrets = Secrets()
    _add_course_secret(secrets)
    told = {"plain": secret, "hex": secret.hex().encode(), "base64": base64.b64encode(secret)}[form]
    (leak,) = dict.fromkeys(leak.what for leak in scan({"grader/cli.py": b"KEY = '" + told + b"'"}, secrets))
    assert "hidden cases' seeds" in leak


def test_history_is_read_too(course: Course, bundle: Bundle, tmp_path: Path, unpack: Callable[..., Path]) -> None:
    """A line that was committed and taken out again, or stands in a commit's message, is found; without it the clone is clean."""
    clone = unpack(tmp_path / "clone")

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], cwd=clone, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "the bundle")
    assert leaks_in(course, clone, bundle) == []
    (clone / "LICENSE").write_text(line_of(bundle, SOLUTION))
    git("commit", "-q", "-am", "oops")
    (clone / "LICENSE").write_bytes(bundle.files["LICENSE"])
    git("commit", "-q", "-am", f"mend: {line_of(bundle, HIDDEN)}")
    assert {leak.path.split("/")[1] for leak in leaks_in(course, clone, bundle)} == {"blob", "commit"}
