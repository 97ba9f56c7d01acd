"""Public cases of the laws of `collectives`. What each law means stands in tests/laws/collectives/.

Equal requests share one run: laws that can look at the same tensors use the same names here.
"""

from __future__ import annotations

import functools

import pytest

from tests.laws.collectives import costs, measurement, runs, structure, values
from tests.laws.traffic import assert_rounds

# 48 elements: 2, 3 and 4 ranks divide them, and so do two opposite rings.
SOME = runs.dtypes(48, ("float32", "bfloat16", "int64"))
ALL = runs.dtypes(48)
ONE = {"x": ("float32", (48,))}
AWKWARD = runs.sizes(0, 1, 2, 5, 11)
MATRICES = {"matrix": ("float32", (6, 4)), "integers": ("int64", (10, 1))}

RUN = {"ring_reduce_scatter": runs.run_reduce_scatter, "ring_all_gather": runs.run_all_gather, "ring_all_reduce": runs.run_all_reduce}
JUDGE = {
    "ring_reduce_scatter": values.judge_reduce_scatter,
    "ring_all_gather": values.judge_all_gather,
    "ring_all_reduce": values.judge_all_reduce,
}
each_of_the_ring = pytest.mark.parametrize("function", list(RUN))


# --- ring ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("ring.reduce_scatter_leaves_each_rank_its_chunk")
@pytest.mark.parametrize(("world_size", "op"), [(1, "sum"), (3, "sum"), (4, "sum")])
def test_reduce_scatter_leaves_each_rank_its_chunk(observe, world_size, op):
    """Group rank r returns chunk r of the reduction over all ranks."""
    values.judge_reduce_scatter(runs.run_reduce_scatter(observe, world_size, SOME, op=op), SOME)


@pytest.mark.law("ring.reduce_scatter_leaves_each_rank_its_chunk")
def test_reduce_scatter_cuts_elements_and_not_rows(observe):
    """Chunks of a matrix are those of its elements, row after row, also of a transposed one."""
    seen = runs.run_reduce_scatter(observe, 2, MATRICES, layout="transposed")
    structure.judge_contiguous(seen, MATRICES)
    values.judge_reduce_scatter(seen, MATRICES)


@pytest.mark.law("ring.all_gather_rebuilds_the_whole")
@pytest.mark.parametrize("world_size", [1, 3, 4])
def test_all_gather_rebuilds_the_whole(observe, world_size):
    """Every rank returns the whole tensor, each chunk in its place."""
    values.judge_all_gather(runs.run_all_gather(observe, world_size, SOME), SOME)


@pytest.mark.law("ring.all_gather_rebuilds_the_whole")
def test_all_gather_takes_a_strided_chunk(observe):
    """A chunk that is every second element of its memory arrives like any other."""
    seen = runs.run_all_gather(observe, 2, SOME, layout="every_second")
    structure.judge_contiguous(seen, SOME)
    values.judge_all_gather(seen, SOME)


@pytest.mark.law("ring.all_reduce_gives_every_rank_the_reduction")
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ring_all_reduce_gives_every_rank_the_sum(observe, world_size):
    """Every rank's tensor holds the sum."""
    values.judge_all_reduce(runs.run_all_reduce(observe, world_size, SOME), SOME)


@pytest.mark.law("ring.all_reduce_gives_every_rank_the_reduction")
@pytest.mark.parametrize(("world_size", "op", "transport"), [(2, "sum", "gloo"), (3, "max", "wire")])
def test_ring_all_reduce_works_in_every_dtype(observe, world_size, op, transport):
    """The sum or the maximum, in each of six dtypes, the maximum of negative numbers."""
    values.judge_all_reduce(runs.run_all_reduce(observe, world_size, ALL, op=op, transport=transport), ALL)


@pytest.mark.law("ring.mean_divides_once")
def test_a_mean_is_divided_once(observe):
    """The mean over three ranks: integers rounded down once, floats within their rounding."""
    values.judge_all_reduce(runs.run_all_reduce(observe, 3, ALL, op="mean"), ALL)
    values.judge_reduce_scatter(runs.run_reduce_scatter(observe, 3, SOME, op="mean"), SOME)


@pytest.mark.law("ring.mean_divides_once")
def test_a_mean_is_divided_by_the_size_of_the_group(observe):
    """The mean over two of three ranks."""
    values.judge_all_reduce(runs.run_all_reduce(observe, 3, SOME, op="mean", members=[1, 2]), SOME)


@pytest.mark.law("ring.works_for_any_size")
@each_of_the_ring
def test_the_ring_works_for_any_size(observe, function):
    """Sizes that three ranks don't divide, fewer elements than ranks, none."""
    JUDGE[function](RUN[function](observe, 3, AWKWARD), AWKWARD)


@pytest.mark.law("ring.sends_the_optimal_volume")
@each_of_the_ring
@pytest.mark.parametrize("world_size", [3, 4])
def test_the_ring_sends_exactly_the_optimal_volume(observe, world_size, function):
    """Where N divides S, every rank sends 2(N-1)/N of the tensor, each half half of that, in the tensor's dtype."""
    structure.judge_ring_volume(RUN[function](observe, world_size, SOME), SOME)


@pytest.mark.law("ring.sends_the_optimal_volume")
@each_of_the_ring
def test_the_ring_sends_no_more_than_whole_chunks(observe, function):
    """Where N does not divide S, nobody sends more than 2(N-1) chunks of ceil(S/N) elements, each half half of that."""
    structure.judge_ring_volume(RUN[function](observe, 3, AWKWARD), AWKWARD)


@pytest.mark.law("ring.takes_the_fewest_rounds")
@each_of_the_ring
@pytest.mark.parametrize("world_size", [3, 4])
def test_the_ring_takes_the_fewest_rounds(observe, world_size, function):
    """2(N-1) rounds for the all-reduce, N-1 for each half."""
    structure.judge_ring_rounds(RUN[function](observe, world_size, SOME), SOME)


@pytest.mark.law("ring.talks_to_neighbours_only")
@each_of_the_ring
def test_the_ring_talks_to_neighbours_only(observe, function):
    """Of four ranks each exchanges messages with its right and left neighbour, never with the rank across."""
    structure.judge_neighbours(RUN[function](observe, 4, SOME), SOME)


@pytest.mark.law("ring.uses_point_to_point_only")
@each_of_the_ring
def test_the_ring_is_made_of_sends_and_receives(observe, function):
    """No library collective is called, not even a barrier."""
    structure.judge_point_to_point(RUN[function](observe, 3, SOME), SOME)


@pytest.mark.law("ring.never_deadlocks")
@each_of_the_ring
def test_the_ring_never_deadlocks(observe, function):
    """A send ends only when its receive has begun."""
    JUDGE[function](RUN[function](observe, 3, ONE, rendezvous=True), ONE)


@pytest.mark.law("ring.never_deadlocks")
def test_the_ring_never_deadlocks_with_large_messages_on_gloo(observe):
    """Messages of 8 MiB, which no socket buffer holds."""
    values.judge_large(runs.run_large(observe, 2, "ring_all_reduce", dtype="float32", num_elements=64, repeat=2**16))


@pytest.mark.law("ring.waits_before_it_reads")
@each_of_the_ring
def test_the_ring_waits_before_it_reads(observe, function):
    """What is received lands when it is waited for and no sooner."""
    seen = RUN[function](observe, 3, ONE, late=True)
    structure.judge_waits(seen, ONE)
    values.judge_late(JUDGE[function], seen, ONE, plain=lambda: RUN[function](observe, 3, ONE, rendezvous=True))


@pytest.mark.law("ring.subgroups_use_their_own_ranks")
@each_of_the_ring
def test_the_ring_runs_over_the_members_of_a_subgroup(observe, function):
    """Ranks 1 and 2 of three: by their group ranks and through the group that was given."""
    seen = RUN[function](observe, 3, ONE, members=[1, 2])
    JUDGE[function](seen, ONE)
    structure.judge_members(seen, ONE)


@pytest.mark.law("ring.changes_only_what_it_must")
@pytest.mark.parametrize("layout", ["every_second", "transposed"])
def test_ring_all_reduce_works_in_place_on_any_layout(observe, layout):
    """The tensor's own elements change, and nothing between them."""
    seen = runs.run_all_reduce(observe, 2, MATRICES, layout=layout)
    structure.judge_contiguous(seen, MATRICES)
    values.judge_all_reduce(seen, MATRICES)


@pytest.mark.law("ring.changes_only_what_it_must")
@pytest.mark.parametrize(("world_size", "layout"), [(1, "plain"), (2, "transposed")])
def test_reduce_scatter_leaves_its_input_alone(observe, world_size, layout):
    """The input stays as it was, of any layout, and what is returned is new memory, also on a single rank."""
    tensors = SOME if layout == "plain" else MATRICES
    seen = runs.run_reduce_scatter(observe, world_size, tensors, layout=layout)
    values.judge_reduce_scatter(seen, tensors)
    values.judge_inputs_unchanged(seen, list(tensors))


@pytest.mark.law("ring.changes_only_what_it_must")
@pytest.mark.parametrize(("world_size", "layout"), [(1, "plain"), (2, "every_second")])
def test_all_gather_leaves_its_input_alone(observe, world_size, layout):
    """The chunk stays as it was, of any layout, and what is returned is new memory, also on a single rank."""
    seen = runs.run_all_gather(observe, world_size, SOME, layout=layout)
    values.judge_all_gather(seen, SOME)
    values.judge_inputs_unchanged(seen, list(SOME), what="the chunk that was given")


@pytest.mark.law("ring.all_ranks_hold_the_same_bits")
@pytest.mark.parametrize("world_size", [3, 4])
def test_ring_all_reduce_leaves_the_same_bits_everywhere(observe, world_size):
    """All ranks' sums agree to the last bit."""
    values.judge_same_bits(runs.run_all_reduce(observe, world_size, SOME), list(SOME))


@pytest.mark.law("ring.all_ranks_hold_the_same_bits")
def test_a_mean_has_the_same_bits_everywhere(observe):
    """All ranks' means agree to the last bit, in each of six dtypes."""
    values.judge_same_bits(runs.run_all_reduce(observe, 3, ALL, op="mean"), list(ALL))


# --- broadcast -------------------------------------------------------------------------------------------------------
SHORT = SOME | runs.sizes(0, 1, 5)


@pytest.mark.law("broadcast.every_rank_holds_the_source")
@pytest.mark.parametrize(
    ("world_size", "src", "num_chunks", "transport"),
    [(1, 0, 3, "wire"), (3, 2, 1, "wire"), (4, 1, 3, "wire"), (3, 1, 4, "gloo")],
)
def test_every_rank_holds_the_source(observe, world_size, src, num_chunks, transport):
    """Any source, dtype, size and number of pieces, also more pieces than elements."""
    values.judge_broadcast(runs.run_broadcast(observe, world_size, SHORT, src=src, num_chunks=num_chunks, transport=transport), SHORT)


@pytest.mark.law("broadcast.every_rank_holds_the_source")
def test_broadcast_works_in_place_on_any_layout(observe):
    """The tensor's own elements change, and nothing between them."""
    seen = runs.run_broadcast(observe, 2, MATRICES, src=0, num_chunks=3, layout="every_second")
    structure.judge_contiguous(seen, MATRICES)
    values.judge_broadcast(seen, MATRICES)


@pytest.mark.law("broadcast.is_pipelined")
@pytest.mark.parametrize(("world_size", "num_chunks"), [(2, 4), (4, 8)])
def test_broadcast_is_pipelined(observe, world_size, num_chunks):
    """N - 2 + num_chunks times the time of one piece, on slow and on fast networks."""
    structure.judge_pipeline(runs.run_broadcast(observe, world_size, ONE, src=1, num_chunks=num_chunks), ONE)


@pytest.mark.law("broadcast.each_link_carries_the_tensor_once")
@pytest.mark.parametrize(("world_size", "num_chunks"), [(2, 4), (4, 8)])
def test_each_link_of_the_chain_carries_the_tensor_once(observe, world_size, num_chunks):
    """Every rank sends the tensor once to its right neighbour; the last of the chain sends nothing."""
    structure.judge_chain_volume(runs.run_broadcast(observe, world_size, ONE, src=1, num_chunks=num_chunks), ONE)


@pytest.mark.law("broadcast.waits_for_what_it_started")
def test_broadcast_waits_for_what_it_started(observe):
    """Messages land as late as they may."""
    seen = runs.run_broadcast(observe, 3, ONE, src=0, num_chunks=4, late=True)
    structure.judge_waits(seen, ONE)
    values.judge_late(values.judge_broadcast, seen, ONE, plain=lambda: runs.run_broadcast(observe, 3, ONE, src=0, num_chunks=4))


@pytest.mark.law("broadcast.waits_for_what_it_started")
def test_broadcast_ends_with_large_messages_on_gloo(observe):
    """Pieces of 8 MiB, which no socket buffer holds."""
    values.judge_large(runs.run_large(observe, 2, "broadcast", dtype="float32", num_elements=64, repeat=2**16, src=1, num_chunks=2))


@pytest.mark.law("broadcast.source_is_a_global_rank")
def test_the_source_is_a_global_rank(observe):
    """Ranks 1, 2 and 3 of four, from global rank 2, which is group rank 1."""
    seen = runs.run_broadcast(observe, 4, ONE, src=2, num_chunks=4, members=[1, 2, 3])
    values.judge_broadcast(seen, ONE)
    structure.judge_members(seen, ONE)


# --- all_to_all ------------------------------------------------------------------------------------------------------
EQUAL = {world_size: {"two_rows_each": [[2] * world_size] * world_size} for world_size in (1, 2, 3, 4)}
UNEVEN = {
    2: {"uneven": [[1, 3], [0, 2]], "one_sided": [[0, 4], [0, 0]], "nothing": [[0, 0], [0, 0]]},
    3: {"uneven": [[2, 0, 1], [3, 1, 0], [0, 5, 2]], "one_rank_gets_all": [[0, 1, 0], [0, 2, 0], [0, 3, 0]]},
    4: {"uneven": [[1, 2, 3, 0], [0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1]]},
}


@pytest.mark.law("all_to_all.blocks_arrive_in_rank_order")
@pytest.mark.parametrize(("world_size", "num_dims", "dtype"), [(3, 3, "int64"), (4, 1, "float32")])
def test_equal_blocks_arrive_in_rank_order(observe, world_size, num_dims, dtype):
    """Group rank r returns block r of every rank."""
    rows = EQUAL[world_size]
    seen = runs.run_all_to_all(observe, world_size, rows, trailing=(2,) * (num_dims - 1), dtype=dtype, has_splits=False)
    values.judge_all_to_all(seen, rows)


@pytest.mark.law("all_to_all.blocks_arrive_in_rank_order")
@pytest.mark.parametrize(("world_size", "layout"), [(1, "plain"), (2, "transposed")])
def test_all_to_all_leaves_its_input_alone(observe, world_size, layout):
    """The input stays as it was, of any layout, and what is returned is new memory, also on a single rank."""
    rows = EQUAL[world_size]
    seen = runs.run_all_to_all(observe, world_size, rows, trailing=(2 * world_size,), layout=layout)
    structure.judge_contiguous(seen, rows)
    values.judge_all_to_all(seen, rows)
    values.judge_inputs_unchanged(seen, list(rows))


@pytest.mark.law("all_to_all.uneven_and_empty_blocks_arrive")
@pytest.mark.parametrize(("world_size", "transport"), [(3, "wire"), (4, "wire"), (2, "gloo")])
def test_uneven_and_empty_blocks_arrive(observe, world_size, transport):
    """Another number of rows for every pair of ranks, also none, also none at all for a rank."""
    rows = UNEVEN[world_size]
    values.judge_all_to_all(runs.run_all_to_all(observe, world_size, rows, trailing=(2,), transport=transport), rows)


@pytest.mark.law("all_to_all.each_block_travels_once")
@pytest.mark.parametrize("world_size", [3, 4])
def test_each_block_travels_once_and_straight(observe, world_size):
    """A rank sends the others' blocks, each to the rank that it is for; its own does not travel."""
    rows = UNEVEN[world_size]
    structure.judge_block_volume(runs.run_all_to_all(observe, world_size, rows, trailing=(2,)), rows, elements_per_row=2)


@pytest.mark.law("all_to_all.each_block_travels_once")
@pytest.mark.parametrize(("world_size", "num_dims", "dtype"), [(3, 3, "int64"), (4, 1, "float32")])
def test_each_equal_block_travels_once_and_straight(observe, world_size, num_dims, dtype):
    """Without splits, too, a rank sends the others' blocks and nothing else."""
    rows = EQUAL[world_size]
    seen = runs.run_all_to_all(observe, world_size, rows, trailing=(2,) * (num_dims - 1), dtype=dtype, has_splits=False)
    structure.judge_block_volume(seen, rows, elements_per_row=2 ** (num_dims - 1), dtype=dtype)


@pytest.mark.law("all_to_all.exchanges_in_parallel")
@pytest.mark.parametrize(("world_size", "num_dims", "dtype"), [(3, 3, "int64"), (4, 1, "float32")])
def test_the_exchange_takes_at_most_n_minus_one_rounds(observe, world_size, num_dims, dtype):
    """All at once or one peer after the other, but nobody waits for a stranger's exchange."""
    seen = runs.run_all_to_all(observe, world_size, EQUAL[world_size], trailing=(2,) * (num_dims - 1), dtype=dtype, has_splits=False)
    assert_rounds(seen, "two_rows_each", least=1, most=world_size - 1, hint="Are all sends and receives of a step started before any wait?")


@pytest.mark.law("all_to_all.waits_for_what_it_started")
@pytest.mark.parametrize(("rendezvous", "late"), [(True, False), (False, True)], ids=["rendezvous", "late"])
def test_all_to_all_waits_for_what_it_started(observe, rendezvous, late):
    """Sends end only with their receives; messages land as late as they may."""
    rows = UNEVEN[3]
    seen = runs.run_all_to_all(observe, 3, rows, trailing=(2,), rendezvous=rendezvous, late=late)
    structure.judge_waits(seen, rows)
    plain = functools.partial(runs.run_all_to_all, observe, 3, rows, trailing=(2,), rendezvous=True)
    values.judge_late(values.judge_all_to_all, seen, rows, plain)


@pytest.mark.law("all_to_all.subgroups_use_their_own_ranks")
def test_all_to_all_counts_blocks_by_group_rank(observe):
    """In the subgroup of ranks 1 and 2, block i is for its i-th member."""
    rows = UNEVEN[2]
    seen = runs.run_all_to_all(observe, 3, rows, trailing=(2,), members=[1, 2])
    values.judge_all_to_all(seen, rows)
    structure.judge_members(seen, ["uneven"])


# --- recursive_doubling ----------------------------------------------------------------------------------------------
DOUBLING = {"function": "recursive_doubling_all_reduce"}


@pytest.mark.law("recursive_doubling.gives_every_rank_the_reduction")
@pytest.mark.parametrize(
    ("world_size", "op", "transport"),
    [(1, "sum", "wire"), (3, "sum", "wire"), (4, "sum", "wire"), (3, "mean", "wire"), (3, "max", "gloo")],
)
def test_recursive_doubling_gives_every_rank_the_reduction(observe, world_size, op, transport):
    """The sum, the mean or the maximum, in any size and several dtypes."""
    values.judge_all_reduce(runs.run_all_reduce(observe, world_size, SHORT, op=op, transport=transport, **DOUBLING), SHORT)


@pytest.mark.law("recursive_doubling.gives_every_rank_the_reduction")
def test_recursive_doubling_works_in_place_on_any_layout(observe):
    """The tensor's own elements change, and nothing between them."""
    seen = runs.run_all_reduce(observe, 2, MATRICES, layout="every_second", **DOUBLING)
    structure.judge_contiguous(seen, MATRICES)
    values.judge_all_reduce(seen, MATRICES)


@pytest.mark.law("recursive_doubling.takes_log2_rounds")
@pytest.mark.parametrize("world_size", [3, 4])
def test_recursive_doubling_takes_log2_rounds(observe, world_size):
    """log2 N rounds, floor(log2 N) + 2 where N is no power of two."""
    structure.judge_doubling_rounds(runs.run_all_reduce(observe, world_size, SHORT, **DOUBLING), SOME)


@pytest.mark.law("recursive_doubling.sends_the_whole_once_per_round")
@pytest.mark.parametrize("world_size", [3, 4])
def test_recursive_doubling_sends_the_whole_once_per_round(observe, world_size):
    """log2 N times the tensor; nobody more than floor(log2 N) + 1 times where N is no power of two."""
    structure.judge_doubling_volume(runs.run_all_reduce(observe, world_size, SHORT, **DOUBLING), SHORT)


@pytest.mark.law("recursive_doubling.all_ranks_hold_the_same_bits")
@pytest.mark.parametrize("world_size", [3, 4])
def test_recursive_doubling_leaves_the_same_bits_everywhere(observe, world_size):
    """All ranks' sums agree to the last bit, although each rank adds for itself."""
    values.judge_same_bits(runs.run_all_reduce(observe, world_size, SHORT, **DOUBLING), list(SHORT))


@pytest.mark.law("recursive_doubling.waits_for_what_it_started")
@pytest.mark.parametrize(("rendezvous", "late"), [(True, False), (False, True)], ids=["rendezvous", "late"])
def test_recursive_doubling_waits_for_what_it_started(observe, rendezvous, late):
    """Sends end only with their receives; messages land as late as they may."""
    seen = runs.run_all_reduce(observe, 3, ONE, rendezvous=rendezvous, late=late, **DOUBLING)
    structure.judge_waits(seen, ONE)
    plain = functools.partial(runs.run_all_reduce, observe, 3, ONE, rendezvous=True, **DOUBLING)
    values.judge_late(values.judge_all_reduce, seen, ONE, plain)


@pytest.mark.law("recursive_doubling.subgroups_use_their_own_ranks")
def test_recursive_doubling_finds_partners_by_group_rank(observe):
    """Ranks 1, 2 and 3 of four, whose group ranks are not their global ranks."""
    seen = runs.run_all_reduce(observe, 4, ONE, members=[1, 2, 3], **DOUBLING)
    values.judge_all_reduce(seen, ONE)
    structure.judge_members(seen, ONE)


# --- cost_model ------------------------------------------------------------------------------------------------------
@pytest.mark.law("cost_model.matches_the_formula")
@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "central"])
def test_all_reduce_seconds_matches_the_formula(observe, algorithm):
    """Rounds times (latency + bytes of a message / bandwidth), on random networks and in the limits."""
    costs.judge_costs(observe, algorithm, world_sizes=[1, 2, 3, 4, 6, 8])


@pytest.mark.law("cost_model.matches_the_formula")
def test_an_unknown_algorithm_is_a_value_error(observe):
    """A name that isn't in the table raises ValueError."""
    costs.judge_refusal(observe, "quantum")


@pytest.mark.law("cost_model.agrees_with_the_trace")
@pytest.mark.parametrize(("algorithm", "world_size"), [("ring", 4), ("recursive_doubling", 3), ("recursive_doubling", 4)])
def test_the_model_agrees_with_the_trace(observe, algorithm, world_size):
    """What the model says is what your own all-reduce takes on such a network."""
    run = (
        runs.run_all_reduce(observe, world_size, SOME)
        if algorithm == "ring"
        else runs.run_all_reduce(observe, world_size, SHORT, **DOUBLING)
    )
    costs.judge_prediction(observe, run, algorithm, SOME)


@pytest.mark.law("cost_model.bus_bandwidth_counts_what_a_link_carries")
def test_bus_bandwidth_counts_what_a_link_carries(observe):
    """2(N-1)/N times the bytes per second; 0 for one rank."""
    costs.judge_bus_bandwidth(observe, world_sizes=[1, 2, 3, 8, 1024])


# --- measurement -----------------------------------------------------------------------------------------------------
STAGED = pytest.mark.parametrize(("world_size", "num_warmup", "num_timed"), [(1, 3, 1), (2, 2, 5)])


@pytest.mark.law("measurement.times_each_call_alone")
@STAGED
def test_each_call_is_timed_alone(observe, world_size, num_warmup, num_timed):
    """The median over the timed calls of the slowest rank's time, on a clock that only launches and synchronisation move."""
    measurement.judge_staged_times(
        measurement.run_staged(observe, world_size, sizes_bytes=[4096, 1024], num_warmup=num_warmup, num_timed=num_timed)
    )


@pytest.mark.law("measurement.calls_as_often_as_it_was_asked")
@STAGED
def test_it_calls_as_often_as_it_was_asked(observe, world_size, num_warmup, num_timed):
    """For each size in turn a float32 tensor of that size, num_warmup + num_timed times."""
    measurement.judge_calls(
        measurement.run_staged(observe, world_size, sizes_bytes=[4096, 1024], num_warmup=num_warmup, num_timed=num_timed)
    )


@pytest.mark.law("measurement.calls_as_often_as_it_was_asked")
def test_it_measures_the_group_that_it_was_given(observe):
    """Two of three ranks measure, and every call is handed their group."""
    measurement.judge_calls(measurement.run_staged(observe, 3, sizes_bytes=[64], num_warmup=1, num_timed=2, members=[1, 2]))


@pytest.mark.law("measurement.bandwidth_follows_from_the_seconds")
@pytest.mark.parametrize(("world_size", "transport"), [(3, "wire"), (2, "gloo")])
def test_the_bandwidth_follows_from_the_seconds(observe, world_size, transport):
    """On the real clock every point has positive seconds and the bandwidth that follows from them, the same on all ranks."""
    measurement.judge_points(
        measurement.run_measurement(observe, world_size, sizes_bytes=[64, 4096], num_warmup=1, num_timed=3, transport=transport)
    )
