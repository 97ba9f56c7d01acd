"""Public cases of the laws of `pipeline_parallel`. What each means: tests/laws/pipeline_parallel/."""

from __future__ import annotations

import pytest

from tests.laws.pipeline_parallel import bubbles, execution, given, plans, ties

# --- simulation ------------------------------------------------------------------------------------------------------
FOUR, TWO, REVERSED, CHUNKS = map(given.schedule_of, (given.FOUR_RANKS, given.TWO_RANKS, given.REVERSED, given.TWO_CHUNKS))
EQUAL = [
    bubbles.equal(FOUR, 4, F=1, B=2),
    bubbles.equal(TWO, 2, F=1, B=1),
    bubbles.equal(REVERSED, 3, F=3, B=4),
    bubbles.equal(CHUNKS, 4, F=1, B=2),
    bubbles.equal(given.any_schedule(1, 3, 4), 3, F=1, B=2),
    bubbles.equal((), 1, F=1, B=2),
]
HALVES = given.schedule_of("F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1")
UNEVEN = [
    bubbles.case_of(FOUR, {"F": [1, 2, 1, 5], "B": [2, 3, 2, 7]}),
    bubbles.case_of(CHUNKS, {"F": [4, 1, 1, 2], "B": [2, 2, 9, 1]}),
    bubbles.case_of(HALVES, {"F": [1, 2], "I": [3, 1], "W": [1, 4]}),
]
BACKWARD_FIRST = "F0 B0\nB0 F0"
CIRCLE = "F0 B0 F1 B1\nF0 F1 B0 B1"
NOBODY = "F0 F1 B0 B1\nF0 B0"
STUCK = [bubbles.equal(given.schedule_of(text), 2, F=1, B=1) for text in (BACKWARD_FIRST, CIRCLE, NOBODY)]


@pytest.mark.law("simulation.bubble_is_idle_over_total")
def test_the_bubble_is_idle_over_total(observe):
    """1F1B (3/11 for four ranks and eight micro-batches), all forwards first, two stages per rank, one drawn by lot, an empty one."""
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, EQUAL))


@pytest.mark.law("simulation.stages_may_cost_differently")
def test_stages_may_cost_differently(observe):
    """Slow stages, and backward in two halves."""
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, UNEVEN))


@pytest.mark.law("simulation.deadlocks_are_refused")
def test_deadlocks_are_refused(observe):
    """A backward before its forward, a circle of two ranks, a forward that nobody does; and two that look odd but end."""
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, [*STUCK, *EQUAL[2:4]]))


# --- schedules -------------------------------------------------------------------------------------------------------
SIZES = [[4, 8], [1, 3], [2, 1], [3, 2], [4, 4], [2, 5], [5, 3]]
CHUNKED = [[2, 2, 2], [2, 4, 3], [4, 8, 2], [3, 3, 2], [1, 2, 3], [4, 4, 1]]
ENOUGH = [[4, 8], [1, 3], [2, 2], [3, 5], [4, 4]]


@pytest.mark.law("gpipe.is_complete_and_runs")
def test_gpipe_is_complete_and_runs(observe):
    """Several numbers of ranks and micro-batches, also fewer micro-batches than ranks."""
    plans.judge_progress(plans.run_schedules(observe, plans.GPIPE, SIZES))


@pytest.mark.law("gpipe.forwards_come_first")
def test_gpipe_does_all_forwards_first(observe):
    """All forwards, then all backwards, on every rank."""
    plans.judge_forwards_first(plans.run_schedules(observe, plans.GPIPE, SIZES))


@pytest.mark.law("gpipe.has_the_published_bubble")
def test_gpipe_has_the_published_bubble(observe):
    """(P-1)/(M+P-1), for backwards as long as forwards and twice as long."""
    plans.judge_bubble(plans.run_schedules(observe, plans.GPIPE, SIZES))


@pytest.mark.law("one_f_one_b.is_complete")
def test_one_f_one_b_is_complete(observe):
    """Also with fewer micro-batches than ranks."""
    plans.judge_completeness(plans.run_schedules(observe, plans.ONE_F_ONE_B, SIZES))


@pytest.mark.law("one_f_one_b.runs_to_its_end")
def test_one_f_one_b_runs_to_its_end(observe):
    """Nobody waits for ever, also with fewer micro-batches than ranks."""
    plans.judge_progress(plans.run_schedules(observe, plans.ONE_F_ONE_B, SIZES))


@pytest.mark.law("one_f_one_b.keeps_few_micro_batches")
def test_one_f_one_b_keeps_few_micro_batches(observe):
    """At most P - r of them on rank r."""
    plans.judge_depth(plans.run_schedules(observe, plans.ONE_F_ONE_B, SIZES))


@pytest.mark.law("one_f_one_b.has_the_published_bubble")
def test_one_f_one_b_has_the_published_bubble(observe):
    """(P-1)/(M+P-1): 3/11 for four ranks and eight micro-batches."""
    plans.judge_bubble(plans.run_schedules(observe, plans.ONE_F_ONE_B, SIZES))


@pytest.mark.law("interleaved.is_complete")
def test_interleaved_is_complete(observe):
    """One, two and three stages per rank."""
    plans.judge_completeness(plans.run_schedules(observe, plans.INTERLEAVED, CHUNKED))


@pytest.mark.law("interleaved.runs_to_its_end")
def test_interleaved_runs_to_its_end(observe):
    """Nobody waits for ever, and no message overtakes another."""
    plans.judge_progress(plans.run_schedules(observe, plans.INTERLEAVED, CHUNKED))


@pytest.mark.law("interleaved.keeps_few_micro_batches")
def test_interleaved_keeps_few_micro_batches(observe):
    """At most 2(P-1-r) + (V-1)P + 1 on rank r."""
    plans.judge_depth(plans.run_schedules(observe, plans.INTERLEAVED, CHUNKED))


@pytest.mark.law("interleaved.has_the_published_bubble")
def test_interleaved_has_the_published_bubble(observe):
    """(P-1)/(VM+P-1)."""
    plans.judge_bubble(plans.run_schedules(observe, plans.INTERLEAVED, CHUNKED))


@pytest.mark.law("interleaved.refuses_other_numbers")
def test_interleaved_refuses_other_numbers(observe):
    """Five micro-batches on two ranks, two on four."""
    plans.judge_refusals(plans.run_schedules(observe, plans.INTERLEAVED, [[2, 5, 2], [4, 2, 2]]))


@pytest.mark.law("zero_bubble.is_complete_and_runs")
def test_zero_bubble_is_complete_and_runs(observe):
    """Both halves of every backward, in order, also with fewer micro-batches than ranks."""
    plans.judge_progress(plans.run_schedules(observe, plans.ZERO_BUBBLE, SIZES))


@pytest.mark.law("zero_bubble.keeps_few_micro_batches")
def test_zero_bubble_keeps_few_micro_batches(observe):
    """At most P between forward and BACKWARD_WEIGHT."""
    plans.judge_depth(plans.run_schedules(observe, plans.ZERO_BUBBLE, SIZES))


@pytest.mark.law("zero_bubble.has_the_published_bubble")
def test_zero_bubble_has_the_published_bubble(observe):
    """3M + P - 1 ticks at most."""
    plans.judge_bubble(plans.run_schedules(observe, plans.ZERO_BUBBLE, ENOUGH))


# --- executor --------------------------------------------------------------------------------------------------------
def one_f_one_b_on_four(observe):
    """Four ranks, eight micro-batches, forwards of one second and backwards of two."""
    return execution.run(observe, FOUR, costs={"F": [1.0] * 4, "B": [2.0] * 4})


@pytest.mark.law("executor.gradients_equal_one_process")
@pytest.mark.parametrize("transport", ["wire", "gloo"])
def test_gradients_equal_one_process(observe, transport):
    """1F1B on two ranks, two runs whose gradients add up."""
    execution.judge_values(execution.run(observe, TWO, num_runs=2, transport=transport))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_gradients_equal_one_process_on_four_ranks(observe):
    """1F1B with eight micro-batches."""
    execution.judge_values(one_f_one_b_on_four(observe))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_run_may_be_called_with_another_number_of_micro_batches(observe):
    """First with one micro-batch, then with all of them."""
    execution.judge_values(execution.run(observe, TWO, before=given.one_by_one(2, 1)))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_a_single_rank_is_a_pipeline(observe):
    """One rank, one stage, three micro-batches."""
    execution.judge_values(execution.run(observe, given.schedule_of("F0 F1 B0 F2 B1 B2")))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_a_first_stage_may_be_frozen(observe):
    """Nothing in stage 0 is trained; its activations and gradients travel all the same."""
    execution.judge_values(execution.run(observe, TWO, frozen=[0]))


@pytest.mark.law("executor.runs_any_valid_schedule")
@pytest.mark.parametrize("schedule", [FOUR, REVERSED, given.any_schedule(2, 3, 4)], ids=["1f1b", "last_first", "by_lot"])
def test_the_executor_runs_any_valid_schedule(observe, schedule):
    """1F1B, backwards from the last to the first, and one drawn by lot: in that order, with the right gradients."""
    seen = one_f_one_b_on_four(observe) if schedule is FOUR else execution.run(observe, schedule)
    execution.judge_values(seen)
    execution.judge_order(seen)


@pytest.mark.law("executor.chunks_get_their_own_messages")
@pytest.mark.parametrize("schedule", [CHUNKS, given.any_schedule(3, 3, 3, chunks=2)], ids=["two_ranks", "three_ranks"])
def test_chunks_get_their_own_messages(observe, schedule):
    """Two stages per rank."""
    seen = execution.run(observe, schedule)
    execution.judge_values(seen)
    execution.judge_order(seen)


@pytest.mark.law("executor.chunks_get_their_own_messages")
def test_chunks_of_one_rank_send_nothing(observe):
    """Two stages, both on the only rank."""
    seen = execution.run(observe, given.schedule_of("F0@0 F0@1 B0@1 B0@0 F1@0 F1@1 B1@1 B1@0"))
    execution.judge_values(seen)
    execution.judge_messages(seen)


@pytest.mark.law("executor.each_boundary_is_crossed_once")
@pytest.mark.parametrize("schedule", [FOUR, CHUNKS], ids=["four_ranks", "two_chunks"])
def test_each_boundary_is_crossed_once(observe, schedule):
    """One activation down and one gradient up per micro-batch and boundary."""
    execution.judge_messages(one_f_one_b_on_four(observe) if schedule is FOUR else execution.run(observe, schedule))


@pytest.mark.law("executor.each_boundary_is_crossed_once")
def test_what_is_sent_is_contiguous(observe):
    """Stages return their output with other strides."""
    seen = execution.run(observe, TWO, layout="transposed")
    execution.judge_values(seen)
    execution.judge_messages(seen)


@pytest.mark.law("executor.each_boundary_is_crossed_once")
def test_gradients_take_the_group_that_is_theirs(observe):
    """Three ranks, with a group of their own for gradients."""
    execution.judge_groups(execution.run(observe, REVERSED, members=[0, 1, 2], has_gradient_group=True))


@pytest.mark.law("executor.keeps_what_the_schedule_needs")
@pytest.mark.parametrize("schedule", [FOUR, CHUNKS], ids=["four_ranks", "two_chunks"])
def test_the_executor_keeps_what_the_schedule_needs(observe, schedule):
    """As many graphs as are in flight, and none afterwards."""
    execution.judge_memory(one_f_one_b_on_four(observe) if schedule is FOUR else execution.run(observe, schedule))


@pytest.mark.law("executor.fits_in_the_memory_of_its_depth")
def test_a_run_fits_in_the_memory_of_its_depth(observe):
    """Sixteen micro-batches of 4 MiB each, of which one at a time is in flight."""
    execution.judge_heavy(execution.run_heavy(observe, given.one_by_one(2, 16)))


@pytest.mark.law("executor.takes_the_time_of_the_schedule")
def test_a_run_takes_the_time_of_its_schedule(observe):
    """1F1B on four ranks: 33 seconds, of which 3/11 are idle."""
    execution.judge_time(one_f_one_b_on_four(observe))


# --- tied ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("tied.copies_start_equal")
@pytest.mark.parametrize("layout", ["plain", "transposed"])
def test_copies_start_equal(observe, layout):
    """Ranks 0 and 2 of three own the weight."""
    ties.judge_copies(ties.run_tied(observe, ties.BROADCAST, 3, members=[0, 2], layout=layout))


@pytest.mark.law("tied.gradients_are_added")
def test_tied_gradients_are_added(observe):
    """Ranks 0 and 2 of three; and one owner without a gradient."""
    ties.judge_sums(ties.run_tied(observe, ties.ALL_REDUCE, 3, members=[0, 2]))
    ties.judge_sums(ties.run_tied(observe, ties.ALL_REDUCE, 3, members=[0, 2], missing=[2]))


@pytest.mark.law("tied.trains_as_one_weight")
def test_a_tied_weight_trains_as_one(observe):
    """Embedding on rank 0, head on rank 2, something between."""
    ties.judge_model(ties.run_model(observe, REVERSED))
