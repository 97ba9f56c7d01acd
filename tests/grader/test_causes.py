"""Failures with one cause are told once, what explains most first, and nothing in a message twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.records import AssignmentMark, LawMark, Message
from grader.report import json_report
from grader.report.causes import causes_of
from grader.report.once import said_once
from tests.grader.test_report import FAILURE, law, printed, report_of

REUSED = "at {}: rank 0 changed the tensor of send {} (x.py:85) before its wait (x.py:91)"
UNWAITED = Message(seen="x: rank 0 returns.", diagnosis="A send is started and never waited for.", kind="not_waited")
BARE = Message(seen="x: 3 of 3 values differ")
HANGS = Message(seen="rank 0 has used 4 s of CPU; it is at x.py:63", kind="cpu_limit")


def told(*laws: LawMark) -> list[tuple[str, list[str], list[str]]]:
    """(the law that is explained, those that fail the same way, those that may follow) of each cause, in their order."""
    ends = [[[law.id.rpartition(".")[2] for law in part] for part in (cause.laws, cause.followers)] for cause in causes_of(mark_of(*laws))]
    return [(same[0], same[1:], follow) for same, follow in ends]


def mark_of(*laws: LawMark) -> AssignmentMark:
    """The laws in one assignment."""
    return report_of(*laws).assignments[0]


def test_one_cause_is_told_once_whatever_the_tensor() -> None:
    """The same kind of fault at the same lines is one cause, also in another task; at another line it is another."""
    laws = [law(f"at_{where}", Message(seen=REUSED.format(where, where), kind="changed_in_flight"), task=task)
            for where, task in (("float32", "ring"), ("bfloat16", "ring"), ("x", "broadcast"))]  # fmt: skip
    elsewhere = law("elsewhere", Message(seen="rank 0 changed the tensor of send x (x.py:12)", kind="changed_in_flight"))
    assert told(*laws, elsewhere) == [("at_float32", ["at_bfloat16", "at_x"], []), ("elsewhere", [], [])]


def test_what_means_the_same_is_one_cause_within_a_task() -> None:
    """Zeros in two laws of a task are told once; in another task they may come of something else. A hidden case keeps its kind."""
    zeros = [Message(seen=f"{name}: 3 of 3 values differ", diagnosis="Every wrong value is 0.") for name in "abcd"]
    hidden = law("d", zeros[3], hidden=True)
    assert told(law("a", zeros[0]), law("b", zeros[1]), law("c", zeros[2], task="other"), hidden) == [
        ("a", ["b"], []), ("d", [], []), ("c", [], [])]  # fmt: skip


def test_a_cause_is_told_before_what_may_come_of_it() -> None:
    """A send that nobody waits for explains the hang and the wrong values of its task, which are only named; other tasks' are told."""
    laws = [law("values", BARE), law("hangs", HANGS), law("waits", UNWAITED), law("b", replace(BARE, seen="y: 1 of 3"), task="other")]
    assert told(*laws) == [("waits", [], ["hangs", "values"]), ("b", [], [])]
    assert told(laws[0], laws[1]) == [("hangs", [], []), ("values", [], [])]  # nothing there explains the other
    text = " ".join(printed(report_of(*laws)).split())
    assert "2 more laws of this task may fail through it: ring.hangs, ring.values" in text and BARE.seen not in text
    assert BARE.seen in json_report.dumps(report_of(*laws))


@pytest.mark.parametrize("width", [24, 40])
def test_no_id_of_many_is_broken(width: int) -> None:
    """Laws that are only named can be copied, too."""
    text = printed(report_of(law("one", FAILURE), law("is_a_law_of_a_long_name_as_well", FAILURE)), width)
    assert "ring.is_a_law_of_a_long_name_as_well" in text.split()


# --- nothing twice ----------------------------------------------------------------------------------------------------
def test_ranks_are_listed_once_and_one_below_the_other() -> None:
    """A sentence that ends with the ranks is cut before them; one that says more than these is not."""
    lines = [f"rank {rank} waits in send to rank {rank + 1}" for rank in range(4)]
    for end in ("", " and 1 more"):
        both = said_once(Message(seen=f"deadlock: {'; '.join(lines[:3])}{end}", where="\n".join(lines)))
        assert (both.seen, both.where) == ("deadlock: no rank comes any further:", "\n".join(lines))
    more = said_once(Message(seen=f"deadlock: {lines[0]}; and what it means", where="\n".join(lines)))
    assert more.seen.endswith("what it means") and more.where == "\n".join(lines[1:])
    alone = said_once(Message(seen="rank 0 raised", where="rank 0 raised"))
    assert alone == Message(seen="rank 0 raised")


def test_what_is_said_of_several_ranks_alike_is_said_once() -> None:
    """Ranks that raise the same, or stand still at the same place, share a line."""
    lines = [f"rank {rank} raised ValueError at x.py:3" for rank in range(3)]
    alone = said_once(Message(seen=f"ring on 3 ranks: {lines[0]}", where="\n".join(lines)))
    assert (alone.seen, alone.where) == ("ring on 3 ranks:", "rank 0 (likewise rank 1, rank 2) raised ValueError at x.py:3")
    assert said_once(Message(seen=f"{lines[0]}; and more", where="\n".join(lines))).where == "likewise rank 1, rank 2"
    stuck = said_once(Message(seen="deadlock: rank 0 stands; rank 1 stands", where="rank 0 stands\nrank 1 stands"))
    assert (stuck.seen, stuck.where) == ("deadlock: no rank comes any further:", "rank 0 (likewise rank 1) stands")
