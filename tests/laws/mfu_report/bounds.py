"""The laws of task report: which runs of a log break which bound, and the rows that follow from a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.errors import CourseError, LawBroken
from grader.numerics import Hints
from grader.records import Message
from tests.laws.mfu_report import logs, oracle
from tests.laws.mfu_report.figures import compare
from tests.laws.mfu_report.oracle import Entry, Machine, at_speed

ROW = ("tokens_per_s", "mfu", "hfu", "peak_gib", "speed_up", "efficiency", "sent_bytes", "predicted_s", "all_reduce_s", "share")
LEFT = {
    "timing": "step_s must be there, positive and finite, losses finite; of such a run nothing else is said.",
    "mfu": "hfu(run, hardware, causal=True) < 1, where the hardware has a peak for the precision.",
    "memory": "16 bytes per parameter, over N under torch_fsdp2 only, <= peak_bytes <= memory_bytes (0: unknown).",
    "volume": "Under ddp and torch_ddp 4 bytes per parameter at least, on one rank none, under FSDP2 not asked.",
    "link": "all_reduce_s and the median step are at least all_reduce_bytes / link_bytes_per_s: S / B, whatever the algorithm.",
    "one_change": "The base stands before the run, and exactly one setting differs; batch and ranks are pairs.",
    "speed_up": "At most 1.1 times what the change gives: precision by peaks or widths, batch by sequences, ranks by their number.",
}


# --- bounds ----------------------------------------------------------------------------------------------------------
def judge_bound(observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper, bound: str, **case: Any) -> None:
    """The runs that break `bound`, and no others, are named under it; other bounds are other laws' affair."""
    broken, named, entries = checked(observe, ladder, tamper, **case)
    expected = {run: why for (run, each), why in broken.items() if each == bound}
    if not expected or len(expected) == len(entries):
        raise CourseError(f"A log for the bound {bound} needs runs that break it and runs that do not.")
    got = {run for run, each in named if each == bound}
    assert_named(got, expected, bound, entries)


def judge_timing(observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper, **case: Any) -> None:
    """Badly timed runs break timing, and are named under nothing else."""
    broken, named, entries = checked(observe, ladder, tamper, **case)
    expected = {run: why for (run, each), why in broken.items() if each == "timing"}
    assert_named({run for run, each in named if each == "timing"}, expected, "timing", entries)
    for run, bound in sorted(named):
        if run in expected and bound != "timing":
            raise LawBroken(
                Message(
                    seen=f"check_log names run {run!r} under {bound}, whose timing is broken: {expected[run]}.",
                    allowed="Expected: such a run is named under timing and nothing else.",
                    diagnosis="From broken timing nothing can be derived, so nothing else can be said of the run.",
                    suggestion=LEFT["timing"],
                )
            )


def judge_possible(observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper | None, **case: Any) -> None:
    """A possible log breaks nothing."""
    broken, named, entries = checked(observe, ladder, tamper, **case)
    if broken:
        raise CourseError(f"This log was meant to be possible: {broken}")
    for run, bound in sorted(named):
        raise LawBroken(
            Message(
                seen=f"check_log names run {run!r} under {bound}.",
                allowed="Expected: [], this log is possible.",
                where=told(next((entry for entry in entries if entry.name == run), None)),
                diagnosis=f"A possible run is refused by the bound {bound}.",
                suggestion=LEFT.get(bound, f"The bounds are {', '.join(LEFT)}; there is none called {bound}."),
            )
        )


def judge_impossible(observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper, **case: Any) -> None:
    """An impossible log breaks something."""
    broken, named, _ = checked(observe, ladder, tamper, **case)
    if not broken:
        raise CourseError("This log was meant to be impossible.")
    if not named:
        (run, bound), why = next(iter(broken.items()))
        raise LawBroken(
            Message(
                seen=f"check_log returns [] for a log whose run {run!r} cannot be: {why}.",
                allowed=f"Expected: a Violation of {bound}.",
                diagnosis="An impossible log is passed.",
                suggestion=LEFT[bound],
            )
        )


def checked(
    observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper | None, **case: Any
) -> tuple[dict[tuple[str, str], str], set[tuple[str, str]], list[Entry]]:
    """What is broken by the judge's formulas, what the submission names, and the runs."""
    seen = observe("checked", transport="none", **logs.drawn(ladder, tamper), **case)
    entries, machine = logs.decoded(seen)
    return oracle.violations(entries, machine), {(run, bound) for run, bound in seen.facts(0)["violations"]}, entries


def assert_named(got: set[str], expected: dict[str, str], bound: str, entries: Sequence[Entry]) -> None:
    """Exactly the expected runs."""
    for entry in entries:
        if (entry.name in got) == (entry.name in expected):
            continue
        is_missed = entry.name in expected
        raise LawBroken(
            Message(
                seen=f"check_log {'does not name' if is_missed else 'names'} {entry.name!r} under {bound}; it names {sorted(got)}.",
                allowed=f"Expected under {bound}: {sorted(expected)}.",
                where=told(entry),
                diagnosis=f"It cannot be: {expected[entry.name]}." if is_missed else f"By {bound} it is possible: nothing of it is broken.",
                suggestion=LEFT[bound],
            )
        )
    if stray := got - {entry.name for entry in entries}:
        raise LawBroken(Message(seen=f"check_log names {sorted(stray)} under {bound}; the log has no such run."))


def told(entry: Entry | None) -> str:
    """A run in a few words."""
    if entry is None:
        return ""
    parts = [entry.precision, f"{entry.world_size} ranks by {entry.data_parallel}", f"recompute {entry.recompute}", f"base {entry.base!r}"]
    return f"{entry.name!r}: " + ", ".join(parts)


# --- rows ------------------------------------------------------------------------------------------------------------
def judge_rows(observe: Any, ladder: Sequence[logs.Step], tamper: logs.Tamper | None = None, **case: Any) -> None:
    """summarise, column by column."""
    drawn = logs.drawn(ladder, tamper)
    count = len(drawn["runs"])
    returns = {"figures": ("float64", (count, len(ROW))), "flops": ("float64", (count, 2))}
    seen = observe("rows", transport="none", returns=returns, **drawn, **case)
    entries, machine = logs.decoded(seen)
    names = [entry.name for entry in entries]
    if seen.facts(0)["names"] != names:
        raise LawBroken(
            Message(
                seen=f"summarise returns rows named {seen.facts(0)['names']}.",
                allowed=f"Expected: a row for every run, in the log's order: {names}.",
                diagnosis="Rows are missing, too many, or in another order than the runs.",
            )
        )
    figures, flops = seen.rank(0)["figures"], seen.rank(0)["flops"]
    expected = np.asarray([row_of(entry, entries, machine, *own) for entry, own in zip(entries, flops, strict=True)])
    for place, column in enumerate(ROW):
        got, right = figures[:, place], expected[:, place]
        if np.any(wrong := np.isnan(got) != np.isnan(right)):
            first = int(np.flatnonzero(wrong)[0])
            raise LawBroken(
                Message(
                    seen=f"{column} of row {names[first]!r} is {'None' if np.isnan(got[first]) else f'{got[first]:.6g}'}.",
                    allowed=f"Expected: {'None' if np.isnan(right[first]) else f'{right[first]:.6g}'}.",
                    where=told(entries[first]),
                    diagnosis=f"{column} exists where it should be None, or is None where it exists.",
                    suggestion="Section 6 says for each figure when it does not exist.",
                )
            )
        known = ~np.isnan(right)
        others = {"GB instead of GiB": right[known] * 2**30 / 1e9} if column == "peak_gib" else {}
        medians = np.asarray([float(np.median(entry.step_s)) for entry in entries])
        if column == "share":
            others = {"the measured time itself": right[known] * medians[known]}
        if column == "mfu":
            others = {"hfu": expected[known, ROW.index("hfu")]}
        what = f"{column} of the rows {', '.join(name for name, each in zip(names, known, strict=True) if each)}"
        compare(got[known], right[known], what, Hints(others=others, suggestion="Derive it from the run and its base alone."))


def row_of(entry: Entry, entries: Sequence[Entry], machine: Machine, needed: float, done: float) -> list[float]:
    """A row by the judge, over the submission's own FLOPs; NaN for None."""
    none = float("nan")
    base = next((each for each in entries if each.name == entry.base), None)
    peak = entry.world_size * machine.peaks.get(entry.precision, none)
    speed_up = entry.tokens_per_s / base.tokens_per_s if base else none
    size, N, link = entry.all_reduce_bytes, entry.world_size, machine.link_bytes_per_s
    sent = 2 * (N - 1) / N * size if size else none
    predicted = 2 * (N - 1) * entry.link_latency_s + sent / link if link else none
    took = none if entry.all_reduce_s is None else entry.all_reduce_s
    return [
        entry.tokens_per_s,
        entry.tokens_per_s * needed / peak,
        entry.tokens_per_s * done / peak,
        entry.peak_bytes / 2**30,
        speed_up,
        speed_up / N if N > 1 else none,
        sent,
        predicted,
        took,
        took / float(np.median(entry.step_s)),
    ]


# --- what is done to a log -------------------------------------------------------------------------------------------
class Changes:
    """Runs of a log by their place in the ladder's kinds, each to be replaced."""

    def __init__(self, entries: list[Entry], machine: Machine) -> None:
        self.entries, self.machine = list(entries), machine

    def change(self, name: str, **fields: Any) -> None:
        """Replace fields of a run."""
        self.entries = [replace(entry, **fields) if entry.name == name else entry for entry in self.entries]

    def __getitem__(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def reach(self, name: str, utilisation: float) -> None:
        """Let a run reach this HFU by the causal count."""
        entry = self[name]
        speed = entry.tokens_per_s * utilisation / oracle.hardware_utilisation(entry, self.machine)
        self.change(name, step_s=at_speed(entry, speed).step_s)

    def gain(self, name: str, factor: float) -> None:
        """Let a run be so much faster than its base."""
        entry = self[name]
        assert entry.base is not None
        self.change(name, step_s=at_speed(entry, self[entry.base].tokens_per_s * factor).step_s)

    def done(self) -> logs.Log:
        """The changed log."""
        return self.entries, self.machine


