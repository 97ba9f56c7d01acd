"""Reports: the student's form keeps its secrets, files say what their formats allow, and the terminal is readable anywhere."""

from __future__ import annotations

import io
import json
import stat
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from grader.course import find_root, load
from grader.errors import UsageError
from grader.ranks.isolation import NOT_RUN, ON_GPUS, why_formative
from grader.records import NOT_SELECTED, NOT_STARTED, AssignmentMark, CaseVerdict, LawMark, Message, Report, Spent, TaskMark
from grader.report import classroom, gradescope, json_report
from grader.report.files import write_all
from grader.report.junit import to_xml
from grader.report.laws import list_laws
from grader.report.live import LiveProgress
from grader.report.page import Page
from grader.report.terminal import render, slowest

SECRET = "4711.25"  # in every staff form
FAILURE = Message(
    seen="rank 1 sent 144,000 bytes",
    allowed="96,000 bytes: 2(N−1)/N of 72,000",
    where="collectives.py:41 in ring_all_reduce",
    diagnosis="ratio 1.50 = N/2",
    suggestion="Send one chunk in each step.",
    rerun="make grade A=collectives SUBMISSION=work K='test_sends_the_optimal_volume[3]'",
    debug="grader debug 0123456789ab",
    output="\x1b[2Jprinted by the submission\x00",
)


def law(name: str, message: Message | None = None, *, outcome: str = "failed", hidden: bool = False, task: str = "ring") -> LawMark:
    """A law of three points with one case."""
    outcome = outcome if message else "passed"
    verdict = {"course_error": "error", "machine_error": "error"}.get(outcome, outcome)
    full = f"collectives.{task}.{name}"
    case = CaseVerdict(full, f"test_{name}[3]", "world size 3", hidden, outcome, message, f"expected {SECRET}", (f"key of {SECRET}",))  # type: ignore[arg-type]
    return LawMark(full, f"Claim of {name} — for every N ≤ 8.", verdict, "witnessed", 0 if message else 3, 3, message, (case,))  # type: ignore[arg-type]


def report_of(*laws: LawMark, **changes: object) -> Report:
    """A report on one assignment; laws are sorted into tasks by their ids."""
    by_task: dict[str, list[LawMark]] = {}
    for each in laws:
        by_task.setdefault(each.id.rpartition(".")[0], []).append(each)
    tasks = tuple(TaskMark(name, f"Task {name}", sum(m.earned for m in ms), 3 * len(ms), tuple(ms)) for name, ms in by_task.items())
    earned, possible = sum(task.earned for task in tasks), sum(task.possible for task in tasks)
    mark = AssignmentMark("collectives", "Collectives", earned, possible, tasks)
    report = Report(json_report.SCHEMA_NAME, "abc", "work", earned, possible, True, (mark,), (), {"torch": "2.13.0"}, "processes", 1.5)
    return replace(report, **changes)  # type: ignore[arg-type]


LAWS_S = {"collectives.ring.fails": 12.5, "collectives.ring.passes": 3.0, "collectives.ring.waits": 0.01}
FULL = report_of(
    law("passes"),
    law("fails", FAILURE),
    law("is_hidden", Message(seen="A hidden case fails."), hidden=True),
    law("waits", Message(seen="Not judged: no GPU here"), outcome="not_judged"),
    law("is_broken", Message(seen="The course is wrong: KeyError"), outcome="course_error"),
    notes=("random.py is left out: it would hide Python's own library random.",),
    spent=Spent(620, 1240, 80.25, 2.5, 35.0, LAWS_S),
)


def printed(report: Report, width: int = 80, encoding: str = "utf-8") -> str:
    """The report as a file of that encoding would get it."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    render(report, Page(stream, width), Path("out"))
    stream.flush()
    return raw.getvalue().decode(encoding)


# --- report.json -----------------------------------------------------------------------------------------------------
def test_the_published_schema_is_todays() -> None:
    """The committed schema is the one that the records give; otherwise run `python -m grader.report.json_report`."""
    assert json.loads(json_report.SCHEMA_FILE.read_text()) == json_report.schema()


def test_a_report_keeps_its_schema() -> None:
    """What is written is valid, and the schema would notice a field too many or one that is missing."""
    validator = jsonschema.Draft202012Validator(json_report.schema())
    tree = json.loads(json_report.dumps(FULL))
    validator.validate(tree)
    for break_it in (
        lambda t: t.pop("earned"),
        lambda t: t.update(more=1),
        lambda t: t["assignments"][0]["tasks"][0]["laws"][0].update(verdict="great"),
    ):
        broken = json.loads(json_report.dumps(FULL))
        break_it(broken)
        assert not validator.is_valid(broken)


def test_staff_forms_reach_only_the_staffs_file(tmp_path: Path) -> None:
    """Inputs and expected values are in staff.json, which nobody else may read, and in no other file or output."""
    write_all(FULL, tmp_path / "new" / "folder")
    files = {path.name: path for path in (tmp_path / "new" / "folder").iterdir()}
    assert set(files) == {"report.json", "junit.xml", "staff.json"}
    assert {name for name, path in files.items() if SECRET in path.read_text()} == {"staff.json"}
    assert stat.S_IMODE(files["staff.json"].stat().st_mode) == 0o600
    assert SECRET not in printed(FULL)


def test_staff_files_are_private_even_over_a_public_one(tmp_path: Path) -> None:
    """A file that lay there with other permissions is replaced, not written into."""
    (tmp_path / "staff.json").write_text("{}")
    write_all(FULL, tmp_path)
    assert stat.S_IMODE((tmp_path / "staff.json").stat().st_mode) == 0o600


def test_a_run_folder_that_cannot_be_made_is_the_callers_to_mend(tmp_path: Path) -> None:
    """`--out` on an existing file is said in words."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        write_all(FULL, tmp_path / "file")


# --- JUnit -----------------------------------------------------------------------------------------------------------
def test_junit_says_each_outcome_in_its_own_word() -> None:
    """Failures, errors and skipped cases are told apart and counted; control characters never break the XML."""
    root = ET.fromstring(to_xml(FULL).encode())
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
    }
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [[], ["failure"], ["failure"], ["skipped"], ["error"]]
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)


# --- the terminal ----------------------------------------------------------------------------------------------------
def test_a_failure_is_explained_with_everything_that_helps() -> None:
    """Claim, seen, allowed, where, what it means, what to try, the cases, and both commands."""
    text = printed(FULL, 100)
    for part in ("seen", "allowed", "where", "diagnosis", "suggestion", "rerun", "debug"):
        assert getattr(FAILURE, part) in text
    assert "Claim of fails" in text and "1 of 1: world size 3" in text and "random.py is left out" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_the_report_fits_any_terminal(width: int, encoding: str) -> None:
    """No line is wider than the terminal, but for commands, which stay whole; no letter is lost to a question mark."""
    lines = printed(FULL, width, encoding).splitlines()
    commands = ("make grade", "make hint", "grader debug", "report.json", "handout.md")
    assert all(len(line) <= width for line in lines if not any(command in line for command in commands))
    assert any(FAILURE.rerun in line for line in lines)
    assert not any("?" in line.replace("?[2J", "").replace("submission?", "") for line in lines)


def test_the_report_says_where_time_went() -> None:
    """Judge, ranks and waiting in one line; a replay ran nothing, and says so."""
    assert "computing: the judge for 35.0 s, 1,240 ranks in 620 runs for 80.2 s; waiting for torch: 2.5 s" in printed(FULL, 100)
    assert FULL.spent is not None
    assert "nothing had to be run" in printed(replace(FULL, spent=Spent(judge_cpu_s=3.0)), 100)
    assert [(law.id.rpartition(".")[2], seconds) for law, seconds in slowest(FULL)] == [("fails", 12.5), ("passes", 3.0)]


def test_a_submissions_output_cannot_steer_the_terminal() -> None:
    """Escape sequences and other control characters are shown, not sent."""
    text = printed(FULL)
    assert "printed by the submission" in text
    assert not any(ord(letter) < 32 and letter != "\n" for letter in text)


def test_work_that_is_not_started_is_one_friendly_block() -> None:
    """Twenty stubs make one block that names the first task, its handout and the command, and not twenty explanations."""
    stub = Message(
        seen="rank 0 raised NotImplementedError", diagnosis=NOT_STARTED, rerun="make grade A=collectives SUBMISSION=work K='test_x'"
    )
    text = printed(report_of(*(law(f"law{i}", stub, task=task) for task in ("ring", "broadcast") for i in range(10))))
    assert text.count("What to do first") == 1 and "NotImplementedError" not in text
    assert "Task collectives.ring (collectives.ring) is not started" in text and "1 more task waits" in text
    assert "assignments/collectives/handout.md" in text and "make grade A=collectives SUBMISSION=work\n" in text


def test_who_has_begun_is_not_sent_to_the_next_task_first() -> None:
    """What fails in begun tasks comes before the next stub; causes with a name before bare numbers; no line is said twice."""
    stub = Message(seen="rank 0 raised NotImplementedError", diagnosis=NOT_STARTED)
    bare = Message(seen="x on rank 0: 3 of 3 values differ.")
    stuck = Message(seen="deadlock: rank 0 waits", where="rank 0 waits.\nrank 2 has left", diagnosis="A ring of waits.")
    text = " ".join(printed(report_of(law("a", bare), law("b", stuck), law("c", stub, task="other"))).split())
    assert text.index("Mend what you have begun: 2 laws fail, for 2 reasons, told below.") < text.index("is not started yet")
    assert text.index("Claim of b", text.index("What to do")) < text.index("Claim of a", text.index("What to do"))
    assert text.count("rank 0 waits") == 1 and "where rank 2 has left" in text


@pytest.mark.parametrize("width", [24, 40])
def test_a_laws_id_is_never_broken(width: int) -> None:
    """It is there to be copied."""
    assert "collectives.ring.is_a_law_of_a_long_name" in printed(report_of(law("is_a_law_of_a_long_name", FAILURE)), width).split()


@pytest.mark.parametrize("width", [40, 80])
def test_a_task_that_is_not_begun_is_one_line_of_the_table(width: int) -> None:
    """Its laws are counted, also those that wait for another; where one law passes or fails otherwise, each has its line."""
    stub = Message(seen="rank 0 raised NotImplementedError", diagnosis=NOT_STARTED)
    waits = Message(seen="Not judged: it builds on x, which has failed.")
    folded = [law("a", stub), law("b", stub), law("c", waits, outcome="not_judged")]
    text = " ".join(printed(report_of(*folded, law("d", FAILURE, task="other")), width).split())
    assert "not started" in text and "3 laws, 9 points" in text and "Claim of a" not in text and "builds on x" not in text
    assert "Claim of d" in text and "make laws A=collectives" in text
    begun = " ".join(printed(report_of(*folded, law("d", FAILURE)), width).split())
    assert "3 laws, 9 points" not in begun and "Claim of a" in begun and "builds on x" in begun
    assert "Claim of b" in printed(report_of(law("b", stub), law("e")))


def test_words_beside_the_laws_are_explained_once() -> None:
    """Each kind of evidence that stands on the page, and the letter of the isolation; none where neither stands."""
    laws = [law("one"), law("two"), replace(law("three"), evidence="testified")]
    text = " ".join(printed(report_of(*laws, isolation="isolation C: Landlock 7")).split())
    assert text.count("witnessed: seen from outside") == text.count("testified: told by") == text.count("isolation: the walls") == 1
    assert "enforced" not in text and "judged:" not in text
    narrow = " ".join(printed(report_of(*laws, isolation=NOT_RUN), 40).split())
    assert "seen from outside" not in narrow and "the walls" not in narrow


def test_laws_are_listed_by_ids_that_can_be_copied() -> None:
    """Each id stands whole on its line however narrow the page, with claim, points and evidence; hints are not among them."""
    course = load(find_root(Path(__file__)))
    (assignment,) = (each for each in course.assignments if each.name == "flash_attention")
    stream = io.StringIO()
    list_laws([assignment], Page(stream, 40))
    lines, words = stream.getvalue().splitlines(), " ".join(stream.getvalue().split())
    for each in assignment.laws():
        assert f"  {each.id}" in lines and f"({each.points} point" in words
    assert not any(hint in words for task in assignment.tasks for source in (task, *task.laws) for hint in source.hints)


def test_equal_failures_are_explained_once() -> None:
    """Laws that fail for one reason share its explanation."""
    text = printed(report_of(law("one", FAILURE), law("two", FAILURE)))
    assert text.count(FAILURE.seen) == 1
    assert "[collectives.ring.one]" in text.replace("\n  ", "") and "1 more law fails the same way: ring.two" in text


def in_part(name: str, *outcomes: str, verdict: str = "not_judged") -> LawMark:
    """A law of three points with a case for each outcome; one that is "" was left out."""
    full, left_out = f"collectives.ring.{name}", Message(seen=NOT_SELECTED)
    messages = {"": left_out, "failed": FAILURE, "passed": None}
    cases = tuple(
        CaseVerdict(full, f"test_{name}[{i}]", f"world size {i}", False, outcome or "not_judged", messages[outcome])  # type: ignore[arg-type]
        for i, outcome in enumerate(outcomes)
    )
    message = FAILURE if verdict == "failed" else left_out
    return LawMark(full, f"Claim of {name}.", verdict, "judged", 0, 3, message, cases)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [40, 80])
def test_cases_that_were_selected_and_pass_scare_nobody(width: int) -> None:
    """A law of whose cases one was run has no points; what is said is that it passes, how much is left, and the command for all."""
    text = printed(report_of(in_part("one", "passed", ""), in_part("two", "", "")), width)
    words = " ".join(text.split())
    assert "1 of the law's 2 cases was run, and it passes; points need all of them." in words
    assert "make grade A=collectives SUBMISSION=work\n" in text and "1 more law was not selected" in words
    assert "1 of 1 selected case passes" in words and "1 of 2 cases" in words and "✓ Claim of one" in text
    assert "Claim of two" not in text and "0/" not in text and " 0 of" not in text and "Provisional" not in text


def test_points_of_a_selection_are_those_of_its_laws() -> None:
    """Laws that were asked for whole have their points, one that has failed none of its own; the others are counted, not marked."""
    laws = [law("whole"), in_part("broken", "failed", "", verdict="failed"), in_part("part", "passed", "passed", ""), in_part("none", "")]
    text = printed(report_of(*laws))
    assert "3 of 6 points of the laws selected" in text and "3/6" in text and "0/3" in text and "/12" not in text
    assert "2 of the law's 3 cases were run, and they pass" in text and "1 of 1: world size 0" in text


def test_points_of_all_laws_are_said_as_before() -> None:
    """Without a selection the sum is the marks, and nothing speaks of cases left out."""
    text = printed(FULL)
    assert "3 of 15 points\n" in text and "selected" not in text


def test_an_endless_output_is_cut_with_a_word() -> None:
    """A page of prints doesn't push the explanation off the screen."""
    text = printed(report_of(law("one", replace(FAILURE, output="x\n" * 500))))
    assert len(text.splitlines()) < 60 and "more lines in report.json" in text


def test_progress_is_silent_without_a_terminal() -> None:
    """A log file gets no progress bar and no escape sequence."""
    stream = io.StringIO()
    with LiveProgress(Page(stream)) as progress:
        progress.started(2)
        progress.judging("collectives.ring.one")
        progress.judged(FULL.assignments[0].tasks[0].laws[1].cases[0])
    assert stream.getvalue() == ""


def test_points_below_the_level_that_marks_need_are_called_formative(tmp_path: Path) -> None:
    """In every report: the terminal, report.json, Gradescope, GitHub Classroom's table and the page; and nowhere when they are marks."""
    why = why_formative("isolation D: formative, not isolated; no Landlock", "B")
    assert "need isolation B" in why and "D was witnessed" in why

    def said(report: Report) -> list[bool]:
        stream = io.StringIO()
        render(report, Page(stream, 200))
        write_all(report, tmp_path)
        files = [(tmp_path / "report.json").read_text(), json.dumps(gradescope.to_results(report)), classroom.summary(report)]
        texts = [stream.getvalue(), *files]
        return ["need isolation B" in text for text in texts]

    assert said(replace(FULL, formative=why)) == [True] * 4 and said(FULL) == [False] * 4


@pytest.mark.parametrize(
    ("label", "needed", "is_formative"),
    [
        ("isolation C: Landlock 7", "C", False),
        ("isolation C: Landlock 7", "B", True),
        ("isolation A: namespaces", "B", False),
        ("isolation A: namespaces" + ON_GPUS, "C", True),
        ("isolation D: formative", "D", False),
        (NOT_RUN, "A", False),
    ],
)
def test_marks_are_what_was_earned_behind_walls_that_are_strong_enough(label: str, needed: str, is_formative: bool) -> None:
    """GPU runs have no walls, whatever stood on the CPU; where no rank was run, none was needed."""
    assert bool(why_formative(label, needed)) == is_formative
