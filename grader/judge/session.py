"""Judge one submission: pytest in this process, with the judge's own settings and nobody else's plugins."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from grader.errors import CourseError, UsageError
from grader.judge.plugin import JudgePlugin
from grader.judge.ports import Observer, Progress
from grader.records import Assignment, CaseVerdict

INI = Path(__file__).with_name("judge.ini")
FOREIGN_SETTINGS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DEBUG")
NO_PLUGINS, CURRENT_TEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_CURRENT_TEST"
ENDED_WELL = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.NO_TESTS_COLLECTED}


@dataclass(frozen=True, slots=True)
class Judged:
    """All verdicts on one submission."""

    verdicts: tuple[CaseVerdict, ...]
    interrupted: bool  # Ctrl-C: the verdicts that are missing say "not run"
    has_hidden: bool
    log: str  # pytest's own words: for staff, since they contain expected values
    cpu_s: float = 0.0  # what this thread computed
    laws_s: Mapping[str, float] = field(default_factory=dict)  # wall time of the public cases by law


def judge(
    root: Path,
    assignments: Sequence[Assignment],
    observer: Observer,
    *,
    origin: str = "starter",
    laws: Collection[str] | None = None,
    keyword: str | None = None,
    progress: Progress | None = None,
    looks_ahead: bool = False,
    until_failed: bool = False,
) -> Judged:
    """Judge every case of `assignments` (or of `laws` only, or those that `keyword` selects) through `observer`.

    keyword       a task, a law, or what pytest's -k takes
    origin        how the user named the submission; messages repeat it
    looks_ahead   a second thread makes the observations of later cases meanwhile
    until_failed  a law's other cases are left once one has failed

    Raises CourseError if a test names no law or if there is no test at all; UsageError if `keyword` selects nothing or can't be read.
    """
    paths = test_files(root, assignments)
    if keyword and (named := named_laws(assignments, keyword)):
        laws, keyword = named if laws is None else named.intersection(laws), None
    plugin = JudgePlugin(assignments, observer, origin, laws, progress, looks_ahead, until_failed)
    options = ["-c", str(INI), "--rootdir", str(root), "--confcutdir", str(root), "--noconftest", "-p", "no:cacheprovider",
               "--continue-on-collection-errors", "--capture=sys", "--tb=native", "-q", *(["-k", keyword] if keyword else [])]  # fmt: skip
    log, began_s = io.StringIO(), time.thread_time()
    with _without_foreign_settings(), _importing_from(root), contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        status = pytest.main([*options, *map(str, paths)], plugins=[plugin])
    _raise_if_unusable(plugin, status, keyword, log.getvalue())
    has_hidden = any(case.hidden for case in plugin.cases.values() if case.node not in plugin.deselected)
    return Judged(plugin.verdicts(), status == pytest.ExitCode.INTERRUPTED, has_hidden, log.getvalue(), time.thread_time() - began_s,
                  plugin.laws_s)  # fmt: skip


def named_laws(assignments: Sequence[Assignment], name: str) -> frozenset[str]:
    """The laws of the task or law called `name` (its id, or the end of it behind a dot); none if it is only a word of some tests."""

    def is_meant(full: str) -> bool:
        return full == name or full.endswith(f".{name}")

    tasks = [task for assignment in assignments for task in assignment.tasks]
    return frozenset(law.id for task in tasks for law in task.laws if is_meant(task.id) or is_meant(law.id))


def test_files(root: Path, assignments: Sequence[Assignment]) -> list[Path]:
    """Public and hidden test files of `assignments`. Raises CourseError if an assignment has no public ones."""
    paths = []
    for assignment in assignments:
        public, hidden = (root / "tests" / room / f"test_{assignment.name}.py" for room in ("public", "hidden"))
        if not public.is_file():
            raise CourseError(f"{assignment.name} has no public tests: expected {public.relative_to(root)}")
        paths += [public, hidden] if hidden.is_file() else [public]
    return paths


def _raise_if_unusable(plugin: JudgePlugin, status: int, keyword: str | None, log: str) -> None:
    if plugin.refusal:
        raise plugin.refusal
    if status == pytest.ExitCode.USAGE_ERROR and keyword:
        raise UsageError(f"-k {keyword!r} cannot be read: {log.strip().splitlines()[-1] if log.strip() else 'pytest gave no reason'}")
    if status not in ENDED_WELL:
        raise CourseError(f"the judge's pytest ended with status {int(status)}:\n{log[-2000:]}")
    if not plugin.cases and not plugin.broken_files and status != pytest.ExitCode.INTERRUPTED:
        raise CourseError(f"no test was found for {', '.join(a.name for a in plugin.assignments)}; each law needs a case")
    if keyword and plugin.cases and plugin.deselected >= plugin.cases.keys():
        examples = ", ".join(case.name for case in list(plugin.cases.values())[:3] if not case.hidden)
        raise UsageError(f"-k {keyword!r} selects no case; there are cases such as {examples}")


@contextlib.contextmanager
def _without_foreign_settings() -> Iterator[None]:
    """Hide the environment variables by which a user's pytest settings would reach the judge, and installed plugins with them."""
    before = {name: os.environ.pop(name, None) for name in (*FOREIGN_SETTINGS, NO_PLUGINS, CURRENT_TEST)}
    os.environ[NO_PLUGINS] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _importing_from(root: Path) -> Iterator[None]:
    """Let tests import `tests.laws` of this course, and forget all of `tests` afterwards: another course may be next."""
    elsewhere = _forget_tests()
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        _forget_tests()
        sys.modules.update(elsewhere)


def _forget_tests() -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name == "tests" or name.startswith("tests.")}
