"""Texts of a release: notebooks that run, a workflow and a container that parse, and what the platforms read."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
import yaml

from grader.course import Course
from grader.intake import intake
from grader.records import AssignmentMark, CaseVerdict, LawMark, Message, Report, TaskMark
from grader.release import Bundle, tar_gz
from grader.release.gradescope import SCRIPTS, autograder_of
from grader.report import classroom, gradescope


def report(*verdicts: str) -> Report:
    """Laws of two points each with these verdicts."""
    said = Message(seen="seen so", diagnosis="because", rerun="make grade", debug="grader debug 123")
    laws = []
    for number, verdict in enumerate(verdicts):
        case = CaseVerdict(f"a.t.l{number}", "world size 3", "world size 3", True, "failed", said, staff="expected 42", keys=("k",))
        earned = 2 if verdict == "passed" else 0
        laws.append(LawMark(f"a.t.l{number}", "A claim.", verdict, "judged", earned, 2, None if earned else said, (case,)))
    earned, possible = sum(law.earned for law in laws), 2 * len(laws)
    task = TaskMark("a.t", "The task", earned, possible, tuple(laws))
    mark = AssignmentMark("a", "An assignment", earned, possible, (task,))
    return Report("1", "", "", earned, possible, False, (mark,), ("a note",), {}, "", 3.4)


def test_notebooks_are_valid_and_were_never_run(bundle: Bundle) -> None:
    """In nbformat's own eyes, with stable ids, no outputs, and the starter's text in a cell."""
    for each in bundle.assignments:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            notebook = nbformat.reads(bundle.files[f"notebooks/{each.name}.ipynb"].decode(), as_version=4)
            nbformat.validate(notebook)
        sources = [cell.source for cell in notebook.cells]
        for file in each.files:
            assert f"%%writefile starter/{file}\n{bundle.files[f'starter/{file}'].decode().rstrip()}" in sources


def test_a_notebook_can_be_handed_in_as_it_is(bundle: Bundle, tmp_path: Path) -> None:
    """Its `%%writefile` cell is the starter's file to intake."""
    for each in bundle.assignments:
        path = tmp_path / f"{each.name}.ipynb"
        path.write_bytes(bundle.files[f"notebooks/{each.name}.ipynb"])
        submission = intake(each, path, into=tmp_path / each.name)
        assert submission.notes == ()
        for file in each.files:
            assert (tmp_path / each.name / file).read_bytes().rstrip() == bundle.files[f"starter/{file}"].rstrip()


def as_program(notebook: bytes) -> str:
    """The notebook's cells as a program; commands of the shell are left out."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if source.startswith("%%writefile"):
            head, _, body = source.partition("\n")
            parts.append(f"pathlib.Path({head.split()[1]!r}).write_text({body + chr(10)!r})")
        elif cell["cell_type"] == "code" and not source.startswith("!"):
            parts.append(source)
    return "\n".join(parts)


@pytest.mark.parametrize("arrives", ["archive", "unpacked"])
def test_a_notebook_finds_the_course_and_collects(bundle: Bundle, tmp_path: Path, unpack: Callable[..., Path], arrives: str) -> None:
    """From the archive, or from the folder that a platform made of it; the zip at the end holds the graded file and is taken in."""
    each = next(each for each in bundle.assignments if each.name == "collectives")
    if arrives == "archive":
        (tmp_path / f"{bundle.name}.tar.gz").write_bytes(tar_gz(bundle.files, bundle.name))
    else:
        unpack(tmp_path / "input" / bundle.name)
    ran = subprocess.run([sys.executable, "-c", as_program(bundle.files["notebooks/collectives.ipynb"])], cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    submission = intake(each, tmp_path / "submission-collectives.zip", into=tmp_path / "copy")
    assert list(submission.files) == ["collectives.py"] and submission.notes == ()
    assert (tmp_path / "copy/collectives.py").read_bytes() == bundle.files["starter/collectives.py"]


def test_without_the_course_a_notebook_says_what_to_do(bundle: Bundle, tmp_path: Path) -> None:
    """One sentence, no traceback."""
    ran = subprocess.run([sys.executable, "-c", as_program(bundle.files["notebooks/collectives.ipynb"])], cwd=tmp_path, capture_output=True)
    said = ran.stderr.decode()
    assert ran.returncode and "was not found in" in said and "upload it there" in said and "Traceback" not in said


def test_workflow_and_container_are_well_formed(bundle: Bundle) -> None:
    """YAML and JSON; the workflow's steps use commands that the bundle has."""
    workflow = yaml.safe_load(bundle.files[".github/workflows/classroom.yml"])
    commands = " ".join(step.get("run", "") for step in workflow["jobs"]["grade"]["steps"])
    assert "make grade" in commands and "grader/report/classroom.py" in bundle.files
    assert workflow["jobs"]["grade"]["steps"][-1]["env"] == {"COURSE_RESULTS": "${{ steps.course.outputs.result }}"}
    assert json.loads(bundle.files[".devcontainer/devcontainer.json"])["postCreateCommand"] == "make setup"


def test_gradescope_gets_every_law_and_no_staff_words() -> None:
    """Scores add up; hidden cases stay in their student's form, without commands that an upload can't follow."""
    results = gradescope.to_results(report("passed", "failed", "not_judged", "error"))
    assert results["score"] == sum(test["score"] for test in results["tests"]) == 2
    assert [test["status"] for test in results["tests"]] == ["passed", "failed", "failed", "failed"]
    assert [test["number"] for test in results["tests"]] == ["1.1", "1.2", "1.3", "1.4"]
    assert all(test["max_score"] == 2 and test["visibility"] == "visible" and test["tags"] for test in results["tests"])
    text = json.dumps(results, allow_nan=False)
    assert "seen so" in text and "because" in text and "a note" in text
    assert not any(word in text for word in ("expected 42", "grader debug", "make grade"))
    assert isinstance(results["execution_time"], int) and results["stdout_visibility"] == "hidden"


def test_classrooms_reporter_gets_partial_points() -> None:
    """The sum of the tests' scores is what was earned."""
    results = classroom.to_results(report("passed", "failed"))
    assert (results["max_score"], sum(test["score"] for test in results["tests"]), results["status"]) == (4, 2, "fail")
    assert classroom.to_results(report("passed"))["status"] == "pass"
    assert "| **together** | 2 | 4 |" in classroom.summary(report("passed", "failed"))


def test_classrooms_line_is_base64_of_json(tmp_path: Path) -> None:
    """As the workflow's step prints it, from a report.json without what only the staff may see."""
    from grader.report.json_report import dumps

    (tmp_path / "report.json").write_text(dumps(report("passed", "failed")))
    command = [sys.executable, "-m", "grader.report.classroom", str(tmp_path / "report.json"), "--summary", str(tmp_path / "summary.md")]
    line = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert json.loads(base64.b64decode(line.partition("result=")[2]))["max_score"] == 4
    assert (tmp_path / "summary.md").read_text().count("|") > 8


def test_an_autograder_holds_one_assignment_and_no_solution(course: Course, bundle: Bundle) -> None:
    """The same bytes twice; its scripts may be executed; hidden cases and all that laws need are in it, other assignments' are not."""
    each = next(each for each in bundle.assignments if each.name == "collectives")
    raw = autograder_of(course, bundle, each)
    assert raw == autograder_of(course, bundle, each)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names, modes = archive.namelist(), {member.filename: member.external_attr >> 16 & 0o777 for member in archive.infolist()}
    assert {name for name, mode in modes.items() if mode == 0o755} == set(SCRIPTS)
    assert {"tests/hidden/test_collectives.py", "tests/laws/collectives/runs.py", "starter/lm/gpt.py", "grader/install.py"} <= set(names)
    assert not any(name.startswith(("solutions", "tests/mutants", "tests/variants", "starter/coll")) for name in names)
    assert not any("data_parallel" in name for name in names)
