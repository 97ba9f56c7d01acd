"""Public cases of the laws of `data_parallel`. What each law means stands in tests/laws/data_parallel/.

Equal requests share one run: laws that can look at the same run ask for it through the same function here.
"""

from __future__ import annotations

import pytest

from tests.laws.data_parallel import buckets, overlap, sharding, travel, values
from tests.laws.data_parallel.runs import FLOATS, run_broadcast, run_chain, run_loss_scale, run_reduce, run_train

WIRE_PHASE = "step 1"  # the second step: some implementations learn the order of the gradients in the first


# --- sharding --------------------------------------------------------------------------------------------------------
ORDERS = [
    {"num_samples": 60, "world_size": 1, "shuffle": False},
    {"num_samples": 60, "world_size": 4, "shuffle": False},
    {"num_samples": 61, "world_size": 3, "shuffle": False},
    {"num_samples": 61, "world_size": 2, "shuffle": False, "drop_last": True},
    *[{"num_samples": 101, "world_size": n, "epoch": epoch, "seed": 3} for n in (2, 3, 4) for epoch in (0, 1, 2)],
    {"num_samples": 101, "world_size": 2, "epoch": 0, "seed": 4},
    {"num_samples": 101, "world_size": 4, "epoch": 0, "seed": 3, "drop_last": True},
    {"num_samples": 101, "world_size": 2, "epoch": 1, "seed": 3},
]
SCARCE = [
    {"num_samples": s, "world_size": n, "drop_last": drop} for s, n in ((0, 2), (1, 4), (3, 4), (4, 4), (5, 4)) for drop in (False, True)
]


@pytest.mark.law("sharding.every_sample_is_read")
def test_every_sample_is_read(observe):
    """All samples, each once before the order begins anew."""
    sharding.judge_coverage(sharding.run_shards(observe, ORDERS))


@pytest.mark.law("sharding.ranks_read_equally_many")
@pytest.mark.parametrize("cases", [ORDERS, SCARCE], ids=["plenty", "scarce"])
def test_ranks_read_equally_many(observe, cases):
    """ceil(S/N) samples each, with drop_last floor(S/N), also where there are fewer samples than ranks, or none."""
    sharding.judge_counts(sharding.run_shards(observe, cases))


@pytest.mark.law("sharding.order_follows_seed_and_epoch")
def test_the_order_follows_seed_and_epoch(observe):
    """The same for the same seed and epoch, another for others; plain where it isn't shuffled."""
    sharding.judge_shuffling(sharding.run_shards(observe, ORDERS))


@pytest.mark.law("sharding.order_is_the_same_for_every_world_size")
@pytest.mark.parametrize("cases", [ORDERS, SCARCE], ids=["plenty", "scarce"])
def test_the_order_is_the_same_for_every_world_size(observe, cases):
    """Read round-robin, all worlds read one order, which goes on with its own beginning."""
    sharding.judge_one_order(sharding.run_shards(observe, cases))


@pytest.mark.law("sharding.leaves_the_global_generator_alone")
def test_sharding_leaves_the_global_generator_alone(observe):
    """Torch's global random state is as it was."""
    sharding.judge_generator(sharding.run_shards(observe, ORDERS))


# --- per_parameter and flat ------------------------------------------------------------------------------------------
SOME = {"matrix": ("float32", (7, 5)), "row": ("float32", (11,)), "single": ("float32", ()), "cube": ("float32", (2, 3, 4))}
ALIKE = {"first": ("float32", (6,)), "second": ("float32", (6,)), "third": ("float32", (6,)), "fourth": ("float32", (6,))}
MIXED = {f"{dtype}_{n}": (dtype, (n, 3)) for n in (4, 5) for dtype in ("float32", "bfloat16")}
EACH_DTYPE = {dtype: (dtype, (13,)) for dtype in FLOATS}
MATRICES = {"matrix": ("float32", (6, 4)), "tall": ("float32", (10, 1)), "short": ("float32", (2, 9))}
MISSING = {"first": [0], "second": [1, 2], "fourth": [0, 1, 2]}
PER_PARAMETER, FLAT = "all_reduce_gradients", "flat_all_reduce_gradients"


def mixed(observe, function):
    """Two dtypes, parameters in turn, one of them frozen."""
    return run_reduce(observe, 3, MIXED, function=function, frozen=["float32_5"])


@pytest.mark.law("per_parameter.gradients_are_averaged")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "gloo"), (3, "wire"), (4, "wire")])
def test_all_reduce_gradients_averages(observe, world_size, transport):
    """Every gradient becomes the mean: of several shapes, and in float64, float32, float16 and bfloat16."""
    values.judge_means(run_reduce(observe, world_size, SOME | EACH_DTYPE, function=PER_PARAMETER, transport=transport))


@pytest.mark.law("per_parameter.each_gradient_travels_once")
def test_all_reduce_gradients_sends_each_gradient_once(observe):
    """The bytes of the trained gradients, each in its own dtype."""
    travel.judge_volume(mixed(observe, PER_PARAMETER), "reduce", travel.by_dtype(MIXED, ["float32_5"]), num_parameters=len(MIXED))


@pytest.mark.law("per_parameter.missing_gradients_count_as_zeros")
def test_all_reduce_gradients_counts_missing_gradients_as_zeros(observe):
    """Gradients that some ranks lack, others have, or nobody has."""
    values.judge_means(run_reduce(observe, 3, ALIKE, function=PER_PARAMETER, missing=MISSING))


@pytest.mark.law("per_parameter.frozen_parameters_stay_out")
def test_all_reduce_gradients_leaves_frozen_parameters_alone(observe):
    """What stands in their grad stays, and doesn't travel."""
    seen = mixed(observe, PER_PARAMETER)
    values.judge_means(seen)
    travel.judge_volume(seen, "reduce", travel.by_dtype(MIXED, ["float32_5"]), num_parameters=len(MIXED))


@pytest.mark.law("per_parameter.any_layout")
@pytest.mark.parametrize("layout", ["transposed", "every_second"])
def test_all_reduce_gradients_takes_any_layout(observe, layout):
    """Gradients that are transposed, or every second row of something."""
    seen = run_reduce(observe, 2, MATRICES, function=PER_PARAMETER, layout=layout)
    values.judge_means(seen)
    travel.judge_contiguity(seen, "reduce")


@pytest.mark.law("flat.gradients_are_averaged")
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_flat_all_reduce_averages(observe, world_size):
    """Every gradient becomes the mean, in its own place."""
    values.judge_means(run_reduce(observe, world_size, SOME, function=FLAT))


@pytest.mark.law("flat.gradients_are_averaged")
@pytest.mark.parametrize("layout", ["transposed", "every_second"])
def test_flat_all_reduce_takes_any_layout(observe, layout):
    """Gradients that are transposed, or every second row of something."""
    values.judge_means(run_reduce(observe, 2, MATRICES, function=FLAT, layout=layout))


@pytest.mark.law("flat.takes_the_rounds_of_one_all_reduce")
@pytest.mark.parametrize("world_size", [2, 4])
def test_flat_all_reduce_takes_the_rounds_of_one(observe, world_size):
    """2(N-1) latencies for four gradients."""
    seen = run_reduce(observe, world_size, SOME, function=FLAT)
    travel.judge_latencies(seen, "reduce", num_dtypes=1)


@pytest.mark.law("flat.missing_gradients_count_as_zeros")
def test_flat_all_reduce_counts_missing_gradients_as_zeros(observe):
    """A gradient that is missing keeps its place; one of a frozen parameter has none."""
    values.judge_means(run_reduce(observe, 3, ALIKE, function=FLAT, missing=MISSING, frozen=["third"]))


@pytest.mark.law("flat.dtypes_do_not_mix")
def test_flat_all_reduce_keeps_dtypes_apart(observe):
    """float32 and bfloat16 gradients: each byte once, in at most the rounds of two, with each dtype's precision."""
    seen = mixed(observe, FLAT)
    values.judge_means(seen)
    travel.judge_volume(seen, "reduce", travel.by_dtype(MIXED, ["float32_5"]), num_parameters=len(MIXED))
    travel.judge_latencies(seen, "reduce", num_dtypes=2)


# --- replicas --------------------------------------------------------------------------------------------------------
WEIGHTS = {"weight": ("float32", (5, 3)), "frozen": ("float32", (4,)), "thin": ("bfloat16", (2, 3)), "single": ("float32", ())}
BUFFERS = {
    "norm.mean": ("float32", (3,)),
    "count": ("int64", ()),
    "mask": ("bool", (2, 5)),
    "cache": ("float16", (3,)),
    "empty": ("float32", (0,)),
}
STATE = {"frozen": ["frozen"], "fleeting": ["cache"]}


@pytest.mark.law("replicas.parameters_equal_rank_zero")
@pytest.mark.parametrize(("world_size", "layout"), [(1, "plain"), (2, "transposed"), (4, "plain")])
def test_parameters_become_those_of_rank_zero(observe, world_size, layout):
    """Trained and frozen, of two dtypes, also transposed ones, which travel as contiguous copies."""
    seen = run_broadcast(observe, world_size, WEIGHTS, BUFFERS, layout=layout, **STATE)
    values.judge_state(seen, "value")
    travel.judge_contiguity(seen, "")


@pytest.mark.law("replicas.buffers_equal_rank_zero")
@pytest.mark.parametrize(("world_size", "layout"), [(2, "transposed"), (4, "plain")])
def test_buffers_become_those_of_rank_zero(observe, world_size, layout):
    """Floats, an integer, truth values, one that the state dict leaves out, an empty one."""
    values.judge_state(run_broadcast(observe, world_size, WEIGHTS, BUFFERS, layout=layout, **STATE), "buffer")


@pytest.mark.law("replicas.source_is_rank_zero_of_the_group")
def test_the_source_is_rank_zero_of_the_group(observe):
    """In the group of ranks 1 and 2, rank 1; rank 0 takes no part."""
    seen = run_broadcast(observe, 3, WEIGHTS, BUFFERS, members=[1, 2], **STATE)
    values.judge_state(seen, "value")
    values.judge_state(seen, "buffer")


# --- buckets ---------------------------------------------------------------------------------------------------------
def parameters(sizes, dtype="float32", frozen=()):
    """Parameters of so many elements each."""
    return [[dtype, [size], number not in frozen] for number, size in enumerate(sizes)]


TEN = parameters([16] * 10)
CASES = [
    {"parameters": TEN, "bucket_bytes": 192},
    {"parameters": TEN, "bucket_bytes": 1},
    {"parameters": TEN, "bucket_bytes": 10**9},
    {"parameters": parameters([7, 30, 2, 2, 2, 50, 1, 9, 9, 3], frozen=[1, 8]), "bucket_bytes": 100},
    {"parameters": [[("float32", "bfloat16")[n % 3 == 1], [5, 3], n != 4] for n in range(11)], "bucket_bytes": 130},
    {"parameters": [["float32", [4], True], *parameters([40] * 5, "bfloat16"), ["float32", [4], True]], "bucket_bytes": 160},
    {"parameters": [[("float16", "bfloat16")[n % 2], [n + 1], True] for n in range(8)], "bucket_bytes": 40},
    {"parameters": parameters([3, 3], frozen=[0, 1]), "bucket_bytes": 100},
]


@pytest.mark.law("buckets.every_trainable_parameter_is_in_one_bucket")
def test_every_trainable_parameter_is_in_one_bucket(observe):
    """Frozen ones in none, and no bucket empty."""
    buckets.judge_membership(buckets.run_buckets(observe, CASES))


@pytest.mark.law("buckets.last_parameters_leave_first")
def test_last_parameters_leave_first(observe):
    """The reverse of the order given; buckets by their last parameters."""
    buckets.judge_order(buckets.run_buckets(observe, CASES))


@pytest.mark.law("buckets.sizes_follow_the_cap")
def test_bucket_sizes_follow_the_cap(observe):
    """Neither fuller than the cap allows, nor emptier than it asks."""
    buckets.judge_sizes(buckets.run_buckets(observe, CASES))


@pytest.mark.law("buckets.dtypes_do_not_mix")
def test_buckets_hold_one_dtype(observe):
    """float32 and bfloat16 parameters in turn share no bucket."""
    buckets.judge_pure_dtypes(buckets.run_buckets(observe, CASES))


# --- overlapped ------------------------------------------------------------------------------------------------------
LAYERS = {"first": ("float32", (7, 5)), "second": ("float32", (5,)), "third": ("float32", (4, 6)), "fourth": ("float32", (3, 3))}
TWO_STEPS = [{}, {}]
CAP = 100
EQUAL_ROWS = [3] * 6


def plain_steps(observe, world_size):
    """Two steps of a plain module, in several buckets."""
    return run_train(observe, world_size, LAYERS, TWO_STEPS, bucket_bytes=CAP)


def entangled_steps(observe, **case):
    """A frozen parameter, and one that is used under two names."""
    shared = {"head": "first"}
    return run_train(observe, 3, LAYERS, TWO_STEPS, bucket_bytes=CAP, frozen=["third"], shared=shared, **case)


@pytest.mark.law("overlapped.gradients_equal_the_whole_batch")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "wire"), (3, "wire"), (4, "wire"), (2, "gloo")])
def test_gradients_equal_the_whole_batch(observe, world_size, transport):
    """A chain of linear layers whose shapes nothing divides; each rank has its part of the batch and weights of its own at first."""
    values.judge_chain(run_chain(observe, world_size, [7, 5, 3, 6, 2], bucket_bytes=CAP, transport=transport))


@pytest.mark.law("overlapped.replicas_start_equal")
def test_the_constructor_makes_replicas_equal(observe):
    """Parameters and buffers are rank 0's."""
    seen = run_train(observe, 3, WEIGHTS, [], bucket_bytes=CAP, buffers=BUFFERS, **STATE)
    values.judge_state(seen, "value")
    values.judge_state(seen, "buffer")


@pytest.mark.law("overlapped.each_gradient_travels_once")
@pytest.mark.parametrize("world_size", [2, 4])
def test_each_gradient_travels_once_per_step(observe, world_size):
    """The gradients' bytes, once, in each of two steps."""
    seen = plain_steps(observe, world_size)
    for phase in ("step 0", WIRE_PHASE):
        travel.judge_volume(seen, phase, travel.by_dtype(LAYERS), num_parameters=len(LAYERS))


@pytest.mark.law("overlapped.buckets_follow_the_cap")
@pytest.mark.parametrize("bucket_bytes", [1, CAP, 10**6])
def test_what_travels_follows_the_cap(observe, bucket_bytes):
    """As many buckets as the cap says: one for each, some, one for all."""
    seen = run_train(observe, 2, LAYERS, TWO_STEPS, bucket_bytes=bucket_bytes)
    travel.judge_wire_buckets(seen, WIRE_PHASE, LAYERS, bucket_bytes)


@pytest.mark.law("overlapped.buckets_leave_while_backward_runs")
@pytest.mark.parametrize(("world_size", "rows", "rows_per_bucket"), [(2, EQUAL_ROWS, 3), (3, EQUAL_ROWS, 6)])
def test_buckets_leave_while_backward_runs(observe, world_size, rows, rows_per_bucket):
    """One layer per bucket, and two: every bucket but the last leaves before backward can go on."""
    overlap.judge_passage(overlap.run_gated(observe, world_size, rows, rows_per_bucket=rows_per_bucket, hold=False))


@pytest.mark.law("overlapped.never_waits_inside_backward")
def test_no_bucket_is_waited_for_inside_backward(observe):
    """No bucket is answered before all ranks' backward has come to its last gate."""
    overlap.judge_passage(overlap.run_gated(observe, 3, EQUAL_ROWS, rows_per_bucket=3, hold=True))


@pytest.mark.law("overlapped.step_takes_the_time_of_overlap")
@pytest.mark.parametrize("bucket_s", [1.0, 3.0])
def test_a_step_takes_the_time_of_overlap(observe, bucket_s):
    """Six layers of 1 + 2 s: 19 s where a bucket takes 1 s on the network, 26 s where it takes 3."""
    overlap.judge_step_time(overlap.run_timed(observe, 2, [16] * 6, rows_per_bucket=16), bucket_s=bucket_s)


@pytest.mark.law("overlapped.waits_before_it_returns")
def test_finish_waits_for_every_bucket(observe):
    """Results land when they are waited for and no sooner."""
    values.judge_steps(run_train(observe, 2, LAYERS, TWO_STEPS, bucket_bytes=CAP, late=True))


UNUSED = [
    {"unused": {"0": {"0": ["fourth"], "1": ["first", "third"]}}},
    {"unused": {"0": {"0": ["second", "fourth"], "2": ["first", "second", "third", "fourth"]}}},
    {"unused": {"0": {"0": ["third"], "1": ["third"], "2": ["third"]}}},
    {},
]


@pytest.mark.law("overlapped.unused_parameters_count_as_zeros")
@pytest.mark.parametrize("bucket_bytes", [1, CAP])
def test_unused_parameters_count_as_zeros(observe, bucket_bytes):
    """Steps in which ranks use different parameters, one rank none, all but one; then one that uses all."""
    values.judge_steps(run_train(observe, 3, LAYERS, UNUSED, bucket_bytes=bucket_bytes))


@pytest.mark.law("overlapped.frozen_stay_out_and_shared_travel_once")
def test_frozen_stay_out_and_shared_travel_once(observe):
    """The gradients of both uses are in the mean, the bytes travel once, a frozen parameter's not at all."""
    seen = entangled_steps(observe)
    values.judge_steps(seen)
    travel.judge_volume(seen, WIRE_PHASE, travel.by_dtype(LAYERS, ["third"]), num_parameters=len(LAYERS))


@pytest.mark.law("overlapped.works_step_after_step")
def test_steps_in_a_row_are_right(observe):
    """Gradients are set to None, to zero, and kept."""
    steps = [{}, {"between": "zero"}, {"between": "none"}, {"between": "keep"}, {"between": "zero"}]
    values.judge_steps(run_train(observe, 2, LAYERS, steps, bucket_bytes=CAP))


TYPED = {
    "first": ("bfloat16", (5, 7)),
    "second": ("float32", (9,)),
    "third": ("bfloat16", (4, 4)),
    "fourth": ("float64", (3,)),
    "fifth": ("bfloat16", (6,)),
}


@pytest.mark.law("overlapped.gradients_keep_their_dtype")
def test_gradients_keep_their_dtype(observe):
    """bfloat16, float32 and float64 parameters in turn: each mean in its own dtype, each byte once."""
    seen = run_train(observe, 2, TYPED, TWO_STEPS, bucket_bytes=CAP)
    values.judge_steps(seen)
    travel.judge_volume(seen, WIRE_PHASE, travel.by_dtype(TYPED), num_parameters=len(TYPED))
    travel.judge_wire_buckets(seen, WIRE_PHASE, TYPED, CAP)


@pytest.mark.law("overlapped.any_layout")
@pytest.mark.parametrize("layout", ["transposed", "every_second"])
def test_parameters_of_any_layout_are_averaged(observe, layout):
    """Parameters, and so gradients, that are transposed or every second row of something."""
    seen = run_train(observe, 2, MATRICES, TWO_STEPS, bucket_bytes=CAP, layout=layout)
    values.judge_steps(seen)
    for phase in ("construct", WIRE_PHASE):
        travel.judge_contiguity(seen, phase)


@pytest.mark.law("overlapped.subgroups_use_their_own_ranks")
def test_a_subgroup_uses_its_own_ranks(observe):
    """Ranks 1 and 2 of three: their mean, and only through their group."""
    seen = run_train(observe, 3, LAYERS, TWO_STEPS, bucket_bytes=CAP, members=[1, 2])
    values.judge_state(seen, "value")
    values.judge_steps(seen)
    for phase in ("construct", WIRE_PHASE):
        travel.judge_group(seen, phase)


# --- accumulation ----------------------------------------------------------------------------------------------------
ACCUMULATED = [
    {"micro_batches": 3, "unused": {"2": {"0": ["second", "fourth"], "1": ["first"]}}},
    {"micro_batches": 2},
]


def accumulated(observe):
    """Two steps of several micro-batches; a parameter may be used in the first one only."""
    return run_train(observe, 2, LAYERS, ACCUMULATED, bucket_bytes=CAP)


@pytest.mark.law("accumulation.no_sync_sends_nothing")
def test_no_sync_sends_nothing(observe):
    """Inside no_sync nothing travels; the last micro-batch sends every gradient once."""
    seen = accumulated(observe)
    for number in range(len(ACCUMULATED)):
        travel.judge_silence(seen, f"step {number} no_sync")
        travel.judge_volume(seen, f"step {number}", travel.by_dtype(LAYERS), num_parameters=len(LAYERS))


@pytest.mark.law("accumulation.accumulated_gradients_are_averaged_once")
def test_accumulated_gradients_are_averaged_once(observe):
    """The mean of all that each rank has accumulated, also where the last micro-batch didn't use a parameter."""
    values.judge_steps(accumulated(observe))


@pytest.mark.law("accumulation.no_sync_ends_with_its_block")
def test_no_sync_ends_with_its_block(observe):
    """Also by an exception; and an inner no_sync doesn't end the outer one."""
    steps = [{"micro_batches": 2, "nested": True}, {"micro_batches": 2, "interrupted": 0}, {}]
    seen = run_train(observe, 2, LAYERS, steps, bucket_bytes=CAP)
    values.judge_steps(seen)
    values.judge_interruption(seen)
    travel.judge_silence(seen, "step 0 no_sync")


@pytest.mark.law("accumulation.every_token_weighs_the_same")
@pytest.mark.parametrize("rows", [[[1, 2], [4, 3]], [[2, 2], [0, 5], [1, 0]]], ids=["two_ranks", "three_ranks"])
def test_every_token_weighs_the_same(observe, rows):
    """Ranks and micro-batches with different numbers of rows, also none."""
    values.judge_chain(run_chain(observe, len(rows), [5, 3, 4], bucket_bytes=CAP, rows=rows))


@pytest.mark.law("accumulation.counts_are_exact")
@pytest.mark.parametrize("num_tokens", [[2**24, 1, 0], [7]], ids=["many", "alone"])
def test_token_counts_are_exact(observe, num_tokens):
    """Beyond what a float32 can count, and on a single rank."""
    values.judge_loss_scale(run_loss_scale(observe, num_tokens))
