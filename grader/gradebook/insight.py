"""What a class's reports say about the laws: who passes what, whether a law tells strong from weak, how long it takes.

Classical item analysis. A submission that several students share counts once. Discrimination of a law, both against the other laws of its
assignment (with itself among them every law would agree with the total):

point-biserial   Pearson's correlation between passing the law and the points earned in the other laws
                 (Lord and Novick, Statistical Theories of Mental Test Scores, 1968, chapter 15)
upper − lower    pass rate among the best 27 % less that among the worst 27 %, by the same points
                 (Kelley, The selection of upper and lower groups for the validation of test items, 1939)
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from grader.errors import UsageError
from grader.gradebook.book import Book
from grader.records import Evidence, LawVerdict

GROUP_SHARE = 0.27  # Kelley's: the share at which two groups of a normal class are compared most surely
NUM_FOR_DISCRIMINATION = 10  # submissions below which a correlation says nothing
NUM_BINS = 10


# Only what is asked of a report: decoding a class takes seconds because nothing else of it is made into objects.
class _Case(msgspec.Struct):
    wall_s: float = 0.0


class _Law(msgspec.Struct):
    id: str
    claim: str
    verdict: LawVerdict
    evidence: Evidence
    earned: int
    possible: int
    cases: list[_Case]


class _Task(msgspec.Struct):
    title: str
    laws: list[_Law]


class _Assignment(msgspec.Struct):
    name: str
    earned: int
    possible: int
    tasks: list[_Task]


class _Report(msgspec.Struct):
    assignments: list[_Assignment]


DECODER = msgspec.json.Decoder(_Report)


@dataclass(frozen=True, slots=True)
class Item:
    """One law over the class."""

    law: str
    claim: str
    task: str
    evidence: str
    points: int
    num_judged: int  # submissions on which it was judged: passed or failed
    num_passed: int
    point_biserial: float | None  # None: too few, or all alike
    upper_lower: float | None
    median_s: float | None  # of its cases together, where reports say so

    @property
    def pass_rate(self) -> float | None:
        """Share of those judged that pass."""
        return self.num_passed / self.num_judged if self.num_judged else None

    @property
    def remark(self) -> str:
        """What an instructor should look at; "" if nothing."""
        if not self.num_judged:
            return "never judged"
        if self.num_passed in (0, self.num_judged):
            return "nobody fails it" if self.num_passed else "nobody passes it"
        if self.point_biserial is not None and self.point_biserial < 0:
            return "those who do well otherwise fail it"
        return ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One assignment over the class."""

    assignment: str
    title: str
    possible: int
    marks: tuple[int, ...]  # points earned by each submission, ascending
    items: tuple[Item, ...]

    @property
    def histogram(self) -> list[int]:
        """Submissions by tenths of the points, full marks with the last."""
        bins = [0] * NUM_BINS
        for earned in self.marks:
            bins[min(NUM_BINS - 1, earned * NUM_BINS // max(self.possible, 1))] += 1
        return bins

    @property
    def median(self) -> float:
        """Of the points earned."""
        return statistics.median(self.marks)


@dataclass(slots=True)
class _Seen:
    """One law while reports stream past."""

    law: _Law
    task: str
    passes: list[bool | None]  # by submission; None: not judged
    walls_s: list[float]


def analyse(book: Book) -> tuple[Analysis, ...]:
    """Read the reports of a class one by one. UsageError if one that the ledger names is not there or can't be read."""
    seen: dict[str, dict[str, _Seen]] = {name: {} for name in book.assignments}
    marks: dict[str, list[int]] = {name: [] for name in book.assignments}
    for each in _assignments(book):
        marks[each.name].append(each.earned)
        for task in each.tasks:
            for law in task.laws:
                _add(seen[each.name], law, task.title, len(marks[each.name]) - 1)
    possible = {entry.assignment: entry.possible for entry in book.entries.values()}
    return tuple(
        Analysis(name, book.titles[name], possible[name], tuple(sorted(marks[name])), tuple(_items(seen[name], marks[name])))
        for name in book.assignments
        if marks[name]
    )


def _assignments(book: Book) -> Iterator[_Assignment]:
    """Each assignment of each report, a report once however many students share it."""
    wanted: dict[Path, set[str]] = {}
    for entry in book.entries.values():
        if entry.report is not None:
            wanted.setdefault(entry.report, set()).add(entry.assignment)
    for folder, names in wanted.items():
        try:
            report = DECODER.decode((folder / "report.json").read_bytes())
        except (OSError, msgspec.MsgspecError) as unfit:
            raise UsageError(f"{folder / 'report.json'}, which the ledger names, can't be read: {unfit}; grade again") from unfit
        yield from (each for each in report.assignments if each.name in names)


def _add(laws: dict[str, _Seen], law: _Law, task: str, place: int) -> None:
    seen = laws.setdefault(law.id, _Seen(law, task, [], []))
    seen.passes += [None] * (place - len(seen.passes))  # an older report may lack the law
    seen.passes.append({"passed": True, "failed": False}.get(law.verdict))
    if wall_s := sum(case.wall_s for case in law.cases):
        seen.walls_s.append(wall_s)
    law.cases.clear()


def _items(laws: dict[str, _Seen], marks: Sequence[int]) -> Iterator[Item]:
    for seen in laws.values():
        points = seen.law.possible
        judged = [(passed, mark - points * passed) for passed, mark in zip(seen.passes, marks, strict=False) if passed is not None]
        passes, rest = [float(passed) for passed, _ in judged], [float(points) for _, points in judged]
        enough = len(judged) >= NUM_FOR_DISCRIMINATION
        yield Item(
            seen.law.id, seen.law.claim, seen.task, seen.law.evidence, points, len(judged), int(sum(passes)),
            correlation(passes, rest) if enough else None, upper_lower(passes, rest) if enough else None,
            statistics.median(seen.walls_s) if seen.walls_s else None,
        )  # fmt: skip


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson's r; None if either doesn't vary. With 0 and 1 in `x` it is the point-biserial correlation."""
    return statistics.correlation(x, y) if len(set(x)) > 1 and len(set(y)) > 1 else None


def upper_lower(passes: Sequence[float], points: Sequence[float]) -> float | None:
    """Mean of `passes` among the best 27 % by `points` less that among the worst; None if `points` are all alike.

    Who ties at a group's border is in it in part, so that no order among equals matters.
    """
    if len(set(points)) < 2:
        return None
    size = max(1, round(GROUP_SHARE * len(points)))
    return _mean_of_best(passes, points, size) - _mean_of_best(passes, [-each for each in points], size)


def _mean_of_best(passes: Sequence[float], points: Sequence[float], size: int) -> float:
    border = sorted(points, reverse=True)[size - 1]
    inside = [passed for passed, each in zip(passes, points, strict=True) if each > border]
    at_border = [passed for passed, each in zip(passes, points, strict=True) if each == border]
    return (math.fsum(inside) + statistics.fmean(at_border) * (size - len(inside))) / size
