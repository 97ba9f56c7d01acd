"""The page of results says what the files say, and shows all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.benchmarks.bars import Bar, drawn
from tests.benchmarks.tables import FOLDER, PAGE, keep, written

ROUND = {"peer_s": 0.00123456789, "rival_s": 0.002, "ratio": 0.61728394, "low": 0.6, "high": 0.63, "fixed_s": 0.001, "hand_over_s": 0.0,
         "num_rounds": 15, "by_slope": False, "testified": None, "peer_rounds_s": [0.1, 0.2]}  # fmt: skip
MARK = {"against": "peer", "state": "judged", "earned": 7.5, "possible": 10, "sentence": "Told.", "findings": [], "estimate": ROUND,
        "alone": ROUND | {"ratio": 1.002, "low": 0.99, "high": 1.01}, "wall_s": 9.0, "clocks": {"after": {}}}  # fmt: skip


def test_page_and_pictures_are_those_of_the_files() -> None:
    """Else `python -m tests.benchmarks.tables` has not been run since a file was changed."""
    for name, text in written(FOLDER).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is out of date: python -m tests.benchmarks.tables"


def test_every_file_and_picture_is_on_the_page() -> None:
    """A file that nobody shows is found, and so is a link that leads nowhere."""
    linked = set(re.findall(r"\]\(([^)]+)\)", (FOLDER / PAGE).read_text(encoding="utf-8")))
    assert linked == {path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".svg")}


def test_a_file_of_an_unknown_form_is_an_error(tmp_path: Path) -> None:
    """It would not be shown."""
    (tmp_path / "something_else.json").write_text("{}")
    with pytest.raises(ValueError, match=r"something_else\.json begins with none of"):
        written(tmp_path)


def test_a_run_is_kept_without_its_rounds(tmp_path: Path) -> None:
    """Two runs of the same race: the table has both, the picture the later."""
    machine = {"gpus": "1 × GPU", "torch": "2.11", "gpu_driver": "1.0", "date": "2026-01-02T03:04:05", "commit": "abc"}
    for number, ratio in enumerate((0.5, 0.61728394)):
        (tmp_path / f"{number}.txt").write_text(json.dumps({"machine": machine, "a.race": MARK | {"estimate": ROUND | {"ratio": ratio}}}))
    keep(tmp_path / "races_one.json", [tmp_path / "0.txt"])
    keep(tmp_path / "races_one.json", [tmp_path / "1.txt"])
    stored = json.loads((tmp_path / "races_one.json").read_text())
    assert [run["marks"]["a.race"]["estimate"]["ratio"] for run in stored["runs"]] == [0.5, 0.6173]
    assert "peer_rounds_s" not in stored["runs"][0]["marks"]["a.race"]["estimate"] and stored["runs"][0]["commit"] == "abc"
    made = written(tmp_path)
    assert "| a.race | peer | 1.002 (0.990 to 1.010) | 0.617 (0.600 to 0.630) | 7.5 of 10 |" in made[PAGE]
    assert "1 × GPU, torch 2.11, driver 1.0, 2026-01-02, commit abc." in made[PAGE]
    assert ">0.6173</text>" in made["races.svg"] and ">0.5</text>" not in made["races.svg"]


def test_a_bar_is_as_long_as_its_figure() -> None:
    """Half the value is half the length; titles and labels may have any characters."""
    root = ElementTree.fromstring(drawn("a < b", [Bar("x & y", 2.0, 1.5, 2.0), Bar("z", 1.0)], mark=1.0))
    whole, first, second = (float(each.get("width", 0)) for each in root.iter("{http://www.w3.org/2000/svg}rect"))
    assert second == pytest.approx(first / 2, abs=0.06) and first < whole
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 2
