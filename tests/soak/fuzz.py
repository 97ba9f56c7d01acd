"""Bytes that a fuzzer grows by what they reach, into every door through which a stranger's bytes come. Each may refuse, and no more.

python -m tests.soak.fuzz words --seconds 60      (needs atheris, which the course doesn't: pip install atheris)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["grader"]):
    from grader import course, intake, policy
    from grader.errors import CourseError, UsageError
    from grader.intake.notebook import read_notebook
    from grader.records import Assignment, Rule, TensorSpec
    from grader.wire import words
    from tests.grader.wire.launch import request_for
    from tests.grader.wire.puppets import frame, play

ROOT = Path(__file__).parents[2]
RINGS = Assignment("rings", 1, "Rings", ("rings.py",), (), (Rule("r", ("os.fork",), "because"),))
ASKED = request_for(1, returns={"y": (TensorSpec("float32", (4,)),)})


def hear_word(raw: bytes) -> None:
    """A header that a rank sends."""
    try:
        words.read_word(raw)
    except words.Malformed:
        return


def hear_frames(raw: bytes) -> None:
    """Everything that a rank sends, its answer included: the broker ends with an outcome, whose tensors are those that were asked for."""
    outcome = play([frame({"begun": True}) + raw], ASKED)
    assert outcome.fault is not None or outcome.ranks[0].outputs["y"].spec == ASKED.return_of("y", 0)


def take_in(raw: bytes) -> None:
    """What a student hands in, whatever kind of file it says it is."""
    with tempfile.TemporaryDirectory() as folder:
        handed = Path(folder) / "handed.in"
        handed.write_bytes(raw)
        try:
            intake.intake(RINGS, handed, into=Path(folder) / "copy")
        except UsageError:
            return


def read_cells(raw: bytes) -> None:
    """A notebook."""
    read_notebook(raw, "work.ipynb", ["rings.py"])


def look_for_names(raw: bytes) -> None:
    """A file that the policy looks through."""
    policy.hits_in(raw.decode("utf-8", "replace"), "rings.py", RINGS.forbidden, ())


def load_yaml(raw: bytes) -> None:
    """An assignment's file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rings").mkdir()
        (Path(folder) / "rings" / course.SPEC_NAME).write_bytes(raw)
        try:
            course.load_assignment(Path(folder) / "rings")
        except CourseError:
            return


DOORS: dict[str, Callable[[bytes], None]] = {
    "words": hear_word, "frames": hear_frames, "intake": take_in, "notebooks": read_cells, "policy": look_for_names, "yaml": load_yaml,
}  # fmt: skip


def seeds(door: str) -> list[bytes]:
    """Right bytes to begin with."""
    answer = {"answer": [["y", "float32", [4]]], "facts": {}}
    return {
        "words": [b'{"op": "all_reduce", "id": 0, "ins": [["float32", [4]]], "reduction": "SUM"}', b'{"wait": 0}'],
        "frames": [frame(answer, bytes(16)), frame({"raised": {"type": "E", "message": "m", "frames": []}})],
        "yaml": [path.read_bytes() for path in sorted(ROOT.glob("assignments/*/assignment.yaml"))[:3]],
        "notebooks": [b'{"cells": [{"cell_type": "code", "source": ["%%writefile rings.py\\n", "x = 1"], "metadata": {}}], "nbformat": 4}'],
        "policy": [path.read_bytes() for path in sorted(ROOT.glob("tests/exploits/*.py"))[:9]],
    }.get(door, [b"def f(): pass\n"])


def main() -> None:
    """Fuzz one door for so many seconds; the fuzzer ends the process at the first thing that must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("door", choices=DOORS)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds(options.door)):
            (Path(folder) / str(number)).write_bytes(seed)
        limits = [f"-max_total_time={options.seconds}", "-max_len=4096", "-timeout=20", f"-artifact_prefix={tempfile.gettempdir()}/"]
        atheris.Setup([sys.argv[0], *limits, folder], DOORS[options.door])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
