"""Three blames: the submission's, the course's, the machine's. Whoever raises one of these has decided whose fault it is."""

from __future__ import annotations

from grader.records import Fault, Message


class SubmissionError(AssertionError):
    """The submission raised, crashed, hung, or answered in another shape than was asked."""

    def __init__(self, message: Message, fault: Fault | None = None) -> None:
        super().__init__(message.seen)
        self.message = message
        self.fault = fault


class LawBroken(AssertionError):
    """A judgement: what was observed does not keep the law."""

    def __init__(self, message: Message) -> None:
        super().__init__(" ".join(part for part in (message.seen, message.allowed, message.where, message.diagnosis) if part))
        self.message = message


class NotJudged(Exception):
    """A case that needs what this machine does not have; it leaves the law pending, never failed."""


class NotOnThisProfile(NotJudged):
    """A case that means nothing on the profile at hand, or cannot run there: it keeps its verdict of the CPU profile."""


class UsageError(Exception):
    """The caller can mend it: a wrong option, a file that is not there. Exit code 2."""


class CourseError(Exception):
    """The course is wrong: a test, a probe, an assignment.yaml, a mutant. Exit code 3."""


class MachineError(Exception):
    """The machine is: no memory, no fork, a process of the grader that died. Exit code 4."""
