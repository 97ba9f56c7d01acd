"""Each level of isolation on the machine as it is, and on poorer ones: without privileges, without namespaces, with nothing at all.

What this machine can't give is said by the canary's own words, and the test then looks at these. AppArmor's rule on user namespaces
(Ubuntu 24.04: they are made, and then give no capabilities) is imitated by a filter of system calls.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.levels import LAYERS, LEVELS, NEEDED, is_enough, layers_of, level_of
from grader.ranks.zygote import Zygote
from grader.records import Json
from tests.grader.runs.conftest import Observe
from tests.soak.poorer import POORER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are Linux's")


def seen_by(become: Callable[[], None], room: Path, at_most: str = "A") -> Json:
    """What `canary.choose` comes to in a process that has first done `become`."""
    from grader.worker import canary, walls  # here only: the tests play the zygote's part

    walls.libraries()  # which reads what the user who is tried may not be able to, on a machine where Python is root's
    room.chmod(0o777)
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            become()
            private = room / "run" / "canary"
            private.mkdir(parents=True)
            plan, seen = canary.choose(private, os.getpid(), "torch", at_most, [])
            told = {"plan": plan.level, "own_user": plan.has_own_user, **seen}
        except BaseException as error:
            told = {"plan": f"{type(error).__name__}: {error}"}
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as telling:
        answer = json.load(telling)
    os.waitpid(pid, 0)
    return answer


@pytest.mark.parametrize("name", POORER)
def test_the_best_level_that_a_machine_gives_is_found(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Never more than the machine gives, and never less without a reason in words."""
    become, best = POORER[name]
    seen = seen_by(become, open_folder(tmp_path_factory))
    reached = level_of(seen)
    assert seen["plan"] == reached and is_enough(best, reached), seen
    stronger = LEVELS[LEVELS.index(best) : LEVELS.index(reached)]
    assert all(seen["refused"].get(level) for level in stronger if level != "B"), f"{reached}, and no word on {stronger}: {seen}"


@pytest.mark.parametrize("at_most", "ABCD")
def test_a_level_is_what_its_canary_saw_and_no_more_than_was_asked_for(at_most: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The label's letter is derived from refusals: all layers that the level needs held, and none of a stronger level was laid."""
    started = Zygote("torch", at_most, [open_folder(tmp_path_factory)])
    try:
        level = started.level()
        held = layers_of(started.walls)
    finally:
        started.close()
    assert is_enough(at_most, level) and set(NEEDED[level]) <= set(held)
    assert level == at_most or started.walls["refused"].get(at_most) or at_most == "B", started.walls
    assert "namespaces" not in held or at_most == "A"


def test_a_canary_that_gets_through_takes_the_level_away() -> None:
    """Each single attempt counts: one that was not refused, and the levels that need its layer are gone."""
    everything = {attempt: True for attempts in LAYERS.values() for attempt in attempts}
    for layer, attempts in LAYERS.items():
        for attempt in attempts:
            level = level_of({"landlock": 7, "denied": everything | {attempt: False}})
            assert layer not in NEEDED[level], (attempt, level)
    assert level_of({"landlock": 0, "denied": everything}) == "D"


def test_what_was_seen_behind_other_walls_is_no_answer(submit: Callable[[str], Observe], runs) -> None:
    """Without walls a submission can make up what it answers: the store never gives that to a run with walls, nor the other way round."""
    observe = submit("def run(inputs):\n    return {'at': torch.tensor(time.time_ns())}\n")

    def when() -> int:
        return int(observe("run", returns={"at": ("int64", ())}).rank(0)["at"])

    walled, runs.at_most = when(), "D"
    try:
        bare = when()
    finally:
        runs.at_most = "A"
    is_walled = level_of(runs.witnessed()[0]) != "D"
    assert (when() == walled) and (bare != walled) == is_walled


def open_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that other users may go through, up to the root: pytest's own are closed."""
    folder = factory.mktemp("open")
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.getuid() and each != Path(each.anchor) and each.stat().st_mode & 0o011 != 0o011:
            each.chmod(each.stat().st_mode | 0o011)
    return folder
