"""What GitHub shows of a run: annotations at the lines that failures speak of, and a summary of the step.

The form: GitHub's documentation, "Workflow commands for GitHub Actions". A step shows ten annotations of a kind; a summary has 1 MiB.
"""

from __future__ import annotations

import re

from grader.records import LawMark, Message, Report
from grader.report.classroom import summary as table

PLACE = re.compile(r"\b([\w-]+\.py):(\d+)")
NUM_SHOWN = 10
SUMMARY_BYTES = 2**20


def to_annotations(report: Report, folder: str) -> str:
    """A command for each failed law, those with the most points first; where the student's line is known, it is in `folder`."""
    failed = sorted(_failed(report), key=lambda law: -law.possible)
    lines = [_annotation(law, law.message or Message(seen=""), folder) for law in failed[:NUM_SHOWN]]
    if len(failed) > NUM_SHOWN:
        lines.append(f"::notice title=More::{len(failed) - NUM_SHOWN} more laws fail; the step's summary has them all.")
    return "".join(f"{line}\n" for line in lines)


def to_summary(report: Report) -> str:
    """Marks as a table and every failed law, as Markdown, within what GitHub takes."""
    text = table(report)
    for number, law in enumerate(failed := _failed(report)):
        entry = f"\n- **{_plain(law.claim)}** `{law.id}` {_plain(law.message.seen) if law.message else ''}"
        if len((text + entry).encode()) > SUMMARY_BYTES - 100:
            return f"{text}\n- … and {len(failed) - number} more\n"
        text += entry
    return text + "\n"


def _failed(report: Report) -> list[LawMark]:
    return [law for law in report.laws() if law.verdict == "failed"]


def _annotation(law: LawMark, message: Message, folder: str) -> str:
    place = PLACE.search(f"{message.where}\n{message.seen}")
    where = f"file={_property(f'{folder}/{place[1]}')},line={place[2]}," if place else ""
    said = "\n".join(part for part in (message.seen, message.allowed and f"allowed: {message.allowed}", message.diagnosis) if part)
    return f"::error {where}title={_property(f'{law.claim} ({law.id})')}::{_data(said)}"


def _data(text: str) -> str:
    """So that nothing a submission printed ends the line and begins a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))
