"""What assignment.yaml says of a race: the form of its text, and what types cannot say of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec

from grader.records import Race

Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]
Need = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$")]
Sentence = Annotated[str, msgspec.Meta(pattern=r"\S")]
Ratio = Annotated[float, msgspec.Meta(gt=0)]


class RaceText(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of `races:`; the fields are those of `records.Race`."""

    id: Word
    claim: Sentence
    track: Word
    against: Word
    marks: Annotated[int, msgspec.Meta(ge=0)]
    none_at: Ratio
    full_at: Ratio
    why: Sentence
    needs: list[Need] = []
    parameters: dict[str, Any] = {}
    pretended: dict[str, Any] = {}
    ranks: Annotated[int, msgspec.Meta(ge=1)] = 1
    environment: dict[Annotated[str, msgspec.Meta(pattern=r"^NCCL_[A-Z0-9_]+$")], str] = {}


def find_wrong(races: Sequence[RaceText], laws: Collection[str]) -> tuple[str, str] | None:
    """The `$.path` and sentence of the first thing that is wrong; `laws` are the assignment's, as <task>.<claim>."""
    first: dict[str, int] = {}
    for i, race in enumerate(races):
        if (before := first.setdefault(race.id, i)) != i:
            return f"$.races[{i}].id", f"{race.id!r} stands at `$.races[{before}].id` already; expected a name of its own"
        if race.none_at >= race.full_at:
            return f"$.races[{i}].full_at", f"{race.full_at} is not above none_at, {race.none_at}"
        for j, need in enumerate(race.needs):
            if need not in laws:
                return f"$.races[{i}].needs[{j}]", f"no law is called {need!r}; expected <task>.<claim>"
    return None


def to_race(assignment: str, text: RaceText) -> Race:
    """The record, with full names."""
    fields = msgspec.structs.asdict(text)
    return Race(**fields | {"id": f"{assignment}.{text.id}", "needs": tuple(f"{assignment}.{need}" for need in text.needs)})
