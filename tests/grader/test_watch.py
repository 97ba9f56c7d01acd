"""`grader watch`: what failed comes first, tasks that nobody has begun are left alone, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import functools
import io
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from grader import watch as watching
from grader.course import load
from grader.records import AssignmentMark, CaseVerdict, LawMark, Message, Report, TaskMark
from grader.report.page import Page

ROOT = Path(__file__).parents[2]
STUB = "raise NotImplementedError"
SPECIFICATION = """
number: 3
title: Sums
files: [sums.py]
tasks:
  - {id: ring, title: The ring, regions: [a, b], stub: raise NotImplementedError, laws: [
      {id: one, claim: One is one., points: 1, evidence: judged}, {id: two, claim: Two is two., points: 2, evidence: judged}]}
  - {id: tree, title: The tree, regions: [c], stub: 'raise NotImplementedError("tree")', laws: [
      {id: three, claim: Three is three., points: 3, evidence: judged}]}
"""
CASE = '''"""Cases."""
import pytest
@pytest.mark.law("ring.one")
def test_one(observe):
    """One is one."""
    assert observe("run", world_size=2).facts(1)["said"] == 1
@pytest.mark.law("ring.two")
def test_two(observe):
    """Two is two."""
    observe("run", world_size=2).require()
@pytest.mark.law("tree.three")
def test_three(observe):
    """Three is three."""
    observe("run", world_size=1).require()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A course of three laws in two tasks, the second of which has not been begun."""
    for name in ("assignments/sums", "starter", "tests/public", "tests/probes"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "assignments/sums/assignment.yaml").write_text(SPECIFICATION)
    (tmp_path / "tests/public/test_sums.py").write_text(CASE)
    (tmp_path / "tests/probes/sums.py").write_text("def run(at):\n    at.report(said=at.submission.one())\n")
    (tmp_path / "starter/sums.py").write_text(f'def one():\n    return 7\ndef tree():\n    {STUB}("tree")\n')
    return tmp_path


class Judge:
    """Takes the pipeline's place: remembers which laws it was asked for, and fails those in `wrong`."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.wrong: set[str] = set()

    def grade(self, course: object, *_: object, laws: Collection[str], **__: object) -> Report:
        self.asked.append([law.rpartition(".")[2] for law in laws])
        marks = tuple(self._mark(law) for law in laws)
        earned = sum(mark.earned for mark in marks)
        task = TaskMark("sums.ring", "The ring", earned, 6, marks)
        return Report("", "", "work", earned, 6, True, (AssignmentMark("sums", "Sums", earned, 6, (task,)),), (), {}, "", 0.1)

    def _mark(self, law: str) -> LawMark:
        message = Message(seen=f"{law} is off") if law.rpartition(".")[2] in self.wrong else None
        outcome = "failed" if message else "passed"
        case = CaseVerdict(law, "test", "the only case", False, outcome, message)
        return LawMark(law, f"Claim of {law}.", outcome, "judged", 0 if message else 1, 1, message, (case,))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The pipeline's place is taken, and no process is started."""
    judge = Judge()
    monkeypatch.setattr(watching, "grade", judge.grade)
    monkeypatch.setattr(watching, "opened_runs", lambda *_: nullcontext(SimpleNamespace(prepare=lambda flavour: None)))
    return judge


def watched(folder: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch, *wrong_after_each_save: set[str]) -> str:
    """What `watch` prints, 40 columns wide and in ASCII, while laws are wrong as said."""

    def saves(*_: object) -> Iterator[None]:
        for wrong in wrong_after_each_save:
            judge.wrong = wrong
            yield
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "saves", saves)
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    course = load(folder)
    page = Page(stream, 40)
    out, work = folder / "out", folder / "starter"
    assert watching.watch(course, work, course.assignments, page, out=out, keyword=None, show=lambda *_: None) == 130
    stream.flush()
    return raw.getvalue().decode("ascii")


def test_what_failed_is_judged_first_and_alone_until_it_passes(folder: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save costs as little as the law that is being mended; once it passes, everything that is begun is judged."""
    printed = watched(folder, judge, monkeypatch, {"two"}, {"two"}, set())
    assert judge.asked == [["one", "two"], ["two"], ["two"], ["one", "two"]]
    assert "0 of the 1 laws that failed now pass" in printed.replace("\n", " ") and "2 of 6 points" in printed


def test_a_task_that_nobody_has_begun_is_named_and_not_run(folder: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stub says all that there is to say; the first line written brings its laws in."""
    assert "not started: The tree" in watched(folder, judge, monkeypatch, set())
    (folder / "starter/sums.py").write_text("tree = sum\n")
    watched(folder, judge, monkeypatch, set())
    assert judge.asked == [["one", "two"], ["one", "two", "three"]]


def test_a_round_is_readable_in_40_columns(folder: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure is explained, the others are named; no line is wider but for commands, no letter lost, no colour sent."""
    printed = watched(folder, judge, monkeypatch, {"one", "two"})
    assert "seen        sums.ring.one is off" in printed and "x sums.ring.two" in printed and "two is off" not in printed
    assert "\x1b" not in printed and "?" not in printed
    assert all(len(line) <= 40 for line in printed.splitlines() if "make hint" not in line)


def test_a_half_saved_file_ends_nothing(folder: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the student can mend is said, and the next save is waited for."""

    def refusing(*_: object, **__: object) -> Report:
        raise watching.UsageError("half a file")

    monkeypatch.setattr(watching, "grade", refusing)
    assert watched(folder, judge, monkeypatch, set(), set()).count("half a file") == 2


def test_a_save_is_noticed_and_ctrl_c_leaves_nothing(folder: Path) -> None:
    """The whole command: a wrong answer, a save that mends it, and an interrupt, after which no process and no copy is left."""
    command = [sys.executable, "-m", "grader.cli", "watch", "--out", "run"]
    environment = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder), "PATH": "/usr/bin:/bin"}
    into = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    # Whoever runs these tests in the background has told all that they start to ignore Ctrl-C.
    hears = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=hears, **into) as watch:
        assert watch.stdout is not None
        seen = rest_of_a_round(watch.stdout)
        assert "7 == 1" in seen and "0 of 6 points" not in seen, seen
        draft = folder / "starter/.sums.py.draft"
        draft.write_text((folder / "starter/sums.py").read_text().replace("7", "1"))
        draft.replace(folder / "starter/sums.py")  # as careful editors save
        seen = rest_of_a_round(watch.stdout)
        assert "3 of 6 points" in seen and "not started: The tree" in seen, seen
        family = psutil.Process(watch.pid).children(recursive=True)
        assert family
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=60) == 130
    assert not [one for one in psutil.wait_procs(family, timeout=30)[1] if one.is_running()]
    left = {path.name.split("-")[0] for path in (folder / "run").iterdir()}
    assert left == {"report.json", "report.html", "junit.xml", "staff.json", "store.sqlite", "given", "isolation.txt"}
    assert not list(folder.glob("grader-*"))


def rest_of_a_round(stream: io.TextIOBase) -> str:
    """What is printed until the next save is waited for, on one line."""
    lines: list[str] = []
    for line in stream:
        if "waiting for the next save" in line:
            break
        lines.append(line.strip())
    return " ".join(lines)
