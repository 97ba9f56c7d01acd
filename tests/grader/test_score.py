"""Scoring: all or nothing per law, denominators from the course, nothing that could be NaN or run away."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import CourseError
from grader.exits import exit_code
from grader.records import Assignment, AssignmentMark, CaseOutcome, CaseVerdict, Law, LawMark, Message, Report, Task
from grader.score import is_provisional, score

OUTCOMES: list[CaseOutcome] = ["passed", "failed", "not_judged", "course_error", "machine_error"]
CASES = st.lists(st.sampled_from(OUTCOMES), max_size=4)


def course_of(points: list[int], needs: dict[int, tuple[int, ...]] | None = None) -> Assignment:
    """An assignment whose laws `sums.a.law0`, ... are worth `points`, two laws to a task."""
    laws = [
        Law(f"sums.a.law{i}", f"law {i}", p, "judged", tuple(f"sums.a.law{n}" for n in (needs or {}).get(i, ())))
        for i, p in enumerate(points)
    ]
    tasks = [Task(f"sums.t{i}", "t", tuple(laws[i : i + 2]), (), "") for i in range(0, len(laws), 2)]
    return Assignment("sums", 1, "Sums", ("sums.py",), tuple(tasks))


def verdicts_of(outcomes: list[list[CaseOutcome]]) -> list[CaseVerdict]:
    """Cases of law 0, law 1, ... with these outcomes."""
    return [
        CaseVerdict(f"sums.a.law{law}", f"case{i}", "", False, outcome, None if outcome == "passed" else Message(seen=f"{outcome} {i}"))
        for law, cases in enumerate(outcomes)
        for i, outcome in enumerate(cases)
    ]


def marks_of(mark: AssignmentMark) -> list[LawMark]:
    """Every law of an assignment."""
    return [law for task in mark.tasks for law in task.laws]


def law_marks(outcomes: list[list[CaseOutcome]], needs: dict[int, tuple[int, ...]] | None = None) -> list[LawMark]:
    """Marks of laws with these outcomes, three points each."""
    return marks_of(score([course_of([3] * len(outcomes), needs)], verdicts_of(outcomes))[0])


@st.composite
def graded(draw: st.DrawFn) -> tuple[Assignment, list[list[CaseOutcome]]]:
    """A course with acyclic needs and outcomes for it."""
    points = draw(st.lists(st.integers(1, 50), min_size=1, max_size=6))
    needs = {i: tuple(draw(st.sets(st.integers(0, i - 1), max_size=2))) for i in range(1, len(points))}
    return course_of(points, needs), [draw(CASES) for _ in points]


@given(graded())
def test_marks_stay_between_nothing_and_what_the_course_offers(drawn: tuple[Assignment, list[list[CaseOutcome]]]) -> None:
    """Sums add up at every level, and what is possible never depends on what ran."""
    assignment, outcomes = drawn
    mark = score([assignment], verdicts_of(outcomes))[0]
    assert mark.possible == assignment.points == sum(task.possible for task in mark.tasks) == sum(law.possible for law in marks_of(mark))
    assert mark.earned == sum(task.earned for task in mark.tasks) == sum(law.earned for law in marks_of(mark))
    assert 0 <= mark.earned <= mark.possible
    assert all(law.earned in (0, law.possible) and (law.earned > 0) == (law.verdict == "passed") for law in marks_of(mark))


@given(graded(), st.data())
def test_mending_a_case_never_costs_a_point(drawn: tuple[Assignment, list[list[CaseOutcome]]], data: st.DataObject) -> None:
    """Turning any case into a pass leaves the sum where it was or raises it."""
    assignment, outcomes = drawn
    places = [(law, case) for law, cases in enumerate(outcomes) for case in range(len(cases))]
    if places:
        law, case = data.draw(st.sampled_from(places))
        better = [list(cases) for cases in outcomes]
        better[law][case] = "passed"
        assert score([assignment], verdicts_of(better))[0].earned >= score([assignment], verdicts_of(outcomes))[0].earned


@given(graded(), st.randoms())
def test_the_order_of_the_verdicts_changes_no_mark(drawn: tuple[Assignment, list[list[CaseOutcome]]], random: object) -> None:
    """Marks depend on what was found, not on when."""
    assignment, outcomes = drawn
    verdicts = verdicts_of(outcomes)
    shuffled = sorted(verdicts, key=lambda _: random.random())  # type: ignore[attr-defined]
    first, second = (marks_of(score([assignment], given)[0]) for given in (verdicts, shuffled))
    assert [(law.verdict, law.earned) for law in first] == [(law.verdict, law.earned) for law in second]


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "failed"], "failed"),
        (["passed", "not_judged"], "not_judged"),
        (["not_judged", "failed"], "failed"),
        (["passed", "course_error"], "error"),
        (["machine_error", "not_judged"], "error"),
        (["course_error", "failed"], "failed"),
        ([], "error"),
    ],
)
def test_a_laws_verdict_follows_from_all_its_cases(cases: list[CaseOutcome], verdict: str) -> None:
    """One failed case settles a law; what wasn't judged leaves it pending; no case at all is the course's error."""
    assert law_marks([cases])[0].verdict == verdict


def test_a_law_is_not_judged_if_one_that_it_needs_has_failed() -> None:
    """Also through others, whatever its own cases say; it names what to mend, and earns nothing."""
    marks = law_marks([["failed"], ["passed"], ["failed"]], needs={1: (0,), 2: (1,)})
    assert [mark.verdict for mark in marks] == ["failed", "not_judged", "not_judged"]
    assert all(mark.message and "sums.a.law0" in mark.message.seen and mark.earned == 0 for mark in marks[1:])


def test_a_law_whose_need_is_only_pending_is_judged() -> None:
    """What was not judged has not failed."""
    assert [mark.verdict for mark in law_marks([["not_judged"], ["passed"]], needs={1: (0,)})] == ["not_judged", "passed"]


def test_a_mark_speaks_with_its_first_public_failure() -> None:
    """Public cases may say more than hidden ones, so they are shown first."""
    hidden, public = (replace(verdict, hidden=i == 0) for i, verdict in enumerate(verdicts_of([["failed", "failed"]])))
    message = marks_of(score([course_of([3])], [hidden, public])[0])[0].message
    assert message and message.seen == "failed 1"


@pytest.mark.parametrize("needs", [{0: (1,), 1: (0,)}, {0: (7,)}])
def test_needs_that_lead_nowhere_are_a_course_error(needs: dict[int, tuple[int, ...]]) -> None:
    """Neither a circle nor an unknown law may decide marks silently."""
    with pytest.raises(CourseError, match="needs"):
        law_marks([["passed"], ["passed"]], needs)


def test_a_verdict_for_an_unknown_law_is_a_course_error() -> None:
    """A case cannot disappear from the marks."""
    with pytest.raises(CourseError, match="law1"):
        score([course_of([3])], verdicts_of([["passed"], ["passed"]]))


@pytest.mark.parametrize(
    ("outcomes", "has_hidden", "provisional"),
    [
        ([["passed"], ["passed"]], True, False),
        ([["passed"], ["passed"]], False, True),
        ([["passed"], ["not_judged"]], True, True),
        ([["failed"], ["not_judged"]], True, False),  # law 1 needs law 0: whatever it does, it earns nothing
        ([["failed"], ["passed"]], True, False),
    ],
)
def test_marks_are_provisional_while_they_may_change(outcomes: list[list[CaseOutcome]], has_hidden: bool, provisional: bool) -> None:
    """No hidden cases, or a law that is pending and not settled by a failure."""
    assignment = course_of([1, 1], {1: (0,)})
    assert is_provisional([assignment], score([assignment], verdicts_of(outcomes)), has_hidden) is provisional


@pytest.mark.parametrize(
    ("outcomes", "interrupted", "code"),
    [
        ([["passed"]], False, 0),
        ([["not_judged"]], False, 0),
        ([["failed"]], False, 1),
        ([["failed", "machine_error"]], False, 4),
        ([["failed"], ["course_error"], ["machine_error"]], False, 3),
        ([["failed"], []], False, 3),
        ([["failed"]], True, 130),
    ],
)
def test_exit_codes_are_those_of_the_contract(outcomes: list[list[CaseOutcome]], interrupted: bool, code: int) -> None:
    """0 passed, 1 failed, 3 the course, 4 the machine, 130 Ctrl-C; a failed law never hides an error of ours."""
    marks = score([course_of([3] * len(outcomes))], verdicts_of(outcomes))
    assert exit_code(Report("", "", "", 0, 0, False, marks, (), {}, "", 0.0, interrupted)) == code
