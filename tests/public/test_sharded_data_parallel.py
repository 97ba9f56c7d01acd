"""Public cases of the laws of `sharded_data_parallel`. What each law means stands in tests/laws/sharded_data_parallel/.

Equal requests share one run: laws that can look at the same run ask for it through the same function here.
"""

from __future__ import annotations

import math

import pytest

from tests.laws.sharded_data_parallel import checkpoints, memory, travel, values
from tests.laws.sharded_data_parallel.runs import (
    ADAMW,
    ODD,
    PLAIN_SGD,
    SGD,
    run_clip,
    run_ordered,
    run_precision,
    run_spans,
    run_train,
)

SIZES = [math.prod(shape) for shape in ODD.values()]
IN_NO_UNIT = sum(math.prod(shape) for name, shape in ODD.items() if not name.startswith("layers."))

# --- spans -----------------------------------------------------------------------------------------------------------
LINES = [([5, 3, 4], 3), ([12], 4), ([7, 7, 7], 2), ([1, 1, 1], 1), ([10, 0, 3], 4), ([2, 1], 5), ([1], 4), ([100, 1, 1, 31], 8)]


@pytest.mark.law("spans.every_element_has_one_owner")
def test_every_element_has_one_owner(observe):
    """Of tensors that N divides and others, of empty ones, and with fewer elements than ranks."""
    values.judge_cover(run_spans(observe, LINES))


@pytest.mark.law("spans.ranges_follow_the_width")
def test_ranges_follow_the_width(observe):
    """ceil(n/N) elements for each rank, in the ranks' order, as far as there are any."""
    values.judge_widths(run_spans(observe, LINES))


# --- zero1 -----------------------------------------------------------------------------------------------------------
THREE = [{}, {"micro_batches": 2}, {"forgets": True}]
SMALL_BUCKETS = 200  # bytes: several buckets, one of which is a single parameter


def zero1(observe, world_size, optimizer=ADAMW, **case):
    """Three steps, one of them of two micro-batches, in several buckets."""
    return run_train(observe, world_size, "zero1", THREE, bucket_bytes=SMALL_BUCKETS, **optimizer, **case)


@pytest.mark.law("zero1.step_equals_one_process")
@pytest.mark.parametrize(
    ("world_size", "optimizer", "transport"), [(1, SGD, "wire"), (2, ADAMW, "gloo"), (3, SGD, "wire"), (4, ADAMW, "wire")]
)
def test_sharded_steps_equal_one_process(observe, world_size, optimizer, transport):
    """Parameters of prime sizes, on two ranks one of another dtype; SGD with momentum and AdamW."""
    how = {} if transport == "wire" else {"transport": transport, "in_float32": ("layers.1.weight",)}
    seen = zero1(observe, world_size, optimizer, **how)
    values.judge_training(seen)
    values.judge_equal_replicas(seen)


@pytest.mark.law("zero1.state_is_sharded")
def test_there_is_room_for_a_part_of_the_state(observe):
    """AdamW's moments of an 8th of the elements."""
    memory.judge_room(memory.run_zero1(observe, 8))


@pytest.mark.law("zero1.travels_twice")
@pytest.mark.parametrize(("world_size", "optimizer"), [(3, SGD), (4, ADAMW)])
def test_a_sharded_step_sends_two_volumes(observe, world_size, optimizer):
    """Gradients once, and parameters once, also after two micro-batches."""
    seen = zero1(observe, world_size, optimizer)
    for number, last in ((0, 0), (1, 1)):
        phases = [f"step {number}", *(f"backward {number}/{micro_batch}" for micro_batch in range(last + 1))]
        travel.judge_volume(seen, phases, SIZES, gathers=(1, 1), reductions=1, what=f"step {number + 1}", padded=2)


GROUPS = [
    {"names": ["first", "layers.0.weight"], "settings": {"lr": 0.2, "weight_decay": 0.3}},
    {"names": ["layers.0.bias", "layers.1.single", "layers.1.weight"]},
    {"names": ["layers.2.weight", "last"], "settings": {"lr": 0.01}, "late": True},
]


@pytest.mark.law("zero1.settings_follow_their_groups")
def test_groups_keep_their_settings(observe):
    """Two groups, and one that is added after the first step."""
    values.judge_training(run_train(observe, 2, "zero1", [{}, {"add": 2}, {}], groups=GROUPS, bucket_bytes=SMALL_BUCKETS, **ADAMW))


@pytest.mark.law("zero1.schedulers_are_seen")
def test_schedulers_are_seen(observe):
    """A scheduler halves lr after each step; weight decay is written by hand."""
    steps = [{"decay": True}, {"decay": True}, {"write": {"0": {"weight_decay": 0.5}}}]
    seen = run_train(observe, 2, "zero1", steps, **ADAMW)
    values.judge_training(seen)
    values.judge_filled_in(seen, ["lr", "betas", "eps", "weight_decay"])


@pytest.mark.law("zero1.fewer_elements_than_ranks")
def test_ranks_may_own_nothing(observe):
    """Four ranks, three elements, each in a bucket of its own."""
    few = {"first": (2,), "layers.0.weight": (1,)}
    seen = run_train(observe, 4, "zero1", [{}, {}], shapes=few, bucket_bytes=8, **SGD)
    values.judge_training(seen)


@pytest.mark.law("zero1.missing_gradients_count_as_zeros")
def test_missing_gradients_count_as_zeros(observe):
    """A parameter that rank 0 doesn't use, one that nobody uses, and one that is frozen."""
    steps = [{}, {"unused": {"0": ["layers.0.weight", "last"], "1": ["last"]}}, {}]
    values.judge_training(run_train(observe, 2, "zero1", steps, frozen=["layers.0.bias"], bucket_bytes=SMALL_BUCKETS, **ADAMW))


@pytest.mark.law("zero1.closure_is_called_once")
def test_the_closure_is_called_once(observe):
    """The second step's gradients exist only inside the closure."""
    values.judge_closure(run_train(observe, 2, "zero1", [{}, {"closure": True}], **SGD))


@pytest.mark.law("zero1.subgroups_use_their_own_ranks")
def test_a_subgroup_shards_among_its_own(observe):
    """Ranks 1 and 2 of three."""
    seen = run_train(observe, 3, "zero1", [{}, {}], members=[1, 2], **SGD)
    values.judge_training(seen)
    travel.judge_group(seen)


@pytest.mark.law("zero1.holds_at_scale")
@pytest.mark.parametrize("num_ranks", [4, 1024])
def test_the_sharded_optimizer_holds_at_scale(observe, num_ranks):
    """One rank of many, and one of so few that an N-th is seen beside the whole."""
    memory.judge_scale(memory.run_scale(observe, "zero1", num_ranks))


# --- zero2 -----------------------------------------------------------------------------------------------------------
UNUSED = [{}, {"micro_batches": 2, "unused": {"0": ["layers.1.weight"], "1": ["layers.1.weight", "first"]}}, {}]


def zero2(observe, world_size, **case):
    """Three steps, one of two micro-batches in which parameters are not used."""
    return run_train(observe, world_size, "zero2", UNUSED, bucket_bytes=SMALL_BUCKETS, **ADAMW, **case)


@pytest.mark.law("zero2.step_equals_one_process")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "gloo"), (3, "wire")])
def test_sharded_gradients_make_the_steps_of_one_process(observe, world_size, transport):
    """Micro-batches that add up, and parameters that some ranks, or all, don't use."""
    seen = zero2(observe, world_size, transport=transport)
    values.judge_training(seen)
    values.judge_equal_replicas(seen)


@pytest.mark.law("zero2.gradients_are_dropped_during_backward")
def test_there_is_no_room_for_all_gradients(observe):
    """Six layers of a bucket each: room for three buckets of whole gradients."""
    memory.judge_room(memory.run_zero2(observe, 8))


@pytest.mark.law("zero2.each_gradient_is_reduced_once")
def test_each_backward_reduces_each_gradient_once(observe):
    """In each of two micro-batches, and not again in the step."""
    seen = zero2(observe, 3)
    for phase in ("backward 1/0", "backward 1/1"):
        travel.judge_volume(seen, [phase], SIZES, gathers=(0, 0), reductions=1, what=phase, padded=1)
    travel.judge_volume(seen, ["step 1"], SIZES, gathers=(1, 1), reductions=0, what="step()", padded=1)


@pytest.mark.law("zero2.buckets_leave_while_backward_runs")
@pytest.mark.parametrize("layers_per_bucket", [1, 2])
def test_sharded_buckets_leave_while_backward_runs(observe, layers_per_bucket):
    """Six equal layers, one or two of them in a bucket."""
    layer_bytes = 4 * 64
    bucket_bytes = layers_per_bucket * layer_bytes
    seen = run_ordered(observe, 2, "zero2", num_layers=6, elements=64, bucket_bytes=bucket_bytes)
    travel.judge_departures(seen, layer_bytes=layer_bytes, bucket_bytes=bucket_bytes)


@pytest.mark.law("zero2.waits_before_it_returns")
def test_sharded_gradients_are_waited_for(observe):
    """Results land when they are waited for, and no sooner."""
    values.judge_training(zero2(observe, 2, late=True))


# --- fsdp ------------------------------------------------------------------------------------------------------------
NOBODYS = {str(rank): ["layers.0.bias"] for rank in range(4)}  # in the second step no rank uses it


def sharded(observe, world_size, **case):
    """Two steps of plain SGD with lr 1: what a weight loses is its mean gradient. The second has two micro-batches."""
    return run_train(observe, world_size, "fsdp", [{}, {"micro_batches": 2, "unused": NOBODYS}], **PLAIN_SGD, **case)


@pytest.mark.law("fsdp.gradients_equal_the_whole_batch")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "gloo"), (3, "wire"), (4, "wire")])
def test_sharded_gradients_equal_the_whole_batch(observe, world_size, transport):
    """Layers of prime sizes; gradients depend on the weights, whole in backward too."""
    values.judge_training(sharded(observe, world_size, **({} if transport == "wire" else {"transport": transport})))


@pytest.mark.law("fsdp.gradients_equal_the_whole_batch")
@pytest.mark.parametrize(("reshard", "prefetch"), [(True, 2), (False, 1)])
def test_settings_change_no_gradient(observe, reshard, prefetch):
    """Prefetch 2, and without resharding after forward."""
    values.judge_training(sharded(observe, 2, reshard_after_forward=reshard, prefetch=prefetch))


@pytest.mark.law("fsdp.gradients_equal_the_whole_batch")
def test_units_may_have_fewer_elements_than_ranks(observe):
    """Three ranks, units of one and of two elements."""
    few = {"first": (3,), "layers.0.weight": (1,), "layers.1.weight": (2,)}
    values.judge_training(run_train(observe, 3, "fsdp", [{}, {}], shapes=few, **PLAIN_SGD))


@pytest.mark.law("fsdp.trains_like_one_process")
@pytest.mark.parametrize("optimizer", [SGD, ADAMW])
def test_fully_sharded_steps_equal_one_process(observe, optimizer):
    """Two groups with settings of their own, a scheduler, and a forward without backward before each step."""
    groups = [GROUPS[0], {"names": [name for name in ODD if name not in GROUPS[0]["names"]]}]
    values.judge_training(run_train(observe, 2, "fsdp", [{"decay": True, "idle": True}] * 3, groups=groups, **optimizer))


@pytest.mark.law("fsdp.shards_the_weights")
def test_there_is_no_room_for_a_copy_of_the_weights(observe):
    """One rank of 8: after the constructor, forward, backward and a step, an 8th is held."""
    memory.judge_room(memory.run_fsdp(observe, 8, ("constructed", "after forward", "after backward", "after step", "after evaluation")))


@pytest.mark.law("fsdp.one_unit_at_a_time")
@pytest.mark.parametrize("prefetch", [0, 1])
def test_one_unit_at_a_time(observe, prefetch):
    """As each of five units begins, forward and backward, there is room for it and for `prefetch` others."""
    memory.judge_room(memory.run_fsdp(observe, 8, ("forward", "backward"), prefetch=prefetch))


@pytest.mark.law("fsdp.travels_three_times")
@pytest.mark.parametrize(("world_size", "reshard"), [(3, True), (4, True), (2, False)])
def test_a_fully_sharded_step_sends_three_volumes(observe, world_size, reshard):
    """Units three times, or twice where they stay gathered; the root two or three times."""
    seen = sharded(observe, world_size) if reshard else sharded(observe, world_size, reshard_after_forward=False, prefetch=1)
    root = IN_NO_UNIT / sum(SIZES)
    most = 2 if reshard else 1 + root
    least = 2 - root if reshard else 1
    travel.judge_volume(seen, ["backward 0/0", "step 0"], SIZES, gathers=(least, most), reductions=1, padded=3)


@pytest.mark.law("fsdp.prefetch_hides_the_gathers")
@pytest.mark.parametrize(("world_size", "prefetch"), [(2, 1), (3, 2)])
def test_prefetch_hides_the_gathers(observe, world_size, prefetch):
    """Five units of 2 + 4 s, whose gathers and reductions take 1.5 s each."""
    seen = run_ordered(observe, world_size, "fsdp", num_layers=5, elements=66, forward_s=2.0, backward_s=4.0, prefetch=prefetch)
    travel.judge_overlap(seen, gather_s=1.5, layer_bytes=66 * 4)


def low_precision(observe, reduce_dtype):
    """Steps of a bfloat16 module that are too small for bfloat16 masters."""
    num_ranks = {"float32": 3, "bfloat16": 2}[reduce_dtype]  # three: so that means have more bits than bfloat16
    return run_precision(observe, num_ranks, num_steps=4, lr=2.0**-9, compute_dtype="bfloat16", reduce_dtype=reduce_dtype)


@pytest.mark.law("fsdp.dtypes_travel_as_configured")
@pytest.mark.parametrize("reduce_dtype", ["float32", "bfloat16"])
def test_dtypes_travel_as_configured(observe, reduce_dtype):
    """Weights in bfloat16, gradients in float32 or bfloat16."""
    travel.judge_dtypes(low_precision(observe, reduce_dtype), "step 1", gathers="bfloat16", reductions=reduce_dtype)


@pytest.mark.law("fsdp.masters_keep_their_precision")
def test_masters_keep_their_precision(observe):
    """Four steps of 1/512 of the weights: bfloat16 masters would hardly move."""
    seen = low_precision(observe, "float32")
    values.judge_dtypes(seen)
    values.judge_masters(seen, lr=2.0**-9)


@pytest.mark.law("fsdp.shared_and_frozen_weights")
def test_shared_and_frozen_weights(observe):
    """A weight of layer 0 that stands in layer 2 too, one of the root that stands in layer 1, and a frozen one."""
    shared = {"layers.2.tied": "layers.0.weight", "layers.1.tied": "first"}
    seen = run_train(observe, 2, "fsdp", [{}, {}], shared=shared, frozen=["layers.1.weight"], **SGD)
    values.judge_training(seen)


@pytest.mark.law("fsdp.waits_for_what_it_gathers")
def test_gathers_and_reductions_are_waited_for(observe):
    """Results land when they are waited for, and no sooner."""
    values.judge_training(sharded(observe, 2, late=True))


@pytest.mark.law("fsdp.holds_at_scale")
@pytest.mark.parametrize("num_ranks", [4, 1024])
def test_fully_sharded_holds_at_scale(observe, num_ranks):
    """One rank of many, and one of so few that an N-th is seen beside the whole."""
    memory.judge_scale(memory.run_scale(observe, "fsdp", num_ranks))


# --- clip ------------------------------------------------------------------------------------------------------------
UNEVEN = [[5, 3], [7, 0], [0, 1]]


@pytest.mark.law("clip.norm_is_the_whole_gradients")
@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1.0), ("float32", 2e19), ("bfloat16", 1.0)])
def test_the_norm_is_that_of_all_ranks_together(observe, dtype, scale):
    """Uneven and empty tensors; also numbers whose squares float32 can't hold."""
    values.judge_norm(run_clip(observe, UNEVEN, max_norm=1.0, dtype=dtype, scale=scale))


@pytest.mark.law("clip.all_are_scaled_alike")
@pytest.mark.parametrize(("dtype", "max_norm"), [("float32", 1.0), ("float32", 100.0), ("bfloat16", 1.0)])
def test_all_are_scaled_alike(observe, dtype, max_norm):
    """Clipped, and left alone where the norm is small enough."""
    values.judge_scaling(run_clip(observe, UNEVEN, max_norm=max_norm, dtype=dtype))


@pytest.mark.law("clip.one_number_travels")
def test_one_number_travels(observe):
    """One call, of at most 8 bytes."""
    travel.judge_one_number(run_clip(observe, UNEVEN, max_norm=1.0))


@pytest.mark.law("clip.steps_are_clipped")
@pytest.mark.parametrize("stage", ["zero1", "zero2", "fsdp"])
def test_steps_are_clipped(observe, stage):
    """Clipped, not clipped, clipped."""
    how = {"prefetch": 0} if stage == "fsdp" else {}
    seen = run_train(observe, 2, stage, [{"clip": 0.5}, {"clip": 1e6}, {"clip": 0.5}], **how, **SGD)
    values.judge_training(seen)
    values.judge_reported_norms(seen)


# --- whole -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("whole.is_what_one_process_has")
@pytest.mark.parametrize(("world_size", "optimizer"), [(1, "SGD"), (3, "AdamW")])
def test_the_state_dict_is_what_one_process_has(observe, world_size, optimizer):
    """After two steps, and read only after a third."""
    checkpoints.judge_trained_state(checkpoints.run_trained_state(observe, world_size, optimizer=optimizer, num_steps=2))


@pytest.mark.law("whole.loads_into_any_world")
@pytest.mark.parametrize(("savers", "loaders"), [([0, 1, 2], [0, 1]), ([1], [0, 1])])
def test_a_state_dict_loads_into_any_world(observe, savers, loaders):
    """From three ranks to two, from one to two; then one step more."""
    checkpoints.judge_moved(checkpoints.run_moved(observe, "whole", savers=savers, loaders=loaders))


@pytest.mark.law("whole.loads_into_any_world")
def test_a_state_dict_without_moments_takes_the_first_step_back(observe):
    """Two ranks load what they had before their first step with momentum, and make it again."""
    checkpoints.judge_taken_back(observe, "whole", 2)


# --- pieces ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("pieces.loads_into_any_world")
def test_pieces_load_into_any_world(observe):
    """From three ranks to two; then one step more."""
    checkpoints.judge_moved(checkpoints.run_moved(observe, "pieces", savers=[0, 1, 2], loaders=[0, 1]))


@pytest.mark.law("pieces.loads_into_any_world")
def test_pieces_of_many_ranks_load_into_one(observe):
    """Twelve ranks save, and one loads."""
    checkpoints.judge_many_savers(checkpoints.run_many_savers(observe, 12))


@pytest.mark.law("pieces.loads_into_any_world")
def test_pieces_without_moments_take_the_first_step_back(observe):
    """Two ranks load what they had before their first step with momentum, and make it again."""
    checkpoints.judge_taken_back(observe, "pieces", 2)


@pytest.mark.law("pieces.earlier_one_stands")
def test_the_earlier_checkpoint_stands(observe):
    """Each of two ranks is killed at each thing that a save does to the disk."""
    checkpoints.judge_killed(checkpoints.run_killed(observe, 2, [0, 1]))


@pytest.mark.law("pieces.nothing_is_gathered")
def test_nothing_is_gathered_to_save(observe):
    """Nothing but barriers while three ranks save."""
    seen = checkpoints.run_moved(observe, "pieces", savers=[0, 1, 2], loaders=[0, 1])
    travel.judge_silence(seen, "save", [0, 1, 2])
