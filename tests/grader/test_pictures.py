"""The page of a grading, its pictures, and the trace: what they show of a run, and what they never show."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.commands.asked import show
from grader.errors import UsageError
from grader.pictures import standoff, timeline
from grader.pictures.canvas import Bar
from grader.pictures.chrome import to_trace, write_trace
from grader.pictures.web import write_page
from grader.pictures.words import Sources
from grader.records import Event, Fault, LawMark, Message, Outcome, RankOutcome, Report, Request
from grader.report.files import PAGE, write_all
from grader.store import STORE_NAME, Store
from tests.grader.test_report import FAILURE, FULL, SECRET, law, report_of

KEY, HIDDEN_KEY = "aaaa0000bbbb", "cccc0000dddd"


def issue(rank: int, call: int, op: str, match: int = -1, **more: Any) -> Event:
    """A call of 96 bytes among two ranks."""
    facts = {"num_bytes": 96, "dtype": "float32", "shape": (24,), "group": (0, 1), "at": f"rings.py:{call + 1}", **more}
    return Event(rank, "issue", "step", call, op, match, **facts)


def wait(rank: int, call: int, op: str) -> Event:
    """That call is waited for."""
    return Event(rank, "wait", "step", call, op, group=(0, 1), at="rings.py:9")


def compute(rank: int, name: str, cost_s: float = 2.0) -> Event:
    """Declared arithmetic."""
    return Event(rank, "compute", "step", name=name, cost_s=cost_s)


def request(**more: Any) -> Request:
    """Two ranks."""
    usual = {"assignment": "collectives", "probe": "ring", "parameters": {"size": 7}, "world_size": 2, "inputs": {}, "returns": {}}
    return Request(**usual | more)


def outcome(*events: Event, fault: Fault | None = None) -> Outcome:
    """What two ranks did; with a fault, neither answered."""
    return Outcome(tuple(RankOutcome(rank, fault is None, 0) for rank in range(2)), events, fault)


RAN = outcome(
    compute(0, "forward 0"), issue(0, 0, "send", 0, peer=1), wait(0, 0, "send"), compute(0, "backward 0"),
    compute(1, "forward 0", 4.0), issue(1, 0, "recv", 0, peer=0), wait(1, 0, "recv"),
)  # fmt: skip
DEADLOCK = Fault("deadlock", -1, "deadlock: both", ("rank 0 waits in recv", "rank 1 waits in recv"))
STOPPED = outcome(
    issue(0, 0, "all_reduce", 0, reduction="sum"), wait(0, 0, "all_reduce"), issue(0, 1, "recv", peer=1), wait(0, 1, "recv"),
    issue(1, 0, "all_reduce", 0, reduction="sum"), wait(1, 0, "all_reduce"), issue(1, 1, "recv", peer=0), wait(1, 1, "recv"),
    fault=DEADLOCK,
)  # fmt: skip


# --- the timeline ----------------------------------------------------------------------------------------------------
def test_a_timeline_shows_computing_waiting_and_the_network() -> None:
    """Rank 0 is early and stands still until rank 1 comes; the message is under way for both; nothing overlaps in a row."""
    picture = timeline.draw(request(), RAN)
    assert picture is not None
    spent = [(rank, float(stop) - float(start), what.split(" ")[0]) for rank, start, stop, what in picture.rows]
    unit = (2.0 + 2.0 + 4.0) / 3
    message = 0.25 + 1.0
    assert [(rank, what) for rank, _, what in spent].count(("0", "computes")) == 2
    assert next(long for rank, long, what in spent if (rank, what) == ("0", "waits")) == pytest.approx(2 / unit + message, abs=0.02)
    under_way = [long for rank, long, what in spent if what in ("send", "recv") and not rank.endswith("at best")]
    assert len(under_way) == 2 and all(long == pytest.approx(message, abs=0.02) for long in under_way)
    assert set(picture.legend.values()) >= {"forward", "backward", "sends", "receives", "stands still in a wait"}
    best = [(rank, float(start), float(stop), what.split(" ")[0]) for rank, start, stop, what in picture.rows if rank.endswith("at best")]
    sent = 4 / unit + message  # rank 1 comes when its forward has ended, at best too
    assert [stop for _, _, stop, what in best if what == "send"] == [pytest.approx(sent, abs=0.02)]
    assert picture.marks[0][1] == f"{sent:.3g}: the end at best"
    computed = [(start, stop) for rank, start, stop, what in best if (rank, what) == ("0, at best", "computes")]
    assert computed[1] == pytest.approx((4 / unit, 6 / unit))
    by_row: dict[float, list[Bar]] = {}
    for bar in picture.bars:
        by_row.setdefault(bar.y, []).append(bar)
    for bars in by_row.values():
        ordered = sorted(bars, key=lambda bar: bar.x)
        assert all(a.x + a.width <= b.x + 0.1 for a, b in itertools.pairwise(ordered))
    assert all(bar.x + bar.width <= picture.width and bar.y + bar.height <= picture.height for bar in picture.bars)


def test_at_best_messages_follow_each_other_without_a_pause() -> None:
    """Rank 0 computes between two sends and waits for each at once; at best both are on their way while it computes."""
    sends = [issue(0, n, "send", n, peer=1) for n in range(2)]
    receives = [event for n in range(2) for event in (issue(1, n, "recv", n, peer=0), wait(1, n, "recv"))]
    ran = outcome(sends[0], wait(0, 0, "send"), compute(0, "forward 0"), sends[1], wait(0, 1, "send"), compute(0, "forward 1"), *receives)
    picture = timeline.draw(request(), ran)
    assert picture is not None and picture.summary.startswith("4.5 units in all, 2.5 at best;")
    assert [row[1:3] for row in picture.rows if row[0] == "0, at best" and row[3].startswith("send")] == [("0", "1.25"), ("1.25", "2.5")]


def test_a_rank_that_never_goes_on_is_drawn_to_the_end() -> None:
    """Two that wait for each other have a bar without end, after what they did before."""
    picture = timeline.draw(request(), STOPPED)
    assert picture is not None
    stuck = [bar for bar in picture.bars if bar.style == "stuck"]
    assert len(stuck) == 2 and all(bar.title.startswith("waits for ever in recv") and "rings.py:9" in bar.title for bar in stuck)
    assert min(bar.x for bar in stuck) == max(bar.x + bar.width for bar in picture.bars if bar.style == "collective")
    assert "then waits for ever" in picture.summary and "at best" not in picture.summary  # what it would have done is not known


def test_a_long_run_is_drawn_in_part_and_says_so() -> None:
    """A picture of a thousand bars can't be read: the first are drawn, the rest counted."""
    picture = timeline.draw(request(), outcome(*(compute(0, f"forward {n}") for n in range(1000))))
    assert picture is not None and picture.num_left_out == 1000 - timeline.MOST_BARS
    assert len([bar for bar in picture.bars if not bar.title.startswith("at best")]) == timeline.MOST_BARS


def test_where_nothing_happened_nothing_is_drawn() -> None:
    """A run without calls and without declared arithmetic has no timeline, and a trace is refused."""
    assert timeline.draw(request(), outcome()) is None and to_trace(request(), outcome()) is None


# --- the stand-off ---------------------------------------------------------------------------------------------------
def test_the_first_divergence_is_marked_with_the_students_lines(tmp_path: Path) -> None:
    """Calls that met come first; the first that never met is marked, and both ranks wait for each other."""
    (tmp_path / "rings.py").write_text("dist.all_reduce(x)\ndist.recv(x, left)\n")
    seen = standoff.find(STOPPED, Sources(tmp_path))
    assert seen is not None and seen.edges == ((0, 1), (1, 0)) and not seen.is_held
    assert [(number, is_first) for number, is_first, _ in seen.rows] == [(1, False), (2, True)]
    assert [cell.state for cell in seen.rows[0][2]] == ["met", "met"] and [cell.state for cell in seen.rows[1][2]] == ["waits", "waits"]
    assert {cell.line for cell in seen.rows[1][2]} == {"dist.recv(x, left)"} and "waits here (rings.py:9)" in seen.rows[1][2][0].says


def test_one_rank_that_leaves_the_others_behind() -> None:
    """A collective that one rank never calls: the other waits for it, and not the other way round."""
    fault = replace(DEADLOCK, rank=1)
    seen = standoff.find(outcome(issue(0, 0, "all_reduce"), wait(0, 0, "all_reduce"), issue(1, 0, "barrier"), fault=fault), Sources(Path()))
    assert seen is not None and (0, 1) in seen.edges
    done = outcome(issue(0, 0, "all_reduce"), wait(0, 0, "all_reduce"), fault=fault)
    alone = standoff.find(replace(done, ranks=(done.ranks[0], replace(done.ranks[1], answered=True))), Sources(Path()))
    assert alone is not None and alone.edges == ((0, 1),) and alone.rows[0][2][1].says == "no such call"


def test_a_recorded_mismatch_is_the_divergence() -> None:
    """On gloo calls are numbered by their place, so that two that don't belong together have met; the page says that they did not."""
    fault = Fault("mismatch", -1, "shapes")
    seen = standoff.find(outcome(issue(0, 0, "all_reduce", 0), issue(1, 0, "all_reduce", 0, shape=(8,)), fault=fault), Sources(Path()))
    assert seen is not None and seen.rows[0][1] and "met" not in {cell.state for cell in seen.rows[0][2]}


def test_what_the_judge_holds_back_is_nobodys_fault() -> None:
    """All have come to the same call and the judge does not answer: no rank is said to wait for another."""
    events = [event for rank in (0, 1) for event in (issue(rank, 0, "all_reduce"), wait(rank, 0, "all_reduce"))]
    seen = standoff.find(outcome(*events, fault=DEADLOCK), Sources(Path()))
    assert seen is not None and seen.is_held and seen.edges == ()


# --- the page --------------------------------------------------------------------------------------------------------
@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A run folder's store with a public case's observation and a hidden one's."""
    with closing(Store(tmp_path / STORE_NAME)) as store:
        store.put(KEY, "somebody", request(), STOPPED)
        store.put(HIDDEN_KEY, "somebody", request(probe="a_hidden_probe", parameters={"size": SECRET}), STOPPED)
        yield store


def failed(name: str, key: str, hidden: bool = False, message: Message = FAILURE) -> LawMark:
    """A law that failed on a stored observation."""
    mark = law(name, message, hidden=hidden)
    return replace(mark, cases=tuple(replace(case, keys=(key,)) for case in mark.cases))


def page_of(report: Report, store: Store, folder: Path) -> str:
    """The page's text."""
    return write_page(report, store, folder).read_text(encoding="utf-8")


def test_the_page_explains_a_failure_with_everything_that_helps(store: Store, tmp_path: Path) -> None:
    """Marks, the whole message, the commands, the stand-off and the timeline, each picture with words for who doesn't see it."""
    text = html.unescape(page_of(report_of(law("passes"), failed("fails", KEY)), store, tmp_path))
    for part in ("seen", "allowed", "where", "diagnosis", "suggestion", "rerun", "debug"):
        assert getattr(FAILURE, part) in text
    assert f"trace {KEY}" in text and "make hint LAW=collectives.ring.fails" in text and "first divergence" in text
    for svg in re.findall(r'<svg [^>]*role="img".*?</svg>', text, re.DOTALL):
        named = re.search(r'aria-labelledby="([^" ]+)', svg)
        assert named and re.search(rf'<title id="{re.escape(named.group(1))}">\S', svg)


def test_a_hidden_case_shows_its_kind_and_nothing_else(store: Store, tmp_path: Path) -> None:
    """Neither its parameters nor its probe nor its run reach the page; nor does any staff form."""
    hidden = failed("is_hidden", HIDDEN_KEY, hidden=True, message=Message(seen="A hidden case fails; its kind: an odd size."))
    text = page_of(report_of(hidden, failed("fails", KEY)), store, tmp_path)
    assert "its kind: an odd size" in text and text.count('class="timeline"') == 1
    assert SECRET not in text and "a_hidden_probe" not in text and HIDDEN_KEY not in text


def test_the_page_needs_nothing_from_elsewhere(store: Store, tmp_path: Path) -> None:
    """No address, no script, no picture that is not in the file."""
    text = page_of(replace(FULL, notes=("see <script>alert(1)</script>",)), store, tmp_path)
    assert not re.search(r"<script|<iframe|@import|(?:src|href)=[\"'](?!#|data:,)|url\((?!#)", text)
    assert "https:" not in text and "http:" not in text


def test_a_submissions_output_cannot_write_the_page(store: Store, tmp_path: Path) -> None:
    """Markup is shown, control characters are replaced."""
    text = page_of(report_of(failed("fails", KEY, message=replace(FAILURE, output="<b onclick=x>\x1b[2J\x00"))), store, tmp_path)
    assert "<b onclick" not in text and "&lt;b onclick" in text and not re.search("[\x00-\x08\x0b-\x1f]", text)


def test_a_page_never_outlives_its_report(store: Store, tmp_path: Path) -> None:
    """Another report in the same folder takes the page away, until somebody makes one of it."""
    page_of(FULL, store, tmp_path)
    write_all(FULL, tmp_path)
    assert not (tmp_path / PAGE).exists()
    show(FULL, tmp_path)
    assert (tmp_path / PAGE).exists()


def test_a_failure_whose_run_was_forgotten_still_has_its_words(store: Store, tmp_path: Path) -> None:
    """The store keeps the last submissions only: a page without the picture is still a page."""
    text = page_of(report_of(failed("fails", "eeee")), store, tmp_path)
    assert FAILURE.seen in text and "<svg class=" not in text


# --- the trace -------------------------------------------------------------------------------------------------------
def test_a_trace_is_what_perfetto_reads() -> None:
    """Complete events of positive length on named rows of named ranks, and an arrow from the send to its receive."""
    tree = to_trace(request(), RAN)
    assert tree is not None and json.loads(json.dumps(tree, allow_nan=False)) == tree
    events = tree["traceEvents"]
    whole = [event for event in events if event["ph"] == "X"]
    rows = {(event["pid"], event["tid"]) for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert whole and all(event["dur"] > 0 and event["ts"] >= 0 and (event["pid"], event["tid"]) in rows for event in whole)
    (start,), (end,) = ([event for event in events if event["ph"] == phase] for phase in "sf")
    assert (start["pid"], end["pid"]) == (0, 1) and start["id"] == end["id"] and start["ts"] < end["ts"]


def test_a_trace_is_written_for_a_key_that_a_failure_prints(store: Store, tmp_path: Path) -> None:
    """The beginning of a key suffices; one that is not there is answered in words."""
    path = write_trace(tmp_path, KEY[:4], None)
    names = {event["name"] for event in json.loads(path.read_text())["traceEvents"]}
    assert path.parent == tmp_path and "waits for ever" in names
    with pytest.raises(UsageError, match="ffff"):
        write_trace(tmp_path, "ffff", None)
    with pytest.raises(UsageError, match="--out"):
        write_trace(tmp_path / "elsewhere", KEY, None)
