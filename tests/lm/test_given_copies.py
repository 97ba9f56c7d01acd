"""The given part is one part: what students get is what the solutions use."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("report.py", "train.py")


def test_starter_and_solutions_have_the_same_given_part() -> None:
    """lm/, report.py and train.py are equal byte for byte in both rooms, and neither has a file that the other lacks."""
    contents = [
        {path.relative_to(room): path.read_bytes() for path in [*(room / name for name in PROGRAMS), *sorted((room / "lm").rglob("*.py"))]}
        for room in (ROOT / "solutions", ROOT / "starter")
    ]
    assert contents[0] == contents[1]


def test_the_given_part_contains_no_corpus() -> None:
    """No text of a corpus is kept in the repository, only where to get it."""
    kept = [path for path in (ROOT / "datasets").rglob("*") if path.is_file() and not {"cache", "__pycache__"} & set(path.parts)]
    assert {path.suffix for path in kept} <= {".py", ".md"}


def test_the_records_of_a_plan_are_the_graders() -> None:
    """lm/planning.py is the simulator's records word for word: what a submission is handed is what the judge simulates."""
    assert (ROOT / "solutions/lm/planning.py").read_bytes() == (ROOT / "grader/simulator/records.py").read_bytes()
