"""Looking ahead: a second thread makes the observations of later cases, and judges nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import MachineError
from grader.judge.session import Judged, judge
from grader.records import Assignment, Law, Message, Task

RING = Task("sums.ring", "The ring", (Law("sums.ring.sum", "The sum holds.", 2, "judged"),), ("ring",), "pass")
SUMS = Assignment("sums", 1, "Sums", ("sums.py",), (RING,))


@dataclass
class Meeting:
    """Observations that two threads make: the first of the judge's waits until the one who looks ahead has made `num_ahead`."""

    num_ahead: int
    asked: dict[str, list[str]] = field(default_factory=lambda: {"judge": [], "scout": []})
    far_enough: threading.Event = field(default_factory=threading.Event)

    def for_case(self, assignment: str, hidden: bool, case_id: str) -> Meeting:
        return self

    def judge(self, root: Path, body: str, *probes: str) -> Judged:
        """Judge a test with that body, a case for each probe, looking ahead."""
        path = root / "tests" / "public" / "test_sums.py"
        path.parent.mkdir(parents=True)
        marks = f"@pytest.mark.law('ring.sum')\n@pytest.mark.parametrize('probe', {list(probes)})\n"
        path.write_text(f"import pytest\n{marks}def test_sum(observe, probe):\n{body}")
        return judge(root, [SUMS], self, looks_ahead=True)

    keys: tuple[str, ...] = ()
    kind: str = ""
    rests_on_facts: bool = False

    def __call__(self, probe: str) -> str:
        who = "scout" if threading.current_thread().name == "scout" else "judge"
        self.asked[who].append(probe)
        if len(self.asked["scout"]) == self.num_ahead:
            self.far_enough.set()
        if who == "judge" and not self.far_enough.wait(60):
            raise MachineError("nobody looked ahead")
        return probe

    def how_to(self) -> Message:
        return Message(seen="")


def test_later_cases_are_observed_while_the_first_is_judged(tmp_path: Path) -> None:
    """From the last one backwards, each once, and never what the judge has reached; the verdicts are the judge's own."""
    meeting = Meeting(3)
    judged = meeting.judge(tmp_path, "    observe(probe)\n", "a", "b", "c", "d")
    assert meeting.asked == {"judge": ["a", "b", "c", "d"], "scout": ["d", "c", "b"]}
    assert [verdict.outcome for verdict in judged.verdicts] == ["passed"] * 4


@dataclass
class Stuck(Meeting):
    """The one who looks ahead is in an observation that does not end; then somebody presses Ctrl-C."""

    num_ahead: int = 1
    may_end: threading.Event = field(default_factory=threading.Event)
    has_ended: bool = False

    def __call__(self, probe: str) -> str:
        super().__call__(probe)
        if threading.current_thread().name != "scout":
            raise KeyboardInterrupt
        self.may_end.wait(60)
        self.has_ended = True
        return probe


def test_nobody_who_interrupts_waits_for_what_is_looked_at(tmp_path: Path) -> None:
    """Ctrl-C ends the judge while an observation ahead of him still runs."""
    stuck = Stuck()
    judged = stuck.judge(tmp_path, "    observe(probe)\n", "a", "b")
    ended_with_the_judge = stuck.has_ended
    stuck.may_end.set()
    assert judged.interrupted
    assert not ended_with_the_judge


def test_looking_ahead_ends_where_a_case_would_judge(tmp_path: Path) -> None:
    """No assertion is met, nothing is told, nothing that fails there ends the judge."""
    meeting = Meeting(2)
    body = "    seen = observe(probe)\n    assert seen.upper() != 'B'\n    observe('second')\n    raise SystemExit(seen)\n"
    judged = meeting.judge(tmp_path, body, "a", "b", "c")
    assert meeting.asked == {"judge": ["a", "second", "b", "c", "second"], "scout": ["c", "b"]}
    assert [verdict.outcome for verdict in judged.verdicts] == ["course_error", "failed", "course_error"]
