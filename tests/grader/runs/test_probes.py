"""Probes that are a package: its files find each other in a rank, behind the walls, and each of them decides what an observation is."""

from __future__ import annotations

from pathlib import Path

from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.records import Assignment, Submission, digest


def test_probes_may_be_a_package(runs: Runs, tmp_path: Path) -> None:
    """An edit of any of its files is another observation, as an edit of a single file of probes is."""
    room = runs.root / "tests" / "probes" / "parts"
    room.mkdir()
    (room / "__init__.py").write_text("from .sums import total\n")
    folder = tmp_path / "submission"
    folder.mkdir()
    (folder / "parts.py").write_text("ONE = 1\n")
    submission = Submission(str(folder), "parts.py", {"parts.py": digest("ONE = 1\n")})
    observer = Observer(runs, {"parts": Assignment("parts", 1, "Parts", ("parts.py",), ())}, {"parts": submission})

    def total() -> int:
        seen = observer.for_case("parts", False, "test_parts")("total", returns={"y": ("int64", ())})
        return int(seen.rank(0)["y"])

    (room / "sums.py").write_text("import torch\n\ndef total(at):\n    return {'y': torch.tensor(at.submission.ONE)}\n")
    assert total() == 1
    (room / "sums.py").write_text("import torch\n\ndef total(at):\n    return {'y': torch.tensor(at.submission.ONE + 10)}\n")
    assert total() == 11
