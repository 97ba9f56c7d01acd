"""The published bubbles and depths are those of the published schedules, and of a library's."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.schedules import Action, Schedule, check, depth, equal_costs, published_bubble, published_depth, simulate
from tests.grader.schedules.known import gpipe, interleaved, one_f_one_b

MAKERS = {"gpipe": gpipe, "1f1b": one_f_one_b, "interleaved": interleaved}
costs = st.fixed_dictionaries({"F": st.integers(1, 5), "B": st.integers(5, 12)})


@given(st.sampled_from(sorted(MAKERS)), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), costs)
def test_published_schedules_have_published_bubbles(name: str, num_ranks: int, rounds: int, chunks: int, cost: dict[str, int]) -> None:
    """Exactly, as fractions, for any costs with backward no shorter than forward; and no more in flight than published."""
    num_micro_batches = num_ranks * rounds if name == "interleaved" else rounds
    size = (num_ranks, num_micro_batches, chunks) if name == "interleaved" else (num_ranks, num_micro_batches)
    schedule = MAKERS[name](*size)
    assert check(schedule, *size) == ()
    timeline = simulate(schedule, equal_costs(num_ranks * (chunks if name == "interleaved" else 1), **cost))
    assert timeline.bubble_fraction == published_bubble(name, *size)
    for rank, actions in enumerate(schedule):
        assert depth(actions) <= published_depth(name, rank, *size)


def test_figures_from_the_papers() -> None:
    """1F1B with four stages and eight micro-batches; the ideal bubble beside the measured ones of Zero Bubble's table 5; ZB-H1's third."""
    assert published_bubble("1f1b", 4, 8) == Fraction(3, 11)
    assert float(published_bubble("1f1b", 8, 24)) == pytest.approx(0.2258, abs=5e-5)
    assert float(published_bubble("1f1b", 16, 48)) == pytest.approx(0.2381, abs=5e-5)
    one, zero = published_bubble("1f1b", 8, 24), published_bubble("zb-h1", 8, 24)
    assert zero / (1 - zero) == one / (1 - one) / 3
    assert published_bubble("zb-h1", 4, 8, F=1, I=1, W=2) == 0


@pytest.mark.parametrize("published", [published_bubble, lambda name, *size: published_depth(name, 0, *size)])
def test_unknown_names_are_refused(published: Any) -> None:
    """A name that no paper has."""
    with pytest.raises(ValueError, match="no published"):
        published("dualpipe", 4, 8)


# --- a library's schedules -------------------------------------------------------------------------------------------
def executed_by_torch(name: str, num_ranks: int, num_micro_batches: int) -> Schedule:
    """What a schedule of torch.distributed.pipelining makes its stage do: each rank's step, on a stage that only notes it."""
    from torch.distributed.pipelining import schedules

    ranks = []
    for rank in range(num_ranks):
        actions: list[Action] = []
        step = MagicMock(_n_microbatches=num_micro_batches, _num_stages=num_ranks)
        step._check_inputs.return_value = ([()] * num_micro_batches, [{}] * num_micro_batches)
        stage = step._stage
        stage.stage_index = rank
        for messages in (stage.get_fwd_recv_ops, stage.get_fwd_send_ops, stage.get_bwd_recv_ops, stage.get_bwd_send_ops):
            messages.return_value = []
        stage.forward_one_chunk.side_effect = lambda number, *_, seen=actions, at=rank, **__: seen.append(Action("F", at, number))
        stage.backward_one_chunk.side_effect = lambda number, *_, seen=actions, at=rank, **__: seen.append(Action("B", at, number))
        getattr(schedules, name)._step_microbatches(step)
        ranks.append(tuple(actions))
    return tuple(ranks)


def planned_by_torch(name: str, num_ranks: int, num_micro_batches: int, chunks: int) -> Schedule:
    """The computations of a schedule with several stages per rank, asked of its class without a process group."""
    from torch.distributed.pipelining import schedules

    maker = getattr(schedules, name)
    rounds = max(1, num_micro_batches // num_ranks)
    stub = SimpleNamespace(_n_microbatches=num_micro_batches, pp_group_size=num_ranks, n_local_stages=chunks,
                           number_of_rounds=rounds, microbatches_per_round=num_micro_batches // rounds)  # fmt: skip
    order = [maker._calculate_single_rank_operations(stub, rank) for rank in range(num_ranks)]
    computed = [[action for action in actions if action and action.computation_type.value in ("F", "B", "I", "W")] for actions in order]
    return tuple(tuple(Action(a.computation_type.value, a.stage_index, a.microbatch_index) for a in actions) for actions in computed)


@pytest.mark.parametrize("size", [(1, 3), (2, 2), (2, 5), (4, 4), (4, 8), (8, 12)])
@pytest.mark.parametrize(("name", "published"), [("ScheduleGPipe", "gpipe"), ("Schedule1F1B", "1f1b")])
def test_the_librarys_flat_schedules_keep_the_same_laws(name: str, published: str, size: tuple[int, int]) -> None:
    """GPipe and 1F1B of torch: valid, of the published bubble and depth."""
    schedule = executed_by_torch(name, *size)
    assert check(schedule, *size) == ()
    assert simulate(schedule, equal_costs(size[0], F=1, B=2)).bubble_fraction == published_bubble(published, *size)
    assert all(depth(actions) <= published_depth(published, rank, *size) for rank, actions in enumerate(schedule))


@pytest.mark.parametrize("size", [(2, 2, 2), (2, 4, 3), (4, 8, 2), (4, 4, 3), (3, 9, 2)])
def test_the_librarys_interleaved_schedule_keeps_the_same_laws(size: tuple[int, int, int]) -> None:
    """Interleaved 1F1B of torch: valid, of the published bubble and depth."""
    schedule = planned_by_torch("ScheduleInterleaved1F1B", *size)
    assert check(schedule, *size) == ()
    num_ranks, _, chunks = size
    assert simulate(schedule, equal_costs(num_ranks * chunks, F=1, B=2)).bubble_fraction == published_bubble("interleaved", *size)
    assert all(depth(actions) <= published_depth("interleaved", rank, *size) for rank, actions in enumerate(schedule))


@pytest.mark.parametrize("size", [(2, 4, 1), (4, 8, 1), (2, 4, 2), (4, 8, 2)])
def test_the_librarys_zero_bubble_schedule_is_valid(size: tuple[int, int, int]) -> None:
    """Halves and all; its bubble is smaller than that of whole backwards."""
    schedule = planned_by_torch("ScheduleInterleavedZeroBubble", *size)
    assert check(schedule, *size) == ()
    num_ranks, _, chunks = size
    bubble = simulate(schedule, equal_costs(num_ranks * chunks, F=1, I=1, W=1)).bubble_fraction
    assert bubble < published_bubble("interleaved", *size)
