"""What GitHub Classroom's reporter reads: every law as a test with its points, as base64 of JSON in a step's output."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import click
import msgspec

from grader.records import Json, Report


def to_results(report: Report) -> Json:
    """The reporter's form, version 1."""
    tests = [{"name": law.id, "status": "pass" if law.verdict == "passed" else "fail", "score": law.earned,
              "message": law.message.seen if law.message else None, "test_code": law.claim, "filename": "", "line_no": 0,
              "duration": 0} for law in report.laws()]  # fmt: skip
    status = "pass" if report.earned == report.possible else "fail"
    return {"version": 1, "status": status, "max_score": report.possible, "tests": tests}


def summary(report: Report) -> str:
    """A table in Markdown, for the page of the run."""
    rows = [f"| {each.title} | {each.earned} | {each.possible} |" for each in report.assignments]
    together = f"| **together** | {report.earned} | {report.possible} |"
    formative = [f"\n{report.formative}"] if report.formative else []
    return "\n".join(["| assignment | points | of |", "|---|---|---|", *rows, together, *formative, ""])


@click.command()
@click.argument("report_file", type=click.Path(path_type=Path))
@click.option("--summary", "summary_file", type=click.Path(path_type=Path), default=None, help="A file to append the table to.")
def main(report_file: Path, summary_file: Path | None) -> None:
    """Print `result=<base64>` for the report.json of a run."""
    report = msgspec.json.decode(report_file.read_bytes(), type=Report)
    click.echo("result=" + base64.b64encode(json.dumps(to_results(report), allow_nan=False).encode()).decode())
    if summary_file:
        with summary_file.open("a", encoding="utf-8") as stream:
            stream.write(summary(report))


if __name__ == "__main__":
    main()
