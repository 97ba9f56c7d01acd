"""Schedules that the judge hands in as data: written out, or any valid one, drawn by lot."""

from __future__ import annotations

from collections import deque

import numpy as np

from grader.schedules import Action, Schedule, to_rows

# One forward, one backward, as drawn in the handout: four ranks, eight micro-batches; and two ranks, three.
FOUR_RANKS = """
F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7
F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7
F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7
F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7
"""
TWO_RANKS = """
F0 F1 B0 F2 B1 B2
F0 B0 F1 B1 F2 B2
"""
# All forwards, then all backwards, last micro-batch first.
REVERSED = """
F0 F1 F2 B2 B1 B0
F0 F1 F2 B2 B1 B0
F0 F1 F2 B2 B1 B0
"""
# Two stages per rank.
TWO_CHUNKS = """
F0@0 F1@0 F0@2 F1@2 B0@2 B1@2 B0@0 B1@0
F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 B0@1 B1@1
"""


def schedule_of(text: str) -> Schedule:
    """The schedule of such lines: F0 is the forward of micro-batch 0 on the rank's only stage, F0@2 that of stage 2."""
    return tuple(tuple(action_of(word, rank) for word in line.split()) for rank, line in enumerate(text.strip().splitlines()))


def action_of(word: str, rank: int) -> Action:
    """One word of a line."""
    micro_batch, _, stage = word[1:].partition("@")
    return Action(word[0], int(stage or rank), int(micro_batch))


def rows_of(text: str) -> list[list[list[object]]]:
    """The plain data of such lines."""
    return to_rows(schedule_of(text))


def one_by_one(num_ranks: int, num_micro_batches: int, chunks: int = 1) -> Schedule:
    """Each micro-batch goes forward and back before the next one begins: one in flight, and a large bubble."""
    way = [("F", chunk) for chunk in range(chunks)] + [("B", chunk) for chunk in reversed(range(chunks))]
    return tuple(
        tuple(Action(kind, chunk * num_ranks + rank, micro_batch) for micro_batch in range(num_micro_batches) for kind, chunk in way)
        for rank in range(num_ranks)
    )


def any_schedule(seed: int, num_ranks: int, num_micro_batches: int, chunks: int = 1) -> Schedule:
    """A valid schedule drawn by lot: again and again some rank does something that it could do. Micro-batches begin in any order.

    A message waits in its link's queue, and only the first of a queue can be taken: nothing overtakes.
    """
    rng = np.random.default_rng(seed)
    last = num_ranks * chunks - 1
    schedule: list[list[Action]] = [[] for _ in range(num_ranks)]
    to_begin = deque(Action("F", 0, int(micro_batch)) for micro_batch in rng.permutation(num_micro_batches))
    queues: dict[tuple[str, int, int], deque[Action]] = {("F", -1, 0): to_begin}
    while waiting := [queue for queue in queues.values() if queue]:
        action = waiting[rng.integers(len(waiting))].popleft()
        kind, stage, micro_batch = action
        schedule[stage % num_ranks].append(action)
        step = 1 if kind == "F" else -1
        follower = Action("B", last, micro_batch) if kind == "F" and stage == last else Action(kind, stage + step, micro_batch)
        if follower.stage >= 0:
            link = (follower.kind, stage % num_ranks if follower.stage != stage else -1, follower.stage % num_ranks)
            queues.setdefault(link, deque()).append(follower)
    return tuple(map(tuple, schedule))
