"""Races of several ranks, where the host plays the GPUs: real groups over gloo, and what the judge makes of a slow or silent rank."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader import frames
from grader.course import Course, load
from grader.devices import Gpu
from grader.observe.live import Runs
from grader.observe.profile import GpuProfile
from grader.race_stage import race_all
from grader.races.conduct import Conductor, Plan
from grader.races.crew import Crew
from grader.races.seats import Fallen, Seat
from grader.races.verdict import LINK_MARGIN, floor_s
from grader.races.windows import PEER, Peaks
from grader.worker.device import enter
from tests.grader.races.conftest import SPECIFICATION, Submit
from tests.grader.races.test_race import SHORT, SHORTEST, raced
from tests.grader.small_course import laid_out

COURSE = load(Path(__file__).parents[3])
ONCE = Plan(window_s=1e-6, rounds_alone=1, rounds=1, window_limit_s=60)  # as few calls as there may be

KEEPER = '''
import torch

class sums:
    """x of each rank, and a weight that all share: y is the mean of weight * x over the ranks, on every rank."""

    precision, shared, most_calls = "float32", ("weight",), 8

    def __init__(self, device, length, rank, world_size):
        self.length = length
        self.inputs, self.outputs = {"x": ("float32", (length,)), "weight": ("float32", ())}, {"y": ("float32", (length,))}
        self.moved_bytes, self.flops, self.sent_bytes = 8 * length, length, 4 * length

    def fill(self, inputs, generator):
        for tensor in inputs.values():
            tensor.normal_(generator=generator)

    def places(self, generator):
        return torch.randint(self.length, (64,), generator=generator)

    def exact(self, inputs, places):
        return {"y": sum(each["x"][places].double() * each["weight"].double() for each in inputs) / len(inputs)}

    def plain(self, inputs, places):
        return {"y": sum(each["x"][places] * each["weight"] for each in inputs) / len(inputs)}

    def taken(self, outputs, places):
        return {"y": outputs["y"][places]}
'''
ENTRANTS = """
import torch.distributed as dist

def sums_peer(at, length):
    def call(inputs, outputs):
        y = inputs["x"] * inputs["weight"]
        dist.all_reduce(y)
        outputs["y"].copy_(y / dist.get_world_size())
    return call

def sums_submission(at, length):
    def call(inputs, outputs):
        outputs["y"].copy_(at.submission.mean(inputs["x"] * inputs["weight"]))
    return call
"""
RIGHT = "import torch.distributed as dist\ndef mean(y):\n    dist.all_reduce(y)\n    return y / dist.get_world_size()\n"
CHEATS = {
    "no_communication_at_all": ("def mean(y):\n    return y\n", "y on rank 0 is wrong"),
    "takes_its_own_for_both": ("def mean(y):\n    return (y + y.flip(0)) / 2\n", "y on rank 0 is wrong"),
    "communicates_in_every_third_call": (
        RIGHT + "calls = [0]\nhonest = mean\ndef mean(y):\n    calls[0] += 1\n    return y if calls[0] % 3 else honest(y)\n", "is wrong",
    ),
    "does_not_wait": (
        "import torch.distributed as dist\nbefore = []\ndef mean(y):\n    before.append((y, dist.all_reduce(y, async_op=True)))\n"
        "    if len(before) == 1:\n        return y * 0\n    y, work = before.pop(0)\n    work.wait()\n"
        "    return y / dist.get_world_size()\n", "is wrong",
    ),
    "one_rank_leaves": (RIGHT + "import os\nhonest = mean\ndef mean(y):\n    dist.get_rank() or os._exit(0)\n    return honest(y)\n",
                        "(rank 0) has ended"),
    "one_rank_raises_while_the_other_waits": (
        RIGHT + "honest = mean\ndef mean(y):\n    if dist.get_rank() == 1:\n        raise ValueError('enough')\n    return honest(y)\n",
        "(rank 1) raised ValueError: enough",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """One assignment, one race of two ranks."""
    specification = SPECIFICATION.replace("track: squares", "track: sums").replace("pretended: {length: 4096}", "pretended: {length: 512}")
    written = {
        "assignments/squares/assignment.yaml": specification + "    ranks: 2\n",
        "tests/probes/squares.py": "",
        "tests/races/squares/keeper.py": KEEPER,
        "tests/races/squares/entrants.py": ENTRANTS,
    }
    return laid_out(tmp_path_factory.mktemp("course"), written)


def played(num_gpus: int) -> GpuProfile:
    """So many GPUs that the host plays."""
    return GpuProfile(tuple(Gpu(number, f"GPU-{number}", "pretended", "none", 0, 0) for number in range(num_gpus)), "pretend")


def test_a_right_crew_is_raced_and_judged_again(course: Course, runs: Runs, submit: Submit) -> None:
    """Eight processes, two awake at a time; a replay starts none of them."""
    folder = submit(RIGHT)
    mark = raced(course, folder, runs, played(2), SHORT)
    assert mark.state in ("judged", "inconclusive") and mark.estimate is not None, mark.sentence
    assert raced(course, folder, Runs(course.root, runs.store, replay=True), played(2)).sentence == mark.sentence


@pytest.mark.parametrize("name", CHEATS)
def test_a_dishonest_crew_is_refused(name: str, course: Course, runs: Runs, submit: Submit) -> None:
    """What one rank has not sent, the keeper beside another rank misses."""
    source, words = CHEATS[name]
    mark = raced(course, submit(source), runs, played(2), SHORTEST)
    assert (mark.state, mark.earned) == ("refused", 0), mark.sentence
    assert words in mark.sentence, mark.sentence


@pytest.mark.parametrize("race", [each.id for assignment in COURSE.assignments for each in assignment.races if each.id.endswith(".step")])
def test_the_solution_is_raced_and_never_found_wrong(race: str, runs: Runs) -> None:
    """Keepers and entrants of the course's own steps, where the host plays two GPUs: what its peers and solutions answer is right."""
    ((assignment, one),) = ((each, its) for each in COURSE.assignments for its in each.races if its.id == race)
    (mark,) = race_all(
        COURSE, COURSE.root / "solutions", [replace(assignment, races=(one,))], runs=Runs(COURSE.root, runs.store), profile=played(2),
        plan=ONCE, is_proved=True,
    )  # fmt: skip
    assert mark.state in ("judged", "inconclusive"), mark.sentence


def test_a_races_environment_reaches_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before NCCL is there: it looks once. Without it two GPUs of one host have another way than the one that is raced on."""
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    enter({"device": "cuda", "gpus": ["GPU-0"], "race": "peer", "world_size": 2, "environment": {"NCCL_P2P_DISABLE": "1"}})
    assert os.environ["NCCL_P2P_DISABLE"] == "1"


def test_too_few_gpus_leave_the_race_unjudged(course: Course, runs: Runs, submit: Submit) -> None:
    """No blame, no process."""
    mark = raced(course, submit(RIGHT), runs, played(1))
    assert mark.state == "not_judged" and "2 ranks" in mark.sentence and "has 1" in mark.sentence


class Line:
    """A crew of two whose ranks are held by the test."""

    def __init__(self) -> None:
        ends = [socket.socketpair() for _ in range(2)]
        self.theirs = [theirs for theirs, _ in ends]
        self.crew = Crew([Seat(0, mine, -1, ({}, [])) for _, mine in ends])

    def say(self, rank: int, **word: object) -> None:
        frames.send(self.theirs[rank], word)


def test_who_raises_is_heard_before_who_waits() -> None:
    """Rank 0 is silent because it waits for rank 1, which has raised: the sentence names rank 1, and comes at once."""
    line = Line()
    line.say(1, raised={"type": "ValueError", "message": "enough"})
    with pytest.raises(Fallen, match=r"\(rank 1\) raised ValueError: enough"):
        line.crew.hear("done", 60.0)


def test_words_come_by_rank_whoever_was_first() -> None:
    """And a rank that stays silent is named."""
    line = Line()
    for rank in (1, 0):
        line.say(rank, op="race", id=0, say="done", testified_s=float(rank))
    assert [word.testified_s for word in line.crew.hear("done", 60.0)] == [0.0, 1.0]
    line.say(0, op="race", id=1, say="done")
    with pytest.raises(Fallen, match=r"\(rank 1\) did not answer in time"):
        line.crew.hear("done", 0.05)


def test_the_slowest_rank_is_the_crews_time() -> None:
    """On clocks of their own, the peer's two ranks take 1 s and 3 s: the window took 3."""
    from tests.grader.races.puppets import Stage

    stage, now_s = Stage(), {1: 0.0, 2: 0.0}

    def moved(entrant: str, *rest: object) -> None:
        now_s.update({1: now_s[1] + 1.0, 2: now_s[2] + 3.0})

    stage.seats[PEER].pids, stage.run_window = [1, 2], moved  # type: ignore[method-assign]
    stage.seats[PEER].freeze()
    conductor = Conductor(stage.seats, Plan(), random.Random(0), clock_ns=lambda pid: int(now_s[pid] * 1e9))  # type: ignore[arg-type]
    assert conductor._window("alone", PEER, "", 1, 1.0).elapsed_s == pytest.approx(3.0)


def test_nobody_is_faster_than_the_link() -> None:
    """1e8 bytes at 1e9 per second, with the margin: the link is the floor where bytes and FLOPs are less."""
    peaks = Peaks(1e12, 1e15, 1e8, 1e9, link_bytes_per_s=1e9, sent_bytes=1e8)
    assert floor_s(peaks) == pytest.approx(0.1 / LINK_MARGIN)
    assert floor_s(Peaks(1e12, 1e15, 1e8, 1e9)) == pytest.approx(8e-5)
