"""Runs the dishonest submissions, tells what each came to, and keeps the figures by class and level in a page of the design."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.course import Course
from grader.errors import UsageError
from grader.report.page import Page
from grader.selfcheck.crew import Crew
from grader.selfcheck.exploits import ExploitTrial, load_exploits, table_of, try_exploits

EXIT_ALL_HELD, EXIT_COURSE = 0, 3
HEAD = """# Dishonest submissions

Written by `make exploits TABLE=grader/design/exploits.md`, one section for each level of isolation. They are graded without the policy's
rules, which are no wall; its column says how many it would have refused before anything ran. *Held* means: as the file's header says (no
points; killed; nothing gained; for controls all points), and no process was left. What got through is named.
"""


def run_exploits(course: Course, crew: Crew, page: Page, only: str, table: Path | None, told: Callable[[str], None]) -> int:
    """Try those whose name contains `only`; the exit code."""
    exploits = load_exploits(course, only)
    if not exploits:
        raise UsageError(f"No exploit's name contains {only!r}; they lie in tests/exploits/.")
    with tempfile.TemporaryDirectory(prefix="exploits-") as scratch:
        trials = try_exploits(course, exploits, crew, Path(scratch), told)
    for trial in trials:
        sign, style = ("✓", "green") if trial.is_held else ("✗", "red")
        page.paragraph(_sentence(trial), lead=f"{sign} {trial.exploit.kind}: ", indent=4, lead_style=style)
    num_held = sum(trial.is_held for trial in trials)
    page.paragraph(f"{num_held} of {len(trials)} ended as they must; {trials[0].isolation}", style="bold")
    if table is not None:
        write_table(table, trials)
    return EXIT_ALL_HELD if num_held == len(trials) else EXIT_COURSE


def _sentence(trial: ExploitTrial) -> str:
    end = "earned the points" if trial.earned else f"earned nothing: {trial.says}"
    left = f"; left {len(trial.left)} processes" if trial.left else ""
    refused = f"; the policy refuses it ({', '.join(trial.rules)})" if trial.rules else ""
    return f"{trial.exploit.name} (must: {trial.exploit.must}) {end}{left}{refused}; {trial.wall_s:.1f} s"


def write_table(path: Path, trials: Sequence[ExploitTrial]) -> None:
    """Replace the section of this level, and leave those of other levels."""
    level = level_of(trials[0].isolation)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {match[1]: match[0].rstrip() for match in re.finditer(r"^## Level (\S+).*?(?=^## |\Z)", before, re.MULTILINE | re.DOTALL)}
    rows = [f"| {kind} | {tried} | {held} | {refused} | {through or '–'} |" for kind, tried, held, refused, through in table_of(trials)]
    total = sum(trial.is_held for trial in trials)
    sections[level] = "\n".join([
        f"## Level {level}", "", f"{trials[0].isolation}. {total} of {len(trials)} held.", "",
        "| class | tried | held | refused by the policy | got through |", "|---|---|---|---|---|", *rows,
    ])  # fmt: skip
    path.write_text("\n\n".join([HEAD.rstrip(), *(sections[key] for key in sorted(sections))]) + "\n", encoding="utf-8")


def level_of(isolation: str) -> str:
    """The letter of a label such as "isolation B: ..."."""
    match = re.match(r"isolation ([A-D])\b", isolation)
    return match[1] if match else "D"
