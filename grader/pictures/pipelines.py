"""Pipelines: a schedule as a submission made it, and a run beside what its schedule promises."""

from __future__ import annotations

from collections.abc import Iterable

from grader.pictures.canvas import ROW, THIN, Picture, Scale
from grader.pictures.timeline import MOST_BARS
from grader.records import Event, Outcome, Request
from grader.schedules import Timeline, depth, equal_costs, from_rows, num_stages_of, published_bubble, published_depth, simulate
from grader.wire.virtual_time import evaluate

SECONDS = {"F": 1, "B": 2, "I": 1, "W": 1}  # a backward is twice a forward, and half of it is for the weights
STYLES = {"F": "compute0", "B": "compute1", "I": "compute2", "W": "compute3"}
WORDS = {"F": "forward", "B": "backward", "I": "backward, for the inputs", "W": "backward, for the weights"}
PUBLISHED = {"gpipe": "gpipe", "one_f_one_b": "1f1b", "interleaved_one_f_one_b": "interleaved", "zero_bubble": "zb-h1"}
NAME_WIDTH = 145.0


def draw_schedule(request: Request, outcome: Outcome) -> Picture | None:
    """The widest schedule of the run that can be read, each action on its rank, with bubble and depth as they are and as published."""
    name = PUBLISHED[request.parameters["function"]]
    pairs = zip(request.parameters["cases"], outcome.ranks[0].facts["schedules"], strict=True)
    drawable = [(case, from_rows(rows)) for case, rows in pairs if case[0] <= 4 and sum(map(len, rows)) <= MOST_BARS]
    if not drawable:
        return None
    case, schedule = max(drawable, key=lambda each: (each[0][0], sum(map(len, each[1]))))
    num_ranks, num_micro_batches, chunks = (*case, 1)[:3]
    played = simulate(schedule, equal_costs(num_stages_of(schedule), **SECONDS))
    bubble = published_bubble(name, num_ranks, num_micro_batches, chunks, **SECONDS)
    expected = [published_depth(name, rank, num_ranks, num_micro_batches, chunks) for rank in range(num_ranks)]
    depths = ", ".join(f"{depth(actions)} ({most})" for actions, most in zip(schedule, expected, strict=True))
    told = (
        f"{num_ranks} ranks, {num_micro_batches} micro-batches{f', {chunks} stages on each rank' if chunks > 1 else ''}. Bubble "
        f"{float(played.bubble_fraction):.1%} of the time, published {float(bubble):.1%}. "
        f"Most in flight by rank, published in brackets: {depths}."
    )
    picture = Picture("A forward takes 1, a backward 2, messages nothing. Numbers are those of micro-batches.", told, left=NAME_WIDTH)
    scale = Scale(float(played.end_s), NAME_WIDTH)
    for rank in range(num_ranks):
        top = picture.group(f"rank {rank}, depth {depth(schedule[rank])}", ROW)
        _bars(picture, scale, rank, top, ROW, _planned(played, rank), "")
    picture.ticks = scale.ticks()
    return picture.close()


def draw_run(request: Request, outcome: Outcome) -> Picture | None:
    """The last run of a schedule whose actions declare their costs, above what the schedule takes if ranks never hinder each other."""
    computes = [event for event in outcome.events if event.kind == "compute" and event.cost_s > 0]
    if not computes:
        return None
    schedule = from_rows(request.parameters["schedule"])
    unit_s = sum(event.cost_s for event in computes) / len(computes)
    events = [event for event in outcome.events if event.phase == computes[-1].phase]
    ran = evaluate(events, 0.0, float("inf"), rendezvous=request.network.rendezvous)
    plan = simulate(schedule, _costs(computes, num_stages_of(schedule)))
    end = max(ran.end_s, float(plan.end_s)) / unit_s
    bubble = sum(ran.idle_fraction(rank) for rank in range(len(schedule))) / len(schedule)
    summary = (
        f"The run took {ran.end_s / unit_s:.3g} units and its bubble is {bubble:.1%}; as planned {float(plan.end_s) / unit_s:.3g} units "
        f"and {float(plan.bubble_fraction):.1%}. Most in flight by rank: {', '.join(str(depth(actions)) for actions in schedule)}."
    )
    caption = "Above as it ran, below as planned; a unit is the mean of the declared computations, and messages take none."
    picture, scale = Picture(caption, summary, left=NAME_WIDTH), Scale(end, NAME_WIDTH)
    for rank in range(len(schedule)):
        top = picture.group(f"rank {rank}, depth {depth(schedule[rank])}", ROW + THIN)
        spans = [(s.start_s / unit_s, s.end_s / unit_s, s.name) for s in ran.lanes.get(rank, ()) if s.is_compute]
        _bars(picture, scale, rank, top, ROW, spans, "ran: ")
        _bars(picture, scale, rank, top + ROW, THIN, ((a / unit_s, b / unit_s, name) for a, b, name in _planned(plan, rank)), "planned: ")
    picture.ticks = scale.ticks()
    picture.marks = [(scale(float(plan.end_s) / unit_s), f"{float(plan.end_s) / unit_s:.3g}: the end as planned")]
    return picture.close()


def _planned(timeline: Timeline, rank: int) -> Iterable[tuple[float, float, str]]:
    for span in timeline.lanes[rank]:
        yield float(span.start_s), float(span.end_s), f"{span.action.kind} {span.action.stage} {span.action.micro_batch}"


def _costs(computes: Iterable[Event], num_stages: int) -> dict[str, list[float]]:
    """What each kind of action was declared to cost on each stage."""
    costs: dict[str, list[float]] = {}
    for event in computes:
        kind, stage, _ = event.name.split()
        costs.setdefault(kind, [0.0] * num_stages)[int(stage)] = event.cost_s
    return costs


def _bars(picture: Picture, scale: Scale, rank: int, y: float, height: float, spans: Iterable[tuple[float, float, str]], way: str) -> None:
    for start, stop, name in spans:
        kind, stage, micro_batch = name.split()
        picture.legend.setdefault(STYLES[kind], WORDS[kind])
        words = f"{way}{WORDS[kind]} of micro-batch {micro_batch} on stage {stage}"
        label = micro_batch if height == ROW else ""
        picture.bar(scale(start), (stop - start) * scale.unit, y, height, STYLES[kind], label, f"{words}, {start:.3g} to {stop:.3g}")
        picture.rows.append((str(rank), f"{start:.3g}", f"{stop:.3g}", words))
