"""Public cases of the laws of `context_parallel`. What each means: tests/laws/context_parallel/."""

from __future__ import annotations

import pytest

from tests.laws.context_parallel import attention, losses, merging, models, sequences, travel
from tests.laws.context_parallel.attention import ULYSSES
from tests.laws.context_parallel.losses import loss_case
from tests.laws.context_parallel.models import GPT2, LLAMA, RING, ZIGZAG
from tests.laws.context_parallel.sequences import refusal

GRADIENTS = ("dq", "dk", "dv")

# --- merging ---------------------------------------------------------------------------------------------------------
MERGES = [
    merging.case_of("plain"),
    merging.case_of("flat", (7, 3), dtype="float64"),
    merging.case_of("large", size=10000.0),
    merging.case_of("apart", apart=20000.0, size=1.0),
    merging.case_of("near", size=0.01, apart=1.0),
]
EMPTY = [merging.case_of("empty", empty="zeros"), merging.case_of("garbage", empty="garbage")]
HALF = [merging.case_of("bfloat16", dtype="bfloat16"), merging.case_of("float16", dtype="float16", empty="zeros")]


@pytest.mark.law("merging.merges_as_one_softmax")
def test_merging_gives_one_softmax(observe):
    """Small and large log-sum-exps, near and far apart, two shapes."""
    merging.judge(merging.run(observe, MERGES), MERGES)


@pytest.mark.law("merging.empty_rows_count_nothing")
def test_merging_leaves_empty_rows_out(observe):
    """A quarter of the rows has seen nothing in the first part, a quarter in the second, a quarter in both; also with garbage in o."""
    merging.judge(merging.run(observe, EMPTY), EMPTY)


@pytest.mark.law("merging.half_precision_is_merged_in_float32")
def test_merging_is_done_in_float32(observe):
    """bfloat16 and float16 in, float32 out."""
    merging.judge(merging.run(observe, HALF), HALF)


@pytest.mark.law("merging.inputs_stay_as_they_were")
def test_merging_leaves_its_inputs_alone(observe):
    """All cases again: the four tensors afterwards."""
    for cases in (MERGES, EMPTY, HALF):
        merging.judge_untouched(merging.run(observe, cases), cases)


# --- ring ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("ring.output_equals_the_whole")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ring_attentions_output_is_the_wholes(observe, world_size):
    """Each rank's output is its tokens' part, without a mask and with one."""
    attention.judge_values(attention.run(observe, world_size), ("o",))


@pytest.mark.law("ring.gradients_equal_the_whole")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ring_attentions_gradients_are_the_wholes(observe, world_size):
    """Each rank has the gradients of its own q, k and v, without a mask and with one."""
    attention.judge_values(attention.run(observe, world_size), GRADIENTS)


@pytest.mark.law("ring.output_equals_the_whole")
def test_rows_that_see_nothing_stay_empty(observe):
    """A kernel that hides the first keys: early queries see nothing in some blocks, or at all, and its o holds NaN there."""
    attention.judge_values(attention.run(observe, 2, masks=(True,), hidden=0.3), ("o",))


def halves(observe, dtype, **case):
    """A zigzag on four ranks in 16 bits, from which several laws are read."""
    return attention.run(observe, 4, masks=(True,), zigzag=True, dtype=dtype, heads=(4, 2), **case)


@pytest.mark.law("ring.keys_and_values_go_round_once")
def test_keys_and_values_go_round_once(observe):
    """Three blocks to the next of four ranks, in the dtype of the keys; with zigzag as without a mask."""
    seen = halves(observe, "float16")
    travel.judge_ring_volume(seen, "forward")
    travel.judge_clean(seen)


@pytest.mark.law("ring.gradients_come_home")
def test_gradients_come_home(observe):
    """Three blocks again, and the float32 sums three or four times."""
    seen = halves(observe, "float16")
    travel.judge_ring_volume(seen, "backward")
    travel.judge_clean(seen)


@pytest.mark.law("ring.sends_leave_before_the_arithmetic")
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_sends_leave_before_the_arithmetic(observe, direction):
    """Three ranks whose kernel goes on only when the block is on its way, and whose blocks arrive only when it has been called."""
    travel.judge_gated(travel.run_gated(observe, 3, direction))


@pytest.mark.law("ring.holds_few_blocks")
@pytest.mark.parametrize("has_backward", [False, True])
def test_few_blocks_are_held(observe, has_backward):
    """Eight ranks that have room for half of all keys and values; and for a backward, but not with those of all ranks."""
    travel.judge_large(travel.run_large(observe, has_backward=has_backward))


@pytest.mark.law("ring.half_precision_is_summed_in_float32")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_are_rounded_once(observe, dtype):
    """Blocks are merged, and gradients summed, in float32; the kernel gets what came."""
    seen = halves(observe, dtype)
    attention.judge_values(seen)
    attention.judge_kernel_inputs(seen)


def independent(observe, **case):
    """Two calls, nested, of tensors that aren't contiguous."""
    return attention.run(observe, 2, masks=(True, True), nested=True, layout="transposed", heads=(4, 2), **case)


@pytest.mark.law("ring.calls_are_independent")
def test_calls_are_independent(observe):
    """Two calls before the first backward, other strides, and the caller's tensors afterwards."""
    seen = independent(observe)
    attention.judge_values(seen)
    attention.judge_untouched(seen)
    travel.judge_clean(seen)


@pytest.mark.law("ring.subgroups_use_their_own_ranks")
def test_ring_attention_stays_in_its_group(observe):
    """Two groups of two, side by side."""
    seen = attention.run(observe, 4, masks=(True,), groups=[[0, 2], [1, 3]])
    attention.judge_values(seen)
    travel.judge_groups(seen)


Q4, K4, Q3 = (1, 2, 4, 2), (1, 2, 4, 2), (1, 2, 3, 2)


@pytest.mark.law("ring.what_does_not_fit_is_refused")
def test_ring_attention_refuses_what_does_not_fit(observe):
    """Three queries and four keys under a causal mask; three tokens in a zigzag."""
    cases = [
        refusal("ring_attention", [Q3, K4, K4], [3, 4], causal=True),
        refusal("ring_attention", [Q3, Q3, Q3], [3, 2], causal=True, zigzag=True),
    ]
    sequences.judge_refusals(sequences.run_refusals(observe, 2, cases))


# --- zigzag ----------------------------------------------------------------------------------------------------------
SPLITS = [((2, 12), None, "int64"), ((3, 2, 24), -1, "float32"), ((12,), 0, "int64"), ((2, 3, 12, 2), 2, "float32")]


@pytest.mark.law("zigzag.splits_in_two_chunks")
@pytest.mark.parametrize("world_size", [1, 3])
def test_zigzag_splits_in_two_chunks(observe, world_size):
    """Three dims."""
    sequences.judge_split(sequences.run_split(observe, world_size, SPLITS))


@pytest.mark.law("zigzag.splits_in_two_chunks")
def test_zigzag_refuses_what_cannot_be_cut(observe):
    """Six tokens into four chunks."""
    sequences.judge_refusals(sequences.run_refusals(observe, 2, [refusal("zigzag_split", [(1, 6)], [6, 4])]))


@pytest.mark.law("zigzag.restores_the_whole")
@pytest.mark.parametrize("world_size", [1, 3])
def test_zigzag_restores_the_whole(observe, world_size):
    """What was cut, on every rank."""
    sequences.judge_restored(sequences.run_split(observe, world_size, SPLITS))


@pytest.mark.law("zigzag.attention_equals_the_whole")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_zigzag_attention_is_the_wholes(observe, world_size):
    """Outputs and gradients."""
    attention.judge_values(attention.run(observe, world_size, zigzag=True))


@pytest.mark.law("zigzag.ranks_are_balanced")
@pytest.mark.parametrize("world_size", [2, 3])
def test_zigzag_ranks_are_balanced(observe, world_size):
    """Pairs of query and key in all kernel calls."""
    attention.judge_work(attention.run(observe, world_size, zigzag=True), balance=True)


@pytest.mark.law("zigzag.hidden_blocks_are_skipped")
@pytest.mark.parametrize("world_size", [2, 3])
def test_hidden_blocks_are_skipped(observe, world_size):
    """Without zigzag the first rank has one block to compute and the last has all."""
    attention.judge_work(attention.run(observe, world_size), balance=False)


# --- ulysses ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("ulysses.attention_equals_the_whole")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ulysses_attention_is_the_wholes(observe, world_size):
    """Outputs and gradients, with half as many key heads."""
    seen = attention.run(observe, world_size, function=ULYSSES, heads=(12, 6), num_tokens=4)
    attention.judge_values(seen)
    attention.judge_untouched(seen)


@pytest.mark.law("ulysses.exchanges_heads_for_tokens")
@pytest.mark.parametrize("world_size", [2, 3])
def test_ulysses_exchanges_heads_for_tokens(observe, world_size):
    """q, k, v and o each way."""
    seen = attention.run(observe, world_size, function=ULYSSES, heads=(12, 6), num_tokens=4)
    travel.judge_ulysses_volume(seen)
    travel.judge_clean(seen)


@pytest.mark.law("ulysses.uneven_heads_are_refused")
def test_ulysses_refuses_uneven_heads(observe):
    """Three query heads, or one key head, on two ranks."""
    cases = [
        refusal("ulysses_attention", [(1, 3, 4, 2)] * 3, [3, 2], causal=True),
        refusal("ulysses_attention", [(1, 4, 4, 2), (1, 1, 4, 2), (1, 1, 4, 2)], [1, 2], causal=True),
    ]
    sequences.judge_refusals(sequences.run_refusals(observe, 2, cases))


# --- tokens and the loss ---------------------------------------------------------------------------------------------
EVEN = [{"num_tokens": 24}, {"num_tokens": 12, "zigzag": True}, {"num_tokens": 12, "positions": True, "ignore_index": -1}]
UNEVEN = [{"num_tokens": 7}, {"num_tokens": 13, "zigzag": True}, {"num_tokens": 2, "zigzag": True}]


@pytest.mark.law("sequence.labels_are_shifted_before_the_cut")
@pytest.mark.parametrize("world_size", [2, 3])
def test_labels_are_shifted_before_the_cut(observe, world_size):
    """Contiguous and zigzag."""
    sequences.judge_shard(sequences.run_shard(observe, world_size, EVEN), ("tokens", "targets"))


@pytest.mark.law("sequence.positions_follow_the_tokens")
@pytest.mark.parametrize("world_size", [2, 3])
def test_positions_follow_the_tokens(observe, world_size):
    """Counted, and given."""
    sequences.judge_shard(sequences.run_shard(observe, world_size, EVEN), ("tokens", "positions"))


@pytest.mark.law("sequence.uneven_lengths_are_padded")
@pytest.mark.parametrize("world_size", [3])
def test_uneven_lengths_are_padded(observe, world_size):
    """Lengths that nothing divides, and fewer tokens than chunks."""
    sequences.judge_padding(sequences.run_shard(observe, world_size, UNEVEN))


LOSSES = [
    loss_case([8, 8, 8]),
    loss_case([1, 8, 3]),
    loss_case([0, 5, 8], scale=3.0),
    loss_case([2, 0, 4], dtype="float32", ignore_index=-1, is_flat=True),
]
NOTHING = [loss_case([0, 0, 0]), loss_case([5, 1, 2], dtype="bfloat16"), loss_case([3, 3, 8], dtype="float16", ignore_index=4, scale=512.0)]
MANY = [loss_case([300, 257, 2], dtype="bfloat16", num_tokens=150)]


@pytest.mark.law("sequence.loss_is_the_whole_mean")
@pytest.mark.parametrize("cases", [LOSSES, NOTHING, MANY], ids=["numbers", "none", "many"])
def test_the_loss_is_the_whole_mean(observe, cases):
    """Ranks with all, some and no targets; no targets at all; 16 bits, and more targets than they can count."""
    losses.judge_loss(losses.run_loss(observe, 3, cases), gradient=False)


@pytest.mark.law("sequence.loss_gradients_are_the_parts_of_the_whole")
@pytest.mark.parametrize("cases", [LOSSES, NOTHING], ids=["numbers", "none"])
def test_the_losses_gradients_are_parts_of_the_wholes(observe, cases):
    """The same, and other gradients than 1 from behind."""
    losses.judge_loss(losses.run_loss(observe, 3, cases), gradient=True)


@pytest.mark.law("sequence.logits_stay_at_home")
def test_logits_stay_at_home(observe):
    """All-reduces of two numbers a loss, and nothing backward."""
    losses.judge_loss_traffic(losses.run_loss(observe, 3, LOSSES))


# --- model -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("model.loss_and_gradients_equal_the_whole")
@pytest.mark.parametrize("config", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_a_gpt_on_a_cut_sequence_is_the_whole_one(observe, config):
    """Two ranks, by ring, zigzag and Ulysses, eleven tokens."""
    models.judge(models.run(observe, 2, config, [RING, ZIGZAG, models.ULYSSES]))


@pytest.mark.law("model.gradients_are_summed")
def test_gradients_are_summed(observe):
    """Gradients missing on some ranks or on all, and one frozen parameter."""
    models.judge_sums(models.run_sums(observe, 3, missing=[["first"], ["first", "second"], ["first"]]))
