"""Roster and hand-ins → the roll: everybody whose work is to be graded or is missing, each of them once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.batch.layouts import Found, HandIn
from grader.batch.people import Person, Roster


@dataclass(frozen=True, slots=True)
class Entry:
    """One student: what was handed in, or why nothing can be graded."""

    person: Person
    hand_in: HandIn | None = None
    refusal: str = ""  # two hand-ins, of which nobody has said which one counts


def call(found: Found, roster: Roster | None) -> tuple[list[Entry], list[str]]:
    """Match what was handed in with the people of `roster`; what an instructor should know comes as sentences.

    Without a roster students are who the platform says they are. Whoever is not on the roster is graded all the same.
    """
    remarks = list(roster.remarks if roster else ())
    remarks += [f"{name} is no part of a {found.layout} download: not graded." for name in found.ignored]
    by_student: dict[str, tuple[Person, list[HandIn]]] = {}
    taken = {person.id for person in roster.people} if roster else set()
    for hand_in in found.hand_ins:
        for meant in hand_in.by:
            person, doubt = roster.find(meant) if roster else (meant, "")
            if person is None:
                person = replace(meant, id=f"{meant.id} (not on the roster)") if meant.id in taken else meant
                remarks.append(f"{hand_in.path.name}: {meant.name or meant.id} {doubt}; graded as {person.id!r}.")
            by_student.setdefault(person.id, (person, []))[1].append(hand_in)
    entries = [_entry(person, hand_ins) for person, hand_ins in by_student.values()]
    missing = [Entry(person) for person in roster.people if person.id not in by_student] if roster else []
    return sorted([*entries, *missing], key=lambda entry: entry.person.id), remarks


def _entry(person: Person, hand_ins: list[HandIn]) -> Entry:
    """The latest of several, where the platform says when each came; else an instructor has to choose."""
    latest = sorted(hand_ins, key=lambda each: each.submitted)[-1]
    if len(hand_ins) > 1 and len({each.submitted for each in hand_ins}) < len(hand_ins):
        names = " and ".join(sorted(each.path.name for each in hand_ins))
        return Entry(person, latest, f"{person.id} has handed in {names}, and nothing says which one counts: leave one of them there.")
    return Entry(person, latest)
