"""The GPU stage from marks to marks, on GPUs that are played by the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.course import Course
from grader.errors import UsageError
from grader.gpu_stage import add_gpu_stage
from grader.gpu_trial import trial
from grader.observe.live import Runs
from grader.observe.profile import GpuProfile
from grader.pipeline import grade
from grader.records import LawMark, Report
from grader.report.files import read, write_all
from tests.grader.profile.conftest import RIGHT, Submit, pretended

WRONG_ON_THE_DEVICE = RIGHT.replace("    return x\n", "    return x if type(dist.group.WORLD).__name__ == 'WireProcessGroup' else x + 1\n")


def laws(report: Report) -> dict[str, LawMark]:
    """By the last part of their names."""
    return {law.id.rpartition(".")[2]: law for each in report.assignments for task in each.tasks for law in task.laws}


def staged(course: Course, report: Report, folder: Path, profile: GpuProfile, runs: Runs) -> Report:
    """The report with the stage in it; the trial has a test of its own."""
    return add_gpu_stage(course, report, folder, course.assignments, profile=profile, runs=runs, is_tried=True)


def test_a_right_submission_keeps_its_marks(course: Course, runs: Runs, submit: Submit, two_gpus: GpuProfile) -> None:
    """Each law says on what it was judged; a law that only the wire can show, and the case of three ranks, keep the CPU's word."""
    folder = submit(RIGHT)
    report = staged(course, grade(course, folder, course.assignments, runs=runs), folder, two_gpus, runs)
    assert (report.earned, report.possible, report.provisional) == (9, 9, False)
    assert {name: law.judged_on for name, law in laws(report).items()} == {
        "sum": ("cpu", "gpu"),
        "double": ("cpu", "gpu"),
        "rounds": ("cpu",),
    }
    assert [(case.id, case.profile) for case in laws(report)["sum"].cases] == [
        ("test_sum[2]", "cpu"),
        ("test_sum[3]", "cpu"),
        ("test_sum[2] (gpu)", "gpu"),
    ]
    (note,) = report.notes
    assert "3 cases were judged on 2 × pretended" in note and "it needs more ranks than there are GPUs" in note and "virtual time" in note
    assert report.environment["gpus"] == "2 × pretended"


def test_a_law_is_lost_on_the_gpu_alone(course: Course, runs: Runs, submit: Submit, two_gpus: GpuProfile) -> None:
    """Its message says where, and the command runs just that case on that profile; the other laws are as they were."""
    folder = submit(WRONG_ON_THE_DEVICE)
    before = grade(course, folder, course.assignments, runs=runs)
    report = staged(course, before, folder, two_gpus, runs)
    assert (before.earned, report.earned) == (9, 7)
    message = laws(report)["sum"].message
    assert message is not None and message.seen == "On a GPU: the sum is no sum" and "PROFILE=gpu K=" in message.rerun


def test_a_law_that_has_failed_is_not_judged_again(course: Course, runs: Runs, submit: Submit, two_gpus: GpuProfile) -> None:
    """Its points are gone already; a GPU's time is dear."""
    folder = submit(RIGHT.replace("2 * x", "3 * x"))
    report = staged(course, grade(course, folder, course.assignments, runs=runs), folder, two_gpus, runs)
    assert laws(report)["double"].judged_on == ("cpu",) and laws(report)["sum"].judged_on == ("cpu", "gpu")


def test_without_a_gpu_the_marks_stand_and_say_what_is_missing(course: Course, runs: Runs, submit: Submit) -> None:
    """They are provisional, nothing is lost, and the note has the command."""
    folder = submit(RIGHT)
    report = add_gpu_stage(course, grade(course, folder, course.assignments, runs=runs), folder, course.assignments,
                           profile=pretended(0), runs=runs)  # fmt: skip
    assert (report.earned, report.provisional, report.waits_for) == (9, True, ("gpu",))
    assert "grader gpu" in report.notes[-1]


def test_the_stage_can_follow_later_from_the_run_folder(
    course: Course, runs: Runs, submit: Submit, two_gpus: GpuProfile, tmp_path: Path
) -> None:
    """What was written is read back whole, also what the staff alone sees; the stage makes the same report of it as at once."""
    folder, out = submit(WRONG_ON_THE_DEVICE.replace("2 * x", "3 * x")), tmp_path / "out"
    report = grade(course, folder, course.assignments, runs=runs)
    write_all(report, out)
    again = read(out)
    for name, law in laws(again).items():
        assert law.cases == laws(report)[name].cases
    later = staged(course, again, folder, two_gpus, runs)
    at_once = staged(course, report, folder, two_gpus, runs)
    assert {name: (law.verdict, law.message) for name, law in laws(later).items()} == {
        name: (law.verdict, law.message) for name, law in laws(at_once).items()
    }
    write_all(later, out)
    assert {case["id"] for case in json.loads((out / "staff.json").read_text()) if case["staff"]} == {
        "test_double",
        "drawn numbers",
        "test_sum[2] (gpu)",
    }


def test_a_submission_that_has_changed_since_is_refused(course: Course, runs: Runs, submit: Submit, two_gpus: GpuProfile) -> None:
    """Two halves of a report must be about the same files."""
    report = grade(course, submit(RIGHT), course.assignments, runs=runs)
    with pytest.raises(UsageError, match="has changed since"):
        staged(course, report, submit(RIGHT + "\n\nCHANGED = True\n"), two_gpus, runs)


def test_a_grading_says_what_running_cost(course: Course, runs: Runs, submit: Submit) -> None:
    """Five observations of eight ranks, equal requests shared, and the same again from the store: nothing was run."""
    folder = submit(RIGHT + "\n\nCOUNTED = True\n")  # nobody else has graded this one
    first, again = (grade(course, folder, course.assignments, runs=runs).spent for _ in range(2))
    assert first is not None and again is not None
    assert (first.num_runs, first.num_ranks) == (5, 8) and first.ranks_cpu_s >= 0 and runs.spent.importing_s > 0
    assert (again.num_runs, again.num_ranks, again.importing_s) == (0, 0, 0)
    assert set(again.laws_s) == {law.id for each in course.assignments for law in each.laws()}


def test_the_trial_runs_the_whole_chain() -> None:
    """A product on one, a sum on all; without any GPU it says so."""
    assert trial(pretended(2)) == ""
    assert "none" in trial(pretended(0))
