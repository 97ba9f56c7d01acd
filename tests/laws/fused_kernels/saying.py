"""What a failure is about, in its diagnosis: of a hidden case a student sees the claim, the kind of case and the diagnosis."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from grader.errors import LawBroken


@contextlib.contextmanager
def about(words: str) -> Iterator[None]:
    """Put `words` before the diagnosis of whatever is broken inside."""
    try:
        yield
    except LawBroken as broken:
        raise LawBroken(replace(broken.message, diagnosis=f"In question: {words}. {broken.message.diagnosis}".strip())) from None
