"""Solutions become starters and overlays become whole files; a marker that almost is one never ships a solution."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import CourseError
from grader.regions import compose, find, read_header, strip

SOLUTION = '''\
"""A file."""

import math

# region solution table
SIZES = [1, 2]
# endregion


def area(radius):
    """Area of a circle."""
    # region solution area
    note = """kept
as it is"""
    return math.pi * radius**2, note
    # endregion


def double(x):
    """Twice x."""
    if x:
        # region solution double
        return 2 * x
        # endregion
'''
STUBS = {"table": "SIZES = []", "area": 'raise NotImplementedError("area:\\nwrite it")', "double": "x = 0\nreturn x"}


def test_a_starter_is_the_solution_with_stubs_for_regions() -> None:
    """Each region gives way to its stub at its own indent, the markers are gone, everything else stays as it is."""
    starter = strip(SOLUTION, STUBS, "a.py")
    assert "region" not in starter and "math.pi" not in starter and "kept" not in starter
    assert 'Area of a circle."""\n    raise NotImplementedError("area:\\nwrite it")\n\n\ndef double' in starter
    assert "    if x:\n        x = 0\n        return x\n" in starter
    assert starter.startswith('"""A file."""\n\nimport math\n\nSIZES = []\n\n\ndef area')


def test_regions_are_found_with_their_lines() -> None:
    """Name, lines and indent of each region, in the file's order."""
    assert [(r.name, r.first_line, r.last_line, r.indent) for r in find(SOLUTION, "a.py")] == [
        ("table", 5, 7, ""),
        ("area", 12, 16, "    "),
        ("double", 22, 24, "        "),
    ]


NEAR_MISSES = """\
#begin solution
# BEGIN SOLUTION
### BEGIN SOLUTION
# begin of the solution
# start solution
# solution begin
# region
# region area
# Region solution area
#region solution area
#: region solution area
# %% region solution area
# region  solution area
# region solution  area
# region solution
# region Solution area
# region solution Area
# region solution: area
# region solution area (two lines)
# regoin solution area
# region soluton area
#endregion
# end region
# Endregion
# endregion solution
# endregoin
# end solution
# END SOLUTION
"""
ORDINARY = ["# regional sums", "# the region's end", "# a solution begins with", "# endless", "# sum over regions", "#", "# solve"]


@pytest.mark.parametrize("marker", NEAR_MISSES.splitlines())
def test_a_near_miss_marker_is_an_error_with_its_line(marker: str) -> None:
    """Another case, spacing, order, word or a slip of the finger would ship the solution: it is refused where it stands."""
    source = f"def f():\n    {marker}\n    return 1\n"
    with pytest.raises(CourseError, match=r"^a\.py:2: "):
        find(source, "a.py")
    trailing = f"x = 1  {marker}\n"
    with pytest.raises(CourseError, match=r"^a\.py:1: "):
        find(trailing, "a.py")


@pytest.mark.parametrize("comment", ORDINARY)
def test_an_ordinary_comment_is_not_taken_for_a_marker(comment: str) -> None:
    """Words that only resemble the markers stay comments."""
    assert find(f"{comment}\nx = 1\n", "a.py") == ()


def test_a_marker_inside_a_string_is_text() -> None:
    """What stands in a string marks nothing."""
    assert find('x = """\n# region solution a\n# begin solution\n"""\n', "a.py") == ()


@pytest.mark.parametrize(
    ("source", "where", "sentence"),
    [
        ("# region solution a\nx = 1\n", "a.py:1:", "never closed"),
        ("x = 1\n# endregion\n", "a.py:2:", "without a region before it"),
        ("# region solution a\n# region solution b\nx = 1\n# endregion\n# endregion\n", "a.py:2:", "inside region a"),
        ("# region solution a\nx = 1\n# endregion\n# region solution a\ny = 1\n# endregion\n", "a.py:4:", "a region a already"),
        ("# region solution a\n\n# words\n# endregion\n", "a.py:1:", "holds no code"),
        ("if 1:\n    # region solution a\n    x = 1\n# endregion\n", "a.py:4:", "another indent"),
        ("x = (\n", "a.py:", "not Python"),
    ],
)
def test_a_malformed_region_is_an_error_with_its_line(source: str, where: str, sentence: str) -> None:
    """Unclosed, unopened, nested, repeated, empty, crooked: each is told apart and located."""
    with pytest.raises(CourseError) as caught:
        find(source, "a.py")
    assert str(caught.value).startswith(where) and sentence in str(caught.value)


def test_a_region_without_a_task_is_an_error() -> None:
    """A region that assignment.yaml doesn't name has no stub and would otherwise be shipped or lost."""
    with pytest.raises(CourseError, match=r"a\.py:22: no task has a region double"):
        strip(SOLUTION, {"table": "x = 1", "area": "pass"}, "a.py")


def test_a_stub_that_breaks_the_starter_is_an_error() -> None:
    """A starter that can't be compiled is found when it is made, with the line."""
    with pytest.raises(CourseError, match=r"the starter of a\.py doesn't compile"):
        strip(SOLUTION, STUBS | {"area": "return x y"}, "a.py")


OVERLAY = '''\
"""Forgets the square.

law: shapes.circle.has_an_area
says: radius
"""
# region solution area
    note = """kept
  too"""
    if radius:
        return math.pi * radius, note
# endregion
'''


def test_an_overlay_takes_the_place_of_its_regions_only() -> None:
    """The overlay's code moves to the solution's indent, text inside strings stays, other regions are untouched."""
    whole = compose(SOLUTION, OVERLAY, "a.py", "m.py")
    assert '    note = """kept\n  too"""\n    if radius:\n        return math.pi * radius, note\n    # endregion' in whole
    assert "return 2 * x" in whole and "SIZES = [1, 2]" in whole and "radius**2" not in whole
    flush_left = OVERLAY.replace("    note", "note").replace("    if", "if").replace("        return", "    return")
    assert compose(SOLUTION, flush_left, "a.py", "m.py") == whole


@pytest.mark.parametrize(
    ("overlay", "sentence"),
    [
        (OVERLAY.replace("solution area", "solution aera"), "m.py:6: a.py has no region aera; did you mean area?"),
        ('"""Sin."""\n', "m.py: it has no region"),
        (OVERLAY + "import os\n", "m.py:12: `import os` stands outside every region and would be ignored"),
        (OVERLAY.replace("        return math.pi", "  return math.pi"), "m.py"),
        (OVERLAY.replace("radius, note", "radius note"), "m.py on a.py doesn't compile"),
    ],
)
def test_an_overlay_that_does_not_fit_is_an_error(overlay: str, sentence: str) -> None:
    """An unknown region, code that would be ignored or a whole that doesn't compile names the overlay."""
    with pytest.raises(CourseError) as caught:
        compose(SOLUTION, overlay, "a.py", "m.py")
    assert sentence in str(caught.value)


def test_the_header_tells_sin_law_and_word() -> None:
    """A mutant's docstring is read without running it, though the file alone doesn't compile."""
    header = read_header(OVERLAY, "m.py")
    assert (header.sentence, header.law, header.says) == ("Forgets the square.", "shapes.circle.has_an_area", "radius")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("x = 1\n", "expected a docstring first"),
        ('"""Sin.\n\nlaw:\n"""\n', "says nothing"),
        ('"""Sin.\n\nlaw: a.b.c\nlaw: a.b.d\n"""\n', "stands twice"),
    ],
)
def test_a_header_that_says_too_little_or_too_much_is_an_error(source: str, sentence: str) -> None:
    """No docstring, an empty value, two laws: each is refused."""
    with pytest.raises(CourseError, match=sentence):
        read_header(source, "m.py")


names = st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), min_size=1, max_size=4, unique=True)


@given(names, st.integers(0, 3))
def test_stripping_leaves_neither_markers_nor_bodies(region_names: list[str], depth: int) -> None:
    """Whatever the names and the indent: no marker and no line of a region is left, and the outline of the rest is the same."""
    pad = "    " * depth
    body = "".join(f"{pad}# region solution {n}\n{pad}secret_{i} = {i}\n{pad}# endregion\n" for i, n in enumerate(region_names))
    source = "".join("    " * level + "if True:\n" for level in range(depth)) + body
    starter = strip(source, dict.fromkeys(region_names, "pass"), "a.py")
    assert "secret" not in starter and "region" not in starter
    assert starter.count("pass") == len(region_names)
    ast.parse(starter)
