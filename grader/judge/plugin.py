"""The pytest plugin that judges: `observe` and `law` for tests, one verdict per case for the grader.

`grader grade` hands a `JudgePlugin` to pytest. Who writes a course says `pytest -p grader.judge.plugin tests/public/test_x.py
--submission solutions` instead: the same plugin beside pytest's own options (-x -k --lf --pdb).
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.errors import CourseError, LawBroken, NotJudged, SubmissionError
from grader.judge.ahead import Scout
from grader.judge.blame import Blame, NotRun, blame_for
from grader.judge.cases import Case, Laws, assignment_of, is_hidden
from grader.judge.ports import Observe, Observer, Progress
from grader.records import NOT_SELECTED, Assignment, CaseVerdict, Message

DEVELOPER_DOOR = "grader.pipeline"  # reached by name: the judge's own code may not import the floor above it
STAFF_LIMIT_CHARACTERS = 20_000
Told = pytest.TestReport


@dataclass(eq=False)
class JudgePlugin:
    """Judges one submission's cases. `verdicts()` has exactly one for every collected case, also after Ctrl-C."""

    assignments: Sequence[Assignment]
    observer: Observer
    origin: str = "starter"  # how the user named the submission
    selected_laws: Collection[str] | None = None
    progress: Progress | None = None
    looks_ahead: bool = False  # a second thread makes the observations of later cases meanwhile
    until_failed: bool = False  # a law that has failed is judged no further
    is_interactive: bool = False  # a developer reads pytest's own report
    cases: dict[str, Case] = field(default_factory=dict)  # by pytest's node id, in the order of the files
    broken_files: list[CaseVerdict] = field(default_factory=list)
    settled_laws: set[str] = field(default_factory=set)  # they have failed, and their other cases are not run
    deselected: set[str] = field(default_factory=set)
    refusal: CourseError | None = None
    scout: Scout | None = None
    laws_s: dict[str, float] = field(default_factory=dict)  # of public cases: a hidden one could tell its inputs by the time it takes

    def verdicts(self) -> tuple[CaseVerdict, ...]:
        """One verdict per case, in the order of collection; cases that were never reached are "not run"."""
        return (*self.broken_files, *(case.verdict or self._unreached(case) for case in self.cases.values()))

    def _unreached(self, case: Case) -> CaseVerdict:
        why = NOT_SELECTED if case.node in self.deselected else "Not run: the grading was interrupted."
        return case.becomes("not_judged", Message(seen=why))

    # --- what tests see ---
    @pytest.fixture
    def observe(self, request: pytest.FixtureRequest) -> Observe:
        """`observe(probe, world_size=..., inputs=..., returns=..., **parameters)`, bound to the submission and this case."""
        case = self.cases[request.node.nodeid]
        case.observe = self.observer.for_case(case.assignment, case.hidden, case.name)
        return case.observe

    # --- collection ---
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that cannot be read breaks the laws of its own assignment and no other."""
        if not report.failed:
            return
        path = Path(report.nodeid)
        account = report.longreprtext[-STAFF_LIMIT_CHARACTERS:]
        reason = "" if is_hidden(path) else f" ({account.strip().splitlines()[-1].removeprefix('E').strip()})"
        message = Message(seen=f"The course is wrong, not you: a test file cannot be read{reason}.", suggestion="Tell your instructor.")
        for law in (law for each in self.assignments if each.name == assignment_of(path) for law in each.laws()):
            verdict = CaseVerdict(law.id, "test file", "test file", is_hidden(path), "course_error", message, f"{report.nodeid}\n{account}")
            self.broken_files.append(verdict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Turn every test into a case of a law, before -k takes any away, and leave out laws that were not asked for."""
        laws, left_out = Laws.of(self.assignments), []
        try:
            for item in items:
                case = laws.case_of(item)
                self.cases[item.nodeid] = case
                item.extra_keyword_matches.add(case.law.id)  # so that -k takes a law as well as a test
                if self.selected_laws is not None and case.law.id not in self.selected_laws:
                    left_out.append(item)
        except CourseError as error:
            self.refusal, items[:] = error, []
            if self.is_interactive:
                raise pytest.UsageError(str(error)) from None
        if left_out:
            items[:] = [item for item in items if item not in set(left_out)]
            config.hook.pytest_deselected(items=left_out)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember what -k or a choice of laws took away."""
        self.deselected.update(item.nodeid for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say how much is ahead, and begin to look there."""
        if self.progress:
            self.progress.started(len(session.items))
        if self.looks_ahead:
            self.scout = Scout(session.items, self.cases, self.observer, self.settled_laws)
            self.scout.start()

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Nobody looks ahead of a judge who has ended, and nobody who pressed Ctrl-C waits."""
        if self.scout:
            self.scout.stop(waits=exitstatus != pytest.ExitCode.INTERRUPTED)

    # --- judging ---
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse the case if its law is settled already."""
        case = self.cases[item.nodeid]
        if self.scout:
            self.scout.reached(item)
        if self.progress:
            self.progress.judging(case.law.id)
        if case.law.id in self.settled_laws:
            raise NotRun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Told, Told]:
        """Take the verdict from the exception, or from its absence; then shorten pytest's report for a developer."""
        report = yield
        case, error = self.cases[item.nodeid], call.excinfo.value if call.excinfo else None
        if not case.hidden:
            self.laws_s[case.law.id] = self.laws_s.get(case.law.id, 0.0) + call.duration
        if error is not None:
            self._blame(case, call, error, account=str(report.longrepr))
            if self.is_interactive:
                _tell_developer(report, item, case, error)
        elif call.when == "call":
            case.verdict = case.becomes("passed")
        if case.verdict is not None:
            case.verdict = replace(case.verdict, wall_s=round(case.verdict.wall_s + call.duration, 3))
        if call.when == "teardown" and self.progress and case.verdict:
            self.progress.judged(case.verdict)
        return report

    def _blame(self, case: Case, call: pytest.CallInfo[None], error: BaseException, account: str) -> None:
        if case.verdict is not None and case.verdict.outcome != "passed":
            return  # torn down after a failure: the first word counts
        rests_on_facts, fault = (case.observe.rests_on_facts, case.observe.fault) if case.observe else (False, None)
        blame = blame_for(error, in_test=call.when == "call", rests_on_facts=rests_on_facts, fault=fault)
        if blame.timed_out or (self.until_failed and blame.outcome == "failed"):
            self.settled_laws.add(case.law.id)
        student = blame.for_hidden_case(case.kind, error) if case.hidden else blame
        case.verdict = case.becomes(blame.outcome, case.with_commands(student.message, self.origin), _staff_form(case, blame, account))


def _staff_form(case: Case, blame: Blame, account: str) -> str:
    """Everything: which test, which observations, what was said, and pytest's own account, with its end rather than its beginning."""
    about = [case.node, f"kind: {case.kind}", f"observations: {', '.join(case.keys) or 'none'}", *_lines_of(blame.message)]
    return "\n".join([*about, "", account[-STAFF_LIMIT_CHARACTERS:]])


def _lines_of(message: Message) -> list[str]:
    """The parts of a message that say something, each after its name."""
    parts = [(name, getattr(message, name)) for name in Message.__slots__]
    return [f"{name}: {text}" for name, text in parts if text]


def _tell_developer(report: Told, item: pytest.Item, case: Case, error: BaseException) -> None:
    """A judgement in its own words instead of a traceback through the grader; a case that cannot be judged here is a skip."""
    if isinstance(error, NotJudged):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, str(error))
    elif isinstance(error, SubmissionError | LawBroken):
        keys = [f"observations: {', '.join(case.keys)}"] if case.keys else []
        report.longrepr = "\n".join([f"law: {case.law.claim}", *_lines_of(error.message), *keys])


# --- the developer's door: pytest -p grader.judge.plugin -------------------------------------------------------------
def pytest_addoption(parser: pytest.Parser) -> None:
    """Options beside pytest's own."""
    group = parser.getgroup("grader")
    group.addoption("--submission", default=None, metavar="PATH", help="judge this submission (a folder such as solutions)")
    group.addoption("--replay", action="store_true", help="judge from what earlier runs have stored; start no rank")
    group.addoption("--out", default=".grade/latest", metavar="DIR", help="the run folder whose store is used (default: .grade/latest)")


def pytest_configure(config: pytest.Config) -> None:
    """Make the `law` mark known; open an observer for the named submission, if one is, and register the judge."""
    config.addinivalue_line("markers", "law(id): the law that this test is a case of, as <task>.<claim>")
    submission = config.getoption("--submission")
    if submission is None or config.getoption("--collect-only"):
        return
    door: Any = importlib.import_module(DEVELOPER_DOOR)
    opened = contextlib.ExitStack()
    try:
        assignments, observer = opened.enter_context(
            door.opened_for_developer(config.rootpath, submission, out=Path(config.getoption("--out")), replay=config.getoption("--replay"))
        )
    except Exception as error:
        raise pytest.UsageError(str(error)) from error
    config.add_cleanup(opened.close)
    config.pluginmanager.register(JudgePlugin(assignments, observer, submission, is_interactive=True), "grader-judge")
