"""A course of two laws whose gradings take tenths of a second, and a class of which every kind of hand-in is a member."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import Course
from tests.grader.batch.downloads import Files, Student, zipped
from tests.grader.small_course import laid_out

SPECIFICATION = """
number: 3
title: Sums
files: [sums.py, more.py]
tasks:
  - id: pair
    title: The pair
    regions: [pair]
    stub: raise NotImplementedError
    laws:
      - {id: adds, claim: It adds., points: 2, evidence: judged}
      - {id: orders, claim: The order of two numbers is no matter., points: 3, evidence: judged}
"""
PROBE = """
def add(at, a, b):
    import torch
    return {"y": torch.tensor(at.submission.sums.add(a, b), dtype=torch.int64)}
"""
# What a test of the course does to the process that judges: each call takes a word from the file `trouble`, until
# there is none, and leaves it in `nodes`, with the node of Slurm's that it is on.
TESTS = '''
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

Y = {{"y": ("int64", ())}}
TROUBLE = Path(__file__).parents[2] / "trouble"

@pytest.mark.law("pair.adds")
def test_it_adds(observe):
    """It adds."""
    judges = threading.current_thread() is threading.main_thread()  # and doesn't just look ahead
    word, *others = [*TROUBLE.read_text().split(), ""] if TROUBLE.exists() and judges else [""]
    if word:
        TROUBLE.write_text(" ".join(others))
    if judges:
        with TROUBLE.with_name("nodes").open("a") as seen:
            print(os.environ.get("SLURMD_NODENAME", "none"), word or "-", file=seen)
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "memory":
        raise MemoryError
    if word == "cancel":
        subprocess.run(["scancel", "--signal=KILL", os.environ["SLURM_JOB_ID"]], check=True)
    if word in ("cancel", "hang"):
        threading.Event().wait()
    y = observe("add", transport="none", returns=Y, a={0}, b=2).rank(0)["y"]
    assert y == {0} + 2, "that is not the sum"

@pytest.mark.law("pair.orders")
def test_the_order_is_no_matter(observe):
    """The order of two numbers is no matter."""
    y = [observe("add", transport="none", returns=Y, a=a, b=7 - a).rank(0)["y"] for a in ({0}, 7 - {0})]
    assert y[0] == y[1], "the order matters"
'''
RIGHT, ODD = b"def add(a, b):\n    return a + b\n", b"def add(a, b):\n    return a * b\n"
EMPTY = b"def add(a, b):\n    raise NotImplementedError\n"
MORE = b"TWO = 2\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """The course, in a folder of its own."""
    written = {
        "assignments/sums/assignment.yaml": SPECIFICATION,
        "tests/probes/sums.py": PROBE,
        "tests/public/test_sums.py": TESTS.format(1),
        "tests/hidden/test_sums.py": TESTS.format(5),
    }
    return laid_out(tmp_path / "course", written)


def student(number: int, name: str, login: str) -> Student:
    """A student whose id has leading zeros, as many do."""
    return Student(f"{number:07}", name, login, 1000 + number)


@pytest.fixture
def handed() -> dict[Student, Files]:
    """Twelve students: right, wrong, unbegun, the same as somebody else's, packed in every way, broken, nothing at all."""
    both = {"sums.py": RIGHT, "more.py": MORE}
    return {
        student(1, "Ada Lovelace", "ada-l"): both,
        student(2, "Lovelace, Ada", "ada-two"): {"sums.py": ODD, "more.py": MORE},
        student(3, "Émilie du Châtelet", "emilie"): {"Week 1 – final.zip": zipped(both, "Week 1 – final")},
        student(4, "Ян Li 李", "jan"): {"work.zip": zipped({"sums.py": EMPTY, "more.py": MORE})},
        student(5, "O'Brien, \"Bo\"", "bo"): {"sums.py": EMPTY, "more.py": MORE},
        student(6, "=HYPERLINK(1)", "eve"): {"sums.py": b"def add(a, b:\n", "more.py": MORE},
        student(7, "Grace Hopper", "grace"): {"work.zip": b"PK\3\4 and no more"},
        student(8, "Anna-Lena Öz", "anna"): {"sums.py": RIGHT},
        student(9, "Tim", "tim"): {"notes.txt": b"I could not finish."},
        student(10, "Kim", "kim"): {"sums.py": b"import os\nos._exit(0)\n", "more.py": MORE},
        student(11, "Sam", "sam"): {"sums.py": b"\xef\xbb\xbf" + RIGHT.replace(b"\n", b"\r\n"), "more.py": MORE},
    }


@pytest.fixture
def students(handed: dict[Student, Files]) -> list[Student]:
    """The roster: those who handed in, and one who didn't."""
    return [*handed, student(12, "Zoë Nobody", "zoe")]
