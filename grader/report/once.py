"""A message in which nothing is said twice: a fault's sentence spells out the ranks that it lists once more."""

from __future__ import annotations

import re
from dataclasses import replace

from grader.records import Message

BETWEEN = re.compile(r"(?:[;,.\s]|and \d+ more\b)*")


def said_once(message: Message) -> Message:
    """`message` with each line of `where` in one place: there, if `seen` ends with several of them; else not again behind `seen`."""
    lines = [line for line in message.where.split("\n") if line.strip()]
    start = message.seen.find(lines[0]) if len(lines) > 1 else -1
    if start > 0:
        rest = message.seen[start:]
        for line in sorted(lines, key=len, reverse=True):
            rest = rest.replace(line, "")
        if BETWEEN.fullmatch(rest):
            head = message.seen[:start].rstrip(" :;")
            return replace(message, seen=f"{head}: no rank comes any further:" if head.endswith("deadlock") else f"{head}:")
    return replace(message, where="\n".join(line for line in lines if line.strip().rstrip(".") not in message.seen))
