"""Hidden cases of the laws of `data_parallel`: other worlds, shapes, dtypes, groups, traps. What each means: tests/laws/data_parallel/."""

from __future__ import annotations

import pytest

from tests.laws.data_parallel import buckets, overlap, sharding, travel, values
from tests.laws.data_parallel.runs import run_broadcast, run_chain, run_loss_scale, run_reduce, run_train

WIRE_PHASE = "step 1"
FIVE_RANKS = "world size 5"


# --- sharding --------------------------------------------------------------------------------------------------------
# Seeds of which torch's generator on the CPU, which keeps 32 bits, would make one; and two pairs with the same digits.
EPOCHS_AND_SEEDS = ((0, 0), (1, 0), (0, 1), (7, 2), (0, 4096), (0, 2**32), (11, 1), (1, 11))
ORDERS = [
    {"num_samples": 83, "world_size": 5, "shuffle": False},
    {"num_samples": 83, "world_size": 7, "shuffle": False, "drop_last": True},
    *[
        {"num_samples": 120, "world_size": n, "epoch": epoch, "seed": seed}
        for n in (5, 8)
        for epoch, seed in EPOCHS_AND_SEEDS
    ],
    {"num_samples": 120, "world_size": 7, "epoch": 7, "seed": 2},
    {"num_samples": 120, "world_size": 7, "epoch": 7, "seed": 2, "drop_last": True},
]
FEW = ((1, 8), (2, 5), (0, 3), (9, 8))
SCARCE = [{"num_samples": num, "world_size": n, "epoch": 5, "drop_last": is_cut} for num, n in FEW for is_cut in (False, True)]
MANY_RANKS = "five, seven and eight ranks, several seeds and epochs"
FEW_SAMPLES = "fewer samples than ranks"


@pytest.mark.law("sharding.every_sample_is_read")
def test_every_sample_is_read(observe):
    """All samples, each once before the order begins anew."""
    sharding.judge_coverage(sharding.run_shards(observe, ORDERS, kind=MANY_RANKS))


@pytest.mark.law("sharding.ranks_read_equally_many")
@pytest.mark.parametrize(("cases", "kind"), [(ORDERS, MANY_RANKS), (SCARCE, FEW_SAMPLES)], ids=["plenty", "scarce"])
def test_ranks_read_equally_many(observe, cases, kind):
    """ceil(S/N) samples each, with drop_last floor(S/N)."""
    sharding.judge_counts(sharding.run_shards(observe, cases, kind=kind))


@pytest.mark.law("sharding.order_follows_seed_and_epoch")
def test_the_order_follows_seed_and_epoch(observe):
    """The same for the same seed and epoch, another for others, also where their sums agree."""
    sharding.judge_shuffling(sharding.run_shards(observe, ORDERS, kind=MANY_RANKS))


@pytest.mark.law("sharding.order_is_the_same_for_every_world_size")
@pytest.mark.parametrize(("cases", "kind"), [(ORDERS, MANY_RANKS), (SCARCE, FEW_SAMPLES)], ids=["plenty", "scarce"])
def test_the_order_is_the_same_for_every_world_size(observe, cases, kind):
    """Read round-robin, all worlds read one order, which goes on with its own beginning."""
    sharding.judge_one_order(sharding.run_shards(observe, cases, kind=kind))


# --- per_parameter and flat ------------------------------------------------------------------------------------------
OTHERS = {"row": ("bfloat16", (9,)), "matrix": ("bfloat16", (3, 7)), "one": ("bfloat16", (1,)), "none": ("bfloat16", (0, 4))}
MIXED = {f"{dtype}_{n}": (dtype, (n, 5)) for n in (3, 2) for dtype in ("float64", "float16", "float32")}
CUBES = {"cube": ("float16", (4, 3, 5)), "flatter": ("float16", (2, 1, 6))}
MISSING = {"row": [0, 1, 2, 3], "matrix": [2], "one": [2], "none": [2]}
per_parameter = pytest.mark.parametrize("function", ["all_reduce_gradients"])
flat = pytest.mark.parametrize("function", ["flat_all_reduce_gradients"])
FROZEN = ["float32_2", "float64_3"]
MIXED_KIND = "world size 2, three dtypes in turn, frozen parameters among them"


def judge_five(observe, function):
    """bfloat16 gradients on five ranks, one of them without elements."""
    values.judge_means(run_reduce(observe, 5, OTHERS, function=function, kind=f"{FIVE_RANKS}, bfloat16"))


@pytest.mark.law("per_parameter.gradients_are_averaged")
@per_parameter
def test_all_reduce_gradients_averages(observe, function):
    """On five ranks, in bfloat16; in a subgroup over its members only."""
    judge_five(observe, function)
    values.judge_means(run_reduce(observe, 4, OTHERS, function=function, members=[1, 3], kind="a group of some of the ranks"))


@pytest.mark.law("flat.gradients_are_averaged")
@flat
def test_flat_all_reduce_averages(observe, function):
    """On five ranks, in bfloat16; in a subgroup over its members only; on gloo."""
    judge_five(observe, function)
    values.judge_means(run_reduce(observe, 4, OTHERS, function=function, members=[1, 3], kind="a group of some of the ranks"))
    values.judge_means(run_reduce(observe, 2, MIXED, function=function, transport="gloo", kind="world size 2, three dtypes, on gloo"))


def judge_mixed_volume(observe, function):
    """Three dtypes, two parameters frozen."""
    seen = run_reduce(observe, 2, MIXED, function=function, frozen=FROZEN, kind=MIXED_KIND)
    travel.judge_volume(seen, "reduce", travel.by_dtype(MIXED, FROZEN), num_parameters=len(MIXED))
    return seen


@pytest.mark.law("per_parameter.each_gradient_travels_once")
@per_parameter
def test_all_reduce_gradients_sends_each_gradient_once(observe, function):
    """The bytes of the trained gradients, each in its own dtype."""
    judge_mixed_volume(observe, function)


@pytest.mark.law("per_parameter.frozen_parameters_stay_out")
@per_parameter
def test_all_reduce_gradients_leaves_frozen_parameters_alone(observe, function):
    """What stands in their grad stays, and doesn't travel."""
    values.judge_means(judge_mixed_volume(observe, function), FROZEN)


@pytest.mark.law("flat.dtypes_do_not_mix")
@flat
def test_flat_all_reduce_keeps_dtypes_apart(observe, function):
    """Three dtypes in turn: each byte once, in at most the rounds of three."""
    seen = judge_mixed_volume(observe, function)
    values.judge_means(seen)
    travel.judge_latencies(seen, "reduce", num_dtypes=3)


@pytest.mark.law("flat.takes_the_rounds_of_one_all_reduce")
@flat
def test_flat_all_reduce_takes_the_rounds_of_one(observe, function):
    """2(N-1) latencies on five ranks."""
    seen = run_reduce(observe, 5, OTHERS, function=function, kind=f"{FIVE_RANKS}, bfloat16")
    travel.judge_latencies(seen, "reduce", num_dtypes=1)


@pytest.mark.law("per_parameter.missing_gradients_count_as_zeros")
@per_parameter
def test_all_reduce_gradients_counts_missing_gradients_as_zeros(observe, function):
    """A gradient that all ranks but one lack, and a rank that lacks all."""
    values.judge_means(run_reduce(observe, 5, OTHERS, function=function, missing=MISSING, kind=f"{FIVE_RANKS}, one without gradients"))


@pytest.mark.law("flat.missing_gradients_count_as_zeros")
@flat
def test_flat_all_reduce_counts_missing_gradients_as_zeros(observe, function):
    """A gradient that all ranks but one lack, and a rank that lacks all."""
    values.judge_means(run_reduce(observe, 5, OTHERS, function=function, missing=MISSING, kind=f"{FIVE_RANKS}, one without gradients"))


@pytest.mark.law("per_parameter.any_layout")
@per_parameter
def test_all_reduce_gradients_takes_any_layout(observe, function):
    """Three dims, transposed, on three ranks."""
    seen = run_reduce(observe, 3, CUBES, function=function, layout="transposed", kind="three dims, transposed")
    values.judge_means(seen)
    travel.judge_contiguity(seen, "reduce")


@pytest.mark.law("flat.gradients_are_averaged")
@flat
def test_flat_all_reduce_takes_any_layout(observe, function):
    """Three dims, transposed, on three ranks."""
    values.judge_means(run_reduce(observe, 3, CUBES, function=function, layout="transposed", kind="three dims, transposed"))


# --- replicas --------------------------------------------------------------------------------------------------------
WEIGHTS = {"frozen": ("float64", (3, 4)), "weight": ("float16", (2, 5)), "hollow": ("float32", (0, 3)), "scalar": ("bfloat16", ())}
BUFFERS = {"steps": ("int32", (3,)), "flags": ("uint8", (7,)), "inner.deep.table": ("int64", (2, 3)), "hidden": ("float32", (4,))}
STATE = {"frozen": ["frozen", "scalar"], "fleeting": ["hidden", "steps"]}


@pytest.mark.law("replicas.parameters_equal_rank_zero")
@pytest.mark.parametrize(("world_size", "layout"), [(5, "plain"), (2, "every_second")])
def test_parameters_become_those_of_rank_zero(observe, world_size, layout):
    """Other dtypes, empty ones, every second row of something."""
    seen = run_broadcast(observe, world_size, WEIGHTS, BUFFERS, layout=layout, kind=f"world size {world_size}, layout {layout}", **STATE)
    values.judge_state(seen, "value")
    travel.judge_contiguity(seen, "")


@pytest.mark.law("replicas.buffers_equal_rank_zero")
@pytest.mark.parametrize(("world_size", "layout"), [(5, "plain"), (2, "every_second")])
def test_buffers_become_those_of_rank_zero(observe, world_size, layout):
    """Integers of several sizes, two that the state dict leaves out."""
    seen = run_broadcast(observe, world_size, WEIGHTS, BUFFERS, layout=layout, kind=f"world size {world_size}, layout {layout}", **STATE)
    values.judge_state(seen, "buffer")


@pytest.mark.law("replicas.source_is_rank_zero_of_the_group")
def test_the_source_is_rank_zero_of_the_group(observe):
    """In a group without global rank 0, and with a gap."""
    seen = run_broadcast(observe, 4, WEIGHTS, BUFFERS, members=[1, 3], kind="a group of some of the ranks", **STATE)
    values.judge_state(seen, "value")
    values.judge_state(seen, "buffer")


# --- buckets ---------------------------------------------------------------------------------------------------------
def parameters(sizes, dtype="float32", frozen=()):
    """Parameters of so many elements each."""
    return [[dtype, [size], number not in frozen] for number, size in enumerate(sizes)]


CASES = [
    {"parameters": parameters([100, 1, 1, 1, 100, 1, 1, 1, 100]), "bucket_bytes": 300},
    {"parameters": parameters([5] * 13, "float64", frozen=[0, 12]), "bucket_bytes": 120},
    {"parameters": [[("float16", "float32", "float64")[n % 3], [n + 1, 2], n % 5 != 0] for n in range(17)], "bucket_bytes": 200},
    {"parameters": [*parameters([8] * 6, "bfloat16"), ["float32", [1], True], *parameters([8] * 6, "bfloat16")], "bucket_bytes": 48},
    {"parameters": [[("bfloat16", "float16")[n // 2 % 2], [3, n], n % 4 > 0] for n in range(9)], "bucket_bytes": 60},
    {"parameters": parameters([9]), "bucket_bytes": 36},
]
CASES_KIND = "several dtypes, frozen parameters, parameters larger than the cap"


@pytest.mark.law("buckets.every_trainable_parameter_is_in_one_bucket")
def test_every_trainable_parameter_is_in_one_bucket(observe):
    """Frozen ones in none, and no bucket empty."""
    buckets.judge_membership(buckets.run_buckets(observe, CASES, kind=CASES_KIND))


@pytest.mark.law("buckets.last_parameters_leave_first")
def test_last_parameters_leave_first(observe):
    """The reverse of the order given; buckets by their last parameters."""
    buckets.judge_order(buckets.run_buckets(observe, CASES, kind=CASES_KIND))


@pytest.mark.law("buckets.sizes_follow_the_cap")
def test_bucket_sizes_follow_the_cap(observe):
    """Neither fuller than the cap allows, nor emptier than it asks."""
    buckets.judge_sizes(buckets.run_buckets(observe, CASES, kind=CASES_KIND))


@pytest.mark.law("buckets.dtypes_do_not_mix")
def test_buckets_hold_one_dtype(observe):
    """Three dtypes in turn share no bucket."""
    buckets.judge_pure_dtypes(buckets.run_buckets(observe, CASES, kind=CASES_KIND))


# --- overlapped ------------------------------------------------------------------------------------------------------
SHAPES = {"one": (3, 11), "two": (2, 2), "three": (13,), "four": (1, 9), "five": (7,)}
LAYERS = {name: ("float32", shape) for name, shape in SHAPES.items()}
TYPED = {"one": ("float16", (3, 5)), "two": ("bfloat16", (8,)), "three": ("float16", (4,)), "four": ("bfloat16", (5, 2))}
CUBE = {"cube": ("float32", (4, 3, 5)), "matrix": ("float32", (2, 6))}
UNEVEN_ROWS = [1, 3, 4, 2, 2, 4]
CAP = 140


@pytest.mark.law("overlapped.gradients_equal_the_whole_batch")
@pytest.mark.parametrize(("world_size", "transport"), [(5, "wire"), (3, "gloo")])
def test_gradients_equal_the_whole_batch(observe, world_size, transport):
    """Other widths, other worlds."""
    kind = f"world size {world_size}, on {transport}"
    values.judge_chain(run_chain(observe, world_size, [3, 11, 5, 1], bucket_bytes=CAP, transport=transport, num_rows=2, kind=kind))


@pytest.mark.law("overlapped.replicas_start_equal")
def test_the_constructor_makes_replicas_equal(observe):
    """On five ranks, other dtypes."""
    seen = run_train(observe, 5, WEIGHTS, [], bucket_bytes=CAP, buffers=BUFFERS, kind=f"{FIVE_RANKS}, other dtypes", **STATE)
    values.judge_state(seen, "value")
    values.judge_state(seen, "buffer")


@pytest.mark.law("overlapped.each_gradient_travels_once")
def test_each_gradient_travels_once_per_step(observe):
    """On five ranks, in each of two steps; buffers don't travel."""
    seen = run_train(observe, 5, LAYERS, [{}, {}], bucket_bytes=CAP, buffers=BUFFERS, kind=f"{FIVE_RANKS}, with buffers")
    for phase in ("step 0", WIRE_PHASE):
        travel.judge_volume(seen, phase, travel.by_dtype(LAYERS), num_parameters=len(LAYERS))


@pytest.mark.law("overlapped.buckets_follow_the_cap")
def test_what_travels_follows_the_cap(observe):
    """A cap that some parameters exceed and some don't."""
    seen = run_train(observe, 2, LAYERS, [{}, {}], bucket_bytes=72, kind="a cap smaller than some parameters")
    travel.judge_wire_buckets(seen, WIRE_PHASE, LAYERS, 72)


@pytest.mark.law("overlapped.buckets_leave_while_backward_runs")
@pytest.mark.parametrize(("world_size", "rows", "rows_per_bucket"), [(2, UNEVEN_ROWS, 4), (5, [2] * 8, 4)])
def test_buckets_leave_while_backward_runs(observe, world_size, rows, rows_per_bucket):
    """Buckets of one layer and of two, on two and five ranks."""
    kind = f"world size {world_size}, buckets of one or two layers"
    overlap.judge_passage(overlap.run_gated(observe, world_size, rows, rows_per_bucket=rows_per_bucket, hold=False, kind=kind))


@pytest.mark.law("overlapped.never_waits_inside_backward")
def test_no_bucket_is_waited_for_inside_backward(observe):
    """Buckets of one layer and of two."""
    kind = "world size 2, buckets of one or two layers"
    overlap.judge_passage(overlap.run_gated(observe, 2, UNEVEN_ROWS, rows_per_bucket=4, hold=True, kind=kind))


@pytest.mark.law("overlapped.step_takes_the_time_of_overlap")
@pytest.mark.parametrize("bucket_s", [1.5, 5.0])
def test_a_step_takes_the_time_of_overlap(observe, bucket_s):
    """Eight layers, two in each bucket, on four ranks."""
    kind = "world size 4, two layers in each bucket"
    overlap.judge_step_time(overlap.run_timed(observe, 4, [12] * 8, rows_per_bucket=24, kind=kind), bucket_s=bucket_s)


@pytest.mark.law("overlapped.waits_before_it_returns")
def test_finish_waits_for_every_bucket(observe):
    """One bucket for each parameter, on three ranks."""
    seen = run_train(observe, 3, LAYERS, [{}, {}], bucket_bytes=1, late=True, kind="world size 3, results land as late as they may")
    values.judge_steps(seen)


UNUSED = [
    {"unused": {"0": {"0": ["five", "three"], "1": ["two"], "3": ["one", "two", "three", "four", "five"]}}},
    {"unused": {"0": {"1": ["one", "two", "three", "four", "five"], "2": ["four"]}}},
    {"unused": {"0": {"0": ["two"], "1": ["two"], "2": ["two"], "3": ["two"]}}},
    {},
]


@pytest.mark.law("overlapped.unused_parameters_count_as_zeros")
def test_unused_parameters_count_as_zeros(observe):
    """Four ranks that use different parameters in every step, or none, or all but one; gradients set to zero and to None."""
    steps = [step | {"between": between} for step, between in zip(UNUSED, ("none", "zero", "zero", "none"), strict=True)]
    values.judge_steps(run_train(observe, 4, LAYERS, steps, bucket_bytes=40, kind="world size 4, ranks use different parameters"))


@pytest.mark.law("overlapped.frozen_stay_out_and_shared_travel_once")
def test_frozen_stay_out_and_shared_travel_once(observe):
    """The last parameter is shared with two other names; the first and a middle one are frozen."""
    shared, frozen = {"head": "five", "tail": "five"}, ["one", "three"]
    kind = "a parameter with three names, frozen ones"
    seen = run_train(observe, 2, LAYERS, [{}, {}], bucket_bytes=40, frozen=frozen, shared=shared, kind=kind)
    values.judge_steps(seen)
    travel.judge_volume(seen, WIRE_PHASE, travel.by_dtype(LAYERS, frozen), num_parameters=len(LAYERS))


@pytest.mark.law("overlapped.works_step_after_step")
def test_steps_in_a_row_are_right(observe):
    """Gradients kept twice in a row, then zeroed, then set to None, on three ranks."""
    steps = [{"between": how} for how in ("zero", "keep", "keep", "zero", "none", "none")]
    values.judge_steps(run_train(observe, 3, LAYERS, steps, bucket_bytes=CAP, kind="world size 3, gradients kept, zeroed, removed"))


@pytest.mark.law("overlapped.gradients_keep_their_dtype")
def test_gradients_keep_their_dtype(observe):
    """float16 and bfloat16 in turn, on three ranks."""
    seen = run_train(observe, 3, TYPED, [{}, {}], bucket_bytes=24, kind="world size 3, float16 and bfloat16")
    values.judge_steps(seen)
    travel.judge_volume(seen, WIRE_PHASE, travel.by_dtype(TYPED), num_parameters=len(TYPED))
    travel.judge_wire_buckets(seen, WIRE_PHASE, TYPED, 24)


@pytest.mark.law("overlapped.any_layout")
def test_parameters_of_any_layout_are_averaged(observe):
    """Three dims, transposed, on three ranks."""
    seen = run_train(observe, 3, CUBE, [{}, {"between": "zero"}], bucket_bytes=CAP, layout="transposed", kind="three dims, transposed")
    values.judge_steps(seen)
    for phase in ("construct", WIRE_PHASE):
        travel.judge_contiguity(seen, phase)


@pytest.mark.law("overlapped.subgroups_use_their_own_ranks")
def test_a_subgroup_uses_its_own_ranks(observe):
    """Ranks 0, 2 and 3 of four."""
    seen = run_train(observe, 4, LAYERS, [{}, {}], bucket_bytes=CAP, members=[0, 2, 3], kind="a group of some of the ranks")
    values.judge_state(seen, "value")
    values.judge_steps(seen)
    for phase in ("construct", WIRE_PHASE):
        travel.judge_group(seen, phase)


# --- accumulation ----------------------------------------------------------------------------------------------------
ACCUMULATED = [
    {"micro_batches": 2, "between": "zero", "unused": {"1": {"0": ["one", "five"], "1": ["one"], "2": ["one"]}}},
    {"micro_batches": 4, "between": "keep"},
    {},
]


def accumulated(observe):
    """Steps of different numbers of micro-batches; nobody's last one uses the first parameter."""
    return run_train(observe, 3, LAYERS, ACCUMULATED, bucket_bytes=CAP, kind="world size 3, two to four micro-batches")


@pytest.mark.law("accumulation.no_sync_sends_nothing")
def test_no_sync_sends_nothing(observe):
    """Inside no_sync nothing travels; the last micro-batch sends every gradient once."""
    seen = accumulated(observe)
    for number in range(len(ACCUMULATED)):
        travel.judge_silence(seen, f"step {number} no_sync")
        travel.judge_volume(seen, f"step {number}", travel.by_dtype(LAYERS), num_parameters=len(LAYERS))


@pytest.mark.law("accumulation.accumulated_gradients_are_averaged_once")
def test_accumulated_gradients_are_averaged_once(observe):
    """The mean of all that each rank has accumulated, also on top of an older average."""
    values.judge_steps(accumulated(observe))


@pytest.mark.law("accumulation.no_sync_ends_with_its_block")
def test_no_sync_ends_with_its_block(observe):
    """By an exception in the second of three micro-batches, inner ones in the others."""
    steps = [{"micro_batches": 3, "interrupted": 1, "nested": True}, {}]
    seen = run_train(observe, 3, LAYERS, steps, bucket_bytes=40, kind="world size 3, nested and interrupted")
    values.judge_steps(seen)
    values.judge_interruption(seen)
    travel.judge_silence(seen, "step 0 no_sync")


@pytest.mark.law("accumulation.every_token_weighs_the_same")
def test_every_token_weighs_the_same(observe):
    """Four ranks, three micro-batches, one rank without any token."""
    rows = [[1, 0, 2], [0, 0, 0], [5, 1, 1], [1, 1, 1]]
    kind = "world size 4, three micro-batches, a rank without tokens"
    values.judge_chain(run_chain(observe, 4, [4, 6, 3], bucket_bytes=CAP, rows=rows, kind=kind))


@pytest.mark.law("accumulation.counts_are_exact")
def test_token_counts_are_exact(observe):
    """Billions of tokens; in a subgroup its members' only."""
    values.judge_loss_scale(run_loss_scale(observe, [2**31 - 1, 3, 2**25 + 7], kind="world size 3, billions of tokens"))
    values.judge_loss_scale(run_loss_scale(observe, [11, 5, 9, 20], members=[1, 2], kind="a group of some of the ranks"))
