"""How a command ends: whoever is to blame reads one sentence, and the exit code says who it is."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from grader.errors import CourseError, MachineError, UsageError
from grader.records import Report

EXIT_ALL_PASSED, EXIT_LAW_FAILED, EXIT_CALLER, EXIT_COURSE, EXIT_MACHINE, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130
LATEST = Path(".grade/latest")  # where a run is kept unless the command line says otherwise
Command = Callable[..., int]


def with_blame(command: Command) -> Command:
    """Turn whatever `command` raises into one sentence on stderr and the exit code of whoever is to blame."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> int:
        try:
            return command(*arguments, **options)
        except UsageError as error:
            return _said(str(error), EXIT_CALLER)
        except CourseError as error:
            return _said(f"The course is wrong, not you. {error}", EXIT_COURSE)
        except MachineError as error:
            return _said(f"The machine is at fault, not you. {error}", EXIT_MACHINE)
        except KeyboardInterrupt:
            return _said("Interrupted before there was anything to report.", EXIT_INTERRUPTED)
        except Exception as error:
            return _crashed(error, options.get("out") or LATEST)

    return guarded


def exit_code(report: Report) -> int:
    """How a grading ends: a wrong course outranks a wrong machine, and either outranks a failed law."""
    if report.interrupted:
        return EXIT_INTERRUPTED
    laws = report.laws()
    outcomes = {case.outcome for law in laws for case in law.cases}
    if "course_error" in outcomes or any(law.verdict == "error" and not law.cases for law in laws):
        return EXIT_COURSE
    if "machine_error" in outcomes:
        return EXIT_MACHINE
    return EXIT_LAW_FAILED if any(law.verdict == "failed" for law in laws) else EXIT_ALL_PASSED


def _said(sentence: str, status: int) -> int:
    click.echo(sentence, err=True)
    return status


def _crashed(error: Exception, out: Path) -> int:
    """A fault of ours that nobody foresaw: one sentence here, everything in a file."""
    import traceback

    status = EXIT_MACHINE if isinstance(error, OSError | MemoryError) else EXIT_COURSE
    account = "".join(traceback.format_exception(error))
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "crash.txt").write_text(account, encoding="utf-8")
        where = f"The whole account is in {out / 'crash.txt'}; please send it to whoever keeps the course."
    except OSError as unwritable:
        if isinstance(error, OSError):
            return _unwritable(out, unwritable)
        where = account
    blame = "The machine" if status == EXIT_MACHINE else "The grader"
    return _said(f"{blame} is at fault, not you: {type(error).__name__}: {error}\n{where}", status)


def _unwritable(out: Path, error: OSError) -> int:
    """A run folder that nothing can be written into: the caller names another; a full disk is the machine's."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "free some space there, or name" if is_full else "name"
    sentence = f"The run folder {out} can't be written: {error.strerror}. Try: {advice} another (OUT=... of make, --out of grader)."
    return _said(sentence, EXIT_MACHINE if is_full else EXIT_CALLER)
