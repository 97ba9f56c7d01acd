"""How a schedule is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from grader.schedules import Action

MOST_DRAWN = 40


def drawn(schedule: Sequence[Sequence[Action]]) -> str:
    """A line for each rank: F3 is the forward of micro-batch 3; with several stages per rank, F3@5 that of stage 5."""
    has_chunks = any(action.stage >= len(schedule) for actions in schedule for action in actions)
    return "\n".join(f"rank {rank}: {line(actions, has_chunks)}" for rank, actions in enumerate(schedule))


def line(actions: Sequence[Action], has_chunks: bool) -> str:
    """One rank's actions in a line."""
    words = [f"{kind}{micro_batch}@{stage}" if has_chunks else f"{kind}{micro_batch}" for kind, stage, micro_batch in actions]
    return " ".join(words[:MOST_DRAWN] + ["…"] * (len(words) > MOST_DRAWN))
