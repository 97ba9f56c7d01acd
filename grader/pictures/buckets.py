"""Buckets against backward: a step of data parallelism as it ran, as it would run at best, and with nothing behind computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.pictures.canvas import ROW, THIN, Picture, Scale
from grader.pictures.timeline import play
from grader.records import Outcome, Request
from grader.wire.virtual_time import Span

RANK = 0  # every rank does the same
NAME_WIDTH = 110.0


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to run the step, in the picture's units: (start, end, what) of what the rank computes and what the network carries."""

    name: str
    computes: list[tuple[float, float, str]]
    carries: list[tuple[float, float, str]]

    @property
    def end(self) -> float:
        return max(stop for _, stop, _ in (*self.computes, *self.carries))


def draw(request: Request, outcome: Outcome) -> Picture | None:
    """The last step of a run whose layers, named by the parameter `layers`, declare their costs; None where nothing of it was reduced."""
    phase = next((event.phase for event in reversed(outcome.events) if event.kind == "compute"), None)
    played = play(request, outcome, phase) if phase is not None else None
    if played is None or played.stuck:
        return None
    lane = played.timeline.lanes.get(RANK, ())
    computes, reduces = ([span for span in lane if span.is_compute == wanted] for wanted in (True, False))
    layer_bytes = [request.input_of(name, RANK).spec.num_bytes for name in request.parameters["layers"]]
    if len(computes) != 2 * len(layer_bytes) or not reduces:
        return None
    ran = _Way("as it ran", [_told(span, played.unit_s) for span in computes], [_told(span, played.unit_s) for span in reduces])
    best = _at_best(ran, [span.event.num_bytes if span.event else 0 for span in reduces], layer_bytes)
    apart = _in_turn(best)
    return _drawn((ran, best, apart), played.network)


def _told(span: Span, unit_s: float) -> tuple[float, float, str]:
    words = span.name if span.is_compute or span.event is None else f"{span.name} of {span.event.num_bytes:,} bytes"
    return span.start_s / unit_s, span.end_s / unit_s, words


def _at_best(ran: _Way, bucket_bytes: Sequence[int], layer_bytes: Sequence[int]) -> _Way:
    """Nothing waits in computing, and a bucket leaves as soon as backward, which begins with the last layer, has made its bytes."""
    clock, computes = 0.0, []
    for start, stop, words in ran.computes:
        computes.append((clock, clock + stop - start, words))
        clock += stop - start
    made, so_far = [], 0
    for (_, stop, _), num_bytes in zip(computes[-len(layer_bytes) :], reversed(layer_bytes), strict=True):
        so_far += num_bytes
        made.append((so_far, stop))
    free, needed, carries = 0.0, 0, []
    for (start, stop, words), num_bytes in zip(ran.carries, bucket_bytes, strict=True):
        needed += num_bytes
        begin = max(free, next((at for so_far, at in made if so_far >= needed), clock))
        free = begin + stop - start
        carries.append((begin, free, words))
    return _Way("at best", computes, carries)


def _in_turn(best: _Way) -> _Way:
    """The same messages, the first of them after all of backward."""
    clock = max(stop for _, stop, _ in best.computes)
    carries = []
    for start, stop, words in best.carries:
        carries.append((clock, clock + stop - start, words))
        clock += stop - start
    return _Way("no overlap", best.computes, carries)


def _drawn(ways: tuple[_Way, _Way, _Way], network: str) -> Picture:
    scale = Scale(max(way.end for way in ways), NAME_WIDTH)
    picture = Picture(network, _summary(*ways), columns=("way", "from", "to", "what"), left=NAME_WIDTH)
    picture.legend = {"compute0": "forward", "compute1": "backward", "collective": "a bucket on the network"}
    for way in ways:
        top = picture.group(way.name, ROW + THIN)
        for start, stop, words in way.computes:
            style, label = "compute1" if words.startswith("backward") else "compute0", words.split("_")[-1]
            picture.bar(scale(start), (stop - start) * scale.unit, top, ROW, style, label, f"{words}, {start:.3g} to {stop:.3g}")
        for start, stop, words in way.carries:
            picture.bar(scale(start), (stop - start) * scale.unit, top + ROW, THIN, "collective", "", f"{words}, {start:.3g} to {stop:.3g}")
        for start, stop, words in (*way.computes, *way.carries):
            picture.rows.append((way.name, f"{start:.3g}", f"{stop:.3g}", words))
    picture.ticks = scale.ticks()
    picture.marks = [(scale(ways[1].end), f"{ways[1].end:.3g}: the end at best")]
    return picture.close()


def _summary(ran: _Way, best: _Way, apart: _Way) -> str:
    on_the_way = sum(stop - start for start, stop, _ in ran.carries)
    computing = best.computes[-1][1]
    hidden = 1 - (ran.end - computing) / on_the_way if on_the_way else 1.0
    return (
        f"The step took {ran.end:.3g} units; {best.end:.3g} at best with these buckets, {apart.end:.3g} with nothing behind computing. "
        f"Of {on_the_way:.3g} units of communication {max(0.0, hidden):.0%} were hidden."
    )
