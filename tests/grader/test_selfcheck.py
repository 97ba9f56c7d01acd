"""selfcheck finds what is wrong with a course: a small one is built, proved good, and then broken in one place at a time."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grader.course import Course, load
from grader.errors import CourseError, MachineError, UsageError
from grader.records import NOT_STARTED, Assignment, AssignmentMark, CaseVerdict, LawMark, Message, Report, TaskMark
from grader.selfcheck import Alone, Proof, Sample, Several, prove, shares, table, try_mutants
from grader.starter import regenerate, stale

SPEC = """\
number: 1
title: Shapes
files: [shapes.py]
tasks:
  - id: square
    title: The square
    regions: [area]
    stub: raise NotImplementedError("square")
    laws:
      - {id: has_an_area, claim: "A square has an area.", points: 2, evidence: judged}
      - {id: grows, claim: "It grows with its side.", points: 1, evidence: judged}
"""
SOLUTION = '''\
"""Shapes."""


def area(side):
    """Area of a square."""
    # region solution area
    return side * side
    # endregion
'''
HANDOUT = "# Shapes, 3 points\n\n## The square (3 points)\n\nWrite `area(side)`: the area of a square, which grows with it.\n"
PUBLIC = """\
import pytest

@pytest.mark.law("square.has_an_area")
@pytest.mark.parametrize("side", [1, 2])
def test_a_square_has_an_area(observe, side): ...

@pytest.mark.law("square.grows")
def test_it_grows(observe): ...
"""
MUTANT = '"""{sin}\n\nlaw: shapes.square.{law}\nsays: {word}\n"""\n# region solution area\nreturn {code}\n# endregion\n'
FILES = {
    "assignments/shapes/assignment.yaml": SPEC,
    "assignments/shapes/handout.md": HANDOUT,
    "solutions/shapes.py": SOLUTION,
    "solutions/lm/gpt.py": "LAYERS = 2\n",
    "tests/public/test_shapes.py": PUBLIC,
    "tests/hidden/test_shapes.py": PUBLIC,
    "tests/probes/shapes.py": "",
    "tests/mutants/shapes/doubles.py": MUTANT.format(sin="Doubles.", law="has_an_area", word="9", code="2 * side"),
    "tests/mutants/shapes/shrinks.py": MUTANT.format(sin="Shrinks.", law="grows", word="smaller", code="side * side if side < 4 else 0"),
    "tests/variants/shapes/sums.py": '"""Sums up."""\n# region solution area\nreturn sum([side] * side)\n# endregion\n',
    "tests/variants/shapes/whole.py": '"""A whole file."""\n\n\ndef area(side):\n    return side**2\n',
}


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course in which everything holds."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    made = load(tmp_path)
    regenerate(made)
    return made


class FakePipeline:
    """Grades shapes.py by running it here; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...] | None]] = []

    def __call__(self, assignment: Assignment, path: Path, laws: tuple[str, ...] | None = None, *, until_failed: bool = False) -> Report:
        """A report whose two laws are judged on three values."""
        self.asked.append((path.name, laws))
        room: dict[str, Callable[[int], int]] = {}
        seen: dict[str, str] = {}
        try:
            source = (path / "shapes.py").read_text().replace("import os; os._exit(0)", "raise SystemExit")
            exec(compile(source, "shapes.py", "exec"), room)
            if room["area"](3) != 9:
                seen["shapes.square.has_an_area"] = f"the area of 3 is {room['area'](3)}, expected 9"
            if room["area"](5) <= room["area"](3):
                seen["shapes.square.grows"] = "a larger square has the smaller area"
        except BaseException as error:
            seen = {law.id: f"{type(error).__name__}: {error}" for law in assignment.laws()}
        return report_of(assignment, seen, laws)


def report_of(assignment: Assignment, seen: dict[str, str], laws: tuple[str, ...] | None) -> Report:
    """A report in which the laws in `seen` failed with that sentence and the others passed, or were not selected."""
    tasks = []
    for task in assignment.tasks:
        marks = []
        for law in task.laws:
            message = Message(seen[law.id], diagnosis=NOT_STARTED * ("NotImplementedError" in seen[law.id])) if law.id in seen else None
            verdict = "failed" if message else "passed"
            if laws is not None and law.id not in laws:
                verdict, message = "not_judged", None
            case = CaseVerdict(law.id, "case", "the only case", False, verdict, message)
            marks += [LawMark(law.id, law.claim, verdict, law.evidence, law.points * (verdict == "passed"), law.points, message, (case,))]
        tasks.append(TaskMark(task.id, task.title, sum(mark.earned for mark in marks), task.points, tuple(marks)))
    earned = sum(task.earned for task in tasks)
    mark = AssignmentMark(assignment.name, assignment.title, earned, assignment.points, tuple(tasks))
    return Report("1", "", "", earned, assignment.points, False, (mark,), (), {}, "", 0.0)


def opened(course: Course) -> AbstractContextManager[FakePipeline]:
    """A pipeline in a process of its own."""
    return nullcontext(FakePipeline())


def opened_without_disk(course: Course) -> AbstractContextManager[Callable[..., Report]]:
    """A pipeline on a machine that is at fault."""
    return nullcontext(no_disk)


def no_disk(*_: object, **__: object) -> Report:
    """Grades nothing."""
    raise MachineError("no disk")


def without_tests(course: Course) -> None:
    """Take the tests away: collecting them takes a Python of its own, and most of the proof doesn't hang on it."""
    for room in ("public", "hidden"):
        shutil.rmtree(course.root / "tests" / room)


def proved(course: Course, *, full: bool = False, sample: Sample | None = None) -> tuple[Proof, FakePipeline]:
    """The proof of a course as its files are now, and the pipeline that was used."""
    pipeline = FakePipeline()
    return prove(load(course.root), load(course.root).assignments, Alone(pipeline), full=full, sample=sample), pipeline


def test_a_good_course_is_proved(course: Course) -> None:
    """Nothing bad is found where nothing is wrong, and the counts say what was tried."""
    proof, pipeline = proved(course)
    assert proof.bad == ()
    proof.require()
    assert proof.summary().startswith("2 of 2 mutants caught; 0 of 2 laws without a mutant; 0 of ")
    assert {finding.proof for finding in proof.findings} == {"structure", "starter", "solution", "mutants", "variants"}
    asked_of_mutants = [laws for name, laws in pipeline.asked if name in ("doubles", "shrinks")]
    assert asked_of_mutants == [("shapes.square.has_an_area",), ("shapes.square.grows",)]


def test_mutants_are_told_with_the_share_of_messages_that_say_the_word(course: Course) -> None:
    """Caught and said at once, said by another case only, and not caught; the last word is what the student reads first."""
    trials = try_mutants(load(course.root), load(course.root).assignments, Alone(FakePipeline()))
    assert {trial.path.rpartition("/")[2]: trial.is_told_first for trial in trials} == {"doubles.py": True, "shrinks.py": True}
    later, missed = replace(trials[0], is_told_first=False), replace(trials[0], is_caught=False, is_told_first=False)
    assert shares([*trials, later, missed]) == ["shapes: 3 of 4 caught with their word, 2 of them in the message that is read first"]


HANDOUT_PATH, PUBLIC_PATH, HIDDEN_PATH = "assignments/shapes/handout.md", "tests/public/test_shapes.py", "tests/hidden/test_shapes.py"
DOUBLES, SUMS, STUB = "tests/mutants/shapes/doubles.py", "tests/variants/shapes/sums.py", '    raise NotImplementedError("square")'
BREAKS: list[tuple[str, str, str, str, str, str]] = [
    # file, before ("": a new file), after, which proof finds it, about what, saying what
    (HANDOUT_PATH, "3 points", "4 points", "structure", "shapes.square", "gives it 4 points; its laws sum to 3"),
    (HANDOUT_PATH, "3 points", "5 points", "structure", HANDOUT_PATH, "nowhere says `3 points`"),
    (HANDOUT_PATH, "area", "size", "structure", "shapes.square", "never mentions area"),
    (HANDOUT_PATH, "grows with it", "is so", "structure", "shapes.square.grows", "says nothing of grows"),
    (PUBLIC_PATH, "square.grows", "square.has_an_area", "structure", "shapes.square.grows", "No public test is marked with it (1 hidden)"),
    (HIDDEN_PATH, "square.grows", "square.grwos", "structure", f"{HIDDEN_PATH}::test_it_grows", "no law of shapes"),
    (HIDDEN_PATH, '@pytest.mark.law("square.grows")', "", "structure", f"{HIDDEN_PATH}::test_it_grows", "bears no law marks"),
    (PUBLIC_PATH, "import pytest", "import pytest, no_such_module", "structure", "tests/", "No module named 'no_such_module'"),
    ("tests/mutants/shapes/notes.txt", "", "hm", "structure", "tests/mutants/shapes/notes.txt", "stray"),
    ("tests/mutants/circles/lost.py", "", "hm", "structure", "tests/mutants/circles/lost.py", "stray"),
    ("tests/variants/shapes/deep/lost.py", "", "hm", "structure", "tests/variants/shapes/deep/lost.py", "stray"),
    ("tests/probes/shapes/__init__.py", "", "hm", "structure", "tests/probes/shapes.py", "stray"),
    ("tests/probes/circles.py", "", "hm", "structure", "tests/probes/circles.py", "stray"),
    ("solutions/circles.py", "", "", "structure", "solutions/circles.py", "stray"),
    ("starter/shapes.py", "NotImpl", "notImpl", "starter", "starter/shapes.py", "from line 6 on"),
    ("starter/shapes.py", STUB, "    return side**2", "starter", "shapes", "The starter earns 3 of 3; expected 0."),
    ("starter/shapes.py", STUB, "    return side**2", "starter", "shapes.square", "passed; expected failed"),
    ("starter/shapes.py", "NotImplementedError", "ValueError", "starter", "shapes.square.grows", "as of work that was begun"),
    ("starter/shapes.py", '"""Shapes."""', "import no_such_module", "starter", "starter/shapes.py", "ModuleNotFoundError"),
    ("starter/shapes.py", '"""Shapes."""', "import os; os._exit(0)", "starter", "starter/shapes.py", "ended Python with status 0"),
    ("starter/lm/gpt.py", "2", "3", "starter", "starter/lm/gpt.py", "is not what its solution gives (from line 1 on)"),
    ("starter/extra.py", "", "x = 1", "starter", "starter/extra.py", "stray"),
    ("solutions/shapes.py", "side * side", "side + side", "solution", "solutions/shapes.py", "It earns 1 of 3."),
    ("solutions/shapes.py", "# region solution", "# region  solution", "starter", "starter/", "solutions/shapes.py:6: "),
    (DOUBLES, "2 * side", "side * side", "mutants", DOUBLES, "is today's solution itself"),
    (DOUBLES, "2 * side", "side**2", "mutants", DOUBLES, "It survives: shapes.square.has_an_area says passed"),
    (DOUBLES, "says: 9", "says: nine", "mutants", DOUBLES, "its message doesn't contain 'nine': the area"),
    (DOUBLES, "says: 9\n", "", "mutants", DOUBLES, "`says:` is missing"),
    (DOUBLES, "solution area", "solution volume", "mutants", DOUBLES, "has no region volume"),
    (DOUBLES, "square.has_an_area", "square.has_area", "mutants", DOUBLES, "is no law of shapes"),
    (DOUBLES, "square.has_an_area", "square.grows", "mutants", "shapes.square.has_an_area", "No mutant names it"),
    (SUMS, "[side] * side", "[side] * 2", "variants", SUMS, "shapes.square.has_an_area failed: the area"),
    (SUMS, "return", "retrun", "variants", SUMS, "doesn't compile"),
    (SUMS, "return", "exec('');return", "variants", SUMS, "It breaks code-from-text; `policy:` says nothing"),
    (SUMS, "Sums up.", "Sums up.\n\npolicy: code-from-text\n", "variants", SUMS, "It breaks no rule; `policy:` says code-from-text"),
]


@pytest.mark.parametrize(("file", "before", "after", "proof_name", "subject", "sentence"), BREAKS, ids=range(len(BREAKS)))
def test_what_is_wrong_is_found(course: Course, file: str, before: str, after: str, proof_name: str, subject: str, sentence: str) -> None:
    """Each way for a course to be wrong is found in its own proof, by name, with a sentence that says how; and the course is refused."""
    path = course.root / file
    if file not in (PUBLIC_PATH, HIDDEN_PATH):
        without_tests(course)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if before else ""
    assert before in text
    path.write_text(text.replace(before, after) if before else after)
    if file.startswith("solutions") and "region" not in before:
        regenerate(course)
    proof, _ = proved(course)
    assert [f for f in proof.bad if f.proof == proof_name and f.subject == subject and sentence in f.sentence], proof.bad
    with pytest.raises(CourseError, match="The course doesn't hold together"):
        proof.require()


def test_the_whole_matrix_tells_which_laws_catch_which_mutant(course: Course) -> None:
    """In full, a mutant meets every law and all that catch it are reported; otherwise only the one that it names."""
    without_tests(course)
    (course.root / "tests/mutants/shapes/doubles.py").write_text(MUTANT.format(sin="Nothing.", law="has_an_area", word="9", code="0"))
    proof, _ = proved(course, full=True)
    assert {Path(t.path).stem: t.caught_by for t in proof.mutants} == {
        "doubles": ("shapes.square.has_an_area", "shapes.square.grows"),
        "shrinks": ("shapes.square.grows",),
    }
    named_only, _ = proved(course)
    assert [t.caught_by for t in named_only.mutants] == [("shapes.square.has_an_area",), ("shapes.square.grows",)]


def test_what_breaks_a_rule_on_purpose_is_graded_without_rules(course: Course) -> None:
    """A mutant that calls what is forbidden meets its law all the same and the policy is named; so does a variant that says so."""
    without_tests(course)
    (course.root / DOUBLES).write_text(MUTANT.format(sin="Evaluates.", law="has_an_area", word="9", code="eval('2 * side')"))
    path = course.root / SUMS
    path.write_text(path.read_text().replace("return", "eval('0'); return").replace("up.", "up.\n\npolicy: code-from-text\n"))
    rules: list[int] = []

    class Remembering(FakePipeline):
        def __call__(self, assignment: Assignment, path: Path, *arguments: Any, **options: Any) -> Report:
            rules.append(len(assignment.forbidden) * (path.name in ("doubles", "sums")))
            return super().__call__(assignment, path, *arguments, **options)

    proof = prove(course, course.assignments, Alone(Remembering()))
    assert not [finding for finding in proof.bad if finding.proof in ("mutants", "variants")] and sum(rules) == 0
    assert "The policy refuses it: code-from-text." in next(trial.sentence for trial in proof.mutants if "doubles" in trial.path)


def test_a_sample_of_variants_is_the_same_every_time(course: Course) -> None:
    """A sample takes as many as it says, the same ones for the same seed, each one for some seed; in full all are graded."""
    without_tests(course)
    paths = sorted((course.root / "tests/variants/shapes").glob("*.py"))
    assert all(Sample(1, seed).of(paths) == Sample(1, seed).of(paths[::-1]) for seed in range(8))
    assert {Sample(1, seed).of(paths)[0] for seed in range(8)} == set(paths)
    for full, expected in ((False, 1), (True, 2)):
        _, pipeline = proved(course, full=full, sample=Sample(1))
        assert sum(name in ("sums", "whole") for name, _ in pipeline.asked) == expected


def test_a_course_error_while_grading_becomes_a_finding(course: Course) -> None:
    """A test that itself breaks doesn't end the proof: the finding carries the sentence."""
    without_tests(course)

    def broken(assignment: Assignment, path: Path, laws: tuple[str, ...] | None = None, *, until_failed: bool = False) -> Report:
        raise CourseError("the test itself raised KeyError")

    proof = prove(course, course.assignments, Alone(broken))
    assert sum("the test itself raised KeyError" in finding.sentence for finding in proof.bad) == 6


def test_several_processes_find_what_one_finds(course: Course) -> None:
    """The proof doesn't depend on how many processes carry it out, and what a grading raises is raised here."""
    without_tests(course)
    alone, _ = proved(course)
    assert prove(course, course.assignments, Several(opened, course, 2)) == alone
    with pytest.raises(MachineError, match="no disk"):
        prove(course, course.assignments, Several(opened_without_disk, course, 2))


def test_a_mutant_is_judged_further_when_its_first_failure_lacks_the_word(course: Course) -> None:
    """The quick look ends at a law's first failing case; the word may stand in a later one."""
    without_tests(course)
    quick: list[bool] = []

    def says_it_later(assignment: Assignment, path: Path, laws: tuple[str, ...] | None = None, *, until_failed: bool = False) -> Report:
        quick.append(until_failed)
        sentence = "wrong" if until_failed else "9 was expected; the larger is smaller"
        return report_of(assignment, dict.fromkeys(laws or (), sentence), laws)

    assert all(trial.is_caught for trial in try_mutants(course, course.assignments, Alone(says_it_later)))
    assert quick == [True, False] * 2


def test_a_sample_of_mutants_has_some_of_every_law(course: Course) -> None:
    """As many as are asked for of each law, and always the same ones."""
    for number in range(3):
        text = MUTANT.format(sin=f"Doubles and adds {number}.", law="has_an_area", word="9", code=f"2 * side + {number} * 0")
        (course.root / f"tests/mutants/shapes/doubles_{number}.py").write_text(text)
    trials = [try_mutants(course, course.assignments, Alone(FakePipeline()), per_law=Sample(2)) for _ in range(2)]
    assert sorted(trial.law.rpartition(".")[2] for trial in trials[0]) == ["grows", "has_an_area", "has_an_area"]
    assert trials[0] == trials[1]


def test_the_table_shows_what_is_bad_and_counts_the_rest(course: Course) -> None:
    """What is bad stands in full with its subject, what holds is counted, and the summary stands below."""
    without_tests(course)
    shutil.rmtree(course.root / "tests/mutants")
    proof, _ = proved(course)
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(table(proof))
    text = console.export_text()
    for words in ("shapes.square.grows", "No mutant names it", "0 of 0 mutants caught; 2 of 2 laws without a mutant"):
        assert words in text
    assert "findings are good" in text and "It is the stripped solution" not in text


# --- the starter -----------------------------------------------------------------------------------------------------
def test_the_starter_is_written_only_where_it_changed(course: Course) -> None:
    """What is up to date is not touched, what changed is written, what is somebody else's is left alone and named."""
    stray = course.root / "starter" / "notes.md"
    stray.write_text("mine")
    assert regenerate(course) == [] and stray.read_text() == "mine"
    (course.root / "solutions/lm/gpt.py").write_text("LAYERS = 4\n")
    (course.root / "solutions/train.py").write_text("import lm\n")
    assert sorted(sentence.split()[0] for sentence in stale(course)) == ["starter/lm/gpt.py", "starter/notes.md", "starter/train.py"]
    assert sorted(regenerate(course)) == ["starter/lm/gpt.py", "starter/train.py"]
    assert [sentence.split()[0] for sentence in stale(course)] == ["starter/notes.md"]


def test_the_starter_never_writes_through_a_link(course: Course) -> None:
    """A link in starter/ is stale whatever it points at; at the solution, it would let the stub overwrite it."""
    link = course.root / "starter/shapes.py"
    link.rename(course.root / "same.py")
    link.symlink_to(course.root / "same.py")
    assert [sentence.split()[0] for sentence in stale(course)] == ["starter/shapes.py"]
    link.unlink()
    link.symlink_to(course.root / "solutions/shapes.py")
    with pytest.raises(CourseError, match="is a link"):
        regenerate(course)
    assert (course.root / "solutions/shapes.py").read_text() == SOLUTION


def test_without_solutions_the_caller_is_told_where_they_are(course: Course) -> None:
    """In what students get there are no solutions; that is no fault of the course."""
    shutil.rmtree(course.root / "solutions")
    with pytest.raises(UsageError, match="the instructor's repository"):
        regenerate(course)


def test_a_region_in_no_file_is_a_course_error(course: Course) -> None:
    """A task whose region was renamed in the solution is named."""
    (course.root / "solutions/shapes.py").write_text(SOLUTION.replace("    # region solution area\n", "").replace("    # endregion\n", ""))
    with pytest.raises(CourseError, match=r"shapes\.square names the region area, which is in none of shapes\.py"):
        regenerate(course)
