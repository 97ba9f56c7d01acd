"""A message in which nothing is said twice: a fault's sentence spells out the ranks that it lists once more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grader.records import Message

RANK = re.compile(r"(rank \d+) (.+)")
BETWEEN = re.compile(r"(?:[;,.\s]|and \d+ more\b)*")


def said_once(message: Message) -> Message:
    """`message` with each line of `where` in one place: there, if `seen` ends with several of them; else not again behind `seen`."""
    lines = [line for line in message.where.split("\n") if line.strip()]
    in_all = "\n".join(_likewise(lines))
    start = message.seen.find(lines[0]) if len(lines) > 1 else -1
    if start > 0:
        rest = message.seen[start:]
        for line in sorted(lines, key=len, reverse=True):
            rest = rest.replace(line, "")
        if BETWEEN.fullmatch(rest):
            head = message.seen[:start].rstrip(" :;")
            seen = f"{head}: no rank comes any further:" if head.endswith("deadlock") else f"{head}:"
            return replace(message, seen=seen, where=in_all)
    others = [line for line in lines if line.strip().rstrip(".") not in message.seen]
    same = [line for line in others if (found := RANK.match(line)) and found[2].rstrip(".") in message.seen]
    first = [f"likewise {', '.join(map(_rank, same))}"] if same else []
    return replace(message, where="\n".join([*first, *_likewise([line for line in others if line not in same])]))


def _likewise(lines: Sequence[str]) -> list[str]:
    """Ranks of which the same is said, in one line."""
    alike: dict[str, list[str]] = {}
    for line in lines:
        found = RANK.match(line)
        alike.setdefault(found[2] if found else line, []).append(line)
    return [f"{_rank(same[0])} (likewise {', '.join(map(_rank, same[1:]))}) {text}" if len(same) > 1 else same[0]
            for text, same in alike.items()]  # fmt: skip


def _rank(line: str) -> str:
    found = RANK.match(line)
    return found[1] if found else line
