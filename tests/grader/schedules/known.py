"""The published schedules as these tests write them, and what makes a schedule invalid."""

from __future__ import annotations

from grader.schedules import Action, Schedule


def gpipe(num_ranks: int, num_micro_batches: int) -> Schedule:
    """All forwards, then all backwards."""
    return tuple(tuple(Action(kind, r, m) for kind in "FB" for m in range(num_micro_batches)) for r in range(num_ranks))


def one_f_one_b(num_ranks: int, num_micro_batches: int) -> Schedule:
    """The k-th backward of rank r stands behind its forward k + P - 1 - r, or behind the last."""
    schedule = []
    for r in range(num_ranks):
        placed = [(m, 0, Action("F", r, m)) for m in range(num_micro_batches)]
        placed += [(min(m + num_ranks - 1 - r, num_micro_batches - 1), 1, Action("B", r, m)) for m in range(num_micro_batches)]
        schedule.append(tuple(action for _, _, action in sorted(placed)))
    return tuple(schedule)


def interleaved(num_ranks: int, num_micro_batches: int, chunks: int) -> Schedule:
    """Megatron-LM's order; its k-th backward stands behind forward k + 2(P - 1 - r) + (V - 1)P, or behind the last."""
    block, num_each = num_ranks * chunks, num_micro_batches * chunks
    schedule = []
    for r in range(num_ranks):
        warm_up = 2 * (num_ranks - 1 - r) + (chunks - 1) * num_ranks
        placed = []
        for k in range(num_each):
            chunk, m = k % block // num_ranks, k // block * num_ranks + k % num_ranks
            placed.append((k, 0, k, Action("F", chunk * num_ranks + r, m)))
            placed.append((min(k + warm_up, num_each - 1), 1, k, Action("B", (chunks - 1 - chunk) * num_ranks + r, m)))
        schedule.append(tuple(action for *_, action in sorted(placed)))
    return tuple(schedule)


def text_of(*lines: str) -> Schedule:
    """One stage per rank: "F0 B0" is the forward, then the backward of micro-batch 0."""
    return tuple(tuple(Action(word[0], rank, int(word[1:])) for word in line.split()) for rank, line in enumerate(lines))
