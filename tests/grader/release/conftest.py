"""The bundle of today's course, built once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course import Course, load
from grader.release import Bundle, bundle_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def course() -> Course:
    return load(ROOT)


@pytest.fixture(scope="session")
def bundle(course: Course) -> Bundle:
    return bundle_of(course)


@pytest.fixture
def unpack(bundle: Bundle) -> Callable[..., Path]:
    """Put the bundle's files, changed as asked (None: left out), into a folder."""

    def unpacked(folder: Path, **changes: bytes | None) -> Path:
        for path, content in (bundle.files | changes).items():
            if content is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        return folder

    return unpacked
