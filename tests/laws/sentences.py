"""How a broken law is said."""

from __future__ import annotations

from grader.errors import LawBroken
from grader.records import Message


def broken(seen: str, allowed: str, diagnosis: str = "", suggestion: str = "", where: str = "") -> LawBroken:
    """A judgement: what was seen, what was expected, what it suggests, what to try."""
    return LawBroken(Message(seen=seen, allowed=allowed, where=where, diagnosis=diagnosis, suggestion=suggestion))
