"""A race of real processes, where the host plays the GPU. What it says of time is not looked at; the windows of these races are short."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course import Course
from grader.observe.live import Runs
from grader.observe.profile import GpuProfile
from grader.policy import without_rules
from grader.race_stage import race_all
from grader.races.conduct import Plan
from grader.races.verdict import SpeedMark
from tests.grader.races.conftest import TIMES, Submit

SHORT = Plan(window_s=0.002, rounds_alone=2, rounds=2, window_limit_s=5.0)
SHORTEST = Plan(window_s=0.002, rounds_alone=1, rounds=1, window_limit_s=5.0)  # enough to be refused in
RIGHT = TIMES.format(rounds=1000)  # as the peer
# What is tried, and a word of the sentence that it ends with. All of it is fast.
CHEATS = {
    "answers_with_zeros": ("def square(x):\n    return x * 0\n", "y is wrong"),
    "in_a_lower_precision": ("import torch\ndef square(x):\n    return (x.bfloat16() ** 2).float()\n", "y is wrong"),
    "only_the_first_half": ("def square(x):\n    y = x.clone()\n    y[:2048] = x[:2048] ** 2\n    return y\n", "y is wrong"),
    "changes_the_question": ("def square(x):\n    x.zero_()\n    return x\n", "y is wrong"),
    "answers_by_address": (
        "seen = {}\ndef square(x):\n    if x.data_ptr() not in seen:\n        seen[x.data_ptr()] = x * x\n    return seen[x.data_ptr()]\n",
        "y is wrong",
    ),
    "answers_by_identity": ("import functools\n@functools.cache\ndef once():\n    return []\ndef square(x):\n"
                            "    once().append(x * x)\n    return once()[0]\n", "y is wrong"),
    "one_for_many": ("kept = []\ndef square(x):\n    if len(kept) % 5 == 0:\n        kept.append(x * x)\n    else:\n"
                     "        kept.append(kept[-1])\n    return kept[-1]\n", "y is wrong"),
    "later_on_a_thread": (
        "import threading, time, torch\ndef square(x):\n    y = torch.zeros_like(x)\n"
        "    threading.Thread(target=lambda: (time.sleep(0.001), torch.mul(x, x, out=y))).start()\n    return y\n", "y is wrong",
    ),
    "lazily": (
        "import torch\nclass Lazy(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return args[0] if args else None\ndef square(x):\n    return x.as_subclass(Lazy)\n", "never written",
    ),
    "copies_nothing": ("import torch\ntorch.Tensor.copy_ = lambda self, other: self\ndef square(x):\n    return x\n", "never written"),
    "replaces_the_window": (
        "import grader.worker.race as race\nrace._window = lambda call, slots, device: 1e-9\ndef square(x):\n    return x * x\n",
        "never written",
    ),
    "says_done_beforehand": (
        "import gc\nfrom grader.worker.line import Line\nline = next(each for each in gc.get_objects() if isinstance(each, Line))\n"
        "def square(x):\n    line.post({'op': 'race', 'id': 0, 'say': 'done', 'testified_s': 1e-9})\n    return x * x\n",
        "out of turn",
    ),
    "leaves": ("import os\ndef square(x):\n    os._exit(0)\n", "has ended"),
    "announces_too_much": (
        "import gc, struct\nfrom grader.worker.line import Line\nline = next(each for each in gc.get_objects() if isinstance(each, Line))\n"
        "line._sock.sendall(struct.pack('<IQ', 2**31, 2**60))\ndef square(x):\n    return x * x\n", "announced a frame",
    ),
    "speaks_in_riddles": (
        "import gc, struct\nfrom grader.worker.line import Line\nline = next(each for each in gc.get_objects() if isinstance(each, Line))\n"
        "deep = b'[' * 100_000\nline._sock.sendall(struct.pack('<IQ', len(deep), 0) + deep)\ndef square(x):\n    return x * x\n",
        "no racer says",
    ),
}  # fmt: skip


def raced(course: Course, folder: Path, runs: Runs, profile: GpuProfile, plan: Plan = SHORT) -> SpeedMark:
    """The mark of the only race; without rules, since the policy is no wall."""
    (mark,) = race_all(course, folder, [without_rules(each) for each in course.assignments], runs=runs, profile=profile, plan=plan)
    return mark


def test_a_right_submission_is_raced_stored_and_judged_again(course: Course, runs: Runs, submit: Submit, played: GpuProfile) -> None:
    """Nothing refuses it; a replay starts no process and gives the same mark; of another submission nothing is stored."""
    folder = submit(RIGHT)
    mark = raced(course, folder, runs, played)
    assert mark.state in ("judged", "inconclusive") and mark.estimate is not None and mark.estimate.num_rounds == 2
    replay = Runs(course.root, runs.store, replay=True)
    assert raced(course, folder, replay, played) == mark
    assert raced(course, submit(RIGHT + "\n# another\n"), replay, played).state in ("judged", "inconclusive", "not_judged")
    assert "stored" in raced(course, submit(RIGHT.replace("1000", "999")), replay, played).sentence


@pytest.mark.parametrize("name", CHEATS)
def test_a_dishonest_submission_is_refused(name: str, course: Course, runs: Runs, submit: Submit, played: GpuProfile) -> None:
    """Its race ends with no marks, and says what was seen of it."""
    source, words = CHEATS[name]
    mark = raced(course, submit(source), runs, played, SHORTEST)
    assert (mark.state, mark.earned) == ("refused", 0), mark.sentence
    assert words in mark.sentence, mark.sentence


def test_without_a_gpu_nothing_is_raced(course: Course, runs: Runs, submit: Submit) -> None:
    """No mark, no blame, no process."""
    mark = raced(course, submit(RIGHT), runs, GpuProfile(()))
    assert (mark.state, mark.earned, mark.possible) == ("not_judged", 0, 10) and "No GPU" in mark.sentence


def test_a_peer_that_is_not_there_leaves_the_race_unjudged(course: Course, runs: Runs, submit: Submit, played: GpuProfile) -> None:
    """Another torch, another device: it is nobody's fault, and the sentence has what it raised."""
    entrants = course.root / "tests" / "races" / "squares" / "entrants.py"
    before = entrants.read_text()
    try:
        entrants.write_text(before.replace("squares_peer(at, length):", "squares_peer(at, length):\n    raise ImportError('no peer')"))
        mark = raced(course, submit(RIGHT), runs, played)
    finally:
        entrants.write_text(before)
    assert mark.state == "not_judged" and "ImportError: no peer" in mark.sentence
