"""What the laws of gpipe, one_f_one_b, interleaved and zero_bubble mean: a schedule is judged as data, by grader.schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from grader.schedules import (
    Finding,
    Schedule,
    check,
    depth,
    equal_costs,
    from_rows,
    num_stages_of,
    published_bubble,
    published_depth,
    simulate,
)
from tests.laws.pipeline_parallel.drawing import drawn
from tests.laws.sentences import broken

Cases = list[list[int]]  # P, M and, where there are several stages per rank, V
GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE = "gpipe", "one_f_one_b", "interleaved_one_f_one_b", "zero_bubble"
PUBLISHED = {GPIPE: "gpipe", ONE_F_ONE_B: "1f1b", INTERLEAVED: "interleaved", ZERO_BUBBLE: "zb-h1"}
KINDS = {GPIPE: "FB", ONE_F_ONE_B: "FB", INTERLEAVED: "FB", ZERO_BUBBLE: "FIW"}
COSTS = ({"F": 1, "B": 2}, {"F": 1, "B": 1}, {"F": 3, "B": 4})
STANDSTILL = ("deadlock", "overtaking")
MOST_NAMED = 3
NO_DEVICE = "a schedule is made on the host"


def run_schedules(observe: Any, function: str, cases: Cases, **case: Any) -> Any:
    """What the submission's `function` returns for each of the cases."""
    return observe("schedules", world_size=1, transport="none", host=NO_DEVICE, function=function, cases=cases, **case)


def plans(seen: Any) -> Iterator[tuple[str, Schedule, list[int]]]:
    """(how it was asked for, the schedule, [P, M, V]) of every case; LawBroken if it isn't even a schedule."""
    function = seen.request.parameters["function"]
    for arguments, rows in zip(seen.request.parameters["cases"], seen.facts(0)["schedules"], strict=True):
        call = f"{function}({', '.join(map(str, arguments))})"
        if rows == "ValueError":
            raise broken(f"{call} raises ValueError.", "Expected: a schedule.", "These numbers are allowed.")
        try:
            schedule = from_rows(rows)
        except ValueError as problem:
            raise broken(f"{call}: {problem}", "Expected: lists of Action(kind, stage, micro_batch), one for each rank.") from problem
        others = sorted({action.kind for actions in schedule for action in actions} - set(KINDS[function]))
        if others:
            raise broken(f"{call} has actions of kind {', '.join(others)}.", f"Expected: only {', '.join(KINDS[function])}.")
        yield call, schedule, [*arguments, 1][:3]


def split(findings: Sequence[Finding], *, standstill: bool) -> list[Finding]:
    """Those that keep the schedule from coming to its end, or the others."""
    return [finding for finding in findings if (finding.sort in STANDSTILL) == standstill]


DIAGNOSES = {
    "ranks": "One list for each rank, also where M < P.",
    "missing": "Something is left out. At the end of warm-up, or in the last part?",
    "twice": "Something is done twice.",
    "unknown": "A stage or a micro-batch that doesn't exist: is the warm-up limited by M?",
    "misplaced": "Stage s lives on rank s mod P.",
    "order": "A backward needs the graph of its own forward: forward first.",
    "deadlock": "The ranks wait for each other: a deadlock. Draw who waits for whom.",
    "overtaking": "A message overtakes another: both ends of a link must have the same order.",
}


def refuse(call: str, schedule: Schedule, findings: Sequence[Finding]) -> None:
    """Raise what is wrong with a schedule, if anything is."""
    if not findings:
        return
    named = " ".join(finding.sentence for finding in findings[:MOST_NAMED])
    more = f" And {len(findings) - MOST_NAMED} more." if len(findings) > MOST_NAMED else ""
    raise broken(
        f"{call}: {named}{more}",
        "Expected: a valid schedule (section 2 of the handout).",
        DIAGNOSES[findings[0].sort],
        "Print the schedule, a line for each rank, and follow micro-batch 0 down and up again.",
        where=drawn(schedule),
    )


def judge_completeness(seen: Any) -> None:
    """Everything that must be there is there, once, on its rank, forward before backward."""
    for call, schedule, case in plans(seen):
        refuse(call, schedule, split(check(schedule, *case), standstill=False))


def judge_progress(seen: Any) -> None:
    """No rank waits for ever, no message overtakes another."""
    for call, schedule, case in plans(seen):
        refuse(call, schedule, check(schedule, *case))


def judge_forwards_first(seen: Any) -> None:
    """On each rank, no backward before a forward."""
    for call, schedule, _ in plans(seen):
        for rank, actions in enumerate(schedule):
            kinds = [action.kind for action in actions]
            if kinds != sorted(kinds, reverse=True):
                raise broken(
                    f"{call}: on rank {rank} a backward stands before a forward.",
                    "Expected: all forwards first.",
                    "That is 1F1B or something of the kind." if kinds[:2] == ["F", "B"] or "F" in kinds[kinds.index("B") :] else "",
                    where=drawn(schedule),
                )


def judge_depth(seen: Any) -> None:
    """No rank keeps more micro-batches than the published schedule."""
    function = seen.request.parameters["function"]
    for call, schedule, (num_ranks, num_micro_batches, chunks) in plans(seen):
        for rank, actions in enumerate(schedule):
            allowed = published_depth(PUBLISHED[function], rank, num_ranks, num_micro_batches, chunks)
            if (kept := depth(actions)) <= allowed:
                continue
            of = "micro-batches" if chunks == 1 else "pairs of stage and micro-batch"
            diagnosis = f"{kept - allowed} more than needed in flight. Which forward of rank {rank} is earlier than it must be?"
            if kept == num_micro_batches * chunks:
                diagnosis = "All of them: these are GPipe's forwards, all before the first backward."
            elif function == ONE_F_ONE_B and kept == min(num_micro_batches, num_ranks):
                diagnosis = "Every rank warms up like rank 0; rank r needs r forwards less."
            raise broken(f"{call}: on rank {rank}, {kept} {of} are in flight.", f"Allowed: {allowed}.", diagnosis,
                         "The warm-up of rank r depends on how many ranks are behind it.", where=drawn(schedule))  # fmt: skip


def judge_bubble(seen: Any) -> None:
    """Idle over total is no more than what was published, whatever forward and backward cost."""
    function = seen.request.parameters["function"]
    for call, schedule, (num_ranks, num_micro_batches, chunks) in plans(seen):
        refuse(call, schedule, check(schedule, num_ranks, num_micro_batches, chunks))
        published = published_bubble(PUBLISHED[function], num_ranks, num_micro_batches, chunks)
        for costs in ({"F": 1, "I": 1, "W": 1},) if function == ZERO_BUBBLE else COSTS:
            timeline = simulate(schedule, equal_costs(num_stages_of(schedule), **costs))
            bubble = Fraction(timeline.bubble_fraction)
            if bubble > published:
                spoken = ", ".join(f"{kind} = {cost_s}" for kind, cost_s in costs.items())
                raise broken(
                    f"{call}: with {spoken}, the bubble is {bubble} = {float(bubble):.3f} of the total; the step takes {timeline.end_s}.",
                    f"Expected: at most {published} = {float(published):.3f}.",
                    suspect(function, bubble, num_ranks, num_micro_batches, chunks),
                    "Where does a rank wait although another order of its own actions would give it something to do?",
                    where=drawn(schedule),
                )


def suspect(function: str, bubble: Fraction, num_ranks: int, num_micro_batches: int, chunks: int) -> str:
    """What such a bubble suggests."""
    if bubble == Fraction(num_ranks - 1, num_ranks):
        return "The bubble is too large, and this is no pipeline: only one rank works at a time."
    if chunks > 1 and bubble == published_bubble("1f1b", num_ranks, num_micro_batches):
        return "The bubble is too large: as with one stage per rank. Do the chunks follow each other as one?"
    if function == ZERO_BUBBLE and bubble >= Fraction(2 * (num_ranks - 1), 3 * num_micro_batches + 2 * (num_ranks - 1)):
        return "The bubble is too large: no BACKWARD_WEIGHT fills a gap, so nothing is won by the halves."
    return "The bubble is too large: somebody waits for a neighbour that could have been earlier."


def judge_refusals(seen: Any) -> None:
    """Each case is refused by ValueError."""
    for arguments, answer in zip(seen.request.parameters["cases"], seen.facts(0)["schedules"], strict=True):
        if answer != "ValueError":
            call = f"{seen.request.parameters['function']}({', '.join(map(str, arguments))})"
            raise broken(f"{call} returns a schedule.", "Expected: ValueError.", f"{arguments[1]} is no multiple of {arguments[0]}.",
                         "Refuse at the beginning what the order of the micro-batches can't be made for.")  # fmt: skip
