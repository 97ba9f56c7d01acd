"""Is a schedule valid: complete, ordered, free of deadlock, and without overtaking on any link?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from grader.schedules.actions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    KINDS,
    Action,
    Schedule,
    message_of,
)
from grader.schedules.simulate import Deadlock, equal_costs, simulate

Sort = Literal["ranks", "missing", "twice", "unknown", "misplaced", "order", "deadlock", "overtaking"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a schedule is not valid. rank: -1 where it concerns no single one."""

    sort: Sort
    sentence: str
    rank: int = -1


def check(schedule: Schedule, num_ranks: int, num_micro_batches: int, chunks: int = 1) -> tuple[Finding, ...]:
    """Everything that is wrong with it; () if it is valid. Stage s belongs to rank s mod num_ranks.

    A stage's backward of a micro-batch is one B, or one I and one W. Deadlock and overtaking are only looked for in what is complete.
    """
    if len(schedule) != num_ranks:
        return (Finding("ranks", f"The schedule has lists for {len(schedule)} ranks; expected {num_ranks}."),)
    findings = (*_completeness(schedule, num_micro_batches, num_ranks * chunks), *_order(schedule))
    if findings:
        return findings
    return (*_deadlock(schedule, num_ranks * chunks), *_overtaking(schedule, num_ranks * chunks))


# --- complete --------------------------------------------------------------------------------------------------------
def _completeness(schedule: Schedule, num_micro_batches: int, num_stages: int) -> Iterator[Finding]:
    num_ranks = len(schedule)
    seen = Counter(action for actions in schedule for action in actions)
    for rank, actions in enumerate(schedule):
        for action in actions:
            if action.kind not in KINDS or not 0 <= action.stage < num_stages or not 0 <= action.micro_batch < num_micro_batches:
                there = f"there are {num_stages} stages and {num_micro_batches} micro-batches, both counted from 0"
                yield Finding("unknown", f"Rank {rank} has {action}; {there}.", rank)
            elif action.stage % num_ranks != rank:
                home = action.stage % num_ranks
                yield Finding("misplaced", f"Rank {rank} has {action}; stage {action.stage} lives on rank {home}.", rank)
    for action, count in seen.items():
        if count > 1:
            yield Finding("twice", f"{action} is there {count} times; expected once.", action.stage % num_ranks)
    for stage in range(num_stages):
        for micro_batch in range(num_micro_batches):
            yield from _missing(seen, stage, micro_batch, stage % num_ranks)


def _missing(seen: Counter[Action], stage: int, micro_batch: int, rank: int) -> Iterator[Finding]:
    of = {kind: seen[Action(kind, stage, micro_batch)] > 0 for kind in KINDS}
    if not of[FORWARD]:
        yield Finding("missing", f"Rank {rank} lacks {Action(FORWARD, stage, micro_batch)}.", rank)
    if of[BACKWARD] and (of[BACKWARD_INPUT] or of[BACKWARD_WEIGHT]):
        yield Finding("twice", f"Stage {stage} has both a whole and a split backward of micro-batch {micro_batch}.", rank)
    if not (of[BACKWARD] or of[BACKWARD_INPUT] or of[BACKWARD_WEIGHT]):
        yield Finding("missing", f"Rank {rank} lacks the backward of stage {stage}, micro-batch {micro_batch}.", rank)
    elif of[BACKWARD_INPUT] != of[BACKWARD_WEIGHT]:
        lacking = BACKWARD_WEIGHT if of[BACKWARD_INPUT] else BACKWARD_INPUT
        yield Finding("missing", f"Rank {rank} lacks {Action(lacking, stage, micro_batch)}.", rank)


# --- ordered ---------------------------------------------------------------------------------------------------------
def _order(schedule: Schedule) -> Iterator[Finding]:
    """On each rank forward before backward, and I before W."""
    before = {BACKWARD: FORWARD, BACKWARD_INPUT: FORWARD, BACKWARD_WEIGHT: BACKWARD_INPUT}
    for rank, actions in enumerate(schedule):
        done: set[Action] = set()
        for action in actions:
            done.add(action)
            first = before.get(action.kind)
            if first and Action(first, action.stage, action.micro_batch) not in done:
                own = Action(first, action.stage, action.micro_batch)
                if own in actions:  # else it is missing, and said already
                    yield Finding("order", f"Rank {rank} has {action} before {own}.", rank)


# --- free of deadlock, and without overtaking ------------------------------------------------------------------------
def _deadlock(schedule: Schedule, num_stages: int) -> Iterator[Finding]:
    try:
        simulate(schedule, equal_costs(num_stages, F=1, B=1, I=1, W=1), num_stages=num_stages)
    except Deadlock as deadlock:
        for rank, sentence in zip(deadlock.stuck, deadlock.sentences, strict=True):
            yield Finding("deadlock", sentence, rank)


def _overtaking(schedule: Schedule, num_stages: int) -> Iterator[Finding]:
    """Messages of a kind, from one rank to another, are taken in the order in which they are made."""
    num_ranks = len(schedule)
    made: dict[tuple[str, int, int], list[Action]] = defaultdict(list)  # kind, from, to
    taken: dict[tuple[str, int, int], list[Action]] = defaultdict(list)
    for rank, actions in enumerate(schedule):
        for action in actions:
            if message := message_of(action, num_stages):
                taken[message.kind, message.stage % num_ranks, rank].append(message)
            if action.kind != BACKWARD_WEIGHT:
                kind, step = (FORWARD, 1) if action.kind == FORWARD else (BACKWARD, -1)
                if 0 <= action.stage + step < num_stages:
                    made[kind, rank, (action.stage + step) % num_ranks].append(Action(kind, action.stage, action.micro_batch))
    for link, messages in taken.items():
        for sent, received in zip(made[link], messages, strict=True):
            if sent != received:
                what = "activation" if link[0] == FORWARD else "gradient"
                said = f"Rank {link[2]} takes the {what} of {received} where rank {link[1]} sends that of {sent}."
                yield Finding("overtaking", said, link[2])
                break
