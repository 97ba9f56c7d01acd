"""What tests share that judge a course of their own: laying it out, processes for a module, a submission of one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from grader.course import Course, load
from grader.observe.live import Runs
from grader.pipeline import opened_runs

Submit = Callable[[str], Path]


def laid_out(root: Path, written: Mapping[str, str]) -> Course:
    """The course whose files are `written`, by their paths, in the folder `root`."""
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return load(root)


def submitting(folder: Path, file: str) -> Submit:
    """Writes a source as the only file of `folder`, and returns the folder."""

    def submit(source: str) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / file).write_text(source)
        return folder

    return submit


@pytest.fixture(scope="module")
def runs(course: Course) -> Iterator[Runs]:
    """The same processes for all of a module."""
    with opened_runs(course.root, None) as opened:
        yield opened
