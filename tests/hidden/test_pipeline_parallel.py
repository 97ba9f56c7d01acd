"""Hidden cases of the laws of `pipeline_parallel`: other sizes, schedules, dtypes, groups, traps. Meanings: tests/laws/."""

from __future__ import annotations

import pytest

from grader.schedules import Action
from tests.laws.pipeline_parallel import bubbles, execution, given, plans, ties

# --- simulation ------------------------------------------------------------------------------------------------------
BY_LOT = "schedules drawn by lot, with up to three stages per rank"
LOTS = [given.any_schedule(seed, num_ranks, 5, chunks) for seed, (num_ranks, chunks) in enumerate(((1, 2), (2, 3), (3, 1), (4, 2), (5, 1)))]
INTERLEAVED = given.schedule_of("""
F0@0 F1@0 F0@2 F1@2 F2@0 B0@2 F3@0 B1@2 F2@2 B0@0 F3@2 B1@0 B2@2 B3@2 B2@0 B3@0
F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 F2@1 B0@1 F3@1 B1@1 F2@3 B2@3 F3@3 B3@3 B2@1 B3@1
""")
ROUND_A_CIRCLE = "F0 B0 F1 F2 B1 B2\nF0 F1 B0 B1 F2 B2\nF0 F1 F2 B1 B0 B2"
WEIGHT_FIRST = "F0 I0 W0\nF0 W0 I0"
GRADIENT_FROM_NOWHERE = "F0 I0 W0\nF0"


def random_costs(number, num_stages, kinds):
    """Whole seconds, other ones on each stage."""
    return {kind: [1 + (7 * number + 3 * stage + 5 * place) % 11 for stage in range(num_stages)] for place, kind in enumerate(kinds)}


def stages_of(schedule):
    """How many stages the schedule names."""
    return 1 + max(action.stage for actions in schedule for action in actions)


def halved(schedule):
    """Each backward in two halves, the second at the end of the rank's list."""
    parts = [[Action("I" if kind == "B" else kind, stage, number) for kind, stage, number in actions] for actions in schedule]
    return tuple(
        (*part, *(Action("W", stage, number) for kind, stage, number in actions if kind == "B"))
        for part, actions in zip(parts, schedule, strict=True)
    )


@pytest.mark.law("simulation.bubble_is_idle_over_total")
def test_the_bubble_is_idle_over_total(observe):
    """Many orders, with equal costs; ranks without anything to do; no cost at all."""
    cases = [bubbles.equal(schedule, stages_of(schedule), F=1, B=2) for schedule in (*LOTS, INTERLEAVED)]
    idle_rank = bubbles.equal((*given.schedule_of(given.TWO_RANKS), ()), 2, F=1, B=2)
    free = bubbles.equal(LOTS[1], stages_of(LOTS[1]), F=0, B=0)
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, [*cases, idle_rank, free], kind=BY_LOT))


@pytest.mark.law("simulation.stages_may_cost_differently")
def test_stages_may_cost_differently(observe):
    """Other costs on each stage; whole backwards and halves."""
    whole = [bubbles.case_of(s, random_costs(number, stages_of(s), "FB")) for number, s in enumerate(LOTS)]
    halves = [bubbles.case_of(halved(s), random_costs(number, stages_of(s), "FIW")) for number, s in enumerate(LOTS)]
    mixed = bubbles.case_of(given.schedule_of("F0 F1 B0 I1 W1\nF0 I0 F1 B1 W0"), {kind: [1, 3] for kind in "FBIW"})
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, [*whole, *halves, mixed], kind=BY_LOT))


@pytest.mark.law("simulation.deadlocks_are_refused")
def test_deadlocks_are_refused(observe):
    """Circles through several ranks, halves in the wrong order, what nobody does; and schedules that end."""
    texts = (ROUND_A_CIRCLE, WEIGHT_FIRST, GRADIENT_FROM_NOWHERE, "B0 F0")
    stuck = [bubbles.equal(given.schedule_of(text), 3, F=1, B=2, I=1, W=1) for text in texts]
    fine = [bubbles.equal(schedule, stages_of(schedule), F=1, B=2) for schedule in LOTS]
    bubbles.judge_bubbles(bubbles.run_bubbles(observe, [*stuck, *fine], kind="deadlocks of other forms, and schedules drawn by lot"))


# --- schedules -------------------------------------------------------------------------------------------------------
MANY = [[num_ranks, num_micro_batches] for num_ranks in (1, 2, 3, 5, 8) for num_micro_batches in (1, 2, 3, 7, 8, 13)]
MANY_ENOUGH = [case for case in MANY if case[1] >= case[0]]
MANY_CHUNKED = [[p, p * rounds, chunks] for p in (1, 2, 3, 5) for rounds in (1, 2, 3) for chunks in (1, 2, 3, 4)]
MANY_KIND = "one to eight ranks, one to thirteen micro-batches"
CHUNKED_KIND = "one to five ranks, one to four stages on each"


@pytest.mark.law("gpipe.is_complete_and_runs")
def test_gpipe_is_complete_and_runs(observe):
    """All stages, all micro-batches."""
    plans.judge_progress(plans.run_schedules(observe, plans.GPIPE, MANY, kind=MANY_KIND))


@pytest.mark.law("gpipe.forwards_come_first")
def test_gpipe_does_all_forwards_first(observe):
    """All forwards, then all backwards."""
    plans.judge_forwards_first(plans.run_schedules(observe, plans.GPIPE, MANY, kind=MANY_KIND))


@pytest.mark.law("gpipe.has_the_published_bubble")
def test_gpipe_has_the_published_bubble(observe):
    """(P-1)/(M+P-1)."""
    plans.judge_bubble(plans.run_schedules(observe, plans.GPIPE, MANY, kind=MANY_KIND))


@pytest.mark.law("one_f_one_b.is_complete")
def test_one_f_one_b_is_complete(observe):
    """Each forward and backward once."""
    plans.judge_completeness(plans.run_schedules(observe, plans.ONE_F_ONE_B, MANY, kind=MANY_KIND))


@pytest.mark.law("one_f_one_b.runs_to_its_end")
def test_one_f_one_b_runs_to_its_end(observe):
    """Nobody waits for ever."""
    plans.judge_progress(plans.run_schedules(observe, plans.ONE_F_ONE_B, MANY, kind=MANY_KIND))


@pytest.mark.law("one_f_one_b.keeps_few_micro_batches")
def test_one_f_one_b_keeps_few_micro_batches(observe):
    """At most P - r on rank r."""
    plans.judge_depth(plans.run_schedules(observe, plans.ONE_F_ONE_B, MANY, kind=MANY_KIND))


@pytest.mark.law("one_f_one_b.has_the_published_bubble")
def test_one_f_one_b_has_the_published_bubble(observe):
    """(P-1)/(M+P-1)."""
    plans.judge_bubble(plans.run_schedules(observe, plans.ONE_F_ONE_B, MANY, kind=MANY_KIND))


@pytest.mark.law("interleaved.is_complete")
def test_interleaved_is_complete(observe):
    """Each forward and backward of every stage once."""
    plans.judge_completeness(plans.run_schedules(observe, plans.INTERLEAVED, MANY_CHUNKED, kind=CHUNKED_KIND))


@pytest.mark.law("interleaved.runs_to_its_end")
def test_interleaved_runs_to_its_end(observe):
    """Nobody waits for ever, nothing overtakes."""
    plans.judge_progress(plans.run_schedules(observe, plans.INTERLEAVED, MANY_CHUNKED, kind=CHUNKED_KIND))


@pytest.mark.law("interleaved.keeps_few_micro_batches")
def test_interleaved_keeps_few_micro_batches(observe):
    """At most 2(P-1-r) + (V-1)P + 1."""
    plans.judge_depth(plans.run_schedules(observe, plans.INTERLEAVED, MANY_CHUNKED, kind=CHUNKED_KIND))


@pytest.mark.law("interleaved.has_the_published_bubble")
def test_interleaved_has_the_published_bubble(observe):
    """(P-1)/(VM+P-1)."""
    plans.judge_bubble(plans.run_schedules(observe, plans.INTERLEAVED, MANY_CHUNKED, kind=CHUNKED_KIND))


@pytest.mark.law("interleaved.refuses_other_numbers")
def test_interleaved_refuses_other_numbers(observe):
    """Also with one stage per rank, and one micro-batch."""
    plans.judge_refusals(plans.run_schedules(observe, plans.INTERLEAVED, [[2, 7, 3], [3, 4, 1], [5, 1, 2]], kind="other numbers"))


@pytest.mark.law("zero_bubble.is_complete_and_runs")
def test_zero_bubble_is_complete_and_runs(observe):
    """Forward and both halves of every backward."""
    plans.judge_progress(plans.run_schedules(observe, plans.ZERO_BUBBLE, MANY, kind=MANY_KIND))


@pytest.mark.law("zero_bubble.keeps_few_micro_batches")
def test_zero_bubble_keeps_few_micro_batches(observe):
    """At most P on every rank."""
    plans.judge_depth(plans.run_schedules(observe, plans.ZERO_BUBBLE, MANY, kind=MANY_KIND))


@pytest.mark.law("zero_bubble.has_the_published_bubble")
def test_zero_bubble_has_the_published_bubble(observe):
    """3M + P - 1 ticks at most."""
    plans.judge_bubble(plans.run_schedules(observe, plans.ZERO_BUBBLE, MANY_ENOUGH, kind=MANY_KIND))


# --- executor --------------------------------------------------------------------------------------------------------
THREE = given.any_schedule(11, 3, 5)
FOUR_BY_LOT = given.any_schedule(12, 4, 3)
TWO_BY_THREE = given.any_schedule(13, 2, 4, chunks=3)
NO_TAGS = "NCCL knows no tags, and here activations and gradients share a link"
ONE_RANK = given.any_schedule(14, 1, 3, chunks=3)


def uneven(observe):
    """Two stages on each of two ranks, each with costs of its own."""
    costs = {"F": [1.0, 2.0, 1.0, 4.0], "B": [2.0, 5.0, 3.0, 6.0]}
    return execution.run(observe, INTERLEAVED, costs=costs, kind="two ranks with two stages each, interleaved")


@pytest.mark.law("executor.gradients_equal_one_process")
def test_gradients_equal_one_process_in_float32(observe):
    """Three ranks, five micro-batches in any order, three runs."""
    execution.judge_values(execution.run(observe, THREE, dtype="float32", num_runs=3, kind="three ranks, float32, three runs in a row"))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_gradients_equal_one_process_in_a_subgroup(observe):
    """Ranks 1 and 3 of four, with a group of their own for gradients."""
    schedule = given.schedule_of(given.TWO_RANKS)
    seen = execution.run(observe, schedule, members=[1, 3], has_gradient_group=True, kind="a group of some ranks, and one for gradients")
    execution.judge_values(seen)
    execution.judge_groups(seen)


@pytest.mark.law("executor.gradients_equal_one_process")
def test_run_may_be_called_with_another_number_of_micro_batches(observe):
    """Three ranks; two micro-batches before five."""
    execution.judge_values(execution.run(observe, THREE, before=given.one_by_one(3, 2), kind="run again, with more micro-batches"))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_values_are_read_after_they_have_landed(observe):
    """What arrives lands when it is waited for."""
    execution.judge_values(execution.run(observe, FOUR_BY_LOT, late=True, kind="results land when they are waited for"))


@pytest.mark.law("executor.gradients_equal_one_process")
def test_a_stage_may_be_frozen(observe):
    """The first two of three stages, and a middle one."""
    execution.judge_values(execution.run(observe, THREE, frozen=[0, 1], kind="the first two stages are frozen"))
    execution.judge_values(execution.run(observe, FOUR_BY_LOT, frozen=[2], kind="a stage in the middle is frozen"))


@pytest.mark.law("executor.runs_any_valid_schedule")
@pytest.mark.parametrize("schedule", [THREE, FOUR_BY_LOT, given.one_by_one(3, 4)], ids=["three", "four", "one_by_one"])
def test_the_executor_runs_any_valid_schedule(observe, schedule):
    """Drawn by lot, and one micro-batch at a time."""
    seen = execution.run(observe, schedule, kind="a schedule drawn by lot, or one micro-batch at a time")
    execution.judge_values(seen)
    execution.judge_order(seen)


@pytest.mark.law("executor.chunks_get_their_own_messages")
@pytest.mark.parametrize(("schedule", "host"), [(TWO_BY_THREE, NO_TAGS), (ONE_RANK, "")], ids=["two_ranks", "one_rank"])
def test_chunks_get_their_own_messages(observe, schedule, host):
    """Three stages per rank, drawn by lot."""
    seen = execution.run(observe, schedule, host=host, kind="three stages per rank")
    execution.judge_values(seen)
    execution.judge_order(seen)
    execution.judge_messages(seen)


@pytest.mark.law("executor.chunks_get_their_own_messages")
def test_chunks_get_their_own_messages_on_gloo(observe):
    """Two ranks with two stages each, interleaved, on gloo."""
    execution.judge_values(execution.run(observe, INTERLEAVED, transport="gloo", kind="two ranks with two stages each, on gloo"))


@pytest.mark.law("executor.each_boundary_is_crossed_once")
def test_each_boundary_is_crossed_once(observe):
    """Three ranks in float32, and interleaved stages."""
    execution.judge_messages(execution.run(observe, THREE, dtype="float32", kind="three ranks, float32"))
    execution.judge_messages(uneven(observe))
    execution.judge_messages(execution.run(observe, FOUR_BY_LOT, layout="transposed", kind="outputs that aren't contiguous"))


@pytest.mark.law("executor.keeps_what_the_schedule_needs")
def test_the_executor_keeps_what_the_schedule_needs(observe):
    """One micro-batch at a time: one graph. Interleaved stages; several runs."""
    execution.judge_memory(execution.run(observe, given.one_by_one(3, 4), kind="a schedule drawn by lot, or one micro-batch at a time"))
    execution.judge_memory(uneven(observe))
    execution.judge_memory(execution.run(observe, THREE, dtype="float32", num_runs=3, kind="three ranks, float32, three runs in a row"))


@pytest.mark.law("executor.fits_in_the_memory_of_its_depth")
def test_a_run_fits_in_the_memory_of_its_depth(observe):
    """A single rank, twenty micro-batches, one stage and two."""
    execution.judge_heavy(execution.run_heavy(observe, given.one_by_one(1, 20), kind="one rank, many micro-batches"))
    execution.judge_heavy(execution.run_heavy(observe, given.one_by_one(1, 20, chunks=2), kind="one rank, two stages, many micro-batches"))


@pytest.mark.law("executor.takes_the_time_of_the_schedule")
def test_a_run_takes_the_time_of_its_schedule(observe):
    """Interleaved stages that all cost differently, and a schedule drawn by lot."""
    execution.judge_time(uneven(observe))
    costs = {"F": [3.0, 1.0, 2.0], "B": [4.0, 2.0, 5.0]}
    execution.judge_time(execution.run(observe, THREE, costs=costs, kind="a schedule drawn by lot, uneven costs"))


# --- tied ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("tied.copies_start_equal")
def test_copies_start_equal(observe):
    """Owners 1 and 3 of four, bfloat16, transposed; and a single owner."""
    ties.judge_copies(
        ties.run_tied(observe, ties.BROADCAST, 4, members=[1, 3], dtype="bfloat16", layout="transposed", kind="owners 1 and 3, bfloat16")
    )
    ties.judge_copies(ties.run_tied(observe, ties.BROADCAST, 1, kind="a single owner"))


@pytest.mark.law("tied.gradients_are_added")
def test_tied_gradients_are_added(observe):
    """Three owners, transposed, one without a gradient; likewise two owners in bfloat16; a single owner."""
    ties.judge_sums(ties.run_tied(observe, ties.ALL_REDUCE, 3, layout="transposed", missing=[1], kind="three owners, one without gradient"))
    ties.judge_sums(
        ties.run_tied(observe, ties.ALL_REDUCE, 4, members=[1, 3], dtype="bfloat16", missing=[3], kind="bfloat16, one without gradient")
    )
    ties.judge_sums(ties.run_tied(observe, ties.ALL_REDUCE, 1, kind="a single owner"))


@pytest.mark.law("tied.trains_as_one_weight")
def test_a_tied_weight_trains_as_one(observe):
    """On gloo; and with both uses on two ranks that have two stages each."""
    ties.judge_model(ties.run_model(observe, given.schedule_of(given.TWO_RANKS), transport="gloo", kind="two ranks, on gloo"))
    ties.judge_model(ties.run_model(observe, INTERLEAVED, kind="two ranks with two stages each"))
