"""`grader hint`: one tier at a time, and a record only where the course says so."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from grader.course import find_root, load
from grader.errors import UsageError
from grader.hints import RECORD, tell
from grader.report.page import Page

SPECIFICATION = """
number: 3
title: Sums
files: [sums.py]
records_hints: {records}
tasks:
  - {{id: ring, title: The ring, regions: [a], stub: pass, hints: [a nudge, the concept (section 2), nearly the answer],
     laws: [{{id: one, claim: One., points: 1, evidence: judged}},
            {{id: two, claim: Two., points: 1, evidence: testified, hints: [count them, once each]}}]}}
"""


def told(folder: Path, wanted: str, more: int, records: str = "false") -> str:
    """What is printed, 40 columns wide."""
    (folder / "assignments/sums").mkdir(parents=True, exist_ok=True)
    (folder / "assignments/sums/assignment.yaml").write_text(SPECIFICATION.format(records=records))
    stream = io.StringIO()
    tell(load(folder), wanted, more, Page(stream, 40), folder / "out")
    return stream.getvalue()


@pytest.mark.parametrize("wanted", ["sums.ring.one", "sums.ring", "ring.one"])
def test_hints_come_one_at_a_time(tmp_path: Path, wanted: str) -> None:
    """Each tier is told alone, with the handout and the way to the next; the last has no next."""
    tiers = [told(tmp_path, wanted, more) for more in range(3)]
    for number, (tier, text) in enumerate(zip(tiers, ("a nudge", "section 2", "nearly the answer"), strict=True)):
        assert text in tier and "assignments/sums/handout.md" in tier
        assert (f"make hint LAW={wanted} MORE={number + 1}" in tier) is (number < 2)
        assert ("for the whole task" in tier) is wanted.endswith("one")
    assert "concept" not in tiers[0] and not (tmp_path / "out").exists()


def test_a_law_may_have_hints_of_its_own(tmp_path: Path) -> None:
    """They are told in place of the task's, which the last one points to; the record says whose they were."""
    first, last = (told(tmp_path, "sums.ring.two", more, records="true") for more in range(2))
    assert "count them" in first and "LAW=sums.ring.two MORE=1" in first and "hint 1 of 2" in " ".join(first.split())
    assert "once each" in last and "make hint LAW=sums.ring\n" in last and "nudge" not in first + last
    assert "whole task" not in first + last
    records = [json.loads(line) for line in (tmp_path / "out" / RECORD).read_text().splitlines()]
    assert [(line["task"], line["law"], line["of"]) for line in records] == [("sums.ring", "sums.ring.two", 2)] * 2
    with pytest.raises(UsageError, match=r"sums\.ring\.two has 2 hints"):
        told(tmp_path, "sums.ring.two", 2)


def test_no_hint_beyond_the_last(tmp_path: Path) -> None:
    """Who asks for more than there is reads how many there are; a law that is not there is answered with one that is."""
    with pytest.raises(UsageError, match="3 hints"):
        told(tmp_path, "sums.ring.one", 3)
    with pytest.raises(UsageError, match=r"sums\.ring\.one"):
        told(tmp_path, "sums.ring.once", 0)
    with pytest.raises(UsageError, match="Which law or task"):
        told(tmp_path, "", 0)


def test_a_record_is_kept_where_the_course_says_so(tmp_path: Path) -> None:
    """A line for each hint, in the run folder, and the student is told of it."""
    for more in (0, 1):
        assert RECORD in told(tmp_path, "sums.ring.one", more, records="true").replace("\n", "").replace(" ", "")
    lines = [json.loads(line) for line in (tmp_path / "out" / RECORD).read_text().splitlines()]
    assert [(line["task"], line["hint"], line["of"]) for line in lines] == [("sums.ring", 1, 3), ("sums.ring", 2, 3)]


def test_every_task_of_the_course_has_all_three_tiers() -> None:
    """A nudge, the concept with the section of the handout, nearly the answer."""
    course = load(find_root(Path(__file__)))
    short = {task.id: len(task.hints) for each in course.assignments for task in each.tasks if len(task.hints) != 3}
    assert not short
