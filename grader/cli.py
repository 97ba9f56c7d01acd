"""The command line: arguments in, exit code out. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from grader.commands import batch, feedback, instructors, racing
from grader.commands.asked import ASSIGNMENT, JOBS, KEYWORD, OUT, SUBMISSION, course_of, page_of, show, teller
from grader.errors import UsageError
from grader.exits import EXIT_CALLER, EXIT_COURSE, EXIT_INTERRUPTED, EXIT_MACHINE, exit_code, with_blame
from grader.levels import LEVELS

if TYPE_CHECKING:
    from grader.course import Course
    from grader.records import Assignment, Report
    from grader.report.page import Page
    from grader.selfcheck import GradeOne


def main() -> NoReturn:
    """The entry point: exits 0 all passed, 1 a law failed, 2 the caller can mend it, 3 the course is wrong, 4 the machine is."""
    try:
        status = commands.main(prog_name="grader", standalone_mode=False)
    except click.ClickException as error:  # a wrong option
        error.show()
        status = EXIT_CALLER
    except (click.Abort, KeyboardInterrupt):
        status = EXIT_INTERRUPTED
    sys.exit(status if isinstance(status, int) else 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Grade submissions to the course, and prove that the course itself is right."""


TEACHING, RACING = (feedback.watch, feedback.laws, feedback.hint, feedback.trace, feedback.site), (racing.race, racing.leaderboard)
for command in (*TEACHING, *RACING, batch.batch, *instructors.COMMANDS):
    commands.add_command(command)


@commands.command()
@ASSIGNMENT
@SUBMISSION
@click.option("--profile", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True, help="gpu judges on GPUs as well.")
@OUT
@click.option("--replay", is_flag=True, help="Judge what the run folder has stored; start no rank.")
@KEYWORD
@with_blame
def grade(wanted: tuple[str, ...], submission: Path, profile: str, out: Path, replay: bool, keyword: str | None) -> int:
    """Grade a submission: marks, and what to do next."""
    from grader.pipeline import grade as carry
    from grader.report.live import LiveProgress
    from grader.report.terminal import render

    if profile == "gpu" and replay:
        raise UsageError("--replay starts no rank, so it has no GPU stage. Replay with --profile cpu.")
    course, assignments = course_of(wanted)
    page = page_of()
    with LiveProgress(page) as progress:
        report = carry(course, submission, assignments, out=out, replay=replay, keyword=keyword, progress=progress)
    if profile == "gpu" and not report.interrupted:
        report = _gpu_stage(course, report, submission, out, keyword, page)
    if not replay:
        show(report, out)
    render(report, page, out)
    return exit_code(report)


@commands.command()
@click.option("--submission", type=click.Path(path_type=Path), default=None, help="The folder that was graded. [default: the report's]")
@OUT
@with_blame
def gpu(submission: Path | None, out: Path) -> int:
    """Add the GPU stage to a report that has the CPU's marks: here, on a node that Slurm gives, on a runner with GPUs."""
    from grader.report.files import read
    from grader.report.terminal import render

    report = read(out)
    if any("gpu" in law.judged_on for law in report.laws()):
        raise UsageError(f"{out} has the verdicts of a GPU already; grade anew to have others.")
    course, page = course_of(())[0], page_of()
    report = _gpu_stage(course, report, submission or Path(report.origin), out, None, page)
    show(report, out)
    render(report, page, out)
    return exit_code(report)


@commands.command()
@ASSIGNMENT
@click.option("--full", is_flag=True, help="Every mutant against every law, and every variant.")
@click.option("--sample", default=2, show_default=True, help="How many variants of each assignment are graded without --full.")
@click.option("--per-law", type=click.IntRange(1), default=None, help="Only so many mutants of each law. [default: all]")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="A run folder: what it has stored isn't run again.")
@JOBS
@with_blame
def selfcheck(wanted: tuple[str, ...], full: bool, sample: int, per_law: int | None, out: Path | None, jobs: int) -> int:
    """Prove the course: solutions earn everything, the starter nothing, and every mutant is caught."""
    from grader.selfcheck import Sample, Several, prove, table

    course, assignments = _instructors(wanted, "selfcheck")
    page = page_of()
    proof = prove(
        course,
        assignments,
        Several(functools.partial(_graded_together, out=out), course, jobs),
        full=full,
        sample=Sample(sample),
        per_law=Sample(per_law) if per_law else None,
        progress=teller(page),
    )
    page.console.print(table(proof))
    return EXIT_COURSE if proof.bad else 0


@commands.command()
@ASSIGNMENT
@click.option("--full", is_flag=True, help="Every mutant against every law: which laws catch which.")
@click.option("-k", "keyword", default="", metavar="WORD", help="Only mutants whose file name contains this.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="A run folder: what it has stored isn't run again.")
@JOBS
@with_blame
def mutants(wanted: tuple[str, ...], full: bool, keyword: str, out: Path | None, jobs: int) -> int:
    """Grade every wrong answer: is it caught, by the law that it names, with the word that it names?"""
    from grader.selfcheck import Several, shares, try_mutants

    course, assignments = _instructors(wanted, "mutants")
    page = page_of()
    crew = Several(functools.partial(_graded_together, out=out), course, jobs)
    trials = try_mutants(course, assignments, crew, full=full, only=keyword, progress=teller(page))
    for trial in trials:
        page.paragraph(
            f"{trial.path}: {trial.sentence}", lead="✓ " if trial.is_caught else "✗ ", lead_style="green" if trial.is_caught else "red"
        )
        if full:
            page.paragraph(", ".join(trial.caught_by) or "no law", lead="  caught by ", lead_style="dim")
    for sentence in shares(trials):
        page.paragraph(sentence)
    num_caught = sum(trial.is_caught for trial in trials)
    page.paragraph(f"{num_caught} of {len(trials)} mutants caught", style="bold")
    return 0 if num_caught == len(trials) else EXIT_COURSE


@commands.command()
@click.option("-k", "keyword", default="", metavar="WORD", help="Only exploits whose file name contains this.")
@click.option("--table", type=click.Path(path_type=Path), default=None, help="Write what was seen into this page, by class and level.")
@click.option("--level", type=click.Choice(list(LEVELS)), default=LEVELS[0], help="The strongest level of isolation to use. [default: A]")
@JOBS
@with_blame
def exploits(keyword: str, table: Path | None, level: str, jobs: int) -> int:
    """Grade dishonest submissions: each must end as its header says, and nothing of it may be left."""
    from grader.selfcheck import Several
    from grader.selfcheck.gauntlet import run_exploits

    course, page = _instructors((), "exploits")[0], page_of()
    crew = Several(functools.partial(_graded_together, at_most=level), course, jobs)
    return run_exploits(course, crew, page, keyword, table, teller(page))


@commands.command()
@with_blame
def starter() -> int:
    """Write starter/ anew from solutions/."""
    from grader.starter import regenerate

    changed = regenerate(_instructors((), "starter")[0])
    click.echo("\n".join(changed) or "starter/ is up to date.")
    return 0


@commands.command()
@ASSIGNMENT
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True, help="The folder for what is made.")
@click.option("--url", default="", metavar="URL", help="Where the archive will lie, for the notebooks.")
@click.option("--gradescope", is_flag=True, help="Uploads for Gradescope too. They hold hidden cases: never for students.")
@click.option("--scan", type=click.Path(path_type=Path, exists=True), default=None, help="Make nothing; look for leaks in this.")
@with_blame
def release(wanted: tuple[str, ...], out: Path, url: str, gradescope: bool, scan: Path | None) -> int:
    """Build the students' bundle, once nothing in it tells an answer."""
    from grader.release import leaks_in, require_instructors, write

    course, assignments = course_of(wanted)
    require_instructors(course, "release")
    if scan is not None:
        leaks = leaks_in(course, scan)
        click.echo("\n".join(map(str, leaks)) or f"Nothing of what must not leave is in {scan}.")
        return EXIT_COURSE if leaks else 0
    for sentence in write(course, out, url, assignments if gradescope else ()):
        click.echo(sentence)
    return 0


@commands.command()
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@with_blame
def upgrade(source: Path) -> int:
    """Take a newer release of the course; what you wrote stays."""
    from grader.release import upgrade as take

    done = take(course_of(())[0].root, source)
    click.echo("\n".join(done.sentences()) if done else "This is that release already.")
    return 0


@commands.command()
@click.argument("key")
@click.option(
    "--submission", type=click.Path(path_type=Path), default=None, help="The folder whose files run. [default: the one that was graded]"
)
@click.option("--rank", default=0, show_default=True, help="The rank that you become.")
@OUT
@with_blame
def debug(key: str, submission: Path | None, rank: int, out: Path) -> int:
    """Run an observation again with one of its ranks in your hands: breakpoint(), Ctrl-C and an IDE work."""
    from grader.debug import debug as become_rank

    return become_rank(course_of(())[0], out, key, submission, rank)


@commands.command()
@with_blame
def doctor() -> int:
    """What this machine offers, and what to do about each lack."""
    from grader.doctor import examine, show

    checks = examine()
    show(checks, page_of())
    return 0 if all(check.ok or not check.is_needed for check in checks) else EXIT_MACHINE


def _gpu_stage(course: Course, report: Report, submission: Path, out: Path, keyword: str | None, page: Page) -> Report:
    """The report with the GPU stage in it, written into `out`; without a GPU, with a word that it waits."""
    from grader import devices
    from grader.gpu_stage import add_gpu_stage
    from grader.observe.profile import GpuProfile
    from grader.pipeline import opened_runs
    from grader.report.files import write_all
    from grader.report.live import LiveProgress

    assignments = [each for each in course.assignments if each.name in {mark.name for mark in report.assignments}]
    profile = GpuProfile(devices.found())
    with opened_runs(course.root, out) as runs, LiveProgress(page) as progress:
        report = add_gpu_stage(
            course, report, submission, assignments, profile=profile, runs=runs, keyword=keyword, progress=progress, told=teller(page)
        )
    write_all(report, out)
    return report


def _instructors(wanted: tuple[str, ...], command: str) -> tuple[Course, tuple[Assignment, ...]]:
    from grader.release import require_instructors

    course, assignments = course_of(wanted)
    require_instructors(course, command)
    return course, assignments


@contextmanager
def _graded_together(course: Course, out: Path | None = None, *, at_most: str = LEVELS[0]) -> Iterator[GradeOne]:
    """Grade many submissions with the same processes: torch is imported once, not once for each. The store is that of `out`, if given."""
    from grader.pipeline import grade as carry
    from grader.pipeline import opened_runs

    with opened_runs(course.root, out, at_most=at_most, forgets=out is None) as runs:

        def grade_one(assignment: Assignment, path: Path, laws: tuple[str, ...] | None = None, *, until_failed: bool = False) -> Report:
            report = carry(course, path, [assignment], laws=laws, runs=runs, until_failed=until_failed)
            if report.interrupted:
                raise KeyboardInterrupt
            return report

        yield grade_one


if __name__ == "__main__":
    main()
