"""Hidden cases of the laws of `collectives`: other worlds, sizes, dtypes, groups, traps. What each law means: tests/laws/collectives/."""

from __future__ import annotations

import pytest

from tests.laws.collectives import costs, measurement, runs, structure, values
from tests.laws.traffic import assert_rounds

# 60 elements: 2, 3 and 5 ranks divide them, and so do two opposite rings.
OTHERS = runs.dtypes(60, ("float16", "int32"))
ALL = runs.dtypes(60)
ONE = {"x": ("bfloat16", (60,))}
AWKWARD = runs.sizes(0, 4, 13, dtype="int64")
CUBES = {"cube": ("float16", (4, 3, 5)), "column": ("float64", (7, 1))}

RUN = {"ring_reduce_scatter": runs.run_reduce_scatter, "ring_all_gather": runs.run_all_gather, "ring_all_reduce": runs.run_all_reduce}
JUDGE = {
    "ring_reduce_scatter": values.judge_reduce_scatter,
    "ring_all_gather": values.judge_all_gather,
    "ring_all_reduce": values.judge_all_reduce,
}
each_of_the_ring = pytest.mark.parametrize("function", list(RUN))
FIVE_RANKS = "world size 5"
UNEVEN_FIVE = "world size 5, sizes that 5 does not divide, also smaller than 5"


# --- ring ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("ring.reduce_scatter_leaves_each_rank_its_chunk")
@pytest.mark.parametrize(("world_size", "op"), [(5, "sum"), (2, "max")])
def test_reduce_scatter_leaves_each_rank_its_chunk(observe, world_size, op):
    """Group rank r returns chunk r of the reduction over all ranks."""
    seen = runs.run_reduce_scatter(observe, world_size, OTHERS, op=op, kind=f"world size {world_size}, {op}, other dtypes")
    values.judge_reduce_scatter(seen, OTHERS)


@pytest.mark.law("ring.all_gather_rebuilds_the_whole")
def test_all_gather_rebuilds_the_whole(observe):
    """Every rank returns the whole tensor, each chunk in its place."""
    values.judge_all_gather(runs.run_all_gather(observe, 5, OTHERS, kind=FIVE_RANKS), OTHERS)


@pytest.mark.law("ring.all_reduce_gives_every_rank_the_reduction")
@pytest.mark.parametrize(("world_size", "op", "transport"), [(2, "sum", "wire"), (3, "max", "gloo")])
def test_ring_all_reduce_works_in_every_dtype(observe, world_size, op, transport):
    """The sum or the maximum, in each of six dtypes."""
    kind = f"world size {world_size}, {op}, six dtypes, on {transport}"
    values.judge_all_reduce(runs.run_all_reduce(observe, world_size, ALL, op=op, transport=transport, kind=kind), ALL)


@pytest.mark.law("ring.all_reduce_gives_every_rank_the_reduction")
def test_ring_all_reduce_works_on_five_ranks(observe):
    """The sum on five ranks."""
    values.judge_all_reduce(runs.run_all_reduce(observe, 5, OTHERS, kind=FIVE_RANKS), OTHERS)


@pytest.mark.law("ring.mean_divides_once")
def test_a_mean_is_divided_once(observe):
    """Integers, also negative ones, are rounded down once; floats within their rounding."""
    tensors, kind = runs.dtypes(60, ("int64", "float16")), "world size 2, mean of integers and of float16"
    values.judge_all_reduce(runs.run_all_reduce(observe, 2, tensors, op="mean", kind=kind), tensors)


@pytest.mark.law("ring.works_for_any_size")
@each_of_the_ring
def test_the_ring_works_for_any_size(observe, function):
    """Sizes that five ranks don't divide, fewer elements than ranks, none."""
    JUDGE[function](RUN[function](observe, 5, AWKWARD, kind=UNEVEN_FIVE), AWKWARD)


@pytest.mark.law("ring.works_for_any_size")
def test_two_ranks_share_a_single_element(observe):
    """One element, and an odd number of them, on two ranks."""
    values.judge_all_reduce(runs.run_all_reduce(observe, 2, AWKWARD, kind="world size 2, odd sizes"), AWKWARD)


@pytest.mark.law("ring.sends_the_optimal_volume")
@each_of_the_ring
@pytest.mark.parametrize("tensors", [OTHERS, AWKWARD], ids=["divisible", "uneven"])
def test_the_ring_sends_the_optimal_volume(observe, function, tensors):
    """On five ranks: 2(N-1)/N of the tensor where 5 divides it, at most 2(N-1) of the largest chunks otherwise."""
    structure.judge_ring_volume(RUN[function](observe, 5, tensors, kind=FIVE_RANKS if tensors is OTHERS else UNEVEN_FIVE), tensors)


@pytest.mark.law("ring.takes_the_fewest_rounds")
@each_of_the_ring
def test_the_ring_takes_the_fewest_rounds(observe, function):
    """2(N-1) rounds for the all-reduce of five ranks, N-1 for each half."""
    structure.judge_ring_rounds(RUN[function](observe, 5, OTHERS, kind=FIVE_RANKS), OTHERS)


@pytest.mark.law("ring.talks_to_neighbours_only")
@each_of_the_ring
def test_the_ring_talks_to_neighbours_only(observe, function):
    """Of five ranks each exchanges messages with its right and left neighbour only."""
    structure.judge_neighbours(RUN[function](observe, 5, OTHERS, kind=FIVE_RANKS), OTHERS)


@pytest.mark.law("ring.uses_point_to_point_only")
@each_of_the_ring
def test_the_ring_is_made_of_sends_and_receives(observe, function):
    """No library collective is called, also where some chunks are empty."""
    structure.judge_point_to_point(RUN[function](observe, 5, OTHERS, kind=FIVE_RANKS), OTHERS)


@pytest.mark.law("ring.never_deadlocks")
@each_of_the_ring
def test_the_ring_never_deadlocks(observe, function):
    """A send ends only when its receive has begun, in an even world."""
    JUDGE[function](RUN[function](observe, 4, ONE, rendezvous=True, kind="world size 4, a send ends with its receive"), ONE)


@pytest.mark.law("ring.never_deadlocks")
def test_the_ring_never_deadlocks_with_large_messages_on_gloo(observe):
    """Messages of 8 MiB among three ranks, which no socket buffer holds."""
    kind = "world size 3, messages of 8 MiB, on gloo"
    values.judge_large(runs.run_large(observe, 3, "ring_reduce_scatter", dtype="int64", num_elements=64, repeat=3 * 2**14, kind=kind))


@pytest.mark.law("ring.waits_before_it_reads")
@each_of_the_ring
def test_the_ring_waits_before_it_reads(observe, function):
    """What is received lands when it is waited for and no sooner."""
    seen = RUN[function](observe, 2, ONE, late=True, kind="world size 2, late delivery")
    structure.judge_waits(seen, ONE)
    JUDGE[function](seen, ONE)


@pytest.mark.law("ring.subgroups_use_their_own_ranks")
@each_of_the_ring
def test_the_ring_runs_over_the_members_of_a_subgroup(observe, function):
    """Ranks 0, 2 and 3 of four."""
    seen = RUN[function](observe, 4, ONE, members=[0, 2, 3], kind="a group of some of the ranks")
    JUDGE[function](seen, ONE)
    structure.judge_members(seen, ONE)


@pytest.mark.law("ring.changes_only_what_it_must")
@pytest.mark.parametrize("layout", ["every_second", "transposed"])
def test_ring_all_reduce_works_in_place_on_any_layout(observe, layout):
    """The tensor's own elements change, and nothing between them, with three dims."""
    values.judge_all_reduce(runs.run_all_reduce(observe, 2, CUBES, layout=layout, kind=f"three dims, layout {layout}"), CUBES)


@pytest.mark.law("ring.changes_only_what_it_must")
def test_reduce_scatter_leaves_its_input_alone(observe):
    """A mean of strided tensors: neither reducing nor dividing touches the input."""
    seen = runs.run_reduce_scatter(observe, 2, CUBES, op="mean", layout="every_second", kind="a mean of strided tensors")
    values.judge_reduce_scatter(seen, CUBES)
    values.judge_inputs_unchanged(seen, list(CUBES))


@pytest.mark.law("ring.all_ranks_hold_the_same_bits")
def test_ring_all_reduce_leaves_the_same_bits_everywhere(observe):
    """All ranks' sums agree to the last bit."""
    values.judge_same_bits(runs.run_all_reduce(observe, 5, OTHERS, kind=FIVE_RANKS), list(OTHERS))


# --- broadcast -------------------------------------------------------------------------------------------------------
SHORT = OTHERS | runs.sizes(0, 3, 7)


@pytest.mark.law("broadcast.every_rank_holds_the_source")
@pytest.mark.parametrize(("world_size", "src", "num_chunks", "transport"), [(2, 0, 100, "wire"), (3, 2, 2, "gloo")])
def test_every_rank_holds_the_source(observe, world_size, src, num_chunks, transport):
    """Any source, dtype, size and number of pieces, also more pieces than elements."""
    kind = f"world size {world_size}, source {src}, {num_chunks} pieces, on {transport}"
    seen = runs.run_broadcast(observe, world_size, SHORT, src=src, num_chunks=num_chunks, transport=transport, kind=kind)
    values.judge_broadcast(seen, SHORT)


@pytest.mark.law("broadcast.every_rank_holds_the_source")
def test_every_one_of_five_ranks_holds_the_source(observe):
    """A source in the middle of five ranks."""
    values.judge_broadcast(runs.run_broadcast(observe, 5, ONE, src=3, num_chunks=10, kind="world size 5, 10 pieces"), ONE)


@pytest.mark.law("broadcast.every_rank_holds_the_source")
def test_broadcast_works_in_place_on_any_layout(observe):
    """The tensor's own elements change, and nothing between them, with three dims."""
    values.judge_broadcast(
        runs.run_broadcast(observe, 3, CUBES, src=1, num_chunks=2, layout="every_second", kind="strided, three dims"), CUBES
    )


@pytest.mark.law("broadcast.is_pipelined")
@pytest.mark.parametrize(("world_size", "src", "num_chunks"), [(3, 2, 6), (5, 3, 10)])
def test_broadcast_is_pipelined(observe, world_size, src, num_chunks):
    """N - 2 + num_chunks times the time of one piece, from a source in the middle."""
    seen = runs.run_broadcast(
        observe, world_size, ONE, src=src, num_chunks=num_chunks, kind=f"world size {world_size}, {num_chunks} pieces"
    )
    structure.judge_pipeline(seen, ONE)


@pytest.mark.law("broadcast.each_link_carries_the_tensor_once")
@pytest.mark.parametrize(("world_size", "src", "num_chunks"), [(3, 2, 6), (5, 3, 10)])
def test_each_link_of_the_chain_carries_the_tensor_once(observe, world_size, src, num_chunks):
    """Every rank sends the tensor once to its right neighbour; the last of the chain sends nothing."""
    seen = runs.run_broadcast(
        observe, world_size, ONE, src=src, num_chunks=num_chunks, kind=f"world size {world_size}, {num_chunks} pieces"
    )
    structure.judge_chain_volume(seen, ONE)


@pytest.mark.law("broadcast.waits_for_what_it_started")
def test_broadcast_waits_for_what_it_started(observe):
    """Messages land as late as they may."""
    seen = runs.run_broadcast(observe, 4, ONE, src=2, num_chunks=3, late=True, kind="world size 4, late delivery")
    structure.judge_waits(seen, ONE)
    values.judge_broadcast(seen, ONE)


@pytest.mark.law("broadcast.source_is_a_global_rank")
def test_the_source_is_a_global_rank(observe):
    """Ranks 1 and 3 of four, from global rank 3."""
    seen = runs.run_broadcast(observe, 4, ONE, src=3, num_chunks=2, members=[1, 3], kind="a group of two of four ranks")
    values.judge_broadcast(seen, ONE)
    structure.judge_members(seen, ONE)


# --- all_to_all ------------------------------------------------------------------------------------------------------
EQUAL = {"three_rows_each": [[3] * 5] * 5}
UNEVEN = {
    2: {"uneven": [[0, 2], [5, 1]], "nothing": [[0, 0], [0, 0]]},
    3: {"uneven": [[0, 4, 1], [2, 0, 2], [1, 1, 3]], "one_rank_gives_all": [[0, 0, 0], [2, 3, 4], [0, 0, 0]]},
    5: {"uneven": [[(2 * sender + 3 * receiver) % 4 for receiver in range(5)] for sender in range(5)]},
}


@pytest.mark.law("all_to_all.blocks_arrive_in_rank_order")
def test_equal_blocks_arrive_in_rank_order(observe):
    """Group rank r returns block r of every rank."""
    seen = runs.run_all_to_all(observe, 5, EQUAL, trailing=(2,), dtype="float16", has_splits=False, kind=FIVE_RANKS)
    values.judge_all_to_all(seen, EQUAL)


@pytest.mark.law("all_to_all.uneven_and_empty_blocks_arrive")
@pytest.mark.parametrize(("world_size", "transport"), [(2, "wire"), (5, "wire"), (3, "gloo")])
def test_uneven_and_empty_blocks_arrive(observe, world_size, transport):
    """Another number of rows for every pair of ranks, also none."""
    rows = UNEVEN[world_size]
    kind = f"world size {world_size}, uneven and empty blocks, on {transport}"
    values.judge_all_to_all(
        runs.run_all_to_all(observe, world_size, rows, trailing=(3, 1), dtype="int32", transport=transport, kind=kind), rows
    )


@pytest.mark.law("all_to_all.each_block_travels_once")
@pytest.mark.parametrize("world_size", [2, 5])
def test_each_block_travels_once_and_straight(observe, world_size):
    """A rank sends the others' blocks, each to the rank that it is for; its own does not travel."""
    rows = UNEVEN[world_size]
    seen = runs.run_all_to_all(observe, world_size, rows, trailing=(3, 1), dtype="int32", transport="wire", kind=f"world size {world_size}")
    structure.judge_block_volume(seen, rows, elements_per_row=3, dtype="int32")


@pytest.mark.law("all_to_all.exchanges_in_parallel")
def test_the_exchange_takes_at_most_n_minus_one_rounds(observe):
    """At most four rounds on five ranks."""
    seen = runs.run_all_to_all(observe, 5, EQUAL, trailing=(2,), dtype="float16", has_splits=False, kind=FIVE_RANKS)
    assert_rounds(seen, "three_rows_each", least=1, most=4, hint="Are all sends and receives of a step started before any wait?")


@pytest.mark.law("all_to_all.waits_for_what_it_started")
@pytest.mark.parametrize(("rendezvous", "late"), [(True, False), (False, True)], ids=["rendezvous", "late"])
def test_all_to_all_waits_for_what_it_started(observe, rendezvous, late):
    """Sends end only with their receives; messages land as late as they may."""
    rows, kind = UNEVEN[2], "world size 2, late delivery" if late else "world size 2, a send ends with its receive"
    seen = runs.run_all_to_all(observe, 2, rows, trailing=(2,), rendezvous=rendezvous, late=late, kind=kind)
    structure.judge_waits(seen, rows)
    values.judge_all_to_all(seen, rows)


@pytest.mark.law("all_to_all.subgroups_use_their_own_ranks")
def test_all_to_all_counts_blocks_by_group_rank(observe):
    """In the subgroup of ranks 0, 2 and 3, block i is for its i-th member."""
    rows = UNEVEN[3]
    seen = runs.run_all_to_all(observe, 4, rows, trailing=(2,), members=[0, 2, 3], kind="a group of three of four ranks")
    values.judge_all_to_all(seen, rows)
    structure.judge_members(seen, ["uneven"])


# --- recursive_doubling ----------------------------------------------------------------------------------------------
DOUBLING = {"function": "recursive_doubling_all_reduce"}
DOUBLING_RUNS = pytest.mark.parametrize("world_size", [6, 8])


@pytest.mark.law("recursive_doubling.gives_every_rank_the_reduction")
@DOUBLING_RUNS
def test_recursive_doubling_gives_every_rank_the_sum(observe, world_size):
    """The sum on six and eight ranks: two sit out, or none."""
    seen = runs.run_all_reduce(observe, world_size, ONE, kind=f"world size {world_size}", **DOUBLING)
    values.judge_all_reduce(seen, ONE)


@pytest.mark.law("recursive_doubling.gives_every_rank_the_reduction")
@pytest.mark.parametrize(("world_size", "op", "transport"), [(2, "mean", "wire"), (3, "sum", "gloo")])
def test_recursive_doubling_works_for_any_op_and_size(observe, world_size, op, transport):
    """The sum or the mean, in any size and other dtypes."""
    kind = f"world size {world_size}, {op}, on {transport}"
    seen = runs.run_all_reduce(observe, world_size, SHORT, op=op, transport=transport, kind=kind, **DOUBLING)
    values.judge_all_reduce(seen, SHORT)


@pytest.mark.law("recursive_doubling.gives_every_rank_the_reduction")
def test_recursive_doubling_works_in_place_on_any_layout(observe):
    """The tensor's own elements change, and nothing between them, with three dims."""
    seen = runs.run_all_reduce(observe, 3, CUBES, op="max", layout="transposed", kind="transposed, three dims", **DOUBLING)
    values.judge_all_reduce(seen, CUBES)


@pytest.mark.law("recursive_doubling.takes_log2_rounds")
@DOUBLING_RUNS
def test_recursive_doubling_takes_log2_rounds(observe, world_size):
    """log2 N rounds, floor(log2 N) + 2 where N is no power of two."""
    structure.judge_doubling_rounds(runs.run_all_reduce(observe, world_size, ONE, kind=f"world size {world_size}", **DOUBLING), ONE)


@pytest.mark.law("recursive_doubling.sends_the_whole_once_per_round")
@DOUBLING_RUNS
def test_recursive_doubling_sends_the_whole_once_per_round(observe, world_size):
    """log2 N times the tensor; nobody more than floor(log2 N) + 1 times where N is no power of two."""
    structure.judge_doubling_volume(runs.run_all_reduce(observe, world_size, ONE, kind=f"world size {world_size}", **DOUBLING), ONE)


@pytest.mark.law("recursive_doubling.all_ranks_hold_the_same_bits")
@DOUBLING_RUNS
def test_recursive_doubling_leaves_the_same_bits_everywhere(observe, world_size):
    """All ranks' sums agree to the last bit, although each rank adds for itself."""
    values.judge_same_bits(runs.run_all_reduce(observe, world_size, ONE, kind=f"world size {world_size}", **DOUBLING), list(ONE))


@pytest.mark.law("recursive_doubling.waits_for_what_it_started")
@pytest.mark.parametrize(("rendezvous", "late"), [(True, False), (False, True)], ids=["rendezvous", "late"])
def test_recursive_doubling_waits_for_what_it_started(observe, rendezvous, late):
    """Sends end only with their receives; messages land as late as they may."""
    kind = "world size 2, late delivery" if late else "world size 2, a send ends with its receive"
    seen = runs.run_all_reduce(observe, 2, ONE, rendezvous=rendezvous, late=late, kind=kind, **DOUBLING)
    structure.judge_waits(seen, ONE)
    values.judge_all_reduce(seen, ONE)


@pytest.mark.law("recursive_doubling.subgroups_use_their_own_ranks")
def test_recursive_doubling_finds_partners_by_group_rank(observe):
    """Ranks 1 and 2 of three."""
    seen = runs.run_all_reduce(observe, 3, ONE, members=[1, 2], kind="a group of two of three ranks", **DOUBLING)
    values.judge_all_reduce(seen, ONE)
    structure.judge_members(seen, ONE)


# --- cost_model ------------------------------------------------------------------------------------------------------
@pytest.mark.law("cost_model.matches_the_formula")
@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "central"])
def test_all_reduce_seconds_matches_the_formula(observe, algorithm):
    """Other networks and larger worlds."""
    costs.judge_costs(observe, algorithm, world_sizes=[1, 5, 7, 9, 64, 1000, 1024], kind=f"{algorithm}, larger worlds and the limits")


@pytest.mark.law("cost_model.agrees_with_the_trace")
@pytest.mark.parametrize(("algorithm", "world_size"), [("ring", 5), ("recursive_doubling", 6)])
def test_the_model_agrees_with_the_trace(observe, algorithm, world_size):
    """What the model says is what your own all-reduce takes on such a network."""
    tensors, function = (OTHERS, {}) if algorithm == "ring" else (ONE, DOUBLING)
    run = runs.run_all_reduce(observe, world_size, tensors, kind=f"world size {world_size}", **function)
    costs.judge_prediction(observe, run, algorithm, tensors)


@pytest.mark.law("cost_model.bus_bandwidth_counts_what_a_link_carries")
def test_bus_bandwidth_counts_what_a_link_carries(observe):
    """2(N-1)/N times the bytes per second, in other worlds."""
    costs.judge_bus_bandwidth(observe, world_sizes=[5, 1, 16, 4, 7], kind="other world sizes")


# --- measurement -----------------------------------------------------------------------------------------------------
STAGED = pytest.mark.parametrize(("world_size", "num_warmup", "num_timed"), [(3, 1, 4), (2, 0, 3)])


@pytest.mark.law("measurement.times_each_call_alone")
@STAGED
def test_each_call_is_timed_alone(observe, world_size, num_warmup, num_timed):
    """An even number of calls, none to warm up, sizes in no order."""
    kind = f"world size {world_size}, {num_warmup} calls to warm up, {num_timed} timed"
    seen = measurement.run_staged(observe, world_size, sizes_bytes=[512, 64, 4096], num_warmup=num_warmup, num_timed=num_timed, kind=kind)
    measurement.judge_staged_times(seen)


@pytest.mark.law("measurement.calls_as_often_as_it_was_asked")
@STAGED
def test_it_calls_as_often_as_it_was_asked(observe, world_size, num_warmup, num_timed):
    """For each size in turn a float32 tensor of that size, num_warmup + num_timed times."""
    kind = f"world size {world_size}, {num_warmup} calls to warm up, {num_timed} timed"
    seen = measurement.run_staged(observe, world_size, sizes_bytes=[512, 64, 4096], num_warmup=num_warmup, num_timed=num_timed, kind=kind)
    measurement.judge_calls(seen)


@pytest.mark.law("measurement.bandwidth_follows_from_the_seconds")
def test_the_bandwidth_follows_from_the_seconds(observe):
    """On the real clock, on four ranks."""
    seen = measurement.run_measurement(observe, 4, sizes_bytes=[128], num_warmup=0, num_timed=2, kind="world size 4, the real clock")
    measurement.judge_points(seen)
