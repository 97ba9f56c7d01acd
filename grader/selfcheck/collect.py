"""Which test bears which law mark: asked of pytest in a process of its own, so that a test file that exits or prints harms nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from grader.errors import CourseError

COLLECT_WALL_S = 120
INI = Path(__file__).parents[1] / "judge" / "judge.ini"


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """One collected test with one set of parameters."""

    file: str  # from the course's root
    name: str
    marks: tuple[str, ...]  # the laws it is marked with, as <task>.<claim>

    @property
    def is_hidden(self) -> bool:
        return "/hidden/" in self.file


def collect(root: Path, files: Sequence[Path]) -> tuple[MarkedTest, ...]:
    """Every test in `files`. Raises CourseError with pytest's words if a file can't be collected."""
    if not files:
        return ()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    search_path = os.pathsep.join(filter(None, [str(INI.parents[2]), os.environ.get("PYTHONPATH")]))
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": search_path}
    command = [sys.executable, "-m", "grader.selfcheck.collect", str(root), *map(str, files)]
    try:
        run = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=COLLECT_WALL_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        names = ", ".join(file.name for file in files)
        raise CourseError(f"Collecting {names} took over {COLLECT_WALL_S} s: what runs at import there?") from None
    said = run.stdout.rpartition("\n")[2]
    if run.returncode or not said.startswith("["):
        raise CourseError(f"The tests can't be collected:\n{(run.stdout + run.stderr).strip()[-2000:]}")
    return tuple(MarkedTest(entry["file"], entry["name"], tuple(entry["marks"])) for entry in json.loads(said))


@dataclass
class _Collector:
    root: Path
    tests: list[MarkedTest] = field(default_factory=list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            marks = tuple(str(argument) for mark in item.iter_markers("law") for argument in mark.args)
            self.tests.append(MarkedTest(item.path.relative_to(self.root).as_posix(), item.name, marks))


def main(root: str, *files: str) -> int:
    """Collect `files`; the last line of the output is a JSON list of tests."""
    collector = _Collector(Path(root))
    options = ["--collect-only", "-q", "-c", str(INI), "--rootdir", root, "--noconftest", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *files], plugins=[collector])
    sys.stdout.write("\n" + json.dumps([asdict(test) for test in collector.tests]))
    return 0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
