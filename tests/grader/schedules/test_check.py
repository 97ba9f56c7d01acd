"""The checker accepts what is valid and names what isn't."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.schedules import Action, Deadlock, Schedule, check, depth, equal_costs, from_rows, simulate, to_rows
from tests.grader.schedules.known import gpipe, interleaved, one_f_one_b, text_of
from tests.laws.pipeline_parallel.given import any_schedule

sizes = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))


def sorts(schedule: Schedule, num_ranks: int, num_micro_batches: int, chunks: int = 1) -> set[str]:
    """What sorts of mistakes the checker finds."""
    return {finding.sort for finding in check(schedule, num_ranks, num_micro_batches, chunks)}


@given(sizes, st.integers(0, 2**32))
def test_every_schedule_drawn_by_lot_is_valid(size: tuple[int, int, int], seed: int) -> None:
    """Whatever order the ranks could have worked in is accepted, and its simulation comes to an end."""
    num_ranks, num_micro_batches, chunks = size
    schedule = any_schedule(seed, num_ranks, num_micro_batches, chunks)
    assert check(schedule, num_ranks, num_micro_batches, chunks) == ()
    assert from_rows(to_rows(schedule)) == schedule


@given(sizes, st.integers(0, 2**32), st.data())
def test_an_action_that_is_taken_away_is_missed(size: tuple[int, int, int], seed: int, data: st.DataObject) -> None:
    """One action less anywhere: missing. Twice: twice. On another rank: misplaced."""
    num_ranks, num_micro_batches, chunks = size
    schedule = [list(actions) for actions in any_schedule(seed, num_ranks, num_micro_batches, chunks)]
    rank = data.draw(st.integers(0, num_ranks - 1))
    action = schedule[rank].pop(data.draw(st.integers(0, len(schedule[rank]) - 1)))
    assert "missing" in sorts(tuple(map(tuple, schedule)), *size)
    schedule[rank] += [action, action]
    assert "twice" in sorts(tuple(map(tuple, schedule)), *size)
    if num_ranks > 1:
        del schedule[rank][-2:]
        schedule[(rank + 1) % num_ranks].append(action)
        assert sorts(tuple(map(tuple, schedule)), *size) >= {"misplaced"}


@given(sizes, st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_a_shuffled_schedule_is_valid_exactly_if_it_can_be_played(size: tuple[int, int, int], seed: int, random: object) -> None:
    """Each rank's list in any order: without a finding it runs, with "deadlock" it doesn't, and "order" means that a rank blocks itself."""
    num_ranks, num_micro_batches, chunks = size
    shuffled = []
    for actions in any_schedule(seed, num_ranks, num_micro_batches, chunks):
        order = list(actions)
        random.shuffle(order)  # type: ignore[attr-defined]
        shuffled.append(tuple(order))
    found = sorts(tuple(shuffled), *size)
    try:
        simulate(tuple(shuffled), equal_costs(num_ranks * chunks, F=1, B=1))
        assert not found & {"deadlock", "order"}
    except Deadlock as deadlock:
        assert found & {"deadlock", "order"}
        assert deadlock.stuck and all(sentence.startswith("Rank ") for sentence in deadlock.sentences)


KNOWN_BAD = {
    "backward_before_forward": (text_of("F0 B0", "B0 F0"), "order"),
    "two_ranks_wait_for_each_other": (text_of("F0 B0 F1 B1", "F0 F1 B0 B1"), "deadlock"),
    "overtaken_activation": (text_of("F0 F1 B0 B1", "F1 F0 B0 B1"), "overtaking"),
    "overtaken_gradient": (text_of("F0 F1 B0 B1", "F0 F1 B1 B0"), "overtaking"),
    "unknown_micro_batch": (text_of("F0 F1 B0 B1 F2", "F0 B0 F1 B1"), "unknown"),
    "half_a_backward": (text_of("F0 F1 B0 I1", "F0 B0 F1 B1"), "missing"),
    "both_backwards": (text_of("F0 F1 B0 B1 I1 W1", "F0 B0 F1 B1"), "twice"),
    "weights_before_inputs": (text_of("F0 F1 B0 W1 I1", "F0 B0 F1 B1"), "order"),
    "a_rank_too_few": (text_of("F0 F1 B0 B1"), "ranks"),
    "stage_on_another_rank": ((*text_of("F0 F1 B0 B1"), tuple(Action(k, 0, m) for k in "FB" for m in (0, 1))), "misplaced"),
}


@pytest.mark.parametrize("name", KNOWN_BAD)
def test_known_bad_schedules_are_named(name: str) -> None:
    """Each mistake is found under its own name, with a sentence."""
    schedule, sort = KNOWN_BAD[name]
    findings = [finding for finding in check(schedule, 2, 2) if finding.sort == sort]
    assert findings and all(finding.sentence.endswith(".") for finding in findings)


def test_a_deadlock_says_who_waits_for_whom() -> None:
    """Rank 0 waits for rank 1's backward, which waits for rank 0's forward."""
    with pytest.raises(Deadlock) as caught:
        simulate(text_of("F0 B0 F1 B1", "F0 F1 B0 B1"), equal_costs(2, F=1, B=1))
    first, second = caught.value.sentences
    assert first == "Rank 0 can't begin B(stage 0, micro-batch 0): it waits for B(stage 1, micro-batch 0), which rank 1 does later."
    assert second == "Rank 1 can't begin F(stage 1, micro-batch 1): it waits for F(stage 0, micro-batch 1), which rank 0 does later."


@pytest.mark.parametrize("row", [["X", 0, 0], ["F", 0], ["F", -1, 0], ["F", 0, 1.0], ["F", True, 0]])
def test_rows_that_are_no_actions_are_refused(row: list[object]) -> None:
    """Unknown kinds, missing and negative numbers, numbers that aren't ints."""
    with pytest.raises(ValueError, match="is no action"):
        from_rows([[row]])


@settings(max_examples=40)
@given(sizes, st.integers(0, 2**32), st.data())
def test_the_simulation_begins_everything_as_soon_as_it_can(size: tuple[int, int, int], seed: int, data: st.DataObject) -> None:
    """Every action begins at 0, at the end of the rank's last one, or when something that it needs has just ended; never before either."""
    num_ranks, num_micro_batches, chunks = size
    schedule = any_schedule(seed, num_ranks, num_micro_batches, chunks)
    costs = {kind: data.draw(st.lists(st.integers(1, 9), min_size=num_ranks * chunks, max_size=num_ranks * chunks)) for kind in "FB"}
    timeline = simulate(schedule, costs)
    ends = {span.action: span.end_s for lane in timeline.lanes for span in lane}
    last = num_ranks * chunks - 1
    for lane in timeline.lanes:
        for before, span in itertools.pairwise([None, *lane]):
            kind, stage, number = span.action
            needed = [Action("F", stage - 1, number)] if kind == "F" and stage else []
            if kind == "B":
                needed = [Action("F", stage, number), *([Action("B", stage + 1, number)] if stage < last else [])]
            assert span.start_s == max([0, *([before.end_s] if before else []), *(ends[action] for action in needed)])
            assert span.end_s - span.start_s == costs[kind][stage]
    busy_s = sum(costs[action.kind][action.stage] for actions in schedule for action in actions)
    assert timeline.bubble_fraction == 1 - Fraction(busy_s, timeline.end_s * num_ranks)


@given(st.integers(1, 6), st.integers(1, 9))
def test_depth_counts_what_is_in_flight(num_ranks: int, num_micro_batches: int) -> None:
    """GPipe keeps M, 1F1B at most P - r."""
    assert [depth(actions) for actions in gpipe(num_ranks, num_micro_batches)] == [num_micro_batches] * num_ranks
    kept = [depth(actions) for actions in one_f_one_b(num_ranks, num_micro_batches)]
    assert kept == [min(num_micro_batches, num_ranks - rank) for rank in range(num_ranks)]


def test_interleaved_needs_its_order() -> None:
    """With the backwards' chunks in forward order the ranks stand still."""
    right = interleaved(2, 4, 2)
    wrong = tuple(tuple(a if a.kind == "F" else Action("B", 2 - a.stage + 2 * rank, a.micro_batch) for a in actions)
                  for rank, actions in enumerate(right))  # fmt: skip
    assert sorts(right, 2, 4, 2) == set()
    assert "deadlock" in sorts(wrong, 2, 4, 2)
