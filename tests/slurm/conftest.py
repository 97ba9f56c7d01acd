"""The small course and its class, as in the other tests of batches."""

from __future__ import annotations

from tests.grader.batch.conftest import course, handed

__all__ = ["course", "handed"]
