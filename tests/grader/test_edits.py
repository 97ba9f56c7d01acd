"""Random edits of the solutions: what they may touch, and that they say something."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader.course import load
from grader.records import Assignment
from grader.regions import find
from tests.soak.edits import edits_of

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENTS = {assignment.name: assignment for assignment in load(ROOT).assignments}


@pytest.mark.parametrize("assignment", [ASSIGNMENTS["collectives"], ASSIGNMENTS["recomputation"]], ids=lambda assignment: assignment.name)
def test_an_edit_changes_what_a_student_writes_and_can_be_parsed(assignment: Assignment) -> None:
    """Every file has some; each lies in its region, and its program is another one. Twenty of each file are looked at."""
    for file in assignment.files:
        source = (ROOT / "solutions" / file).read_text(encoding="utf-8")
        regions = {region.name: region for region in find(source, file)}
        plain, edits = ast.dump(ast.parse(source)), edits_of(assignment, file)
        assert edits
        for edit in edits[:: max(1, len(edits) // 20)]:
            assert ast.dump(ast.parse(edit.source)) != plain
            region, lines = regions[edit.region], edit.source.splitlines()
            assert lines[: region.first_line] == source.splitlines()[: region.first_line]
            assert lines[-1] == source.splitlines()[-1]


def test_what_means_the_same_is_no_edit() -> None:
    """`strict=` of a zip only ever raises."""
    edits = edits_of(ASSIGNMENTS["recomputation"], "recomputation.py")
    assert not any("strict=False" in edit.after for edit in edits)
