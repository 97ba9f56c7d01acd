"""One zygote for all of the wire's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grader.wire.launch import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    started = Ranks()
    yield started
    started.close()
