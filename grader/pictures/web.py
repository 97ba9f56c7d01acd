"""report.html: a grading as one page that needs no network and no script, made from the report and the store."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grader.pictures import canvas, cells, standoff, studies, timeline
from grader.pictures.words import Sources
from grader.records import AssignmentMark, CaseVerdict, LawMark, Message, Outcome, Report, Request
from grader.report.causes import causes_of
from grader.report.files import PAGE, PUBLIC, write
from grader.report.once import said_once
from grader.report.page import CONTROL
from grader.report.selection import headline, is_unasked, standing
from grader.report.terminal import COMMANDS, LABELS, SIGNS, is_not_started, slowest, where_time_went, which_cases
from grader.store import Store

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).with_name("templates")
NUM_DRAWN = 8  # failures of a page whose runs are drawn: more would make it slow, and the last are seldom what to begin with
NUM_OPEN = 3  # failures of an assignment whose pictures stand open; the others wait for a click
SHORT = 12  # letters of a key in a command
VERDICTS = {"passed": "passed", "failed": "failed", "not_judged": "not judged", "error": "error"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Laws that failed for one reason, and what their observation shows."""

    laws: tuple[LawMark, ...]
    followers: tuple[LawMark, ...]  # that may fail through it
    message: Message
    cases: str
    places: list[tuple[str, str]]  # of the student's code, with the lines
    observed: str  # which observation the pictures show; "" if none may be shown
    trace: str  # the command that exports it
    picture: canvas.Picture | None
    standoff: standoff.Standoff | None
    cells: cells.Cells | None


def write_page(report: Report, store: Store, out: Path) -> Path:
    """Write report.html into the run folder. Raises MachineError if the disk refuses."""
    sources = Sources(Path(report.origin))
    room = iter(range(NUM_DRAWN))
    failures = {each.name: list(_failures(each, store, sources, room)) for each in report.assignments}
    anchors = {law.id for per in failures.values() for failure in per for law in (*failure.laws, *failure.followers)}
    asked = {task.id for each in report.assignments for task in each.tasks if not all(map(is_unasked, task.laws))}
    text = surroundings(TEMPLATES).get_template("report.html.j2").render(
        report=report, failures=failures, anchors=anchors, labels=LABELS, commands=COMMANDS, signs=SIGNS, verdicts=VERDICTS,
        headline=headline(report), standing=standing, is_unasked=is_unasked, is_not_started=is_not_started,
        asked=asked, num_open=NUM_OPEN,
        studies=studies.drawn(report, store), observed=observed, pattern_of=canvas.pattern_of,
        where_time_went=where_time_went, slowest=slowest(report),
    )  # fmt: skip
    write(out / PAGE, text, PUBLIC)
    return out / PAGE


def surroundings(*folders: Path) -> jinja2.Environment:
    """What pages are made in: templates of `folders`, every value escaped, and no control characters."""
    import jinja2  # a fifth of a second, which only a page should cost

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders), undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: CONTROL.sub("\N{REPLACEMENT CHARACTER}", value) if type(value) is str else value,
    )  # fmt: skip


def _failures(assignment: AssignmentMark, store: Store, sources: Sources, room: Iterator[int]) -> Iterator[Failure]:
    for cause in causes_of(assignment):
        laws, message = cause.laws, said_once(cause.message)
        key, seen = _observation(laws, store)
        picture = stand = None
        if seen is not None and next(room, None) is not None:
            picture, stand = timeline.draw(*seen), standoff.find(seen[1], sources)
        places = sources.lines_in("\n".join([message.where, message.seen]))
        trace = re.sub(r"debug \w+", f"trace {key[:SHORT]}", message.debug) if seen else ""
        yield Failure(tuple(laws), tuple(cause.followers), message, which_cases(laws), places, observed(seen[0]) if seen else "", trace,
                      picture, stand, cells.draw(message.map) if message.map else None)  # fmt: skip


def _observation(laws: list[LawMark], store: Store) -> tuple[str, tuple[Request, Outcome] | None]:
    """The observation on which a public case failed: the one that went wrong, else the last it looked at. Hidden cases show nothing."""
    for case in (case for law in laws for case in law.cases if _may_be_shown(case)):
        found = [(key, stored) for key in case.keys if (stored := store.observation(key)) is not None]
        if found:
            return next(((key, stored) for key, stored in found if stored[1].fault is not None), found[-1])
    return "", None


def _may_be_shown(case: CaseVerdict) -> bool:
    return case.outcome == "failed" and not case.hidden and bool(case.keys)


def observed(request: Request) -> str:
    """An observation in words: its probe, parameters and ranks."""
    words = ", ".join(f"{name}={textwrap.shorten(repr(value), 48, placeholder=' …')}" for name, value in request.parameters.items())
    return f"{request.probe}({words}) on {request.world_size} rank{'s' * (request.world_size != 1)}"
