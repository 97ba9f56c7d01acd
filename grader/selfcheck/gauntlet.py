"""Runs the dishonest submissions, tells what each came to, and keeps the figures by class and level in a page of the design."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.course import Course
from grader.errors import UsageError
from grader.exits import EXIT_ALL_PASSED, EXIT_COURSE
from grader.ranks.isolation import level_in
from grader.report.page import Page
from grader.selfcheck.crew import Crew
from grader.selfcheck.exploits import CLASSES, ExploitTrial, load_exploits, try_exploits

HEAD = """# Dishonest submissions

Written by `make exploits TABLE=grader/design/exploits.md`, one section for each level of isolation and each user who grades. They are
graded without the policy's rules, which are no wall; its column says how many it would have refused before anything ran. *Held* means:
as the file's header says (no points; killed; nothing gained; for controls all points), and no process was left. What got through is
named. The level is what that user's machine gave or, where it gives more, what `LEVEL=` asked for; `python -m tests.soak.poorer` makes
poorer machines of one.
"""
_SYS_ADMIN = 21  # the capability without which root may make no namespaces


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
        write_table(table, trials, {exploit.name for exploit in load_exploits(course)}, grading_user())
    return EXIT_ALL_PASSED if num_held == len(trials) else EXIT_COURSE


def _sentence(trial: ExploitTrial) -> str:
    end = "earned the points" if trial.earned else f"earned nothing: {trial.says}"
    left = f"; left {len(trial.left)} processes" if trial.left else ""
    refused = f"; the policy refuses it ({', '.join(trial.rules)})" if trial.rules else ""
    return f"{trial.exploit.name} (must: {trial.exploit.must}) {end}{left}{refused}; {trial.wall_s:.1f} s"


def grading_user() -> str:
    """Who grades, as far as it decides about walls: "root", "root in a container", "root without capabilities", or "an ordinary user"."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "an ordinary user"
    status = Path("/proc/self/status")
    held = re.search(r"^CapEff:\s*(\w+)$", status.read_text(encoding="ascii") if status.exists() else "", re.MULTILINE)
    capabilities = int(held[1], 16) if held else -1
    return "root without capabilities" if not capabilities else "root" if capabilities >> _SYS_ADMIN & 1 else "root in a container"


def write_table(path: Path, trials: Sequence[ExploitTrial], known: Collection[str], user: str) -> None:
    """Put these trials among those of their level and user, which lie beside the page, forget what is in no file any more, and write it."""
    data = path.with_suffix(".json")
    levels = json.loads(data.read_text(encoding="utf-8")) if data.exists() else {}
    mine = levels.setdefault(f"{level_in(trials[0].isolation)}, {user}", {"isolation": "", "trials": {}})
    mine["isolation"] = trials[0].isolation
    mine["trials"] |= {trial.exploit.name: [trial.exploit.kind, trial.is_held, bool(trial.rules)] for trial in trials}
    for each in levels.values():
        each["trials"] = {name: each["trials"][name] for name in sorted(each["trials"]) if name in known}
    data.write_text(json.dumps(levels, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sections = [_overview(levels), *(_section(setting, levels[setting]) for setting in sorted(levels))]
    path.write_text("\n\n".join([HEAD.rstrip(), *sections]) + "\n", encoding="utf-8")


def _overview(levels: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each level and user: of each class, how many held of how many tried."""
    lines = [f"| level | {' | '.join(CLASSES)} |", f"|---{'|---' * len(CLASSES)}|"]
    for setting in sorted(levels):
        held = {kind: [is_held for its, is_held, _ in levels[setting]["trials"].values() if its == kind] for kind in CLASSES}
        lines.append(f"| {setting} | {' | '.join(f'{sum(each)} of {len(each)}' if each else '–' for each in held.values())} |")
    return "\n".join(lines)


def _section(setting: str, seen: Mapping[str, Any]) -> str:
    trials = seen["trials"]
    lines = [f"## Level {setting}", "", f"{seen['isolation']}. {sum(held for _, held, _ in trials.values())} of {len(trials)} held.", "",
             "| class | tried | held | refused by the policy | got through |", "|---|---|---|---|---|"]  # fmt: skip
    for kind in CLASSES:
        those = {name: trial for name, trial in trials.items() if trial[0] == kind}
        through = [name for name, (_, held, _) in those.items() if not held]
        if those:
            refused = sum(refused for _, _, refused in those.values())
            lines.append(f"| {kind} | {len(those)} | {len(those) - len(through)} | {refused} | {', '.join(through) or '–'} |")
    return "\n".join(lines)
