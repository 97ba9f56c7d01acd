"""Which failures have one cause, and in what order they are told: what explains most comes first, what may follow from it is named only.

A guess that decides no mark: every law keeps its own message in report.json.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

from grader.records import NOT_STARTED, AssignmentMark, LawMark, Message

PLACE = re.compile(r"[\w.]+\.py:\d+")
EXPLAINS = ("not_waited", "changed_in_flight", "raised", "crashed", "exited", "memory", "mismatch", "deadlock")  # most of all first
ONLY_FOLLOWS = ("lost_peer", "cpu_limit", "silent", "idle")  # kinds that say how a run ended, and seldom why
NO_KIND = len(EXPLAINS)


@dataclass(slots=True)
class Cause:
    """Laws that fail for one reason."""

    laws: list[LawMark]  # the first is explained, the others fail the same way
    followers: list[LawMark] = field(default_factory=list)  # of the same task: what they show may come of it

    @property
    def message(self) -> Message:
        return _message(self.laws[0])

    @property
    def weight(self) -> int:
        """0 explains most."""
        kind = self.message.kind
        if kind in EXPLAINS:
            return EXPLAINS.index(kind)
        return NO_KIND + (1 if kind in ONLY_FOLLOWS else 0 if self.message.diagnosis or self.laws[0].verdict == "error" else 2)


def causes_of(assignment: AssignmentMark) -> list[Cause]:
    """Laws that failed or could not be judged through an error, by what they have in common; stubs are no cause."""
    equal: dict[Hashable, list[LawMark]] = {}
    for law in assignment.laws():
        if law.verdict in ("failed", "error") and law.message and law.message.diagnosis != NOT_STARTED:
            equal.setdefault((law.message.seen, law.message.where, law.message.diagnosis), []).append(law)
    found: dict[Hashable, Cause] = {}
    for laws in equal.values():
        found.setdefault(_common(laws[0]), Cause([])).laws.extend(laws)
    told: list[Cause] = []
    strong: dict[str, Cause] = {}  # by task
    for cause in sorted(found.values(), key=lambda cause: cause.weight):
        tasks = {_task(law) for law in cause.laws}
        if cause.weight < NO_KIND:
            strong = dict.fromkeys(tasks, cause) | strong
        if cause.weight > NO_KIND and len(tasks & strong.keys()) == 1 == len(tasks) and not any(map(_is_hidden, cause.laws)):
            strong[tasks.pop()].followers += cause.laws
        else:
            told.append(cause)
    return told


def _common(law: LawMark) -> Hashable:
    """What laws with one cause have in common: kind and lines of the submission, or a task and what its failure means."""
    message = _message(law)
    if law.verdict == "failed" and not _is_hidden(law):
        places = frozenset(PLACE.findall(f"{message.seen} {message.where}"))
        if message.kind and places and not message.diagnosis:
            return message.kind, places
        if message.diagnosis:
            return _task(law), message.diagnosis
    return message.seen, message.where, message.diagnosis


def _is_hidden(law: LawMark) -> bool:
    """Whether its message is a hidden case's, which tells the case's kind and hardly more."""
    return any(case.hidden for case in law.cases if case.message == law.message)


def _task(law: LawMark) -> str:
    return law.id.rpartition(".")[0]


def _message(law: LawMark) -> Message:
    return law.message or Message(seen="")
