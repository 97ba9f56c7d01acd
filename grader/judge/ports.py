"""What the judge needs of the rest: somebody who observes, and somebody who likes to hear how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from grader.records import CaseVerdict, Message


class Observe(Protocol):
    """Run a probe beside the submission, or read a stored run; the judge cannot tell which. One for each case."""

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the observations that the case has asked for, in order."""
        ...

    @property
    def kind(self) -> str:
        """The kind of case in words, as far as the test has told it; what a student may know of a hidden case."""
        ...

    @property
    def rests_on_facts(self) -> bool:
        """Whether the case has read what a process that ran the submission says of it: of any form, unlike its tensors."""
        ...

    def __call__(self, probe: str, *nothing: Any, **request: Any) -> Any:
        """The observation of `probe`. Raises SubmissionError, NotJudged, MachineError or CourseError."""
        ...

    def how_to(self) -> Message:
        """A message whose `debug` is the command that steps through the latest observation; empty for a hidden case."""
        ...


class Observer(Protocol):
    """All observations of one submission: live and replay are interchangeable."""

    def for_case(self, assignment: str, hidden: bool, case_id: str) -> Observe:
        """`observe` for one case of the assignment of that name."""
        ...


class Progress(Protocol):
    """Told while cases are judged; must not raise."""

    def started(self, num_cases: int) -> None:
        """Collection is over and `num_cases` are going to be judged."""
        ...

    def judging(self, law: str) -> None:
        """A case of `law` begins."""
        ...

    def judged(self, verdict: CaseVerdict) -> None:
        """A case has its verdict."""
        ...
