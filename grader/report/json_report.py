"""report.json: the student's form of a report, in the shape that report.schema.json publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from grader.records import Json, Report

SCHEMA_NAME = "grader-report/1"  # raised when a field changes its meaning or goes; a new field keeps it
SCHEMA_FILE = Path(__file__).with_name("report.schema.json")
STAFF_ONLY = ("staff", "keys")  # of a case: they may carry a hidden case's inputs, or name them


def to_json(report: Report) -> Json:
    """The report as JSON values, without what only the staff may see."""
    tree = msgspec.to_builtins(report)
    for assignment in tree["assignments"]:
        for task in assignment["tasks"]:
            for case in (case for law in task["laws"] for case in law["cases"]):
                for name in STAFF_ONLY:
                    del case[name]
    return tree


def dumps(report: Report) -> str:
    """`to_json` as text."""
    return json.dumps(to_json(report), indent=1, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of `to_json`, derived from the records; objects have no other fields than those it names."""
    tree = msgspec.json.schema(Report)
    definitions = tree["$defs"]
    for name in STAFF_ONLY:
        del definitions["CaseVerdict"]["properties"][name]
    for definition in definitions.values():
        definition["additionalProperties"] = False
        definition["required"] = sorted(definition["properties"])
        for field in definition["properties"].values():
            field.pop("default", None)  # we always write every field
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_NAME, "title": "What a student gets", **tree}


def write_schema() -> None:
    """Write report.schema.json anew; a test fails when it is not what `schema` says."""
    SCHEMA_FILE.write_text(json.dumps(schema(), indent=1) + "\n")


if __name__ == "__main__":
    write_schema()
