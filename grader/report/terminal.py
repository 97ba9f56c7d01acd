"""What a student reads after grading: marks by task, what to do first, and every failure explained once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.records import (
    NOT_SELECTED,
    NOT_STARTED,
    SETTLED,
    AssignmentMark,
    CaseOutcome,
    Evidence,
    LawMark,
    LawVerdict,
    Message,
    Report,
    Spent,
    TaskMark,
    make_grade,
)
from grader.report.causes import Cause, causes_of
from grader.report.files import PAGE
from grader.report.once import said_once
from grader.report.page import Page
from grader.report.selection import headline, is_selection, is_unasked, passes_in_part, standing

SIGNS: dict[LawVerdict, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "not_judged": ("–", "yellow"),
    "error": ("!", "magenta"),
}
LABELS = (
    ("seen", "seen"),
    ("allowed", "allowed"),
    ("where", "where"),
    ("diagnosis", "this means"),
    ("suggestion", "try"),
    ("output", "output"),
)
COMMANDS = (("rerun", "run again"), ("debug", "debug"))
EVIDENCE: dict[Evidence, str] = {  # how far a law's verdict can be believed; README says it at length
    "judged": "values compared outside your process",
    "enforced": "only the right behaviour gets through",
    "witnessed": "seen from outside, as bytes on the wire are",
    "testified": "told by the process that ran your file",
}
ISOLATION = "isolation: the walls around your ranks, from A, the strongest, to D, none"
INDENT = 14  # of the text after a label
LEAST_FOR_MAP = 40  # columns: a narrower page would break its rows
NUM_SLOWEST = 8  # laws that the page names
NARROW = 60  # columns below which the evidence labels give way to the claims


def render(report: Report, page: Page, out: Path | None = None) -> None:
    """Print the whole report on `page`; `out` is where its files lie."""
    for note in report.notes:
        page.paragraph(note, lead="note: ", lead_style="yellow")
    for assignment in report.assignments:
        _table(assignment, page)
        _selection(assignment, report.origin, page)
        _first_steps(assignment, page)
        for cause in causes_of(assignment):
            explain(cause, page)
    _pending(report, page)
    _sum(report, page, out)


def _table(assignment: AssignmentMark, page: Page) -> None:
    page.blank()
    page.spread(assignment.title, standing(assignment), style="bold")
    was_folded = False
    for task in assignment.tasks:
        asked, is_folded = [law for law in task.laws if not is_unasked(law)], not _shown(task)
        if not asked:
            continue
        if not (is_folded and was_folded):
            page.blank()
        was_folded = is_folded
        if is_folded:
            size = f"{len(asked)} law{'s' * (len(asked) != 1)}, {sum(law.possible for law in asked)} points"
            page.spread(f"{task.title}: not started", size, lead=f"  {SIGNS['not_judged'][0]} ", indent=4, lead_style="yellow")
            continue
        page.spread(task.title, standing(task), indent=2, style="bold")
        for law in _shown(task):
            sign, style = SIGNS["passed" if passes_in_part(law) else law.verdict]
            label = "" if page.width < NARROW else f"{_profiles(law)}{law.evidence:>10}  "
            page.spread(law.claim, f"{label}{standing(law):>7}", lead=f"  {sign} ", indent=4, lead_style=style)


def _shown(task: TaskMark) -> list[LawMark]:
    """The laws that have a line: those that were asked for, and none where a stub is all that there is of the task."""
    asked = [law for law in task.laws if not is_unasked(law)]
    is_begun = not any(map(is_not_started, asked)) or any(not is_not_started(law) and law.verdict != "not_judged" for law in asked)
    return asked if is_begun else []


def _all_shown(report: Report) -> list[LawMark]:
    return [law for assignment in report.assignments for task in assignment.tasks for law in _shown(task)]


def _selection(assignment: AssignmentMark, origin: str, page: Page) -> None:
    """What -k or a choice of laws has left open, and how to have all of it judged."""
    laws = assignment.laws()
    if not is_selection(laws):
        return
    page.blank()
    partly = [law for law in laws if passes_in_part(law)]
    if partly:
        passed, all_cases = (sum(case.outcome == "passed" for law in partly for case in law.cases), sum(len(law.cases) for law in partly))
        whose = "the law's" if len(partly) == 1 else "the"
        of = "" if len(partly) == 1 else f" of {len(partly)} laws"
        run = "was run, and it passes" if passed == 1 else "were run, and they pass"
        page.paragraph(f"{passed} of {whose} {all_cases} cases{of} {run}; points need all of them.", indent=2)
    if unasked := sum(map(is_unasked, laws)):
        is_one = unasked == 1
        page.paragraph(f"{unasked} more law{'s' * (not is_one)} {'was' if is_one else 'were'} not selected.", indent=2)
    page.command(make_grade(assignment.name, origin), lead="  all", indent=INDENT)


def _first_steps(assignment: AssignmentMark, page: Page) -> None:
    """One friendly block instead of a page of failures that all say that nothing is there yet."""
    waiting = [task for task in assignment.tasks if any(is_not_started(law) for law in task.laws)]
    if not waiting:
        return
    laws = [law for task in waiting for law in task.laws if is_not_started(law)]
    page.blank()
    page.paragraph("What to do first", style="bold cyan")
    others = len(waiting) - 1
    after = f" {others} more task{'s' * (others != 1)} wait{'s' * (others == 1)} after it." if others else ""
    stub = f"{waiting[0].title} ({waiting[0].id}) is not started yet: its stub still stands in the file.{after}"
    if causes := causes_of(assignment):
        page.paragraph(f"Mend what you have begun: {_sums(causes)}", indent=2)
        stub = f"Then go on: {stub}"
    page.paragraph(stub, indent=2)
    page.command(f"assignments/{assignment.name}/handout.md", lead="  read", indent=INDENT)
    commands = [law.message.rerun.partition(" K=")[0] for law in laws if law.message and law.message.rerun]
    page.command(commands[0] if commands else f"make grade A={assignment.name}", lead="  then", indent=INDENT)
    page.command(f"make laws A={assignment.name}", lead="  its laws", indent=INDENT)
    fail = "law fails" if len(laws) == 1 else "laws fail"
    page.paragraph(f"{len(laws)} {fail} for no other reason, and no more is said of that.", indent=2, style="dim")


def _sums(causes: Sequence[Cause]) -> str:
    count = sum(len(cause.laws) + len(cause.followers) for cause in causes)
    if count == 1:
        return "1 law fails, as told below."
    return f"{count} laws fail, for {'one reason' if len(causes) == 1 else f'{len(causes)} reasons'}, told below."


def explain(cause: Cause, page: Page) -> None:
    """One failure: what the law claims, what was seen instead, what to try, and which other laws fail with it."""
    page.blank()
    first, *others = laws = cause.laws
    sign, style = SIGNS[first.verdict]
    is_long = len(first.id) > page.width - 4  # an id that is broken can't be copied
    page.paragraph(first.claim if is_long else f"{first.claim} [{first.id}]", lead=f"{sign} ", style="bold", lead_style=style)
    if is_long:
        page.command(first.id, lead="", indent=2)
    _name(others, "fails" if len(others) == 1 else "fail", "the same way", page=page)
    _name(cause.followers, "of this task", "may fail through it", page=page)
    message = said_once(laws[0].message or Message(seen=""))
    for name, label in LABELS:
        if text := getattr(message, name):
            page.paragraph(text, lead=f"  {label}", indent=INDENT, lead_style="dim")
        if name == "where" and message.map and page.width >= LEAST_FOR_MAP:
            page.paragraph(str(message.map), lead="  map", indent=INDENT, lead_style="dim")
    page.paragraph(which_cases(laws), lead="  cases", indent=INDENT, lead_style="dim")
    for name, label in COMMANDS:
        if text := getattr(message, name):
            page.command(text, lead=f"  {label}", indent=INDENT)
    page.command(f"make hint LAW={laws[0].id}", lead="  a hint", indent=INDENT)


def _name(laws: Sequence[LawMark], *how: str, page: Page) -> None:
    """More laws, by their ids without the assignment's name, as K and LAW take them."""
    if not laws:
        return
    ids = [law.id.partition(".")[2] for law in laws]
    words = f"{len(laws)} more law{'s' * (len(laws) != 1)} {' '.join(how)}:"
    if max(map(len, ids)) + 4 <= page.width:
        page.paragraph(f"{words} {', '.join(ids)}", indent=2, style="bold")
    else:
        page.paragraph(words, indent=2, style="bold")
        for name in ids:
            page.command(name, lead="", indent=2)


def which_cases(laws: list[LawMark]) -> str:
    """How many cases of `laws` failed, and of what kinds they are."""
    bad: set[CaseOutcome] = {"failed", "course_error", "machine_error"}
    cases = [case for law in laws for case in law.cases if case.message is None or case.message.seen not in (SETTLED, NOT_SELECTED)]
    kinds = dict.fromkeys(f"{case.kind} (hidden)" if case.hidden else case.kind for case in cases if case.outcome in bad)
    count = sum(case.outcome in bad for case in cases)
    return f"{count} of {len(cases)}: {'; '.join(kinds)}" if cases else "none: the law has no case"


def _pending(report: Report, page: Page) -> None:
    """Why laws were not judged, each reason once."""
    reasons: dict[str, int] = {}
    for law in _all_shown(report):
        if law.verdict == "not_judged" and not passes_in_part(law) and law.message:
            reasons[law.message.seen] = reasons.get(law.message.seen, 0) + 1
    if reasons:
        page.blank()
    for reason, count in reasons.items():
        page.paragraph(f"{count} law{'s' * (count != 1)}: {reason}", lead="– ", lead_style="yellow")


def _sum(report: Report, page: Page, out: Path | None) -> None:
    page.blank()
    if report.interrupted:
        page.paragraph("Interrupted: these are the marks of what was judged until then.", style="bold yellow")
    is_partial = is_selection(report.laws())
    page.paragraph(headline(report), style="bold green" if not is_partial and report.earned == report.possible else "bold")
    if report.waits_for:
        page.paragraph(f"Provisional: judged on the CPU; still to be judged: {', '.join(report.waits_for)}.", style="dim")
    elif report.provisional and not is_partial:  # a selection is no marks at all
        has_hidden = any(case.hidden for law in report.laws() for case in law.cases)
        why = "some laws have not been judged" if has_hidden else "hidden cases count too, and none was run"
        page.paragraph(f"Provisional: {why}.", style="dim")
    if report.formative:
        page.paragraph(report.formative, style="bold yellow")
    page.paragraph(f"{report.isolation}; {report.wall_s:.1f} s", style="dim")
    _legend(report, page)
    if report.spent is not None:
        page.paragraph(where_time_went(report.spent), style="dim")
    if out is not None:
        page.command(str(out / "report.json"), lead="report", indent=8)
        if (out / PAGE).exists():
            page.command(str(out / PAGE), lead="page", indent=8)


def _legend(report: Report, page: Page) -> None:
    """What the words beside the laws and the letter of the isolation mean: those that stand on this page."""
    shown = {law.evidence for law in _all_shown(report)}
    words = [f"{word}: {meaning}" for word, meaning in EVIDENCE.items() if word in shown and page.width >= NARROW]
    words += [ISOLATION] if report.isolation.startswith("isolation ") else []
    if words:
        page.paragraph("; ".join(words), style="dim")


def where_time_went(spent: Spent) -> str:
    """Judge, ranks and waiting, in a sentence."""
    ran = "nothing had to be run"
    if spent.num_runs:
        ran = f"{spent.num_ranks:,} ranks in {spent.num_runs:,} runs for {spent.ranks_cpu_s:.1f} s"
        ran += f"; waiting for torch: {spent.importing_s:.1f} s"
    return f"computing: the judge for {spent.judge_cpu_s:.1f} s, {ran}"


def slowest(report: Report) -> list[tuple[LawMark, float]]:
    """The laws whose public cases took longest, with their seconds; none below a twentieth of one."""
    seconds = report.spent.laws_s if report.spent is not None else {}
    laws = [(law, seconds.get(law.id, 0.0)) for law in report.laws()]
    return sorted((each for each in laws if each[1] >= 0.05), key=lambda each: -each[1])[:NUM_SLOWEST]


def _profiles(law: LawMark) -> str:
    """What the law was judged on, where that is more than the CPU."""
    return " on " + " and ".join(law.judged_on) if "gpu" in law.judged_on else ""


def is_not_started(law: LawMark) -> bool:
    """Whether it fails only because a stub still stands."""
    return law.verdict == "failed" and law.message is not None and law.message.diagnosis == NOT_STARTED
