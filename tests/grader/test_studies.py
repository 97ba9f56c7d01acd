"""Pictures that teach: each says what is true of its run, none is of a hidden case, and what was made up is no picture, nor an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.course import load
from grader.observe.tensors import to_tensor
from grader.pictures import buckets, held, memory, pipelines, ring, roofline, studies, traffic
from grader.pictures.web import write_page
from grader.records import Event, Outcome, RankOutcome, Request
from grader.simulator.clusters import GPUS
from grader.store import STORE_NAME, Store
from tests.grader.test_pictures import compute, failed, issue, request, wait
from tests.grader.test_report import law, report_of
from tests.laws.flash_attention import cases
from tests.laws.flash_attention.kernels import forward_bytes
from tests.laws.sharded_data_parallel import memory as room

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["a", "b"]


def told(*events: Event, **facts: Any) -> Outcome:
    """A run that ended well on two ranks, and what its probe reported."""
    return Outcome(tuple(RankOutcome(rank, True, 0, facts=facts) for rank in range(2)), events, None)


def numbers(text: str) -> list[float]:
    """Every number of a sentence."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


# --- buckets ---------------------------------------------------------------------------------------------------------
def step(*, overlaps: bool) -> tuple[Request, Outcome]:
    """A step of two layers of 96 bytes: forward 1, backward 2 each; a bucket for each layer, sent at once or at the end."""
    asked = request(parameters={"layers": LAYERS}, inputs={name: (to_tensor(np.zeros(24, np.float32)),) for name in LAYERS})
    events = []
    for rank in range(2):
        sends = [issue(rank, number, "all_reduce", number, reduction="sum") for number in range(2)]
        backward = [compute(rank, "backward b"), compute(rank, "backward a")]
        middle = [backward[0], sends[0], backward[1], sends[1]] if overlaps else [*backward, *sends]
        waits = [wait(rank, number, "all_reduce") for number in range(2)]
        events += [compute(rank, "forward a", 1.0), compute(rank, "forward b", 1.0), *middle, *waits]
    return asked, told(*events)


def test_overlap_is_measured_against_what_was_possible() -> None:
    """In units of 1.5 s: 4 of computing, two reductions of 0.5 + 1 each. One can hide behind the last backward, but for its end."""
    picture = buckets.draw(*step(overlaps=True))
    assert picture is not None
    ran, best, apart, on_the_way, hidden = numbers(picture.summary)
    assert (ran, best, apart, on_the_way) == (5.67, 5.67, 7.0, 3.0) and hidden == 44
    assert {row[0] for row in picture.rows} == {"as it ran", "at best", "no overlap"}


def test_a_step_without_overlap_is_shown_beside_the_one_that_has_it() -> None:
    """As long as with nothing behind computing, and nothing hidden; the best is what it could have been."""
    picture = buckets.draw(*step(overlaps=False))
    assert picture is not None
    ran, best, apart, _, hidden = numbers(picture.summary)
    assert ran == apart == 7.0 and best == 5.67 and hidden == 0


def test_a_bucket_leaves_at_best_when_its_last_gradient_is_made() -> None:
    """One bucket of both layers: at 4 units, not when the first of them is there."""
    asked, ran = step(overlaps=False)
    both = [replace(event, num_bytes=192) for event in ran.events if event.call != 1]
    picture = buckets.draw(asked, replace(ran, events=tuple(both)))
    assert picture is not None
    assert [row[1] for row in picture.rows if row[0] == "at best" and row[3].startswith("all_reduce")] == ["4"]


def test_a_step_that_reduced_nothing_has_no_picture() -> None:
    """A stub computes and sends nothing: there is nothing to hide."""
    asked, ran = step(overlaps=True)
    assert buckets.draw(asked, replace(ran, events=tuple(event for event in ran.events if event.kind == "compute"))) is None


# --- pipelines -------------------------------------------------------------------------------------------------------
ONE_F_ONE_B = [[["F", 0, 0], ["F", 0, 1], ["B", 0, 0], ["B", 0, 1]], [["F", 1, 0], ["B", 1, 0], ["F", 1, 1], ["B", 1, 1]]]
GPIPE = [ONE_F_ONE_B[0], [["F", 1, 0], ["F", 1, 1], ["B", 1, 0], ["B", 1, 1]]]


def test_a_schedule_is_shown_with_its_bubble_and_depth_beside_the_published_ones() -> None:
    """Both have the bubble 1/3; GPipe in 1F1B's place keeps one micro-batch more on the last rank than was published."""
    asked = request(parameters={"function": "one_f_one_b", "cases": [[2, 2]]})
    right, deep = (pipelines.draw_schedule(asked, told(schedules=[rows])) for rows in (ONE_F_ONE_B, GPIPE))
    assert right is not None and deep is not None
    assert right.summary.endswith("Bubble 33.3% of the time, published 33.3%. Most in flight by rank, published in brackets: 2 (2), 1 (1).")
    assert deep.summary.endswith("2 (2), 2 (1).")
    assert len(right.bars) == 8 and right.rows[0] == ("0", "0", "1", "forward of micro-batch 0 on stage 0")


def test_stages_of_one_rank_are_counted_in_the_published_bubble() -> None:
    """Interleaved, two ranks with two stages each and two micro-batches: (P−1)/(VM+P−1) is a fifth."""
    rows = [[[kind, stage, n] for kind, stages in (("F", (0, 2)), ("B", (2, 0))) for stage in stages for n in (0, 1)] for _ in range(2)]
    rows[1] = [[kind, stage + 1, n] for kind, stage, n in rows[1]]
    asked = request(parameters={"function": "interleaved_one_f_one_b", "cases": [[2, 2, 2]]})
    picture = pipelines.draw_schedule(asked, told(schedules=[rows]))
    assert picture is not None and "published 20.0%" in picture.summary and "2 stages on each rank" in picture.summary


def test_a_run_is_shown_above_its_plan() -> None:
    """An executor that does 1F1B where GPipe was asked for: both are drawn, and the run's end is that of what it did."""
    asked = request(parameters={"schedule": GPIPE})
    costs = {"F": 1.0, "B": 2.0}
    events = [compute(rank, f"{kind} {stage} {n}", costs[kind]) for rank, rows in enumerate(ONE_F_ONE_B) for kind, stage, n in rows]
    picture = pipelines.draw_run(asked, told(*events))
    assert picture is not None
    ran = [row[3] for row in picture.rows if row[0] == "1" and row[3].startswith("ran")]
    planned = [row[3] for row in picture.rows if row[0] == "1" and row[3].startswith("planned")]
    assert [words.split()[1] for words in ran] == ["forward", "backward", "forward", "backward"]
    assert [words.split()[1] for words in planned] == ["forward", "forward", "backward", "backward"]
    assert "took 4 units" in picture.summary and "as planned 6 units" in picture.summary


# --- messages --------------------------------------------------------------------------------------------------------
def test_messages_are_shown_in_their_rounds() -> None:
    """Rank 0 sends, then rank 1 answers twice: three rounds, and the table says who, whom and how much."""
    events = [
        issue(0, 0, "send", 0, peer=1), wait(0, 0, "send"), issue(0, 1, "recv", 1, peer=1), wait(0, 1, "recv"),
        issue(0, 2, "recv", 2, peer=1), wait(0, 2, "recv"),
        issue(1, 0, "recv", 0, peer=0), wait(1, 0, "recv"), issue(1, 1, "send", 1, peer=0), wait(1, 1, "send"),
        issue(1, 2, "send", 2, peer=0), wait(1, 2, "send"),
    ]  # fmt: skip
    picture = ring.draw(request(), told(*events))
    assert picture is not None
    assert picture.rows == (("1", "0", "1", "96 bytes"), ("2", "1", "0", "96 bytes"), ("3", "1", "0", "96 bytes"))
    assert picture.summary == "3 rounds on 2 ranks, over 2 links; a rank sends 96 to 192 bytes in all."
    assert ring.draw(request(), told(issue(0, 0, "barrier"))) is None


def test_of_several_calls_the_first_is_shown() -> None:
    """A probe calls once for each dtype; laid over each other they would be no ring."""
    events = []
    for rank, op in enumerate(("send", "recv")):
        for number in range(2):
            mark = Event(rank, "mark", "step", name=ring.CALL)
            events += [mark, issue(rank, number, op, number, peer=1 - rank), wait(rank, number, op)]
    picture = ring.draw(request(), told(*events))
    assert picture is not None and len(picture.steps) == 1


# --- bytes and memory ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(48, 48), (37, 100), (16, 65)])
@pytest.mark.parametrize("blocks", [(16, 16), (32, 64)])
def test_the_derived_bytes_are_those_that_the_law_allows(causal: bool, lengths: tuple[int, int], blocks: tuple[int, int]) -> None:
    """The page's formula and the judge's are one: the same sum for every length, block and mask."""
    case = cases.Case(batch=2, heads=3, queries=lengths[0], keys=lengths[1], causal=causal)
    derived = traffic.derived_bytes((2, 3, lengths[0], 32), lengths[1], 4, *blocks, causal=causal)
    assert sum(derived.values()) == forward_bytes(case, *blocks)[1]


def test_moved_bytes_stand_beside_dense_attention() -> None:
    """4 × 4 scores of 4 bytes, four times, for two heads; what the kernels moved is added up over all of them."""
    qkv = {name: (to_tensor(np.zeros((1, 2, 4, 8), np.float32)),) for name in "qkv"}
    asked = request(parameters={"block_q": 4, "block_k": 4, "causal": False}, inputs=qkv, world_size=1)
    kernels = [{"loaded_bytes": {"q": 256, "k": 256}, "stored_bytes": {"o": 200}}, {"loaded_bytes": {"v": 288}, "stored_bytes": {}}]
    picture = traffic.draw(asked, told(kernels=[kernels, []]))
    assert picture is not None
    once = 4 * 256 + 4 * 8
    assert picture.summary.startswith(f"1,000 bytes were moved, {once:,} are derived")
    assert f"dense attention moves {once + 4 * 2 * 16 * 4:,}" in picture.summary


def test_memory_is_shown_by_kind_beside_what_was_held() -> None:
    """Two recipes, four kinds, counted and held; the worst of them is named."""
    rows = np.array([[100.0, 100.0, 0.0, 200.0], [50.0, 50.0, 100.0, 200.0]])
    ran = told()
    ran = replace(ran, ranks=(replace(ran.ranks[0], outputs={"counted": to_tensor(rows * [[1.1], [1.0]]), "held": to_tensor(rows)}),))
    picture = memory.draw_states(request(parameters={"recipes": [["fp32", "adam"], ["mixed", "adam"]]}), ran)
    assert picture is not None and "at most 10.0% away" in picture.summary
    assert picture.rows[0] == ("fp32, adam", "weights", "110", "100") and len(picture.bars) == 16


def test_peaks_are_shown_beside_all_layers() -> None:
    """Held after forward, at the peak, and every layer's input."""
    picture = memory.draw_peaks(request(parameters={"shapes": [[16, 4]]}), told(held=[[4.0, 7.0]]))
    assert picture is not None and [row[2] for row in picture.rows] == ["4", "7", "16"]
    first, second, whole = picture.bars
    assert second.x == pytest.approx(first.x + first.width) and whole.width == pytest.approx(4 * first.width)


SCALE = {"stage": "fsdp", "num_ranks": 4, "num_layers": 2, "elements": 8, "me": 1}


def test_memory_over_a_step_stands_beside_what_is_derived() -> None:
    """Shards of 8 bytes of weights, 16 of moments; in forward 0 the second unit comes along, in forward 1 no other is left."""
    kinds = {"constructed": [16, 0, 0, 0], "1 forward 0": [16, 0, 32, 64], "1 forward 1": [16, 0, 32, 64], "1 after step": [16, 16, 32, 0]}
    picture = held.draw_sharded(request(parameters=SCALE), told(kinds=kinds))
    assert picture is not None and len(picture.rows) == 12 and len(picture.across) == 3
    gathered = [row for row in picture.rows if row[1].startswith("gathered")]
    assert [row[2:] for row in gathered] == [("64", "64"), ("64", "32"), ("0", "0")]
    assert picture.summary.startswith("Rank 1 of 4 held 112 bytes at most") and picture.summary.endswith("are 256.")
    top = min(bar.y for bar in picture.bars)
    assert picture.marks[0][0] < top and all(bar.y + bar.height <= picture.bottom + 0.01 for bar in picture.bars)
    assert held.draw_sharded(request(parameters=SCALE | {"num_ranks": 1024}), told(kinds=kinds)) is None


@pytest.mark.parametrize("prefetch", [0, 1, 2])
@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_the_derived_memory_is_within_what_the_law_allows(prefetch: int, num_ranks: int) -> None:
    """The page's formula and the judge's: equal wherever no root is gathered, apart from the judge's margin in backward."""
    allowed = room.fsdp_held(num_ranks, prefetch)
    for moment in ("after forward", "after backward", "after step", "after evaluation", "forward 0", "backward 1"):
        ours = sum(held.derived_bytes("fsdp", moment, num_ranks, room.NUM_LAYERS, room.LAYER, prefetch))
        root = room.ROOT if moment in ("after forward", "forward 0", "backward 1") else 0
        theirs = allowed[moment.partition(" ")[0] if moment[-1].isdigit() else moment] - root
        assert ours <= theirs and (ours == theirs or moment == "backward 1")
    replicated = held.derived_bytes("zero1", "after backward", num_ranks, room.NUM_LAYERS, room.LAYER, 0)
    assert replicated == (room.WHOLE, room.WHOLE, 2 * room.WHOLE // num_ranks, 0)


def test_memory_over_a_chain_is_shown_after_each_change() -> None:
    """Two inputs are kept, one is made again: three at most, four by the formula."""
    asked = request(parameters={"shapes": [[4, 2], [64, 8]]})
    course = [[1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    picture = held.draw_course(asked, told(courses=[course, [[9.0, 9.0]]]))
    assert picture is not None and picture.summary.startswith("4 layers in 2 segments: 3 tensors at most, 4 by s + L/s, and 4 without")
    assert [words for _, words in picture.across if words] == [["forward"], ["backward"]]
    assert held.draw_course(asked, told(courses=[[], [[9.0, 9.0]]])) is None


def test_a_first_step_is_shown_beside_the_formula() -> None:
    """Gradients count from backward on, moments from the step on; a formula that is no number has no picture."""
    step = {"before": [4, 0, 8, 0, 0], "after forward": [4, 0, 8, 0, 3], "after backward": [4, 4, 8, 0, 0], "after step": [4, 4, 8, 16, 0]}
    asked = request(parameters={"recipes": [["mixed", "adam"]]})
    for counted, is_drawn in (([4.0, 4.0, 8.0, 20.0], True), ([np.nan, 4.0, 8.0, 16.0], False)):
        ran = told(steps=[step])
        ran = replace(ran, ranks=(replace(ran.ranks[0], outputs={"counted": to_tensor(np.array([counted]))}),))
        picture = held.draw_first_step(asked, ran)
        assert (picture is not None) == is_drawn
        if picture is not None:
            assert picture.summary == "mixed, adam: after the step 32 bytes are held, 36 by your formula."
            assert [row[2:] for row in picture.rows if row[1] == "moments"] == [("0", "0"), ("0", "0"), ("0", "0"), ("16", "20")]


def test_kernels_stand_under_the_roof_at_the_bytes_they_moved() -> None:
    """Twice the bytes are half the intensity, and both points lie on the slope, far left of the ridge."""
    asked = request(parameters={"function": "rms_norm"}, inputs={"x": (to_tensor(np.zeros((8, 100), np.float32)),)})
    forward, backward = [{"loaded_bytes": {"x": 6400}, "stored_bytes": {"y": 6400}}], [{"loaded_bytes": {"x": 9600}, "stored_bytes": {}}]
    picture = roofline.draw(asked, told(forward=forward, backward=backward))
    assert picture is not None
    once, yours = (float(row[3]) for row in picture.rows[:2])
    assert (once, yours) == (0.5, 0.25) and picture.rows[2][3] == picture.rows[3][3]
    gpu = GPUS[roofline.GPU]
    assert picture.ridge[1] == f"ridge: {gpu.peak_flops_per_s / gpu.memory_bytes_per_s:.0f}"
    assert all(point.x < picture.ridge[0] and roofline.TOP < point.y < picture.bottom for point in picture.points)


# --- which are shown -------------------------------------------------------------------------------------------------
STUDY = next(study for study in studies.STUDIES if study.draw is memory.draw_peaks)
PEAKS = {"assignment": "recomputation", "probe": "peaks", "world_size": 1, "parameters": {"shapes": [[16, 4]]}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Three runs of one probe: one that went well, one that did not, and one that reports nonsense."""
    with closing(Store(tmp_path / STORE_NAME)) as store:
        for key, held in (("aaaa", [[4.0, 7.0]]), ("bbbb", [[16.0, 16.0]]), ("cccc", [["many", None]])):
            store.put(key, "somebody", request(**PEAKS), told(held=held))
        yield store


def seen(key: str, *, fails: bool = False, hidden: bool = False) -> Any:
    """The study's law, judged on that observation."""
    mark = failed("x", key, hidden=hidden) if fails else law("x", hidden=hidden)
    return replace(mark, id=STUDY.law, cases=tuple(replace(case, keys=(key,)) for case in mark.cases))


def drawn(store: Store, *marks: Any) -> list[studies.Drawn]:
    """What is drawn of a report in which that law has these cases."""
    whole = replace(marks[0], cases=tuple(case for mark in marks for case in mark.cases))
    return [one for found in studies.drawn(report_of(whole), store).values() for one in found]


def test_every_study_is_of_a_law_of_the_course() -> None:
    """A law that is renamed takes its picture along, or this says so; no two have the same heading."""
    laws = {study.law for study in studies.STUDIES}
    headings = [study.heading for study in studies.STUDIES]
    assert laws <= {each.id for assignment in load(ROOT).assignments for each in assignment.laws()} and len(headings) == len(set(headings))


def test_a_run_that_was_right_is_shown_and_one_that_failed_comes_first(store: Store) -> None:
    """Who passed sees it; who failed sees the run that failed."""
    (passed,) = drawn(store, seen("aaaa"))
    assert "7 of 16 layers" in passed.picture.summary
    (wrong,) = drawn(store, seen("aaaa"), seen("bbbb", fails=True))
    assert "16 of 16 layers" in wrong.picture.summary


def test_hidden_cases_have_no_picture(store: Store) -> None:
    """Whether they passed or failed."""
    assert drawn(store, seen("aaaa", hidden=True)) == [] and drawn(store, seen("bbbb", fails=True, hidden=True)) == []


def test_what_a_submission_made_up_is_no_picture(store: Store) -> None:
    """Facts of another form take neither the page nor the other case's picture along."""
    assert drawn(store, seen("cccc", fails=True)) == []
    assert len(drawn(store, seen("cccc", fails=True), seen("aaaa"))) == 1


def test_the_page_has_the_picture_with_words_for_who_does_not_see_it(store: Store, tmp_path: Path) -> None:
    """Heading, claim, what the picture says as a sentence, and the same as a table."""
    text = write_page(report_of(seen("aaaa")), store, tmp_path).read_text(encoding="utf-8")
    assert STUDY.heading in text and text.count("7 of 16 layers") == 2 and "The same as a table" in text
