"""How the layers lie on the pipeline ranks, in what order each rank works, and how long it all takes.

GPipe, and 1F1B whose last stage has the most to do, have a closed form: every stage once, and the slowest once more for each further
micro-batch. So has the interleaved schedule with equal stages. Everything else is played, action by action.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from grader.schedules import BACKWARD, FORWARD, Action, Schedule, published_depth
from grader.simulator.records import Model, Plan

Seconds = Sequence[float]
MOST_PLAYED = 4  # micro-batches per pipeline rank; by then each further one costs the same, and the rest is added


def num_stages(plan: Plan) -> int:
    """Pieces of the model: stage s lies on rank s mod pp."""
    return plan.pp * plan.chunks


def stage_layers(model: Model, plan: Plan) -> tuple[int, ...]:
    """Layers of each stage. What doesn't divide goes to the stages behind the first: the ends have embedding and head."""
    return _split(model.num_layers, num_stages(plan))


def layers_of(model: Model, plan: Plan, rank: int) -> int:
    """Layers of all stages on `rank`."""
    return _on_rank(model.num_layers, plan.pp, plan.chunks, rank)


@lru_cache(maxsize=1024)
def _split(num_layers: int, stages: int) -> tuple[int, ...]:
    each, over = divmod(num_layers, stages)
    more = range(1, over + 1) if over < stages - 1 else range(over)
    return tuple(each + (stage in more) for stage in range(stages))


@lru_cache(maxsize=4096)
def _on_rank(num_layers: int, num_ranks: int, chunks: int, rank: int) -> int:
    return sum(_split(num_layers, num_ranks * chunks)[rank::num_ranks])


def depth_in_chunks(plan: Plan, rank: int) -> int:
    """Forwards of chunks on `rank` whose backward hasn't ended, at most."""
    return published_depth(plan.schedule, rank, plan.pp, plan.num_micro_batches, plan.chunks)


def schedule_of(name: str, num_ranks: int, num_micro_batches: int, chunks: int) -> Schedule:
    """Each rank's order of work."""
    return tuple(_order(name, rank, num_ranks, num_micro_batches, chunks) for rank in range(num_ranks))


def _order(name: str, rank: int, num_ranks: int, num_micro_batches: int, chunks: int) -> tuple[Action, ...]:
    # Groups of P micro-batches go through a rank's first chunk, then through its second; backward through the last chunk first.
    groups = range(0, num_micro_batches, num_ranks) if chunks > 1 else range(num_micro_batches)
    in_group = num_ranks if chunks > 1 else 1
    turns = [(chunk, first + place) for first in groups for chunk in range(chunks) for place in range(in_group)]
    forwards = [Action(FORWARD, chunk * num_ranks + rank, micro_batch) for chunk, micro_batch in turns]
    backwards = [Action(BACKWARD, (chunks - 1 - chunk) * num_ranks + rank, micro_batch) for chunk, micro_batch in turns]
    ahead = published_depth(name, rank, num_ranks, num_micro_batches, chunks) - 1
    order = forwards[:ahead]
    for forward, backward in zip(forwards[ahead:], backwards, strict=False):
        order += [forward, backward]
    return (*order, *backwards[len(forwards) - ahead :])


def pipeline_s(plan: Plan, forward_s: Seconds, backward_s: Seconds) -> float:
    """From the first forward to the last backward; seconds of each stage and micro-batch, messages included."""
    exact_s = closed_form_s(plan, forward_s, backward_s)
    return exact_s if exact_s is not None else _played_s(plan, tuple(forward_s), tuple(backward_s))


def closed_form_s(plan: Plan, forward_s: Seconds, backward_s: Seconds) -> float | None:
    """What `pipeline_s` is, if a formula says it exactly; else None."""
    further = plan.num_micro_batches - 1
    if plan.schedule == "gpipe":
        return sum(forward_s) + sum(backward_s) + further * (max(forward_s) + max(backward_s))
    both_s = [forward + backward for forward, backward in zip(forward_s, backward_s, strict=True)]
    if plan.schedule == "1f1b":
        return sum(both_s) + further * both_s[-1] if both_s[-1] >= max(both_s) else None
    equal = max(forward_s) == min(forward_s) and max(backward_s) == min(backward_s)
    return (plan.num_micro_batches * plan.chunks + plan.pp - 1) * both_s[0] if equal else None


def at_least_s(plan: Plan, forward_s: Seconds, backward_s: Seconds) -> float:
    """A bound below `pipeline_s`, at no cost: a rank does all its work, after the way to it and before the way back."""
    ways_s = before_s = 0.0
    for rank in range(plan.pp):
        busy_s = plan.num_micro_batches * (sum(forward_s[rank :: plan.pp]) + sum(backward_s[rank :: plan.pp]))
        ways_s = max(ways_s, before_s + busy_s)
        before_s += forward_s[rank] + backward_s[rank]
    return ways_s


@lru_cache(maxsize=256)
def _played_s(plan: Plan, forward_s: tuple[float, ...], backward_s: tuple[float, ...]) -> float:
    played = min(plan.num_micro_batches, MOST_PLAYED * plan.pp)
    step = plan.pp if plan.chunks > 1 else 1

    def play(num_micro_batches: int) -> float:
        return played_s(schedule_of(plan.schedule, plan.pp, num_micro_batches, plan.chunks), forward_s, backward_s)

    end_s = play(played)
    if played == plan.num_micro_batches:
        return end_s
    return end_s + (plan.num_micro_batches - played) // step * (end_s - play(played - step))


def played_s(schedule: Schedule, forward_s: Seconds, backward_s: Seconds) -> float:
    """When the last action of a valid schedule ends: `grader.schedules.simulate` without its explanations, and far faster."""
    last = len(forward_s) - 1
    done_s: dict[tuple[str, int, int], float] = {}
    reached, clock_s = [0] * len(schedule), [0.0] * len(schedule)
    left = sum(map(len, schedule))
    while left:
        for rank, actions in enumerate(schedule):
            while reached[rank] < len(actions):
                action = actions[reached[rank]]
                kind, stage, micro_batch = action
                if kind == FORWARD:
                    ready_s = done_s.get((FORWARD, stage - 1, micro_batch)) if stage else 0.0
                else:
                    needed = (BACKWARD, stage + 1, micro_batch) if stage < last else (FORWARD, stage, micro_batch)
                    ready_s = done_s.get(needed)
                if ready_s is None:
                    break
                end_s = max(clock_s[rank], ready_s) + (forward_s if kind == FORWARD else backward_s)[stage]
                done_s[action] = clock_s[rank] = end_s
                reached[rank] += 1
                left -= 1
    return max(clock_s)
