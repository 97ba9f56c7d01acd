"""Hidden cases of the laws of `sharded_data_parallel`: other shapes, worlds and traps. What each law means stands in its laws' folder."""

from __future__ import annotations

import math

import pytest

from tests.laws.sharded_data_parallel import checkpoints, memory, travel, values
from tests.laws.sharded_data_parallel.runs import ADAMW, SGD, run_clip, run_ordered, run_precision, run_spans, run_train

# In every layer something else: a large one, one smaller than the world, several of one element, an uneven matrix.
SHAPES = {
    "first": (1,),
    "embed": (11, 3),
    "last": (2, 2),
    "layers.0.weight": (17, 5),
    "layers.1.a": (1,),
    "layers.1.b": (1,),
    "layers.2.weight": (19,),
    "layers.2.bias": (),
    "layers.3.weight": (3, 3, 3),
}
COUNTS = [math.prod(shape) for shape in SHAPES.values()]
ROOT_COUNT = sum(math.prod(shape) for name, shape in SHAPES.items() if not name.startswith("layers."))
HEAVY_DECAY = {"optimizer": "SGD", "defaults": {"lr": 0.3, "momentum": 0.5, "weight_decay": 0.2}}
MICRO = [{"micro_batches": 3}, {}]

LINES = [
    ([3, 3, 3, 3, 3], 7), ([1] * 9, 4), ([0, 0, 5], 3), ([64, 64], 4), ([997], 6), ([2, 0, 9, 1], 16), ([31, 7, 1, 1], 5), ([8, 8], 1),
]  # fmt: skip


@pytest.mark.law("spans.every_element_has_one_owner")
def test_every_element_has_one_owner(observe):
    """Other lines: many small tensors, empty ones, worlds larger than the line."""
    values.judge_cover(run_spans(observe, LINES, kind="tensors of other sizes, and worlds larger than they are"))


@pytest.mark.law("spans.ranges_follow_the_width")
def test_ranges_follow_the_width(observe):
    """The same lines, by range."""
    values.judge_widths(run_spans(observe, LINES, kind="tensors of other sizes, and worlds larger than they are"))


# --- zero1 and zero2 -------------------------------------------------------------------------------------------------
def large(observe, stage, world_size, optimizer, steps=MICRO, **case):
    """Nine parameters in buckets of at most 300 bytes."""
    return run_train(observe, world_size, stage, steps, shapes=SHAPES, bucket_bytes=300, **optimizer, **case)


@pytest.mark.law("zero1.step_equals_one_process")
def test_sharded_steps_equal_one_process(observe):
    """Five ranks, three micro-batches."""
    values.judge_training(large(observe, "zero1", 5, ADAMW, kind="5 ranks, three micro-batches, small parameters"))


@pytest.mark.law("zero1.step_equals_one_process")
def test_gradients_may_be_set_to_zero(observe):
    """What was reduced is forgotten, and zeros are left in place of None."""
    case = {"bucket_bytes": 200, "kind": "zero_grad(set_to_none=False)"}
    values.judge_zeros(run_train(observe, 2, "zero1", [{}, {"forgets": "to zeros"}], **SGD, **case))


@pytest.mark.law("zero1.step_equals_one_process")
def test_results_that_land_late_are_waited_for(observe):
    """Results land when they are waited for."""
    values.judge_training(large(observe, "zero1", 2, SGD, late=True, kind="results that land as late as they may"))


@pytest.mark.law("zero1.travels_twice")
def test_a_sharded_step_sends_two_volumes(observe):
    """Five ranks, three micro-batches: one reduction, one gather."""
    seen = large(observe, "zero1", 5, ADAMW, kind="5 ranks, three micro-batches, small parameters")
    phases = ["step 0", *(f"backward 0/{number}" for number in range(3))]
    travel.judge_volume(seen, phases, COUNTS, gathers=(1, 1), reductions=1, padded=2)


def written_groups(observe):
    """Three groups, the last added late and then written to."""
    groups = [
        {"names": ["embed", "layers.3.weight"], "settings": {"momentum": 0.3}},
        {"names": ["first", "last", "layers.0.weight", "layers.1.a"], "settings": {"lr": 0.02}},
        {"names": ["layers.1.b", "layers.2.weight", "layers.2.bias"], "settings": {"momentum": 0.0, "weight_decay": 0.4}, "late": True},
    ]
    steps = [{}, {"add": 2}, {"write": {"1": {"lr": 0.2}, "2": {"lr": 0.5}}}, {}]
    return large(observe, "zero1", 2, HEAVY_DECAY, steps, groups=groups, kind="a group that is added and then written to")


@pytest.mark.law("zero1.settings_follow_their_groups")
def test_groups_keep_their_settings(observe):
    """Momentum, lr and weight decay of their own."""
    values.judge_training(written_groups(observe))


@pytest.mark.law("zero1.schedulers_are_seen")
def test_what_is_written_into_groups_counts(observe):
    """lr is written to two of three groups, one of them added late."""
    values.judge_training(written_groups(observe))


@pytest.mark.law("zero1.fewer_elements_than_ranks")
def test_ranks_may_own_nothing(observe):
    """Two elements for three ranks, in one bucket."""
    few = {"first": (1,), "layers.0.weight": ()}
    seen = run_train(observe, 3, "zero1", [{}, {}], shapes=few, kind="two elements for three ranks", **ADAMW)
    values.judge_training(seen)


def hardly_used(observe, stage):
    """In one step rank 2 uses one parameter only, and one is frozen."""
    unused = {"2": [name for name in SHAPES if name != "layers.2.weight"], "0": ["first"]}
    steps = [{"unused": unused}, {}, {"micro_batches": 2, "unused": unused}]
    return large(observe, stage, 3, ADAMW, steps, frozen=["embed"], kind="a rank that uses one parameter only, and a frozen one")


@pytest.mark.law("zero1.missing_gradients_count_as_zeros")
def test_missing_gradients_count_as_zeros(observe):
    """A rank that hardly uses anything, and a frozen parameter."""
    values.judge_training(hardly_used(observe, "zero1"))


@pytest.mark.law("zero2.step_equals_one_process")
def test_sharded_gradients_take_in_unused_parameters(observe):
    """The same, with a GradientSharder."""
    values.judge_training(hardly_used(observe, "zero2"))


def in_a_subgroup(observe, stage):
    """Ranks 0 and 2 of three, in a group."""
    how = {"bucket_bytes": 300} if stage == "zero1" else {}
    seen = run_train(observe, 3, stage, [{}, {}], shapes=SHAPES, members=[0, 2], kind="a group of two ranks out of three", **how, **SGD)
    values.judge_training(seen)
    travel.judge_group(seen)


@pytest.mark.law("zero1.subgroups_use_their_own_ranks")
def test_a_subgroup_shards_among_its_own(observe):
    """The optimizer's state of two ranks out of three."""
    in_a_subgroup(observe, "zero1")


@pytest.mark.law("fsdp.gradients_equal_the_whole_batch")
def test_a_subgroup_shards_a_module_among_its_own(observe):
    """A module on two ranks out of three."""
    in_a_subgroup(observe, "fsdp")


@pytest.mark.law("zero2.gradients_are_dropped_during_backward")
def test_there_is_no_room_for_all_gradients(observe):
    """32 ranks."""
    memory.judge_room(memory.run_zero2(observe, 32, kind="32 ranks"))


@pytest.mark.law("zero2.buckets_leave_while_backward_runs")
def test_sharded_buckets_leave_while_backward_runs(observe):
    """Nine layers, three to a bucket."""
    seen = run_ordered(observe, 2, "zero2", num_layers=9, elements=48, bucket_bytes=3 * 4 * 48, kind="three layers to a bucket")
    travel.judge_departures(seen, layer_bytes=4 * 48, bucket_bytes=3 * 4 * 48)


# --- fsdp ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("fsdp.trains_like_one_process")
def test_fully_sharded_steps_equal_one_process(observe):
    """Five ranks, three micro-batches, prefetch deeper than the model."""
    seen = run_train(observe, 5, "fsdp", MICRO, shapes=SHAPES, prefetch=9, kind="5 ranks, three micro-batches, small units", **ADAMW)
    values.judge_training(seen)


@pytest.mark.law("fsdp.travels_three_times")
def test_a_fully_sharded_step_sends_three_volumes(observe):
    """Each of three micro-batches; nothing travels in the step itself."""
    seen = run_train(observe, 5, "fsdp", MICRO, shapes=SHAPES, prefetch=9, kind="5 ranks, three micro-batches, small units", **ADAMW)
    for number in range(3):
        travel.judge_volume(seen, [f"backward 0/{number}"], COUNTS, gathers=(2 - ROOT_COUNT / sum(COUNTS), 2), reductions=1, padded=3)
    travel.judge_volume(seen, ["step 0"], COUNTS, gathers=(0, 0), reductions=0, what="optimizer.step()", padded=0)


@pytest.mark.law("fsdp.shards_the_weights")
def test_there_is_no_room_for_a_copy_of_the_weights(observe):
    """One rank of 32, without resharding after forward: shards again after backward."""
    memory.judge_room(
        memory.run_fsdp(observe, 32, ("constructed", "after backward", "after step"), reshard=False, kind="32 ranks, no resharding")
    )


@pytest.mark.law("fsdp.one_unit_at_a_time")
def test_one_unit_at_a_time(observe):
    """One rank of 32, two units ahead."""
    memory.judge_room(memory.run_fsdp(observe, 32, ("forward", "after forward", "backward"), prefetch=2, kind="32 ranks, two units ahead"))


@pytest.mark.law("fsdp.prefetch_hides_the_gathers")
def test_prefetch_hides_the_gathers_without_resharding(observe):
    """Units stay gathered: only the first gather and the last reduction show."""
    seen = run_ordered(
        observe, 2, "fsdp", num_layers=7, elements=10, forward_s=3.0, backward_s=3.0, prefetch=1, reshard_after_forward=False,
        kind="no resharding after forward",
    )  # fmt: skip
    travel.judge_overlap(seen, gather_s=2.0, layer_bytes=40)


def half_precision(observe):
    """float16, and no reduce dtype named."""
    return run_precision(observe, 2, num_steps=3, lr=2.0**-12, compute_dtype="float16", kind="float16, and no reduce dtype named")


@pytest.mark.law("fsdp.dtypes_travel_as_configured")
def test_the_reduce_dtype_follows_the_compute_dtype(observe):
    """Both float16."""
    travel.judge_dtypes(half_precision(observe), "step 1", gathers="float16", reductions="float16")


@pytest.mark.law("fsdp.masters_keep_their_precision")
def test_masters_keep_their_precision(observe):
    """Steps of 1/4096 of the weights."""
    seen = half_precision(observe)
    values.judge_dtypes(seen)
    values.judge_masters(seen, lr=2.0**-12)


@pytest.mark.law("fsdp.shared_and_frozen_weights")
def test_shared_and_frozen_weights(observe):
    """A weight in three layers; a unit that is frozen as a whole, and a frozen parameter of the root."""
    shared = {"layers.0.tied": "layers.2.weight", "layers.3.tied": "layers.2.weight"}
    frozen = ["layers.1.a", "layers.1.b", "embed"]
    seen = run_train(
        observe, 2, "fsdp", [{}, {"micro_batches": 2}], shapes=SHAPES, shared=shared, frozen=frozen,
        kind="a weight in three layers, and a unit that is frozen", **ADAMW,
    )  # fmt: skip
    values.judge_training(seen)


# --- clip ------------------------------------------------------------------------------------------------------------
EMPTY_FIRST = [[0], [3], [4]]


def tiny(observe):
    """A rank with nothing, and numbers whose squares float32 can't hold. Huge ones are public."""
    return run_clip(observe, EMPTY_FIRST, max_norm=1e-6, scale=1e-23, kind="a rank that has nothing; very small numbers")


@pytest.mark.law("clip.norm_is_the_whole_gradients")
def test_norms_of_tiny_gradients(observe):
    """Not zero."""
    values.judge_norm(tiny(observe))


@pytest.mark.law("clip.all_are_scaled_alike")
def test_tiny_gradients_are_scaled_alike(observe):
    """Left alone."""
    values.judge_scaling(tiny(observe))


SUBGROUP = [[2, 2], [3, 1], [0, 5]]


@pytest.mark.law("clip.norm_is_the_whole_gradients")
def test_the_norm_of_a_subgroup(observe):
    """Ranks 0 and 2 of three."""
    values.judge_norm(run_clip(observe, SUBGROUP, max_norm=0.7, members=[0, 2], kind="a group of two ranks out of three"))


@pytest.mark.law("clip.one_number_travels")
def test_one_number_travels_in_a_subgroup(observe):
    """Ranks 0 and 2 of three."""
    travel.judge_one_number(run_clip(observe, SUBGROUP, max_norm=0.7, members=[0, 2], kind="a group of two ranks out of three"))


@pytest.mark.law("clip.steps_are_clipped")
@pytest.mark.parametrize(("stage", "world_size"), [("zero1", 2), ("fsdp", 3)])
def test_steps_are_clipped(observe, stage, world_size):
    """Accumulated gradients, clipped before AdamW."""
    steps = [{"clip": 0.3, "micro_batches": 2}, {"clip": 0.2}]
    seen = run_train(observe, world_size, stage, steps, shapes=SHAPES, kind="clipped after two micro-batches", **ADAMW)
    values.judge_training(seen)
    values.judge_reported_norms(seen)


# --- whole and pieces ------------------------------------------------------------------------------------------------
@pytest.mark.law("whole.is_what_one_process_has")
def test_the_state_dict_is_what_one_process_has(observe):
    """A weight that two layers share, and a frozen one; two ranks."""
    seen = checkpoints.run_trained_state(
        observe, 2, optimizer="AdamW", num_steps=1, shapes=SHAPES, shared={"layers.3.tied": "layers.0.weight"},
        frozen=["embed", "layers.1.a"],
        kind="a shared and two frozen weights",
    )  # fmt: skip
    checkpoints.judge_trained_state(seen)


def two_to_three(observe, way):
    """Two ranks save, three load."""
    return checkpoints.run_moved(observe, way, savers=[0, 2], loaders=[0, 1, 2], kind="from two ranks to three")


@pytest.mark.law("whole.loads_into_any_world")
def test_a_state_dict_of_two_ranks_loads_into_three(observe):
    """Bit by bit, and a step more."""
    checkpoints.judge_moved(two_to_three(observe, "whole"))


@pytest.mark.law("pieces.loads_into_any_world")
def test_pieces_of_two_ranks_load_into_three(observe):
    """Bit by bit, and a step more."""
    checkpoints.judge_moved(two_to_three(observe, "pieces"))


@pytest.mark.law("pieces.earlier_one_stands")
def test_the_earlier_checkpoint_stands(observe):
    """The last of three ranks is killed at each thing that a save does to the disk."""
    checkpoints.judge_killed(checkpoints.run_killed(observe, 3, [2], kind="three ranks"))


@pytest.mark.law("pieces.nothing_is_gathered")
def test_nothing_is_gathered_to_save(observe):
    """Two ranks out of three."""
    travel.judge_silence(two_to_three(observe, "pieces"), "save", [0, 2])
