"""An exception that left a test becomes a verdict: whose fault it is, and what a student and the staff may read of it."""

from __future__ import annotations

import errno
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from grader.errors import CourseError, LawBroken, MachineError, NotJudged, NotOnThisProfile, SubmissionError
from grader.records import BY_CLOCK, NOT_STARTED, SETTLED, CaseOutcome, Fault, Message

GRADER_FOLDER = Path(__file__).parents[1]
MACHINE_ERRNOS = {errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO}

# All that a student reads of a fault in a hidden case: fixed words, because sentences and exceptions may carry inputs out.
FAULTS_IN_WORDS = {
    "raised": "The submission raised an exception.",
    "exited": "A rank left without an answer.",
    "crashed": "A rank crashed.",
    "deadlock": "The ranks wait for each other and none can go on.",
    "mismatch": "The ranks' calls do not fit together.",
    "cpu_limit": "A rank used more CPU time than the case allows.",
    "silent": "A rank slept too long without communicating.",
    "idle": "The ranks stood still, each of them waiting.",
    "killed_watcher": "The processes that watch the ranks were killed.",
    "memory": "A rank used more memory than the case allows.",
    "changed_in_flight": "A tensor was changed while it was being sent.",
    "forbidden": "The submission uses what this assignment forbids, and was not run.",
    "malformed": (NO_FORM := "The answer has not the form that was asked for."),
}


class NotRun(Exception):
    """The law is settled: it failed by a time-out, so that its other cases would cost minutes; or one failure is enough for who asked."""


@dataclass(frozen=True, slots=True)
class Blame:
    """What one exception amounts to."""

    outcome: CaseOutcome
    message: Message
    timed_out: bool = False

    def for_hidden_case(self, kind: str, error: BaseException) -> Blame:
        """The same with nothing in it that could carry a hidden case's inputs, expected values, seed or output."""
        if isinstance(error, NotOnThisProfile):
            return self  # its reason is the grader's own, or the test's
        diagnosis = self.message.diagnosis
        if isinstance(error, SubmissionError) and diagnosis != NOT_STARTED:
            diagnosis = FAULTS_IN_WORDS.get(error.fault.kind, "") if error.fault else ""
        return replace(self, message=Message(seen=self._seen_from_outside(kind, type(error).__name__), diagnosis=diagnosis))

    def _seen_from_outside(self, kind: str, error: str) -> str:
        match self.outcome:
            case "failed":
                return f"A hidden case fails; its kind: {kind}."
            case "not_judged":
                return f"A hidden case was not judged; its kind: {kind}."
            case "machine_error":
                return f"The machine failed in a hidden case ({error}). It is not your fault: try again."
            case _:
                return f"The course is wrong, not you: a hidden case raised {error}. Tell your instructor."


def blame_for(error: BaseException, *, in_test: bool, rests_on_facts: bool = False, fault: Fault | None = None) -> Blame:
    """Decide whose fault `error` is. A bare AssertionError judges only `in_test`, not while a test is set up or torn down.

    rests_on_facts  the test has read facts: what it then stumbles over is what the submission returned, or made up
    fault           how the case's latest run ended, if not well
    """
    match error:
        case NotRun():
            return Blame("failed", Message(seen=SETTLED))
        case NotJudged():
            return Blame("not_judged", Message(seen=f"Not judged: {error or 'this machine lacks what the case needs'}"))
        case SubmissionError():
            return _of_submission(error)
        case LawBroken() if fault is not None and is_stub(fault):  # a law's own words for a run that never was
            return Blame("failed", Message(seen=fault.sentence, diagnosis=NOT_STARTED))
        case LawBroken():
            return Blame("failed", error.message)
        case MachineError() | MemoryError():
            return Blame("machine_error", Message(seen=f"The machine is at fault, not you: {error or type(error).__name__}"))
        case OSError() if error.errno in MACHINE_ERRNOS:
            return Blame("machine_error", Message(seen=f"The machine is at fault, not you: {error}"))
        case CourseError():
            return Blame("course_error", Message(seen=f"The course is wrong: {error}", where=_place(error)))
        case AssertionError() if in_test and not _is_ours(error):
            return Blame("failed", Message(seen=spoken(error)))
        case pytest.skip.Exception() | pytest.fail.Exception():
            advice = "a test judges with assert or LawBroken, and raises NotJudged where the machine lacks something"
            return Blame("course_error", Message(seen=f"The course is wrong: a test skipped or failed by itself ({error}); {advice}."))
        case LookupError() | TypeError() | ValueError() | AttributeError() | ArithmeticError() | RecursionError() if rests_on_facts:
            seen = f"What came back can't be judged ({type(error).__name__}: {error})."
            return Blame("failed", Message(seen=seen, diagnosis=NO_FORM, suggestion="Does every function return what the handout says?"))
    when = "a test" if in_test else "the set-up or tear-down of a test"
    seen = f"The course is wrong, not you: {when} raised {type(error).__name__}: {error}"
    return Blame("course_error", Message(seen=seen, where=_place(error), suggestion="Tell your instructor."))


def spoken(error: AssertionError) -> str:
    """What an assert says: its own sentence if it has one, else the comparison as pytest spells it out."""
    text = str(error)
    own, _, comparison = text.rpartition("\nassert ")
    if own:
        return own
    comparison = comparison.removeprefix("assert ").strip()
    return f"This does not hold: {comparison}" if comparison else "The test's assertion does not hold (it carries no sentence)."


def _of_submission(error: SubmissionError) -> Blame:
    message, fault = error.message, error.fault
    if fault is not None and is_stub(fault):
        message = replace(message, diagnosis=NOT_STARTED)
    return Blame("failed", message, timed_out=fault is not None and fault.kind in BY_CLOCK)


def is_stub(fault: Fault) -> bool:
    """Whether the fault is a stub's own NotImplementedError: work that has not been started rather than work that is wrong."""
    return fault.kind == "raised" and "NotImplementedError" in fault.sentence


def _is_ours(error: BaseException) -> bool:
    """Whether an assert inside the grader itself has failed, for which no student is to blame."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(GRADER_FOLDER)


def _place(error: BaseException) -> str:
    """File, line and source of the innermost frame in the course's tests."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_courses(Path(frame.filename).parts)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}: {frames[-1].line}" if frames else ""


def _is_courses(parts: tuple[str, ...]) -> bool:
    return "tests" in parts and "site-packages" not in parts
