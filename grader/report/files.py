"""The files of a run folder. Each is written whole or not at all, so that a reader never meets half of one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from grader.errors import MachineError, UsageError
from grader.records import CaseVerdict, Json, LawMark, Report, TaskMark
from grader.report import json_report, junit

PUBLIC, PRIVATE = 0o644, 0o600
PAGE = "report.html"


def write_all(report: Report, out: Path) -> None:
    """Write report.json, junit.xml and, for the staff's eyes only, staff.json into the folder `out`.

    Raises UsageError if `out` can't be a folder, MachineError if the disk refuses.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} can't be made a folder for the report ({error.strerror}); name another with --out.") from error
    (out / PAGE).unlink(missing_ok=True)  # it showed another report; who wants one of this makes it
    write(out / "report.json", json_report.dumps(report), PUBLIC)
    write(out / "junit.xml", junit.to_xml(report), PUBLIC)
    write(out / "staff.json", json.dumps(staff_form(report), indent=1, ensure_ascii=False) + "\n", PRIVATE)


def read_public(out: Path) -> Report:
    """The student's form of the report in `out`. UsageError if there is none that can be read."""
    with _readable(out):
        return msgspec.json.decode((out / "report.json").read_bytes(), type=Report)


def read(out: Path) -> Report:
    """The report that `write_all` left in `out`, with what the staff alone may see. UsageError if there is none that can be read."""
    report = read_public(out)
    with _readable(out):
        told = {(each["law"], each["id"]): each for each in json.loads((out / "staff.json").read_text())}

    def restored(case: CaseVerdict) -> CaseVerdict:
        staff = told.get((case.law, case.id))
        return case if staff is None else replace(case, staff=staff["staff"], keys=tuple(staff["keys"]))

    def each_law(law: LawMark) -> LawMark:
        return replace(law, cases=tuple(map(restored, law.cases)))

    def each_task(task: TaskMark) -> TaskMark:
        return replace(task, laws=tuple(map(each_law, task.laws)))

    marks = tuple(replace(mark, tasks=tuple(map(each_task, mark.tasks))) for mark in report.assignments)
    return replace(report, assignments=marks)


@contextmanager
def _readable(out: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as unfit:
        raise UsageError(f"{out} holds no report of this grader's that can be read: {unfit}; grade into it first") from unfit


def staff_form(report: Report) -> Json:
    """Every case that did not pass, with all that is known of it; of one that passed its observations, which pictures are made of."""
    cases = (case for law in report.laws() for case in law.cases)
    return [
        {"law": case.law, "id": case.id, "hidden": case.hidden, "outcome": case.outcome, "keys": list(case.keys), "staff": case.staff}
        for case in cases
        if case.outcome != "passed" or case.keys
    ]


def write(path: Path, text: str, mode: int) -> None:
    """Replace `path` by a file that has `text` and `mode` from its first byte on. Raises MachineError."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), mode)


def write_bytes(path: Path, content: bytes, mode: int) -> None:
    """As `write`, of bytes."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise MachineError(f"{path} can't be written: {error.strerror}") from error
