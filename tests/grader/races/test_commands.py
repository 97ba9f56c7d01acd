"""What is said of races: in assignment.yaml, and on the command line where no GPU is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.commands import racing
from grader.course import find_root, load, load_assignment
from grader.errors import CourseError
from grader.records import Race
from tests.grader.races.conftest import SPECIFICATION

ROOT = Path(__file__).parents[3]


def written(root: Path, text: str) -> Path:
    """An assignment's folder."""
    folder = root / "assignments" / "squares"
    folder.mkdir(parents=True)
    (folder / "assignment.yaml").write_text(text)
    return folder


def test_a_race_is_read_with_full_names_and_changes_no_points(tmp_path: Path) -> None:
    """Its marks stand apart."""
    text = SPECIFICATION.replace("why: It is a test.", "why: It is a test.\n    needs: [square.right]")
    assignment = load_assignment(written(tmp_path, text))
    assert assignment.points == 2
    assert assignment.races == (
        Race("squares.squares", "As fast as the peer.", "squares", "peer", 10, 0.25, 0.75, "It is a test.", ("squares.square.right",),
             {}, {"length": 4096}),
    )  # fmt: skip


@pytest.mark.parametrize(("before", "after", "where", "sentence"), [
    ("full_at: 0.75", "full_at: 0.25", r"\$\.races\[0\]\.full_at", "0.25 is not above none_at, 0.25"),
    ("none_at: 0.25", "none_at: 0", r"\$\.races\[0\]\.none_at", "> 0"),
    ("why: It is a test.", "why: Why.\n    needs: [square.wrong]", r"\$\.races\[0\]\.needs\[0\]", "no law is called 'square.wrong'"),
    ("why: It is a test.", "", r"\$\.races\[0\]", "missing required field `why`"),
])  # fmt: skip
def test_what_is_wrong_in_a_race_is_named(tmp_path: Path, before: str, after: str, where: str, sentence: str) -> None:
    """Thresholds that leave no room, a law that is not there, no argument."""
    with pytest.raises(CourseError, match=where) as wrong:
        load_assignment(written(tmp_path, SPECIFICATION.replace(before, after)))
    assert sentence in str(wrong.value)


def test_two_races_have_two_names(tmp_path: Path) -> None:
    """Their marks could not be told apart."""
    text = SPECIFICATION + SPECIFICATION.partition("races:\n")[2]
    with pytest.raises(CourseError, match=r"'squares' stands at `\$\.races\[0\]\.id` already"):
        load_assignment(written(tmp_path, text))


def test_every_race_of_the_course_has_its_entrants_and_its_track() -> None:
    """The names in assignment.yaml are functions and classes of tests/races/; read as text, since nobody here imports torch."""
    for assignment in load(find_root(ROOT)).assignments:
        for race in assignment.races:
            folder = ROOT / "tests" / "races" / assignment.name
            entrants, keeper = (folder / "entrants.py").read_text(), (folder / "keeper.py").read_text()
            assert f"def {race.track}_submission(" in entrants and f"def {race.track}_{race.against}(" in entrants
            assert f"class {race.track}" in keeper


def test_without_a_gpu_the_command_says_so_and_blames_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 0, a speed.json in which nothing was judged, no process."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(ROOT)
    told = CliRunner().invoke(racing.race, ["-a", "flash_attention", "--out", str(tmp_path)], standalone_mode=False)
    assert told.return_value == 0 and "No GPU is here" in told.output and "0 of 0 speed marks" in told.output
    marks = json.loads((tmp_path / "speed.json").read_text())["marks"]
    assert {mark["state"] for mark in marks} == {"not_judged"} and len(marks) >= 2
    lost = CliRunner().invoke(racing.race, ["-a", "collectives", "--out", str(tmp_path)], standalone_mode=False)
    assert lost.return_value == 2 and "No race has that name" in lost.output
