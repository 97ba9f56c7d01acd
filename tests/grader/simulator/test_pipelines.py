"""Schedules and their times."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.schedules import check, published_bubble, simulate
from grader.simulator import Plan
from grader.simulator.pipelines import MOST_PLAYED, at_least_s, pipeline_s, schedule_of, stage_layers
from tests.grader.simulator.drawn import model

SHAPES = [("gpipe", 3, 5, 1), ("1f1b", 4, 8, 1), ("1f1b", 4, 2, 1), ("1f1b", 1, 3, 1), ("interleaved", 2, 4, 3), ("interleaved", 4, 8, 2)]
seconds = st.integers(1, 9)


def plan_of(name: str, pp: int, num_micro_batches: int, chunks: int) -> Plan:
    """A plan of which only the pipeline counts."""
    return Plan(pp=pp, num_micro_batches=num_micro_batches, schedule=name, chunks=chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "pp", "num_micro_batches", "chunks"), SHAPES)
def test_every_schedule_is_valid_and_has_its_published_bubble(name: str, pp: int, num_micro_batches: int, chunks: int) -> None:
    """Complete, in order, free of deadlock and overtaking; with equal stages idle as long as the papers say."""
    schedule = schedule_of(name, pp, num_micro_batches, chunks)
    assert check(schedule, pp, num_micro_batches, chunks) == ()
    end_s = pipeline_s(plan_of(name, pp, num_micro_batches, chunks), [1.0] * pp * chunks, [2.0] * pp * chunks)
    assert 1 - 3 * num_micro_batches * chunks / end_s == pytest.approx(float(published_bubble(name, pp, num_micro_batches, chunks)))


@settings(max_examples=50, deadline=None)
@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_a_pipelines_time_is_the_one_it_is_played_in(data: st.DataObject, shape: tuple[str, int, int, int]) -> None:
    """Whatever each stage costs: by a formula or played, it is what the event simulation says, and its bound is below."""
    name, pp, num_micro_batches, chunks = shape
    costs = st.lists(seconds, min_size=pp * chunks, max_size=pp * chunks)
    forward_s, backward_s = data.draw(costs), data.draw(costs)
    played_s = simulate(schedule_of(*shape), {"F": forward_s, "B": backward_s}).end_s
    plan = plan_of(name, pp, num_micro_batches, chunks)
    assert pipeline_s(plan, forward_s, backward_s) == pytest.approx(played_s)
    assert at_least_s(plan, forward_s, backward_s) <= played_s


@pytest.mark.parametrize(("name", "chunks"), [("1f1b", 1), ("interleaved", 2)])
@pytest.mark.parametrize("middle", [1.25, 2.0])
def test_a_long_step_is_played_in_part_and_continued(name: str, chunks: int, middle: float) -> None:
    """With a slow stage in the middle no formula holds; after MOST_PLAYED micro-batches per rank every further one costs the same."""
    pp, num_micro_batches = 4, 4 * MOST_PLAYED * 3
    forward_s = [1.0, middle] + [1.0] * (pp * chunks - 2)
    backward_s = [2 * cost_s for cost_s in forward_s]
    played_s = simulate(schedule_of(name, pp, num_micro_batches, chunks), {"F": forward_s, "B": backward_s}).end_s
    assert pipeline_s(plan_of(name, pp, num_micro_batches, chunks), forward_s, backward_s) == pytest.approx(played_s)


@pytest.mark.parametrize(
    ("num_layers", "pp", "chunks", "expected"),
    [(8, 4, 1, [2, 2, 2, 2]), (7, 4, 1, [2, 2, 2, 1]), (126, 16, 1, [7, *[8] * 14, 7]), (9, 2, 2, [2, 3, 2, 2]), (3, 1, 1, [3])],
)
def test_layers_that_do_not_divide_go_behind_the_first_stage(num_layers: int, pp: int, chunks: int, expected: list[int]) -> None:
    """The ends have embedding and head to do; Llama 3's 126 layers on 16 ranks leave one fewer on both."""
    assert list(stage_layers(model(num_layers=num_layers), Plan(pp=pp, chunks=chunks))) == expected
