"""Case verdicts become marks. Pure: no file, no clock; every denominator comes from the course, never from what happened to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from grader.errors import CourseError
from grader.records import NOT_SELECTED, Assignment, AssignmentMark, CaseVerdict, Law, LawMark, LawVerdict, Message, Task, TaskMark

NO_CASE = "The course is wrong: this law has no case, so nothing could pass it."


def score(assignments: Sequence[Assignment], verdicts: Sequence[CaseVerdict]) -> tuple[AssignmentMark, ...]:
    """Marks of every law, task and assignment, in the course's order.

    A law earns all of its points or none: all its cases must have passed and no law that it needs may have failed.
    Raises CourseError if a verdict names a law that no assignment has, or if `needs` names no law or runs in a circle.
    """
    by_law = _grouped(assignments, verdicts)
    own = {law.id: _own_verdict(by_law[law.id]) for assignment in assignments for law in assignment.laws()}
    return tuple(_assignment_mark(assignment, by_law, own) for assignment in assignments)


def is_provisional(assignments: Sequence[Assignment], marks: Sequence[AssignmentMark], has_hidden: bool) -> bool:
    """Whether the marks may still change: no hidden case was run, or a law is pending that no failed law has settled."""
    verdicts = {law.id: law.verdict for mark in marks for law in mark.laws()}
    unsettled = (
        law.id
        for assignment in assignments
        for law in assignment.laws()
        if verdicts[law.id] in ("not_judged", "error") and not _failed_need(law, assignment, verdicts)
    )
    return not has_hidden or any(unsettled)


def _grouped(assignments: Sequence[Assignment], verdicts: Sequence[CaseVerdict]) -> dict[str, list[CaseVerdict]]:
    grouped: dict[str, list[CaseVerdict]] = defaultdict(list)
    known = {law.id for assignment in assignments for law in assignment.laws()}
    for verdict in verdicts:
        if verdict.law not in known:
            raise CourseError(f"case {verdict.id!r} was judged for law {verdict.law!r}, which no selected assignment has")
        grouped[verdict.law].append(verdict)
    return grouped


def _own_verdict(cases: Sequence[CaseVerdict]) -> LawVerdict:
    """What a law's own cases say. One failed case settles it; an error of ours comes next; then whatever is still pending."""
    outcomes = {case.outcome for case in cases}
    if "failed" in outcomes:
        return "failed"
    if not outcomes or outcomes & {"course_error", "machine_error"}:
        return "error"
    return "not_judged" if "not_judged" in outcomes else "passed"


def _failed_need(law: Law, assignment: Assignment, verdicts: Mapping[str, LawVerdict], path: tuple[str, ...] = ()) -> str:
    """Id of a law that failed and that `law` needs, directly or through others; "" if there is none."""
    if law.id in path:
        raise CourseError(f"{assignment.name}: `needs` runs in a circle: {' -> '.join((*path, law.id))}")
    laws = {other.id: other for other in assignment.laws()}
    for need in law.needs:
        if need not in laws:
            raise CourseError(f"{assignment.name}: law {law.id} needs {need!r}, which is no law of this assignment")
        deeper = _failed_need(laws[need], assignment, verdicts, (*path, law.id))
        if deeper or verdicts[need] == "failed":
            return deeper or need
    return ""


def _assignment_mark(assignment: Assignment, by_law: Mapping[str, list[CaseVerdict]], own: Mapping[str, LawVerdict]) -> AssignmentMark:
    tasks = tuple(_task_mark(task, assignment, by_law, own) for task in assignment.tasks)
    return AssignmentMark(assignment.name, assignment.title, sum(task.earned for task in tasks), assignment.points, tasks)


def _task_mark(task: Task, assignment: Assignment, by_law: Mapping[str, list[CaseVerdict]], own: Mapping[str, LawVerdict]) -> TaskMark:
    laws = tuple(_law_mark(law, assignment, tuple(by_law[law.id]), own) for law in task.laws)
    return TaskMark(task.id, task.title, sum(law.earned for law in laws), task.points, laws)


def _law_mark(law: Law, assignment: Assignment, cases: tuple[CaseVerdict, ...], own: Mapping[str, LawVerdict]) -> LawMark:
    verdict, message = own[law.id], _first_message(cases, own[law.id])
    needed = _failed_need(law, assignment, own)
    if needed and verdict != "error":
        verdict = "not_judged"
        message = Message(seen=f"Not judged: what this builds on, {needed}, has failed.", suggestion=f"Mend {needed} first.")
    earned = law.points if verdict == "passed" else 0
    judged_on = tuple(sorted({case.profile for case in cases if case.outcome != "not_judged"}))
    return LawMark(law.id, law.claim, verdict, law.evidence, earned, law.points, message, cases, judged_on)


def _first_message(cases: Sequence[CaseVerdict], verdict: LawVerdict) -> Message | None:
    """The message of the first case that decided the law; public cases first, because they may say more, and those left out last."""
    if not cases:
        return Message(seen=NO_CASE)
    deciding = {"failed": {"failed"}, "error": {"course_error", "machine_error"}, "not_judged": {"not_judged"}, "passed": set()}[verdict]
    chosen = [case for case in sorted(cases, key=_says_less) if case.outcome in deciding]
    return chosen[0].message if chosen else None


def _says_less(case: CaseVerdict) -> tuple[bool, bool]:
    return case.message is not None and case.message.seen == NOT_SELECTED, case.hidden
