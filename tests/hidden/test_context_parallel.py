"""Hidden cases of the laws of `context_parallel`: other shapes, worlds and traps. What each means: tests/laws/context_parallel/."""

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
    merging.case_of("one row", (1, 5)),
    merging.case_of("wide", (2, 2, 1, 3, 6), dtype="float64", size=300.0),
    merging.case_of("behind", (3, 4), apart=-20000.0),
    merging.case_of("very large", (2, 9, 3), size=10000.0, apart=5.0),
    merging.case_of("negative", (4, 2), size=0.0, apart=-10000.0),
    merging.case_of("far and large", (2, 3), dtype="float64", size=10000.0, apart=10000.0),
]
EMPTY = [
    merging.case_of("wide", (3, 8, 2), dtype="float64", empty="garbage"),
    merging.case_of("large", (8, 3), size=10000.0, empty="garbage"),
    merging.case_of("half", (8, 3), dtype="float16", empty="garbage"),
]
HALF = [
    merging.case_of("bfloat16", (2, 2, 9, 4), dtype="bfloat16", size=5.0),
    merging.case_of("float16", (31, 8), dtype="float16", apart=2.0),
]


@pytest.mark.law("merging.merges_as_one_softmax")
def test_merging_gives_one_softmax(observe):
    """Other shapes, sizes and distances."""
    merging.judge(merging.run(observe, MERGES, kind="other shapes, larger and further apart"), MERGES)


@pytest.mark.law("merging.empty_rows_count_nothing")
def test_merging_leaves_empty_rows_out(observe):
    """Garbage in other dtypes, beside large log-sum-exps."""
    merging.judge(merging.run(observe, EMPTY, kind="garbage in rows that have seen nothing"), EMPTY)


@pytest.mark.law("merging.half_precision_is_merged_in_float32")
def test_merging_is_done_in_float32(observe):
    """Other shapes in 16 bits."""
    merging.judge(merging.run(observe, HALF, kind="16 bits"), HALF)


@pytest.mark.law("merging.inputs_stay_as_they_were")
def test_merging_leaves_its_inputs_alone(observe):
    """All cases again."""
    for cases, kind in ((MERGES, "other shapes"), (EMPTY, "rows that have seen nothing"), (HALF, "16 bits")):
        merging.judge_untouched(merging.run(observe, cases, kind=kind), cases)


# --- ring ------------------------------------------------------------------------------------------------------------
def four(observe, **case):
    """Grouped heads on four ranks."""
    return attention.run(observe, 4, heads=(4, 2), batch=1, num_tokens=4, kind="four ranks, grouped heads", **case)


def several(observe):
    """More queries than keys, another number of heads, a batch of three, and scores of some size."""
    return attention.run(
        observe,
        3,
        masks=(False,),
        heads=(3, 3),
        batch=3,
        num_queries=7,
        num_tokens=5,
        head_dim=3,
        scale=4.0,
        kind="more queries than keys, and no mask: outputs and gradients",
    )


def hidden(observe, **case):
    """Half of the keys are seen by nobody: whole blocks of some ranks."""
    return attention.run(observe, 3, masks=(True,), hidden=0.5, heads=(2, 2), kind="a kernel that hides keys", **case)


@pytest.mark.law("ring.output_equals_the_whole")
def test_ring_attentions_output_is_the_wholes(observe):
    """Four ranks, grouped heads."""
    attention.judge_values(four(observe), ("o",))


@pytest.mark.law("ring.output_equals_the_whole")
def test_ring_attentions_output_is_the_wholes_in_other_shapes(observe):
    """More queries than keys; keys that a kernel hides; and gloo."""
    attention.judge_values(several(observe), ("o",))
    attention.judge_values(hidden(observe), ("o",))
    attention.judge_values(attention.run(observe, 2, masks=(True,), transport="gloo", kind="over gloo"), ("o",))


@pytest.mark.law("ring.gradients_equal_the_whole")
def test_ring_attentions_gradients_are_the_wholes(observe):
    """Four ranks, grouped heads."""
    attention.judge_values(four(observe), GRADIENTS)


@pytest.mark.law("ring.gradients_equal_the_whole")
def test_ring_attentions_gradients_are_the_wholes_in_other_shapes(observe):
    """More queries than keys; keys that a kernel hides; and gloo."""
    attention.judge_values(several(observe), GRADIENTS)
    attention.judge_values(hidden(observe), GRADIENTS)
    attention.judge_values(attention.run(observe, 2, masks=(True,), transport="gloo", kind="over gloo"), GRADIENTS)


def late(observe):
    """Three ranks whose messages land when they are waited for."""
    return attention.run(observe, 3, dtype="float16", late=True, kind="three ranks, late messages")


@pytest.mark.law("ring.keys_and_values_go_round_once")
def test_keys_and_values_go_round_once(observe):
    """Without a mask as with zigzag; contiguous under a mask no more than that. What lands late is waited for."""
    seen = late(observe)
    for number in (0, 1):
        travel.judge_ring_volume(seen, "forward", number)
    travel.judge_clean(seen)
    attention.judge_values(seen, ("o",))


@pytest.mark.law("ring.gradients_come_home")
def test_gradients_come_home(observe):
    """Likewise backward."""
    seen = late(observe)
    for number in (0, 1):
        travel.judge_ring_volume(seen, "backward", number)
    travel.judge_clean(seen)
    attention.judge_values(seen, GRADIENTS)


@pytest.mark.law("ring.sends_leave_before_the_arithmetic")
@pytest.mark.parametrize(("world_size", "direction"), [(2, "forward"), (2, "backward"), (4, "forward"), (4, "backward")])
def test_sends_leave_before_the_arithmetic(observe, world_size, direction):
    """Two ranks and four."""
    travel.judge_gated(travel.run_gated(observe, world_size, direction, kind=f"{world_size} ranks, {direction}"))


@pytest.mark.law("ring.half_precision_is_summed_in_float32")
@pytest.mark.parametrize("rounds", [False, True])
def test_sixteen_bits_are_rounded_once(observe, rounds):
    """Contiguous, on three ranks."""
    kind = "16 bits without a mask"
    seen = attention.run(
        observe, 3, masks=(False,), dtype="bfloat16", heads=(4, 2), num_tokens=8, kind=kind, **({"rounds": True} if rounds else {})
    )
    attention.judge_rounded(seen) if rounds else attention.judge_values(seen)


@pytest.mark.law("ring.half_precision_is_summed_in_float32")
def test_shares_in_sixteen_bits_are_summed_in_float32(observe):
    """A kernel whose shares of gradients have the inputs' dtype, in which their sum would be lost."""
    attention.judge_counting(attention.run_counting(observe, 4, kind="a kernel that returns bfloat16"))


@pytest.mark.law("ring.calls_are_independent")
def test_calls_are_independent(observe):
    """Three calls, one after the other and nested, with zigzag."""
    kind = "several calls"
    for words in ({}, {"nested": True, "layout": "heads innermost"}):
        seen = attention.run(observe, 3, masks=(True, True, False), zigzag=True, heads=(2, 2), kind=kind, **words)
        attention.judge_values(seen)
        attention.judge_untouched(seen)
        travel.judge_clean(seen)


@pytest.mark.law("ring.subgroups_use_their_own_ranks")
def test_ring_attention_stays_in_its_group(observe):
    """A group that begins with another rank than 0, beside a rank that has none, with zigzag."""
    seen = attention.run(observe, 4, masks=(True,), zigzag=True, groups=[[1, 2, 3]], kind="some of the ranks")
    attention.judge_values(seen)
    travel.judge_groups(seen)


@pytest.mark.law("ring.what_does_not_fit_is_refused")
def test_ring_attention_refuses_what_does_not_fit(observe):
    """Other numbers, three ranks, and zigzag without a mask."""
    cases = [
        refusal("ring_attention", [(1, 1, 8, 2), (1, 1, 6, 2), (1, 1, 6, 2)], [8, 6], causal=True),
        refusal("ring_attention", [(1, 2, 5, 2)] * 3, [5, 2], causal=False, zigzag=True),
    ]
    sequences.judge_refusals(sequences.run_refusals(observe, 3, cases, kind="other numbers"))
    sequences.judge_refusals(sequences.run_refusals(observe, 1, cases, kind="one rank"))


# --- zigzag ----------------------------------------------------------------------------------------------------------
SPLITS = [((2, 16, 3), None, "int64"), ((8, 2), 0, "float64"), ((1, 2, 3, 24), 3, "float32"), ((2, 3, 16, 2), -2, "float64")]


@pytest.mark.law("zigzag.splits_in_two_chunks")
def test_zigzag_splits_in_two_chunks(observe):
    """Four ranks."""
    sequences.judge_split(sequences.run_split(observe, 4, SPLITS, kind="four ranks"))


@pytest.mark.law("zigzag.splits_in_two_chunks")
def test_zigzag_splits_in_its_group(observe):
    """Two groups of two."""
    sequences.judge_split(sequences.run_split(observe, 4, SPLITS, groups=[[0, 3], [1, 2]], kind="two groups of two"))


@pytest.mark.law("zigzag.splits_in_two_chunks")
def test_zigzag_refuses_what_cannot_be_cut(observe):
    """Fewer tokens than chunks, a number that N divides and 2N does not, another dim."""
    cases = [
        refusal("zigzag_split", [(2, 4)], [4, 6]),
        refusal("zigzag_split", [(1, 9)], [9, 6]),
        refusal("zigzag_split", [(8, 6)], [8, 6], dim=0),
    ]
    sequences.judge_refusals(sequences.run_refusals(observe, 3, cases, kind="lengths that can't be cut"))


@pytest.mark.law("zigzag.restores_the_whole")
def test_zigzag_restores_the_whole(observe):
    """Four ranks, and two groups of two."""
    sequences.judge_restored(sequences.run_split(observe, 4, SPLITS, kind="four ranks"))
    sequences.judge_restored(sequences.run_split(observe, 4, SPLITS, groups=[[0, 3], [1, 2]], kind="two groups of two"))


@pytest.mark.law("zigzag.attention_equals_the_whole")
def test_zigzag_attention_is_the_wholes(observe):
    """Four ranks, grouped heads."""
    attention.judge_values(four(observe, zigzag=True))


@pytest.mark.law("zigzag.attention_equals_the_whole")
def test_zigzag_attention_sees_hidden_keys(observe):
    """Keys that a kernel hides; and two tokens a rank, over gloo."""
    attention.judge_values(hidden(observe, zigzag=True))
    attention.judge_values(attention.run(observe, 2, masks=(True,), zigzag=True, num_tokens=2, transport="gloo", kind="over gloo"))


@pytest.mark.law("zigzag.ranks_are_balanced")
def test_zigzag_ranks_are_balanced(observe):
    """Four ranks."""
    attention.judge_work(four(observe, zigzag=True), balance=True)


@pytest.mark.law("zigzag.hidden_blocks_are_skipped")
def test_hidden_blocks_are_skipped(observe):
    """Four ranks."""
    attention.judge_work(four(observe), balance=False)


# --- ulysses ---------------------------------------------------------------------------------------------------------
def heads(observe, **case):
    """Four heads and keys on four ranks, one head each."""
    return attention.run(observe, 4, function=ULYSSES, masks=(True,), heads=(8, 4), num_tokens=3, kind="four ranks", **case)


def grouped(observe, **case):
    """Two groups of two in 16 bits, two calls nested."""
    return attention.run(observe, 4, function=ULYSSES, masks=(True, False), heads=(4, 2), nested=True, dtype="bfloat16",
                         groups=[[0, 2], [1, 3]], layout="heads innermost", kind="two groups of two", **case)  # fmt: skip


@pytest.mark.law("ulysses.attention_equals_the_whole")
def test_ulysses_attention_is_the_wholes(observe):
    """Four ranks; groups, nested calls and 16 bits; gloo and a kernel that hides keys."""
    attention.judge_values(heads(observe))
    seen = grouped(observe)
    attention.judge_values(seen)
    attention.judge_untouched(seen)
    attention.judge_kernel_inputs(seen)
    gloo = attention.run(observe, 2, function=ULYSSES, masks=(False,), heads=(2, 2), hidden=0.4, transport="gloo", kind="over gloo")
    attention.judge_values(gloo)


@pytest.mark.law("ulysses.exchanges_heads_for_tokens")
def test_ulysses_exchanges_heads_for_tokens(observe):
    """Four ranks, and two groups of two."""
    travel.judge_ulysses_volume(heads(observe))
    travel.judge_groups(heads(observe))
    travel.judge_groups(grouped(observe))


@pytest.mark.law("ulysses.uneven_heads_are_refused")
def test_ulysses_refuses_uneven_heads(observe):
    """Other numbers on three ranks."""
    key = (1, 2, 4, 2)
    cases = [
        refusal("ulysses_attention", [(1, 6, 4, 2), key, key], [2, 3], causal=False),
        refusal("ulysses_attention", [(1, 4, 4, 2)] * 3, [4, 3], causal=True),
    ]
    sequences.judge_refusals(sequences.run_refusals(observe, 3, cases, kind="other numbers"))


# --- tokens and the loss ---------------------------------------------------------------------------------------------
EVEN = [{"num_tokens": 16}, {"num_tokens": 32, "zigzag": True, "positions": True}, {"num_tokens": 8, "zigzag": True, "ignore_index": 7}]
UNEVEN = [
    {"num_tokens": 9, "zigzag": True, "positions": True},
    {"num_tokens": 1},
    {"num_tokens": 6, "ignore_index": -7},
    {"num_tokens": 12, "zigzag": True},
]


@pytest.mark.law("sequence.labels_are_shifted_before_the_cut")
def test_labels_are_shifted_before_the_cut(observe):
    """Four ranks, and two groups of two."""
    names = ("tokens", "targets")
    sequences.judge_shard(sequences.run_shard(observe, 4, EVEN, kind="four ranks"), names)
    sequences.judge_shard(sequences.run_shard(observe, 4, EVEN, groups=[[0, 3], [1, 2]], kind="two groups of two"), names)


@pytest.mark.law("sequence.positions_follow_the_tokens")
def test_positions_follow_the_tokens(observe):
    """Four ranks, and two groups of two."""
    names = ("tokens", "positions")
    sequences.judge_shard(sequences.run_shard(observe, 4, EVEN, kind="four ranks"), names)
    sequences.judge_shard(sequences.run_shard(observe, 4, EVEN, groups=[[0, 3], [1, 2]], kind="two groups of two"), names)


@pytest.mark.law("sequence.uneven_lengths_are_padded")
@pytest.mark.parametrize("world_size", [1, 4])
def test_uneven_lengths_are_padded(observe, world_size):
    """Other lengths, given positions, other ignored labels."""
    sequences.judge_padding(sequences.run_shard(observe, world_size, UNEVEN, kind="lengths that nothing divides"))


LOSSES = [
    loss_case([3, 0], size=30.0),
    loss_case([1, 0], dtype="float32", scale=0.25),
    loss_case([6, 2], ignore_index=3, scale=-2.0),
    loss_case([2, 6], dtype="bfloat16", num_tokens=3, size=5.0),
]


@pytest.mark.law("sequence.loss_is_the_whole_mean")
def test_the_loss_is_the_whole_mean(observe):
    """Two ranks; one of them alone; two groups; gloo."""
    kind = "ranks without a target"
    losses.judge_loss(losses.run_loss(observe, 2, LOSSES, kind=kind), gradient=False)
    losses.judge_loss(losses.run_loss(observe, 1, [loss_case([5]), loss_case([0])], kind="one rank"), gradient=False)
    losses.judge_loss(losses.run_loss(observe, 4, [loss_case([1, 7, 0, 3])], groups=[[0, 3], [1, 2]], kind="two groups"), gradient=False)
    losses.judge_loss(losses.run_loss(observe, 2, [loss_case([1, 7])], transport="gloo", kind="over gloo"), gradient=False)


@pytest.mark.law("sequence.loss_gradients_are_the_parts_of_the_whole")
def test_the_losses_gradients_are_parts_of_the_wholes(observe):
    """The same."""
    kind = "ranks without a target"
    losses.judge_loss(losses.run_loss(observe, 2, LOSSES, kind=kind), gradient=True)
    losses.judge_loss(losses.run_loss(observe, 1, [loss_case([5]), loss_case([0])], kind="one rank"), gradient=True)
    losses.judge_loss(losses.run_loss(observe, 4, [loss_case([1, 7, 0, 3])], groups=[[0, 3], [1, 2]], kind="two groups"), gradient=True)


@pytest.mark.law("sequence.logits_stay_at_home")
def test_logits_stay_at_home(observe):
    """Two ranks."""
    losses.judge_loss_traffic(losses.run_loss(observe, 2, LOSSES, kind="ranks without a target"))


# --- model -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("model.loss_and_gradients_equal_the_whole")
def test_a_gpt_on_a_cut_sequence_is_the_whole_one(observe):
    """Three ranks with grouped heads, two groups of two, gloo; and ways that don't exist."""
    models.judge(
        models.run(observe, 3, LLAMA | {"num_kv_heads": 3}, [ZIGZAG, models.ULYSSES], num_tokens=14, kind="three ranks, grouped heads")
    )
    models.judge(models.run(observe, 4, GPT2, [ZIGZAG], groups=[[0, 2], [1, 3]], kind="two groups of two"))
    models.judge(models.run(observe, 2, GPT2, [RING], transport="gloo", kind="over gloo"))
    models.judge_ways(models.run_ways(observe, kind="ways that don't exist"))


@pytest.mark.law("model.gradients_are_summed")
def test_gradients_are_summed(observe):
    """Other strides, 16 bits, a group of two among three ranks."""
    missing = [["second"], [], []]
    models.judge_sums(models.run_sums(observe, 2, missing=missing[:2], layout="transposed", dtype="bfloat16", kind="other strides"))
    models.judge_sums(models.run_sums(observe, 4, missing=[*missing, []], groups=[[0, 2], [1, 3]], kind="two groups of two"))
    models.judge_sums(models.run_sums(observe, 2, stale=True, kind="a frozen parameter with a gradient from before"))
