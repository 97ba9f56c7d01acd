"""Insight: item analysis against textbooks, what is remarkable named, and a page that keeps to itself."""

from __future__ import annotations

import csv
import io
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.errors import UsageError
from grader.gradebook.book import Book
from grader.gradebook.class_page import rate, write_page, write_table
from grader.gradebook.insight import analyse, correlation, upper_lower
from grader.records import Report
from tests.grader.gradebook.conftest import COURSE, marked, report, write_reports

CLAIMS = [law.id.rpartition(".")[2] for law in COURSE[0].laws()]  # sends, adds, waits, ends
EVIL = "<script>alert(1)</script>"


def class_of(book_of: Callable[..., Book], passed: Sequence[Sequence[str]], change: Callable[[Report], Report] = lambda it: it) -> Book:
    """A class in rings; each student's claims that hold."""
    students = [f"s{number:02}" for number in range(len(passed))]
    rows = [replace(marked(name, 25 * len(claims), 0), marks={"rings": (25 * len(claims), 100)})
            for name, claims in zip(students, passed, strict=True)]  # fmt: skip
    book = book_of(*rows)
    write_reports(book.folder, {name: change(report({"rings": claims})) for name, claims in zip(students, passed, strict=True)})
    return book


TWENTY = [CLAIMS[: number % 4] for number in range(20)]  # sends is passed by most, adds by fewer, waits by a quarter, ends by nobody


def test_items_are_those_of_the_textbook(book_of: Callable[..., Book]) -> None:
    """Pass rates counted by hand; the correlation is NumPy's, against the points of the other laws."""
    (analysis,) = analyse(class_of(book_of, TWENTY))
    sends, adds, waits, ends = analysis.items
    assert [(item.num_passed, item.num_judged) for item in analysis.items] == [(15, 20), (10, 20), (5, 20), (0, 20)]
    passes = np.array([len(claims) >= 2 for claims in TWENTY])
    rest = np.array([25 * len(claims) for claims in TWENTY]) - 25 * passes
    assert adds.point_biserial == pytest.approx(np.corrcoef(passes, rest)[0, 1])
    assert sends.upper_lower == pytest.approx(1 - 0.5)  # the best five pass it; ten tie for the worst five, and half of them pass
    assert (ends.remark, ends.point_biserial, waits.remark) == ("nobody passes it", None, "")
    assert analysis.histogram == [5, 0, 5, 0, 0, 5, 0, 5, 0, 0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=4, max_size=12).filter(lambda rows: len({p for _, p in rows}) > 1))
def test_the_order_among_equals_changes_nothing(rows: list[tuple[bool, int]]) -> None:
    """Who ties at the border of the 27 % is in the group in part; and a group is never better than all right or worse than all wrong."""
    passes, points = [float(passed) for passed, _ in rows], [float(mark) for _, mark in rows]
    forwards, backwards = upper_lower(passes, points), upper_lower(passes[::-1], points[::-1])
    assert forwards is not None
    assert backwards == pytest.approx(forwards)
    assert -1 - 1e-9 <= forwards <= 1 + 1e-9
    r = correlation(passes, points)
    assert r is None or r == pytest.approx(np.corrcoef(passes, points)[0, 1])


def test_who_does_well_otherwise_and_fails_is_a_sign(book_of: Callable[..., Book]) -> None:
    """A law that the weak pass and the strong fail is named."""
    odd = [["ends"] if number % 2 else ["sends", "adds", "waits"] for number in range(20)]
    (analysis,) = analyse(class_of(book_of, odd))
    assert analysis.items[3].remark == "those who do well otherwise fail it"


def test_few_submissions_discriminate_nothing(book_of: Callable[..., Book]) -> None:
    """Pass rates are told of any number, correlations aren't."""
    (analysis,) = analyse(class_of(book_of, TWENTY[:9]))
    assert {item.point_biserial for item in analysis.items} == {None}


def test_a_shared_submission_counts_once(book_of: Callable[..., Book]) -> None:
    """Groups hand in together; a law that is missing from an older report is one less that judged it."""
    book = book_of(*(replace(marked(name, 25, 0), report="reports/s", marks={"rings": (25, 100)}) for name in ("a", "b", "c")))
    write_reports(book.folder, {"s": report({"rings": ["sends"]})})
    (analysis,) = analyse(book)
    assert (analysis.marks, analysis.items[0].num_judged) == ((25,), 1)


def test_time_is_the_median_of_what_reports_say(book_of: Callable[..., Book]) -> None:
    """A law's cases together; reports that don't say are left out."""
    def slow(it: Report) -> Report:
        (mark,) = it.assignments
        task = mark.tasks[0]
        laws = tuple(replace(law, cases=tuple(replace(case, wall_s=0.5) for case in law.cases * 2)) for law in task.laws)
        return replace(it, assignments=(replace(mark, tasks=(replace(task, laws=laws),)),))

    (analysis,) = analyse(class_of(book_of, [CLAIMS], slow))
    assert analysis.items[0].median_s == 1.0
    assert analyse(class_of(book_of, [CLAIMS]))[0].items[0].median_s is None


class Tags(HTMLParser):
    """Whether every tag that is opened is closed, and what a page would load."""

    VOID = frozenset({"meta", "link", "rect", "path", "circle", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One more is open."""
        self.names.append(tag)
        addresses = [value or "" for name, value in attrs if name in ("src", "href", "srcset")]
        self.loads += [address for address in addresses if not address.startswith(("#", "data:"))]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It was the last one."""
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_loads_nothing_and_says_what_it_draws(book_of: Callable[..., Book]) -> None:
    """No script, no address, each drawing has words, claims are escaped, and only its owner reads it."""
    def named(it: Report) -> Report:
        (mark,) = it.assignments
        task = mark.tasks[0]
        return replace(it, assignments=(replace(mark, tasks=(replace(task, laws=tuple(replace(law, claim=EVIL) for law in task.laws)),)),))

    book = class_of(book_of, TWENTY, named)
    path = write_page(book, analyse(book))
    page = path.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert (tags.open, tags.loads, "script" in tags.names) == ([], [], False)
    assert len(re.findall("<svg", page)) == len(re.findall('role="img" aria-labelledby', page)) == 2
    assert "20 submissions; median 37.5 of 100 points. 0–10 %: 5, 20–30 %: 5, 50–60 %: 5, 70–80 %: 5" in page
    assert "://" not in re.sub("<style>.*</style>", "", page, flags=re.DOTALL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_table_has_a_row_for_each_law(book_of: Callable[..., Book]) -> None:
    """Numbers as numbers, and nothing where there is none."""
    book = class_of(book_of, TWENTY)
    rows = list(csv.DictReader(io.StringIO(write_table(book, analyse(book)).read_text(encoding="utf-8"))))
    assert [row["law"] for row in rows] == [law.id for law in COURSE[0].laws()]
    assert (rows[3]["pass rate"], rows[3]["point-biserial"], rows[3]["remark"]) == ("0.000", "", "nobody passes it")


def test_a_missing_report_is_named(book_of: Callable[..., Book], tmp_path: Path) -> None:
    """The ledger says there is one."""
    with pytest.raises(UsageError, match=r"reports/ada/report\.json, which the ledger names"):
        analyse(book_of(marked("ada", 1, 1)))


def test_shares_are_never_rounded_to_all_or_none() -> None:
    """One of 300 fails: that isn't 100 %."""
    assert [rate(value) for value in (0, 0.001, 0.5, 0.999, 1, None)] == ["0 %", "1 %", "50 %", "99 %", "100 %", "–"]
