"""What ships of tests/laws/: what public cases reach, and nothing that only hidden ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.errors import CourseError
from grader.release.laws import reached

RUNS = '''\
"""Runs."""

import json
from math import (
    ceil,
    floor,
)

from tests.laws import deep
from tests.laws.shapes import values

# Public sizes.
SIZES = [1, 2]

# The trap: nobody expects 7919.
HIDDEN_SIZES = [7919]


def run(size):
    """Used."""
    return helper(ceil(size))


def helper(size):
    return values.square(size) + json.loads("1")


def run_hidden(size):
    """Only hidden cases call this."""
    return deep.trap(floor(size))
'''
VALUES = "def square(x):\n    return x * x\n\n\ndef cube(x):\n    return x**3\n"
PUBLIC = "from tests.laws.shapes import runs\n\n\ndef test_a(observe):\n    runs.run(runs.SIZES)\n"


def course(root: Path, public: str = PUBLIC) -> tuple[dict[str, str], dict[str, str]]:
    """A small course's laws, as they ship and what stays."""
    files = {"tests/laws/shapes/runs.py": RUNS, "tests/laws/shapes/values.py": VALUES, "tests/laws/deep.py": "def trap(x):\n    return x\n",
             "tests/public/test_shapes.py": public}  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return reached(root, [root / "tests/public/test_shapes.py"])


def test_what_only_hidden_cases_use_stays_behind(tmp_path: Path) -> None:
    """Functions, tables with their comments, imports and whole modules; what is left says the same as before."""
    shipped, left = course(tmp_path)
    assert set(shipped) == {"tests/laws/shapes/runs.py", "tests/laws/shapes/values.py"}
    runs = shipped["tests/laws/shapes/runs.py"]
    assert all(word in runs for word in ("def run(", "def helper(", "# Public sizes.", "from math import ceil", "import json"))
    assert not any(word in runs for word in ("HIDDEN", "trap", "run_hidden", "deep", "floor"))
    assert "cube" not in shipped["tests/laws/shapes/values.py"]
    compile(runs, "runs.py", "exec")
    assert "7919" in left["tests/laws/shapes/runs.py"] and "def trap" in left["tests/laws/deep.py"]


def test_a_module_that_is_used_as_a_whole_ships_whole(tmp_path: Path) -> None:
    """Where names can't be told, nothing is left out."""
    shipped, _ = course(tmp_path, "from tests.laws.shapes import runs\n\nNAMES = vars(runs)\n")
    assert shipped["tests/laws/shapes/runs.py"] == RUNS and "tests/laws/deep.py" in shipped


@pytest.mark.parametrize(
    ("public", "words"),
    [("from tests.laws.shapes import nothing\n", "imports nothing from"), ("import tests.laws.shapes.runs\n", "write `from tests.laws")],
)
def test_an_import_that_cannot_be_followed_is_named(tmp_path: Path, public: str, words: str) -> None:
    """The release stops instead of shipping half."""
    with pytest.raises(CourseError, match=words):
        course(tmp_path, public)
