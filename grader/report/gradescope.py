"""Gradescope's results.json: every law as a test with its points."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from grader.records import Json, LawMark, Message, Report
from grader.report.junit import message_text


def to_results(report: Report) -> Json:
    """The platform's form of a report: what students see, hidden cases in their student's form."""
    tests = []
    for assignment in report.assignments:
        for task_number, task in enumerate(assignment.tasks, 1):
            tests += [_test(law, f"{task_number}.{number}", task.title) for number, law in enumerate(task.laws, 1)]
    provisional = "Some cases could not be judged here: the mark is provisional." if report.provisional else ""
    head = [each for each in (*report.notes, provisional, report.formative) if each]
    return {
        "score": report.earned,
        "execution_time": max(0, round(report.wall_s)),
        "output": "\n".join([f"{report.earned} of {report.possible} points.", *head]),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",  # it may say what hidden cases print
        "tests": tests,
        "leaderboard": [{"name": "Points", "value": report.earned}],
    }


def refused(sentence: str) -> Json:
    """The form for what could not be looked into: no points, and the sentence that says what to do."""
    return {"score": 0, "output": sentence, "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden", "tests": []}


def _test(law: LawMark, number: str, title: str) -> Json:
    said = "" if law.message is None else message_text(_without_commands(law.message))
    return {
        "score": law.earned,
        "max_score": law.possible,
        "status": "passed" if law.verdict == "passed" else "failed",
        "name": f"{title}: {law.claim}",
        "number": number,
        "output": "\n".join(part for part in (_verdict(law), said) if part),
        "output_format": "text",
        "tags": [law.id, law.evidence],
        "visibility": "visible",
    }


def _verdict(law: LawMark) -> str:
    return {"not_judged": "Not judged.", "error": "The course or the machine is at fault, not you."}.get(law.verdict, "")


def _without_commands(message: Message) -> Message:
    return replace(message, rerun="", debug="")  # commands that only work where the student's own course lies


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--refused", "is_refused", is_flag=True, help="SOURCE is the sentence of a refusal, and no report.json.")
def main(source: Path, is_refused: bool) -> None:
    """Print results.json for the report.json of a run."""
    if is_refused:
        results = refused(source.read_text(encoding="utf-8", errors="replace").strip())
    else:
        results = to_results(msgspec.json.decode(source.read_bytes(), type=Report))
    click.echo(json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False))


if __name__ == "__main__":
    main()
