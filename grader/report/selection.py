"""A grading of some cases only (K=, a choice of laws): what of it can be told in points, and what only in cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grader.records import NOT_SELECTED, AssignmentMark, CaseVerdict, LawMark, Report, TaskMark


@dataclass(frozen=True, slots=True)
class Tally:
    """What was asked for: cases, and the points of laws that are settled by them."""

    passed: int  # cases
    run: int
    earned: int  # points of laws all of whose cases were asked for, or that have failed already
    possible: int

    @classmethod
    def of(cls, laws: Iterable[LawMark]) -> Tally:
        """The tally of `laws`."""
        asked = [law for law in laws if not is_unasked(law)]
        settled = [law for law in asked if law.verdict in ("failed", "error") or not any(map(_is_left_out, law.cases))]
        run = [case for law in asked for case in law.cases if not _is_left_out(case)]
        passed = sum(case.outcome == "passed" for case in run)
        return cls(passed, len(run), sum(law.earned for law in settled), sum(law.possible for law in settled))


def is_selection(laws: Iterable[LawMark]) -> bool:
    """Whether any case of `laws` was left out, so that their points are no marks."""
    return any(_is_left_out(case) for law in laws for case in law.cases)


def is_unasked(law: LawMark) -> bool:
    """Whether -k or a choice of laws left out all of its cases."""
    return bool(law.cases) and all(map(_is_left_out, law.cases))


def passes_in_part(law: LawMark) -> bool:
    """Whether some of its cases were left out and all the others pass: nothing is wrong, and it has no points yet."""
    pending = law.verdict == "not_judged" and law.message is not None and law.message.seen == NOT_SELECTED
    return pending and not is_unasked(law)


def standing(mark: AssignmentMark | TaskMark | LawMark) -> str:
    """Points earned of those possible; of a selection those of its settled laws, or its cases where no law is settled."""
    under = (mark,) if isinstance(mark, LawMark) else mark.laws if isinstance(mark, TaskMark) else mark.laws()
    laws = [law for law in under if not is_unasked(law)]
    tally = Tally.of(laws)
    if laws and not tally.possible:
        return f"{tally.passed} of {sum(len(law.cases) for law in laws)} cases"
    return f"{tally.earned}/{tally.possible}" if laws else f"{mark.earned}/{mark.possible}"


def headline(report: Report) -> str:
    """The sum in a few words: marks, or how far a selection of laws or of cases has come."""
    laws = report.laws()
    if not is_selection(laws):
        return f"{report.earned} of {report.possible} points"
    tally = Tally.of(laws)
    if tally.possible:
        return f"{tally.earned} of {tally.possible} points of the laws selected"
    return f"{tally.passed} of {tally.run} selected case{'s' * (tally.run != 1)} pass{'es' * (tally.passed == tally.run == 1)}"


def _is_left_out(case: CaseVerdict) -> bool:
    return case.message is not None and case.message.seen == NOT_SELECTED
