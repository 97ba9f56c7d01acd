"""What platforms read, against what they publish: PrairieLearn, Autolab, Gradescope, GitHub, and a file for each student of a class."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.cli import commands
from grader.commands.instructors import FORMS as OFFERED
from grader.gradebook.book import Book
from grader.gradebook.export import write_run
from grader.gradebook.per_student import FORMS, folder_name, write_class
from grader.gradebook.settle import settle
from grader.gradebook.terms import Said, Terms
from grader.ledger import Row
from grader.records import LawMark, Message, Report
from grader.report import github, prairielearn
from grader.report.files import write_all
from tests.grader.gradebook.conftest import marked, report, write_reports

# PrairieLearn's documentation, "External grading", grading results; a share beyond 0 and 1 is refused there.
PRAIRIELEARN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "gradable": {"type": "boolean"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "message": {"type": "string"},
        "output": {"type": "string"},
        "format_errors": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "tests": {"type": "array", "items": {
            "type": "object", "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "description": {"type": "string"}, "points": {"type": "number"},
                           "max_points": {"type": "number"}, "message": {"type": "string"}, "output": {"type": "string"}}}},
    },
    "additionalProperties": False,
    "if": {"properties": {"gradable": {"const": False}}, "required": ["gradable"]},
    "then": {"required": ["format_errors"], "not": {"required": ["score"]}}, "else": {"required": ["score"]},
}  # fmt: skip
# Gradescope's documentation, "Autograder specifications", output format.
GRADESCOPE: dict[str, Any] = {
    "type": "object", "required": ["score", "tests"],
    "properties": {"score": {"type": "number"}, "output": {"type": "string"}, "execution_time": {"type": "integer"},
                   "tests": {"type": "array", "items": {
                       "type": "object", "properties": {"score": {"type": "number"}, "max_score": {"type": "number"},
                                                        "status": {"enum": ["passed", "failed"]}, "output": {"type": "string"}}}}},
}  # fmt: skip
# GitHub's documentation, "Workflow commands for GitHub Actions": ::command property=value,property=value::message
COMMAND = re.compile(r"::(?P<name>error|warning|notice)(?: (?P<properties>[^:]*))?::(?P<message>[^\r\n]*)")


def with_laws(it: Report, change: Callable[[LawMark], LawMark]) -> Report:
    """Every law of a report changed."""
    marks = tuple(replace(mark, tasks=tuple(replace(task, laws=tuple(map(change, task.laws))) for task in mark.tasks))
                  for mark in it.assignments)  # fmt: skip
    return replace(it, assignments=marks)


def test_prairielearn_gets_a_share_and_every_law() -> None:
    """A law is a test; an error of ours is not gradable, so that it becomes nobody's zero."""
    it = report({"rings": ["sends", "adds", "waits"]})
    results = prairielearn.to_results(it)
    jsonschema.validate(results, PRAIRIELEARN)
    assert (results["score"], [test["points"] for test in results["tests"]]) == (0.75, [25, 25, 25, 0])
    broken = prairielearn.to_results(with_laws(it, lambda law: replace(law, verdict="error")))
    jsonschema.validate(broken, PRAIRIELEARN)
    assert (broken["gradable"], "score" in broken, len(broken["format_errors"])) == (False, False, 4)


def test_each_form_of_a_class_has_the_final_marks(book_of: Callable[..., Book], tmp_path: Path) -> None:
    """Not those as graded: an override is in all of them; who has no mark has no file, and is named."""
    book = book_of(marked("ada", 75, 25), marked("../eve", 0, 100), Row("m", state="machine", sentence="disk full"))
    write_reports(book.folder, {"ada": report({"rings": ["sends", "adds", "waits"], "data_parallel": ["ends"]}),
                                "../eve": report({"rings": [], "data_parallel": ["sends", "adds", "waits", "ends"]})})  # fmt: skip
    finals = settle(book, replace(Terms(), overrides={("ada", "rings"): Said("b", "oral", None, 99)}))
    written = {form: tmp_path / form for form in FORMS}
    for form, target in written.items():
        assert write_class(book, finals, form, target) == [
            "m has no file: rings: the grader's machine failed: disk full: no mark"
        ]
        assert sorted(path.parent.name for path in target.rglob("*.*") if path.is_file()) == ["..%2Feve", "ada"]
    results = json.loads((written["gradescope"] / "ada/results.json").read_text())
    jsonschema.validate(results, GRADESCOPE)
    assert results["score"] == 124 and "rings: overridden with 99 by b: oral" in results["output"]
    results = json.loads((written["prairielearn"] / "ada/results.json").read_text())
    jsonschema.validate(results, PRAIRIELEARN)
    assert results["score"] == 124 / 200
    last = (written["autolab"] / "ada/autolab.txt").read_text().splitlines()[-1]
    assert json.loads(last) == {"scores": {"rings": 99.0, "data_parallel": 25.0}}
    suites = ET.parse(written["junit"] / "ada/junit.xml").getroot()
    assert [suite.get("failures") for suite in suites] == ["1", "3"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(min_size=1, max_size=300))
def test_an_id_is_one_folder_and_leads_nowhere(student: str) -> None:
    """Whatever somebody is called."""
    name = folder_name(student)
    assert name not in ("", ".", "..") and "/" not in name and "\0" not in name and len(name.encode()) < 256


def test_different_ids_are_different_folders() -> None:
    """Also those that a file system would take for the same place."""
    ids = ["a", ".", "..", "%2E", "a/b", "a%2Fb", "a" * 300, "a" * 299 + "b"]
    assert len({folder_name(each) for each in ids}) == len(ids)


EVIL = "rank 1 sent\n::set-output name=x::1\r::error::%0A 50%, and: more"


def test_an_annotation_is_one_line_at_the_students_line() -> None:
    """Its parts come back as they were, and nothing that a submission printed becomes a command."""
    it = with_laws(report({"rings": ["sends"]}), lambda law: replace(law, message=law.message and Message(EVIL, where="rings.py:41 in it")))
    lines = github.to_annotations(it, "starter").splitlines()
    assert len(lines) == 3
    for line in lines:
        told = COMMAND.fullmatch(line)
        assert told is not None
        properties = dict(each.split("=", 1) for each in told["properties"].split(","))
        assert (properties["file"], properties["line"]) == ("starter/rings.py", "41")
        assert told["message"].replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%") == EVIL


def test_more_than_ten_failures_are_counted_and_all_are_in_the_summary() -> None:
    """GitHub shows ten of a kind and takes 1 MiB."""
    it = report({"rings": [], "data_parallel": []})
    many = replace(it, assignments=it.assignments * 2)
    lines = github.to_annotations(many, "starter").splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["::error"] * 10 + ["::notice"]
    assert "6 more laws fail" in lines[-1]
    assert github.to_summary(many).count("\n- **") == 16
    long = with_laws(many, lambda law: replace(law, message=Message("é" * 100_000)))
    assert len(github.to_summary(long).encode()) <= github.SUMMARY_BYTES
    assert "more" in github.to_summary(long).splitlines()[-1]


def test_a_summary_is_text_and_no_markup() -> None:
    """A message's signs are shown as they are."""
    it = with_laws(report({"rings": []}), lambda law: replace(law, message=Message("<img src=x> `a` *b* |\nc")))
    assert r"\<img src=x\> \`a\` \*b\* \| c" in github.to_summary(it)


def test_a_run_folder_is_exported_without_a_class(tmp_path: Path) -> None:
    """As an autograder's last step does it: to the output, or into the file that the platform names."""
    write_all(report({"rings": ["sends"]}), tmp_path / "run")
    jsonschema.validate(json.loads(write_run(tmp_path / "run", "prairielearn", None)), PRAIRIELEARN)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    assert write_run(tmp_path / "run", "github", summary).startswith("::error file=work/rings.py,line=41,")
    assert summary.read_text().startswith("before\n| assignment |")
    assert write_run(tmp_path / "run", "autolab", tmp_path / "out.txt") == ""
    assert json.loads((tmp_path / "out.txt").read_text().splitlines()[-1]) == {"scores": {"rings": 25}}


def test_every_form_that_is_offered_is_made() -> None:
    """The command's choices are spelled out so that its help needs no import."""
    from grader.gradebook import export

    assert set(OFFERED) == {*export.TABLES, *export.PLATFORMS, *FORMS, export.GITHUB}


@pytest.mark.parametrize("form", ["csv", "canvas"])
def test_a_classs_form_of_a_run_folder_is_refused(tmp_path: Path, form: str) -> None:
    """And says what would do."""
    from click.testing import CliRunner

    write_all(report({"rings": []}), tmp_path / "run")
    ended = CliRunner().invoke(commands, ["export", str(tmp_path / "run"), "--format", form], standalone_mode=False)
    assert ended.return_value == 2 and "name the folder that `grader batch` wrote" in ended.output
