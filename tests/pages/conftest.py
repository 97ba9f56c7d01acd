"""One browser for all pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pages.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser
