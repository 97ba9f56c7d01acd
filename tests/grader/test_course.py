"""The course files: what is right loads, what is wrong is one sentence with file, line and path."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.course import find_root, load, load_assignment, select
from grader.errors import CourseError, UsageError

GOOD = """\
number: 6
title: Collectives
files: [rings.py]
tasks:
  - id: ring
    title: The ring
    regions: [reduce_scatter, all_gather]
    stub: |
      raise NotImplementedError("rings.ring: write it")
    hints: [a nudge]
    laws:
      - {id: is_right, claim: "Every rank gets the sum.", points: 3, evidence: judged}
      - {id: is_thrifty, claim: "No byte too many.", points: 2, evidence: witnessed, needs: [is_right]}
  - id: model
    title: The cost model
    regions: [seconds]
    stub: raise NotImplementedError("rings.model")
    laws:
      - {id: has_limits, claim: "It has limits.", points: 1, evidence: judged, needs: [ring.is_right]}
forbidden:
  - {id: library-collective, names: [torch.distributed.all_reduce], reason: "you write it"}
"""


def write(root: Path, text: str, name: str = "rings") -> Path:
    """An assignment's folder with `text` as its assignment.yaml."""
    folder = root / "assignments" / name
    folder.mkdir(parents=True)
    (folder / "assignment.yaml").write_text(text)
    return folder


def test_a_course_loads_into_full_ids_and_summed_points(tmp_path: Path) -> None:
    """Law and task ids become full ones, needs are resolved inside and across tasks, and points are the laws' sum."""
    write(tmp_path, GOOD)
    (assignment,) = load(find_root(tmp_path / "assignments" / "rings")).assignments
    assert [law.id for law in assignment.laws()] == ["rings.ring.is_right", "rings.ring.is_thrifty", "rings.model.has_limits"]
    assert [law.needs for law in assignment.laws()] == [(), ("rings.ring.is_right",), ("rings.ring.is_right",)]
    assert (assignment.points, [task.points for task in assignment.tasks]) == (6, [5, 1])
    assert assignment.tasks[0].stub == 'raise NotImplementedError("rings.ring: write it")'
    assert assignment.forbidden[0].forbids == ("torch.distributed.all_reduce",)


@pytest.mark.parametrize(
    ("before", "after", "line", "sentence"),
    [
        ("points: 3", "points: three", 12, "`$.tasks[0].laws[0].points`: Expected `int`, got `str`"),
        ("points: 2", "points: 0", 13, "`$.tasks[0].laws[1].points`: Expected `int` >= 1"),
        ("points: 2", "points: 2.5", 13, "`$.tasks[0].laws[1].points`: Expected `int`, got `float`"),
        ("evidence: witnessed", "evidence: seen", 13, "`$.tasks[0].laws[1].evidence`: Invalid enum value 'seen'"),
        ("    hints: [a nudge]", "    hint: [a nudge]", 5, "`$.tasks[0]`: Object contains unknown field `hint`"),
        ("    title: The ring\n", "", 5, "`$.tasks[0]`: Object missing required field `title`"),
        ("id: is_thrifty", "id: is_right", 13, "`$.tasks[0].laws[1].id`: 'is_right' stands at `$.tasks[0].laws[0].id` already"),
        ("regions: [seconds]", "regions: [all_gather]", 16, "`$.tasks[1].regions[0]`: 'all_gather' stands at"),
        ("needs: [is_right]", "needs: [is_rihgt]", 13, "no law is called 'ring.is_rihgt'; expected <claim> or <task>.<claim>, such as"),
        ("judged}\n      - {id: is_th", "judged, needs: [is_thrifty]}\n      - {id: is_th", 12, "would need itself"),
        ("files: [rings.py]", "files: [random.py]", 3, "`$.files[0]`: random.py would hide the library random"),
        ("files: [rings.py]", "files: [../rings.py]", 3, "`$.files[0]`: Expected `str` matching regex"),
        ("number: 6", "number: 6\nnumber: 7", 2, "`$.number` stands twice"),
        ('claim: "It has limits."', "claim: it has: limits", 19, "this is not YAML"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_path(tmp_path: Path, before: str, after: str, line: int, sentence: str) -> None:
    """A typing error in assignment.yaml is reported with file, line, path and what was expected; never read as something else."""
    assert before in GOOD
    folder = write(tmp_path, GOOD.replace(before, after))
    with pytest.raises(CourseError) as caught:
        load_assignment(folder)
    assert f"assignment.yaml:{line}: " in str(caught.value)
    assert sentence in str(caught.value)


def test_two_assignments_share_neither_number_nor_file(tmp_path: Path) -> None:
    """A number or a file that two assignments claim is refused, by name."""
    write(tmp_path, GOOD)
    other = write(tmp_path, GOOD, name="trees")
    with pytest.raises(CourseError, match=r"\$\.number is 6, which rings has already"):
        load(tmp_path)
    (other / "assignment.yaml").write_text(GOOD.replace("number: 6", "number: 7"))
    with pytest.raises(CourseError, match=r"rings\.py, which belongs to rings already"):
        load(tmp_path)


def test_a_folder_without_a_specification_is_a_course_error(tmp_path: Path) -> None:
    """A folder in assignments/ whose assignment.yaml is missing is not skipped."""
    write(tmp_path, GOOD)
    (tmp_path / "assignments" / "trees").mkdir()
    with pytest.raises(CourseError, match=r"trees/assignment\.yaml is missing"):
        load(tmp_path)


def test_assignments_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    """`rings`, `6` and `06` are one assignment, nothing said means all, and the course's order holds."""
    write(tmp_path, GOOD)
    write(tmp_path, GOOD.replace("number: 6", "number: 2").replace("rings.py", "trees.py"), name="tree_sums")
    course = load(tmp_path)
    assert [a.name for a in select(course, [])] == ["tree_sums", "rings"]
    assert [a.name for a in select(course, ["6", "tree-sums", "rings"])] == ["tree_sums", "rings"]
    assert [a.name for a in select(course, ["06"])] == ["rings"]


@pytest.mark.parametrize(("wanted", "answer"), [("rinsg", "Did you mean rings"), ("42", "There are: rings"), ("", "There are: rings")])
def test_an_unknown_assignment_is_answered_with_what_there_is(tmp_path: Path, wanted: str, answer: str) -> None:
    """A slip of the finger gets the nearest names, anything else the whole list."""
    write(tmp_path, GOOD)
    with pytest.raises(UsageError, match=answer):
        select(load(tmp_path), [wanted])


def test_outside_a_course_the_caller_is_told_where_to_go(tmp_path: Path) -> None:
    """Run from anywhere else, the message names the folder and what was looked for."""
    with pytest.raises(UsageError, match=r"is not inside a course.*folder that you cloned"):
        find_root(tmp_path)


def test_the_level_that_marks_need_is_the_files_word(tmp_path: Path) -> None:
    """Nothing said: points are marks on any machine. A level that doesn't exist is refused with its place."""
    assert load_assignment(write(tmp_path, GOOD)).isolation == "D"
    assert load_assignment(write(tmp_path, GOOD + "isolation: B\n", "boxes")).isolation == "B"
    with pytest.raises(CourseError, match=r"assignment.yaml:22: `\$.isolation`: Invalid enum value 'E'"):
        load_assignment(write(tmp_path, GOOD + "isolation: E\n", "crates"))


PIECES = st.sampled_from(["\x1a", "\x00", ": ", "- ", "[", "{", "&a ", "*a", "!!python/object:os.system ", "? ",
                          "|\n", "\t", "'", '"', "#", "%YAML",
                          "\n---\n", "<<: ", "1e999", "\ud7ff", "é"])  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, len(GOOD)), PIECES, st.integers(0, 9)), min_size=1, max_size=3))
@example([(40, "\x1a", 0)])  # a fuzzer's find: a control character has a place and no line
def test_whatever_stands_in_a_course_file_is_an_assignment_or_a_sentence(edits: list[tuple[int, str, int]]) -> None:
    """Pieces of YAML where they don't belong, and letters missing: nothing but a CourseError, which names the file."""
    text = GOOD
    for place, piece, missing in edits:
        text = text[:place] + piece + text[place + missing :]
    with tempfile.TemporaryDirectory() as folder:
        try:
            assert load_assignment(write(Path(folder), text)).laws()
        except CourseError as error:
            assert "assignment.yaml" in str(error)
