"""What a schedule is made of. It crosses a seam as rows of plain data: [kind, stage, micro-batch] in a list for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = "F", "B", "I", "W"
KINDS = (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)


class Action(NamedTuple):
    """One computation of one stage for one micro-batch. A whole backward is B; split in two it is I, then W."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}(stage {self.stage}, micro-batch {self.micro_batch})"


Schedule = tuple[tuple[Action, ...], ...]  # schedule[rank]: in the rank's order


def from_rows(rows: Sequence[Sequence[Sequence[Any]]]) -> Schedule:
    """A schedule of plain data; ValueError, with a sentence, if a row is no action."""
    return tuple(tuple(_action(rank, row) for row in actions) for rank, actions in enumerate(rows))


def to_rows(schedule: Sequence[Sequence[Action]]) -> list[list[list[Any]]]:
    """The plain data of a schedule, as it is stored and sent."""
    return [[[kind, stage, micro_batch] for kind, stage, micro_batch in actions] for actions in schedule]


def _action(rank: int, row: Sequence[Any]) -> Action:
    is_action = len(row) == 3 and row[0] in KINDS and all(type(number) is int and number >= 0 for number in row[1:])
    if not is_action:
        raise ValueError(f"On rank {rank}, {list(row)} is no action: expected a kind of {', '.join(KINDS)}, a stage and a micro-batch.")
    return Action(*row)


def num_stages_of(schedule: Sequence[Sequence[Action]]) -> int:
    """How many stages there are, as far as the schedule tells: one more than the highest."""
    return 1 + max((action.stage for actions in schedule for action in actions), default=-1)


def needs(action: Action, num_stages: int) -> tuple[tuple[Action, ...], ...]:
    """What must be done before `action`; of each group one is enough, since a gradient comes from a B or from an I."""
    kind, stage, micro_batch = action
    if kind == FORWARD:
        return ((Action(FORWARD, stage - 1, micro_batch),),) if stage else ()
    if kind == BACKWARD_WEIGHT:
        return ((Action(BACKWARD_INPUT, stage, micro_batch),),)
    own = (Action(FORWARD, stage, micro_batch),)
    if stage == num_stages - 1:
        return (own,)
    return own, tuple(Action(half, stage + 1, micro_batch) for half in (BACKWARD, BACKWARD_INPUT))


def message_of(action: Action, num_stages: int) -> Action | None:
    """The action of a neighbouring stage whose result `action` takes, said with the kinds F and B; None if it takes nothing."""
    kind, stage, micro_batch = action
    if kind == FORWARD:
        return Action(FORWARD, stage - 1, micro_batch) if stage else None
    if kind == BACKWARD_WEIGHT or stage == num_stages - 1:
        return None
    return Action(BACKWARD, stage + 1, micro_batch)
