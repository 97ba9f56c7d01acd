"""A kernel that did not compile: the compiler's sentence, and what to try."""

from __future__ import annotations

from typing import Any

from grader.errors import LawBroken
from grader.records import Message

# What stands in the compiler's sentence, and what it asks for; "" stands in all.
MEANINGS = {
    "Cannot access global variable": "Put the number inside the kernel, or pass it as a tl.constexpr argument.",
    "": "The interpreter is more lenient than the compiler about types, shapes and control flow.",
}


def judge_it_compiles(kernel: dict[str, Any]) -> None:
    """Raise LawBroken if the fact of a launch is an error instead of what the kernel needs on its chip."""
    error = kernel.get("error")
    if error is not None:
        suggestion = next(words for part, words in MEANINGS.items() if part in error)
        raise LawBroken(Message(seen=f"On sm_{kernel['capability']}: {error}.", suggestion=suggestion))
