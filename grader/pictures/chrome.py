"""A run in the trace format of Chrome and Perfetto: what `grader trace` writes. One unit of the picture's virtual time is a millisecond."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from grader.errors import UsageError
from grader.pictures.timeline import play
from grader.pictures.words import describe
from grader.records import Outcome, Request
from grader.report.files import PUBLIC, write
from grader.store import STORE_NAME, Store
from grader.wire.virtual_time import Span

UNIT_US = 1000.0
PROGRAM, OUT, IN, GROUPS = 0, 1, 2, 3  # rows of a rank
ROWS = {PROGRAM: "program", OUT: "sends", IN: "receives", GROUPS: "collectives"}


def write_trace(out: Path, key: str, to: Path | None) -> Path:
    """Write the trace of the observation `key` of the run folder `out`; UsageError if there is none, or nothing in it to see."""
    if not (out / STORE_NAME).is_file():
        raise UsageError(f"{out} holds no observations; grade first, or name the run folder with --out")
    with closing(Store(out / STORE_NAME)) as store:
        found = store.observation(key)
    if found is None:
        raise UsageError(f"no single observation in {out} has a key that begins with {key!r}; a failure prints the key after `debug`")
    tree = to_trace(*found)
    if tree is None:
        raise UsageError("in this observation nothing was sent, and no computation declared: there is nothing to trace")
    path = to or out / f"trace-{key[:12]}.json"
    write(path, json.dumps(tree, allow_nan=False) + "\n", PUBLIC)
    return path


def to_trace(request: Request, outcome: Outcome) -> dict[str, Any] | None:
    """The trace as JSON values: a process for each rank, arrows between what met. None where `play` has nothing to show."""
    played = play(request, outcome)
    if played is None:
        return None
    events: list[dict[str, Any]] = []
    for rank in range(request.world_size):
        events.append({"ph": "M", "pid": rank, "tid": 0, "name": "process_name", "args": {"name": f"rank {rank}"}})
        events += [{"ph": "M", "pid": rank, "tid": row, "name": "thread_name", "args": {"name": name}} for row, name in ROWS.items()]
        lane = played.timeline.lanes.get(rank, ())
        for span in lane:
            events.append(_complete(rank, _row(span), span, span.name, played.unit_s))
            events += _arrows(rank, span, played.unit_s)
        for span in played.timeline.waits.get(rank, ()):
            events.append(_complete(rank, PROGRAM, span, f"waits for {span.name}", played.unit_s))
        if rank in played.stuck:
            last_s = max((span.end_s for span in lane), default=0.0)
            for_ever = Span(last_s, last_s + played.unit_s, "", False, played.stuck[rank])
            events.append(_complete(rank, PROGRAM, for_ever, "waits for ever", played.unit_s))
    about = {"probe": request.probe, "world_size": request.world_size, "network": played.network}
    about["fault"] = outcome.fault.sentence if outcome.fault else ""
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _complete(rank: int, row: int, span: Span, name: str, unit_s: float) -> dict[str, Any]:
    event = span.event
    arguments = {"call": describe(event), "bytes": event.num_bytes, "phase": event.phase, "at": event.at} if event is not None else {}
    return {"ph": "X", "pid": rank, "tid": row, "name": name, "cat": "compute" if span.is_compute else "communication",
            "ts": span.start_s / unit_s * UNIT_US, "dur": (span.end_s - span.start_s) / unit_s * UNIT_US, "args": arguments}  # fmt: skip


def _row(span: Span) -> int:
    return PROGRAM if span.is_compute else {"send": OUT, "recv": IN}.get(span.name, GROUPS)


def _arrows(rank: int, span: Span, unit_s: float) -> list[dict[str, Any]]:
    """From a send to its receive."""
    if span.event is None or span.name not in ("send", "recv"):
        return []
    common = {"pid": rank, "tid": _row(span), "id": span.event.match, "name": "message", "cat": "communication"}
    if span.name == "send":
        return [common | {"ph": "s", "ts": span.start_s / unit_s * UNIT_US}]
    return [common | {"ph": "f", "bp": "e", "ts": span.end_s / unit_s * UNIT_US}]
