"""The judge: one verdict per case, and the right blame for whatever a test may raise. Observations are fakes; no rank runs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.errors import CourseError, LawBroken, MachineError, NotJudged, SubmissionError, UsageError
from grader.judge.session import Judged, judge
from grader.records import NOT_STARTED, Assignment, CaseVerdict, Fault, Law, Message, Task

SECRET = "4711.25"  # stands for an input, a seed, an expected value or the output of a hidden case


def assignment(*claims: str, name: str = "sums") -> Assignment:
    """One task `ring` with a law of two points for each claim."""
    laws = tuple(Law(f"{name}.ring.{claim}", f"The {claim} holds.", 2, "judged") for claim in claims)
    return Assignment(name, 1, "Sums", (f"{name}.py",), (Task(f"{name}.ring", "The ring", laws, ("ring",), "raise NotImplementedError"),))


@dataclass
class FakeCase:
    """What a test gets as `observe`: what the probe's name asks for happens."""

    hidden: bool
    log: list[str]
    keys: list[str] = field(default_factory=list)
    kind: str = ""
    rests_on_facts: bool = False
    fault: Fault | None = None

    def __call__(self, probe: str, *, kind: str = "", world_size: int = 1, **_: Any) -> str:
        self.kind, self.rests_on_facts = kind or f"{world_size} ranks", probe == "facts"
        self.keys.append(f"key-of-{probe}")
        self.log.append(probe)
        told = Message(seen=f"saw {SECRET}", allowed=SECRET, where=SECRET, diagnosis="ratio 2.00 = world size", output=SECRET)
        faults = {"busy": "cpu_limit", "raise": "raised", "stub": "raised", "unheeded stub": "raised"}
        if probe in faults:
            error = "NotImplementedError: ring" if "stub" in probe else f"ValueError: {SECRET}"
            self.fault = Fault(faults[probe], 0, f"rank 0 raised {error}")
            if probe != "unheeded stub":  # there a law looks at the fault itself
                raise SubmissionError(Message(seen=self.fault.sentence, diagnosis=SECRET, output=SECRET), self.fault)
        if probe == "broken":
            raise LawBroken(told)
        raised = {"gpu": NotJudged("no GPU here"), "machine": MachineError("out of disk"), "stop": KeyboardInterrupt()}
        if probe in raised:
            raise raised[probe]
        return probe

    def how_to(self) -> Message:
        return Message(seen="", debug="" if self.hidden else f"grader debug {self.keys[-1]}")


@dataclass
class FakeObserver:
    """Answers every case; `log` has the probes in the order in which they were asked for."""

    log: list[str] = field(default_factory=list)

    def for_case(self, assignment: str, hidden: bool, case_id: str) -> FakeCase:
        return FakeCase(hidden, self.log)


@dataclass
class Course:
    """A course folder being written by a test."""

    root: Path
    observer: FakeObserver = field(default_factory=FakeObserver)

    def write(self, body: str, *, name: str = "sums", hidden: bool = False) -> None:
        path = self.root / "tests" / ("hidden" if hidden else "public") / f"test_{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import pytest\nlaw = pytest.mark.law\n" + body)

    def judge(self, *assignments: Assignment, **options: Any) -> Judged:
        return judge(self.root, assignments, self.observer, **options)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """An empty course."""
    return Course(tmp_path)


def case(course: Course, body: str, *, hidden: bool = False) -> CaseVerdict:
    """The verdict on the only case of a test whose body is `body`."""
    if hidden:
        course.write("@law('ring.sum')\ndef test_other(observe): pass\n")
    course.write(f"@law('ring.sum')\ndef test_sum(observe):\n    {body}\n", hidden=hidden)
    return next(verdict for verdict in course.judge(assignment("sum")).verdicts if verdict.hidden == hidden)


def over_probes(*probes: str) -> str:
    """A test of one case for each probe."""
    return f"@law('ring.sum')\n@pytest.mark.parametrize('probe', {list(probes)})\ndef test_sum(observe, probe): observe(probe)\n"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("observe('fine')", "passed"),
        ("observe('broken')", "failed"),
        ("observe('raise')", "failed"),
        ("assert observe('fine') == 'other'", "failed"),
        ("observe('gpu')", "not_judged"),
        ("observe('machine')", "machine_error"),
        ("raise MemoryError", "machine_error"),
        ("raise OSError(28, 'No space left on device')", "machine_error"),
        ("{}['missing']", "course_error"),
        ("observe('facts'); {}['missing']", "failed"),
        ("observe('facts'); raise OSError(2, 'No such file')", "course_error"),
        ("raise OSError(2, 'No such file')", "course_error"),
        ("pytest.skip('no')", "course_error"),
        ("pytest.fail('no')", "course_error"),
        ("raise SystemExit(0)", "course_error"),
    ],
)
def test_every_exception_has_one_blame(course: Course, body: str, outcome: str) -> None:
    """A failure is the submission's only if it was judged or observed; all else is the course's or the machine's."""
    assert case(course, body).outcome == outcome


def test_an_assertion_of_the_grader_itself_is_not_the_students_fault(course: Course) -> None:
    """An assert that fails inside the package blames the course, however it came to be raised."""
    course.write("import grader.judge.blame as inside\n@law('ring.sum')\ndef test_sum(observe):\n    inside.trip()\n")
    import grader.judge.blame as inside

    exec(compile("def trip():\n    assert False", inside.__file__, "exec"), inside.__dict__)  # an assert that stands in our own file
    try:
        assert course.judge(assignment("sum")).verdicts[0].outcome == "course_error"
    finally:
        del inside.trip


def test_an_assert_speaks_in_its_own_words_or_in_pytests(course: Course) -> None:
    """A sentence after the comma is the message; without one the comparison with its values is."""
    with_words = case(course, "assert observe('fine') == 'other', 'rank 1 sent 3 messages, expected 2'")
    without = case(course, "assert observe('fine') == 'other'")
    assert with_words.message and with_words.message.seen == "rank 1 sent 3 messages, expected 2"
    assert without.message and "'fine' == 'other'" in without.message.seen


def test_a_public_failure_says_how_to_run_it_again_and_debug_it(course: Course) -> None:
    """The commands name assignment, submission, case and observation, and the message of the law arrives whole."""
    course.write("@law('ring.sum')\n@pytest.mark.parametrize('n', [1, 2])\ndef test_sum(observe, n): observe('broken', kind='two')\n")
    verdict = course.judge(assignment("sum"), origin="my work").verdicts[1]
    assert verdict.message and verdict.message.rerun == "make grade A=sums SUBMISSION='my work' K='test_sum[2]'"
    assert verdict.message.debug == "grader debug key-of-broken"
    assert (verdict.id, verdict.kind, verdict.keys) == ("test_sum[2]", "two", ("key-of-broken",))
    assert verdict.message.diagnosis == "ratio 2.00 = world size"


@pytest.mark.parametrize(
    "body",
    [
        "observe('broken', kind='odd')",
        "observe('raise', kind='odd')",
        f"observe('fine', kind='odd'); assert {SECRET} == 0",
        f"observe('fine', kind='odd'); assert 0, '{SECRET}'",
        f"observe('fine', kind='odd'); raise KeyError({SECRET})",
    ],
)
def test_a_hidden_case_tells_its_kind_and_diagnosis_and_nothing_else(course: Course, body: str) -> None:
    """Inputs, expected values, exceptions' texts, output, test names and commands of a hidden case reach the staff form only."""
    verdict = case(course, body, hidden=True)
    assert verdict.message and verdict.outcome in ("failed", "course_error")
    student = " ".join([verdict.id, verdict.kind, *(str(getattr(verdict.message, part)) for part in Message.__slots__)])
    assert SECRET not in student and "test_sum" not in student and "odd" in student
    assert SECRET in verdict.staff and "test_sum" in verdict.staff
    assert verdict.message.debug == verdict.message.rerun == verdict.message.output == verdict.message.where == ""


def test_a_hidden_law_broken_keeps_its_diagnosis(course: Course) -> None:
    """What a known ratio suggests helps without telling a value."""
    verdict = case(course, "observe('broken', kind='odd')", hidden=True)
    assert verdict.message and verdict.message.diagnosis == "ratio 2.00 = world size"


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("body", ["observe('stub')", "observe('unheeded stub'); observe('broken')"])
def test_a_stub_is_told_from_wrong_work(course: Course, body: str, hidden: bool) -> None:
    """A NotImplementedError of the starter is marked, also where a law has words of its own, so that reports can fold it."""
    stub, wrong = case(course, body, hidden=hidden), case(course, "observe('raise')", hidden=hidden)
    assert stub.message and wrong.message and wrong.message.diagnosis != stub.message.diagnosis == NOT_STARTED


def test_after_a_time_out_the_laws_other_cases_are_not_run(course: Course) -> None:
    """A busy loop costs its limit once per law, not once per case; other laws still run."""
    course.write(
        "@law('ring.sum')\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_sum(observe, n): observe('busy')\n"
        "@law('ring.max')\ndef test_max(observe): observe('fine')\n"
    )
    verdicts = course.judge(assignment("sum", "max")).verdicts
    assert [verdict.outcome for verdict in verdicts] == ["failed", "failed", "failed", "passed"]
    assert course.observer.log == ["busy", "fine"]
    assert verdicts[2].message and "Not run" in verdicts[2].message.seen


def test_ctrl_c_leaves_one_verdict_for_every_case(course: Course) -> None:
    """What was judged stays, the case in hand and all after it are not run."""
    course.write(over_probes("fine", "stop", "fine"))
    judged = course.judge(assignment("sum"))
    assert judged.interrupted
    assert [verdict.outcome for verdict in judged.verdicts] == ["passed", "not_judged", "not_judged"]


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("", "no law mark"),
        ("@law('ring.product')\n", "no law of sums"),
        ("@law('ring.sum')\n@law('ring.sum')\n", "2 law"),
        ("@law()\n", "without a name"),
    ],
)
def test_a_test_that_names_no_law_is_a_course_error(course: Course, mark: str, says: str) -> None:
    """A case that could count for nothing stops the grading with the test's name."""
    course.write(f"{mark}def test_sum(observe): pass\n")
    with pytest.raises(CourseError, match=says):
        course.judge(assignment("sum"))


def test_no_test_at_all_is_a_course_error(course: Course) -> None:
    """Neither a missing nor an empty test file may look like a pass."""
    with pytest.raises(CourseError, match=r"expected tests/public/test_sums\.py"):
        course.judge(assignment("sum"))
    course.write("")
    with pytest.raises(CourseError, match="no test was found"):
        course.judge(assignment("sum"))


def test_an_error_in_set_up_is_the_courses(course: Course) -> None:
    """A failed assertion in a fixture blames the course; so does one in a tear-down after the case has passed."""
    course.write(
        "@pytest.fixture\ndef before(): assert False, 'set-up'\n@pytest.fixture\ndef after():\n    yield\n    assert False, 'tear-down'\n"
        "@law('ring.sum')\ndef test_one(observe, before): pass\n@law('ring.sum')\ndef test_two(observe, after): pass\n"
    )
    assert [verdict.outcome for verdict in course.judge(assignment("sum")).verdicts] == ["course_error"] * 2


def test_a_submission_that_fails_in_a_fixture_is_still_to_blame(course: Course) -> None:
    """Who raised a blame has decided whose it is, wherever it comes up; and the first word on a case counts."""
    course.write(
        "@pytest.fixture\ndef seen(observe): return observe('raise')\n"
        "@pytest.fixture\ndef after():\n    yield\n    assert False, 'tear-down'\n"
        "@law('ring.sum')\ndef test_one(seen): pass\n@law('ring.sum')\ndef test_two(observe, after): observe('broken')\n"
    )
    assert [verdict.outcome for verdict in course.judge(assignment("sum")).verdicts] == ["failed", "failed"]


def test_a_broken_test_file_breaks_its_own_assignment_only(course: Course) -> None:
    """A mistake in one assignment's tests never sinks another's marks, and a hidden file's text isn't shown."""
    course.write("@law('ring.sum')\ndef test_sum(observe): observe('fine')\n")
    course.write("@law('ring.max')\ndef test_max(observe): observe('fine')\n", name="other")
    course.write(f"raise RuntimeError({SECRET})\n", name="other", hidden=True)
    verdicts = course.judge(assignment("sum"), assignment("max", name="other")).verdicts
    assert {(verdict.law, verdict.outcome) for verdict in verdicts} == {
        ("sums.ring.sum", "passed"), ("other.ring.max", "passed"), ("other.ring.max", "course_error")}  # fmt: skip
    assert all(SECRET not in str(verdict.message) for verdict in verdicts)


def test_a_choice_of_laws_runs_their_cases_only(course: Course) -> None:
    """What was not selected is not run and says so; every case still has its verdict."""
    course.write("@law('ring.sum')\ndef test_sum(observe): observe('fine')\n@law('ring.max')\ndef test_max(observe): observe('broken')\n")
    verdicts = course.judge(assignment("sum", "max"), laws={"sums.ring.sum"}).verdicts
    assert [verdict.outcome for verdict in verdicts] == ["passed", "not_judged"]
    assert course.observer.log == ["fine"]


@pytest.mark.parametrize("keyword", ["test_sum[2]", "sums.ring.sum and 2"])
def test_a_keyword_selects_by_case_and_by_law(course: Course, keyword: str) -> None:
    """-k takes what a message prints, and a law's name."""
    course.write("@law('ring.sum')\n@pytest.mark.parametrize('n', [1, 2])\ndef test_sum(observe, n): observe(f'probe{n}')\n")
    course.judge(assignment("sum"), keyword=keyword)
    assert course.observer.log == ["probe2"]


@pytest.mark.parametrize("keyword", ["ring", "sums.ring", "sum"])
def test_the_name_of_a_task_or_law_selects_it_and_no_other(course: Course, keyword: str) -> None:
    """A word that another task's test happens to contain selects nothing of that."""
    tasks = tuple(Task(f"sums.{task}", task, (Law(f"sums.{task}.{law}", "Holds.", 2, "judged"),), (task,), "raise NotImplementedError")
                  for task, law in (("ring", "sum"), ("costs", "model")))  # fmt: skip
    course.write(
        "@law('ring.sum')\ndef test_it(observe): observe('right')\n"
        "@law('costs.model')\n@pytest.mark.parametrize('of', ['ring', 'sum'])\ndef test_sums_ring(observe, of): observe('wrong')\n"
    )
    course.judge(replace(assignment(), tasks=tasks), keyword=keyword)
    assert course.observer.log == ["right"]


@pytest.mark.parametrize("keyword", ["nothing_of_this_name", "and and"])
def test_a_keyword_that_selects_nothing_is_the_callers_mistake(course: Course, keyword: str) -> None:
    """A mistyped -k must not read as success."""
    course.write("@law('ring.sum')\ndef test_sum(observe): observe('fine')\n")
    with pytest.raises(UsageError, match="-k"):
        course.judge(assignment("sum"), keyword=keyword)


def test_nobody_elses_settings_reach_the_judge(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray conftest.py, pytest.ini or PYTEST_ADDOPTS changes no verdict, and environment and imports are put back."""
    course.write("@law('ring.sum')\ndef test_sum(observe): observe('broken')\n")
    (course.root / "conftest.py").write_text("raise RuntimeError('run me not')")
    (course.root / "tests" / "public" / "conftest.py").write_text("raise RuntimeError('run me not')")
    (course.root / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setitem(sys.modules, "tests.of_somebody_else", sys)
    before = {name for name in sys.modules if name.split(".")[0] == "tests"}
    assert course.judge(assignment("sum")).verdicts[0].outcome == "failed"
    assert os.environ["PYTEST_ADDOPTS"] == "--collect-only"
    assert {name for name in sys.modules if name.split(".")[0] == "tests"} == before


def test_installed_plugins_stay_away_from_the_judge(course: Course) -> None:
    """Whatever pytest plugins a machine has, verdicts come from pytest and the judge alone."""
    course.write("@law('ring.sum')\ndef test_sum(observe, pytestconfig): assert not pytestconfig.pluginmanager.list_plugin_distinfo()\n")
    assert course.judge(assignment("sum")).verdicts[0].outcome == "passed"


def test_tests_import_the_laws_of_their_own_course(tmp_path: Path) -> None:
    """tests/laws of the course at hand is found, also when another course's was imported before; a mistake there is located."""
    places = []
    for number, sentence in enumerate(["first", "second"]):
        course = Course(tmp_path / str(number))
        course.write("from tests.laws import sums\n@law('ring.sum')\ndef test_sum(observe): sums.judge()\n")
        (course.root / "tests" / "laws").mkdir()
        (course.root / "tests" / "laws" / "sums.py").write_text(f"def judge():\n    raise KeyError('{sentence}')\n")
        message = course.judge(assignment("sum")).verdicts[0].message
        assert message
        places.append((message.seen.rpartition(" ")[2], message.where.partition(":")[0]))
    assert places == [("'first'", "sums.py"), ("'second'", "sums.py")]


def test_a_law_is_judged_until_it_has_failed(course: Course) -> None:
    """Who only asks whether a law fails does not pay for its other cases."""
    course.write(over_probes("fine", "broken", "fine", "fine"))
    judged = course.judge(assignment("sum"), until_failed=True)
    assert course.observer.log == ["fine", "broken"]
    assert [verdict.outcome for verdict in judged.verdicts] == ["passed", "failed", "failed", "failed"]


def test_seconds_are_told_of_public_cases_only(course: Course) -> None:
    """A submission could make a hidden case take as long as one of its inputs says."""
    course.write("@law('ring.sum')\ndef test_sum(observe): observe('fine')\n")
    course.write("@law('ring.double')\ndef test_double(observe): observe('fine')\n", hidden=True)
    judged = course.judge(assignment("sum", "double"))
    assert set(judged.laws_s) == {"sums.ring.sum"} and judged.cpu_s > 0


def test_two_courses_in_one_process_do_not_mix(tmp_path: Path) -> None:
    """A second judgement reads its own course's tests although their paths inside the course are the same."""
    outcomes = []
    for number, probe in enumerate(["fine", "broken"]):
        course = Course(tmp_path / str(number))
        course.write(f"@law('ring.sum')\ndef test_sum(observe): observe('{probe}')\n")
        outcomes.append(course.judge(assignment("sum")).verdicts[0].outcome)
    assert outcomes == ["passed", "failed"]


def test_progress_hears_every_case(course: Course) -> None:
    """A display can count: as many verdicts as were announced."""
    heard: list[Any] = []

    class Listener:
        def started(self, num_cases: int) -> None:
            heard.append(num_cases)

        def judging(self, law: str) -> None:
            heard.append(law)

        def judged(self, verdict: CaseVerdict) -> None:
            heard.append(verdict.outcome)

    course.write(over_probes("fine", "broken", "busy"))
    course.judge(assignment("sum"), progress=Listener())
    assert heard == [3, "sums.ring.sum", "passed", "sums.ring.sum", "failed", "sums.ring.sum", "failed"]
