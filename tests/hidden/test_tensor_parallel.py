"""Hidden cases of the laws of `tensor_parallel`: other worlds, shapes, dtypes and traps for the same laws."""

from __future__ import annotations

import pytest

from tests.laws.tensor_parallel import clipping, functions, layers, losses, models, randomness
from tests.laws.tensor_parallel.functions import PAIRS

FIVE = "world size 5"
THREES = [[0, 3, 4], [1, 2, 5]]
GROUPS = "two groups of three ranks, side by side"
CROSSED = [[1, 3], [0, 2]]


# --- functions -------------------------------------------------------------------------------------------------------
def five(observe):
    """All functions on five ranks, float64, with four dims."""
    return functions.run_functions(observe, 5, (2, 1, 3, 2), dtype="float64", kind=f"{FIVE}, four dims, float64")


def grouped(observe):
    """All functions in two groups."""
    return functions.run_functions(observe, 6, (1, 2, 3), groups=THREES, kind=GROUPS)


@pytest.mark.law("functions.copy_and_reduce_are_conjugate")
def test_copy_and_reduce_are_conjugate(observe):
    """On five ranks."""
    functions.judge_values(five(observe), PAIRS["whole"])


@pytest.mark.law("functions.scatter_and_gather_are_conjugate")
def test_scatter_and_gather_are_conjugate(observe):
    """On five ranks."""
    functions.judge_values(five(observe), PAIRS["last"])


@pytest.mark.law("functions.sequence_functions_are_conjugate")
def test_sequence_functions_are_conjugate(observe):
    """On five ranks, and along the last of four dims on three."""
    functions.judge_values(five(observe), PAIRS["sequence"])
    seen = functions.run_functions(observe, 3, (2, 3, 1, 2), dim=3, names=PAIRS["sequence"], kind="world size 3, along dim 3")
    functions.judge_values(seen, PAIRS["sequence"])


@pytest.mark.law("functions.moves_no_byte_too_many")
def test_functions_move_no_byte_too_many(observe):
    """On five ranks, and in groups of three."""
    functions.judge_volume(five(observe))
    functions.judge_volume(grouped(observe))


@pytest.mark.law("functions.inputs_stay_as_they_were")
def test_inputs_stay_as_they_were(observe):
    """On five ranks, and where the dims lie otherwise."""
    functions.judge_untouched(five(observe))
    functions.judge_untouched(transposed(observe))


def transposed(observe):
    """Float16 with swapped dims, on three ranks."""
    return functions.run_functions(observe, 3, (4, 2, 3), layout="transposed", dtype="float16", kind="world size 3, swapped dims, float16")


@pytest.mark.law("functions.any_layout_and_dtype")
def test_functions_take_any_layout_and_dtype(observe):
    """Float16 with swapped dims, and float64."""
    for seen in (transposed(observe), five(observe)):
        functions.judge_values(seen)
        functions.judge_traffic(seen)


@pytest.mark.law("functions.subgroups_use_their_own_ranks")
def test_subgroups_use_their_own_ranks(observe):
    """Two groups of three."""
    seen = grouped(observe)
    functions.judge_values(seen)
    functions.judge_traffic(seen)


UNEVEN = [
    {"what": "scatter_to_tensor_parallel", "extent": 7, "shape": [8, 7]},
    {"what": "reduce_scatter_sequence", "extent": 11, "shape": [11, 4, 8], "options": {"dim": 0}},
    {"what": "ColumnParallelLinear", "extent": 3, "shape": [4, 3]},
    {"what": "RowParallelLinear", "extent": 9, "shape": [9, 8]},
]


@pytest.mark.law("functions.uneven_parts_are_refused")
def test_uneven_parts_are_refused(observe):
    """Fewer than ranks, and one too many, on four ranks."""
    functions.judge_refusals(functions.run_refusals(observe, 4, UNEVEN, kind="world size 4, what it doesn't divide"))


# --- linear ----------------------------------------------------------------------------------------------------------
PADDED = {"gather_output": True, "pad": True}
SEQUENCE = {"sequence_parallel": True}


def alone(observe, layer):
    """On one rank, without bias."""
    return layers.run_linear(observe, 1, layer, 5, 3, has_bias=False, rows=(7,), kind=f"{layer}, world size 1, no bias")


def in_groups(observe, layer):
    """In two groups of two; the outputs of the one are padded."""
    options = {"pad": True} if layer == "Column" else {}
    return layers.run_linear(observe, 4, layer, 6, 5, rows=(1, 2, 3), options=options, groups=CROSSED, kind=f"{layer}, two groups of two")


def with_cut_tokens(observe, layer):
    """On three ranks."""
    return layers.run_linear(observe, 3, layer, 6, 9, options=SEQUENCE, kind=f"{layer}, world size 3, cut tokens")


@pytest.mark.law("linear.column_computes_its_outputs")
def test_column_computes_its_outputs(observe):
    """One rank without bias; padded outputs in groups."""
    layers.judge_linear(alone(observe, "Column"))
    layers.judge_linear(in_groups(observe, "Column"))


@pytest.mark.law("linear.row_adds_up_once")
def test_row_adds_up_once(observe):
    """One rank without bias; groups."""
    layers.judge_linear(alone(observe, "Row"))
    layers.judge_linear(in_groups(observe, "Row"))


WHOLE = [("Column", PADDED), ("Row", {"input_is_parallel": False}), ("Row", {"input_is_parallel": False, "sequence_parallel": True})]


@pytest.mark.law("linear.whole_inputs_and_outputs")
@pytest.mark.parametrize(("layer", "options"), WHOLE)
def test_layers_take_whole_inputs_and_give_whole_outputs(observe, layer, options):
    """Padded outputs, whole inputs, and cut tokens on the other side; in float64. Of a row-parallel weight each rank knows its own part."""
    kind = f"{layer}, world size 2, {', '.join(options)}"
    knows_all = layer == "Column"
    layers.judge_linear(layers.run_linear(observe, 2, layer, 4, 3, options=options, dtype="float64", knows_all=knows_all, kind=kind))


@pytest.mark.law("linear.sequence_parallel_layers_are_exact")
@pytest.mark.parametrize("layer", ["Column", "Row"])
def test_sequence_parallel_layers_are_exact(observe, layer):
    """On three ranks, other widths."""
    layers.judge_linear(with_cut_tokens(observe, layer))


@pytest.mark.law("linear.holds_its_part_only")
@pytest.mark.parametrize("layer", ["Column", "Row"])
def test_a_layer_holds_its_part_only(observe, layer):
    """Padded, and in groups."""
    layers.judge_parts(in_groups(observe, layer))


@pytest.mark.law("linear.one_collective_each_way")
@pytest.mark.parametrize("layer", ["Column", "Row"])
def test_a_layer_sends_what_f_or_g_sends(observe, layer):
    """Cut tokens, and whole inputs and outputs."""
    layers.judge_linear_volume(with_cut_tokens(observe, layer))
    option = {"gather_output": True} if layer == "Column" else {"input_is_parallel": False}
    seen = layers.run_linear(observe, 3, layer, 6, 9, options=option, kind=f"{layer}, world size 3, {next(iter(option))}")
    layers.judge_linear_volume(seen)


# --- vocabulary ------------------------------------------------------------------------------------------------------
@pytest.mark.law("vocabulary.embedding_equals_the_whole")
def test_the_embedding_equals_the_whole(observe):
    """In groups, with tokens of one dim and of three, and on one rank; each rank knows its own rows."""
    words = "two groups of two, one dim"
    layers.judge_embedding(layers.run_embedding(observe, 4, 8, tokens=(17,), groups=CROSSED, knows_all=False, kind=words))
    layers.judge_embedding(layers.run_embedding(observe, 1, 5, tokens=(2, 3, 4), kind="world size 1, three dims"))


@pytest.mark.law("vocabulary.uneven_vocabularies_are_padded")
@pytest.mark.parametrize(("world_size", "vocab_size"), [(2, 7), (5, 6)])
def test_uneven_vocabularies_are_padded(observe, world_size, vocab_size):
    """Two ranks and seven words; five ranks and six, cut tokens, ignored targets."""
    kind = f"{vocab_size} words on {world_size} ranks"
    layers.judge_embedding(layers.run_embedding(observe, world_size, vocab_size, tokens=(1, 20), sequence_parallel=True, kind=kind))
    losses.judge_loss(losses.run_loss(observe, world_size, vocab_size, tokens=(2, 1, 7), ignored="some", scale=-3.0, kind=kind))


@pytest.mark.law("vocabulary.loss_and_gradient_equal_the_whole")
def test_loss_and_gradient_equal_the_whole(observe):
    """In groups, for logits of one dim."""
    seen = losses.run_loss(observe, 4, 16, tokens=(5,), groups=CROSSED, kind="two groups of two, one dim")
    losses.judge_loss(seen)
    losses.judge_inputs(seen)


@pytest.mark.law("vocabulary.ignored_targets_do_not_count")
@pytest.mark.parametrize(("ignored", "ignore_index"), [("some", 0), ("all", None)])
def test_ignored_targets_do_not_count(observe, ignored, ignore_index):
    """By the first word's number; and all, which gives NaN."""
    kind = f"world size 2, {ignored} targets ignored{'' if ignore_index is None else ', ignore_index 0'}"
    losses.judge_loss(losses.run_loss(observe, 2, 12, ignored=ignored, ignore_index=ignore_index, kind=kind))


@pytest.mark.law("vocabulary.large_logits_stay_finite")
@pytest.mark.parametrize(("world_size", "dtype"), [(3, "float32"), (2, "bfloat16")])
def test_large_logits_stay_finite(observe, world_size, dtype):
    """Uneven words, and bfloat16."""
    kind = f"world size {world_size}, {dtype}, large"
    losses.judge_loss(losses.run_loss(observe, world_size, 10 if world_size == 3 else 9, how="large", dtype=dtype, kind=kind))


@pytest.mark.law("vocabulary.half_precision_is_summed_in_float32")
def test_half_precision_is_summed_in_float32(observe):
    """A hundred words in float16, a scaled loss."""
    seen = losses.run_loss(observe, 3, 100, dtype="float16", scale=64.0, kind="world size 3, float16, 100 words")
    losses.judge_loss(seen)
    losses.judge_loss_volume(seen)


@pytest.mark.law("vocabulary.sends_a_few_numbers_per_token")
def test_the_loss_sends_a_few_numbers_per_token(observe):
    """In float64, with ignored targets."""
    losses.judge_loss_volume(losses.run_loss(observe, 2, 50, dtype="float64", ignored="some", kind="world size 2, float64"))


# --- randomness ------------------------------------------------------------------------------------------------------
@pytest.mark.law("randomness.streams_are_the_ranks_own")
def test_streams_are_the_ranks_own(observe):
    """In groups, whose first ranks share streams; seeds of one bit each, and others."""
    seeds = [0, *(2**bit for bit in range(16)), 1025, 65535]
    randomness.judge_streams(randomness.run_streams(observe, 4, seeds=seeds, groups=CROSSED, kind="two groups of two, nineteen seeds"))


@pytest.mark.law("randomness.shared_stream_is_untouched")
def test_the_shared_stream_is_untouched(observe):
    """On one rank."""
    randomness.judge_outside(randomness.run_streams(observe, 1, kind="world size 1"))


@pytest.mark.law("randomness.dropout_is_shared_where_the_stream_is_whole")
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_dropout_is_shared_where_the_stream_is_whole(observe, sequence_parallel):
    """On two ranks, rotary, another seed."""
    kind = f"world size 2, {'cut' if sequence_parallel else 'whole'} tokens"
    config = models.LLAMA | {"num_layers": 1}
    randomness.judge_dropped(randomness.run_dropped(observe, 2, config, sequence_parallel=sequence_parallel, seed=5, kind=kind))


# --- model -----------------------------------------------------------------------------------------------------------
ODD = models.GPT2 | {"vocab_size": 6, "num_layers": 1, "num_heads": 4, "num_kv_heads": 4, "mlp_size": 8, "activation": "swiglu",
                     "tied": False}  # fmt: skip
MIXED = models.LLAMA | {"num_layers": 1, "hidden_size": 16, "num_heads": 8, "num_kv_heads": 4, "mlp_size": 12, "tied": True, "bias": True}


@pytest.mark.law("model.starts_from_the_whole_weights")
@pytest.mark.parametrize(("world_size", "config"), [(4, ODD), (2, MIXED)], ids=["odd", "mixed"])
def test_the_model_starts_from_the_whole_weights(observe, world_size, config):
    """Six words on four ranks; an untied head, and a tied one beside rotary positions."""
    models.judge_start(models.run_model(observe, world_size, config, kind=f"world size {world_size}, another architecture"))


@pytest.mark.law("model.loss_and_gradients_equal_the_whole")
def test_loss_and_gradients_equal_the_whole_models(observe):
    """Two groups of two with other members, seven tokens, two backwards."""
    run = models.run_model(observe, 4, models.GPT2, num_tokens=7, groups=CROSSED, num_backwards=2, kind="two groups of two, 7 tokens")
    models.judge_model(run)


@pytest.mark.law("model.every_architecture")
@pytest.mark.parametrize(("world_size", "config"), [(4, ODD), (2, MIXED)], ids=["odd", "mixed"])
def test_every_architecture(observe, world_size, config):
    """SwiGLU with biases and an untied head; grouped queries with biases, tied, RMSNorm."""
    models.judge_model(models.run_model(observe, world_size, config, kind=f"world size {world_size}, another architecture"))


@pytest.mark.law("model.two_all_reduces_each_way_per_block")
def test_a_block_carries_two_all_reduces_each_way(observe):
    """On four ranks, another batch."""
    models.judge_block_volume(models.run_block(observe, 4, ODD, num_tokens=9, batch=3, kind="world size 4, SwiGLU with biases"))


REFUSED = [
    {"what": "mlp_size", "name": "mlp_size", "extent": 9, "config": models.GPT2 | {"mlp_size": 9, "num_layers": 3, "activation": "swiglu"}},
    {"what": "num_kv_heads", "name": "num_kv_heads", "extent": 3, "config": models.LLAMA | {"num_kv_heads": 3}},
]


@pytest.mark.law("model.what_cannot_be_cut_is_refused")
def test_what_cannot_be_cut_is_refused(observe):
    """On two ranks: an odd MLP, three key/value heads."""
    seen = models.run_refused(observe, 2, REFUSED, kind="world size 2")
    functions.judge_refusals(seen)
    models.judge_intact(seen)


# --- sequence --------------------------------------------------------------------------------------------------------
@pytest.mark.law("sequence.loss_and_gradients_equal_the_whole")
@pytest.mark.parametrize(("world_size", "config", "groups"), [(4, MIXED, CROSSED), (4, ODD, None)], ids=["groups", "odd"])
def test_sequence_parallel_loss_and_gradients(observe, world_size, config, groups):
    """Groups of two with eight tokens of ten; six words on four ranks; positions are given."""
    kind = f"{'two groups of two' if groups else 'world size 4, six words'}, given positions"
    run = models.run_model(observe, world_size, config, num_tokens=8, groups=groups, sequence_parallel=True, is_packed=True, kind=kind)
    models.judge_model(run)


@pytest.mark.law("sequence.whole_weights_collect_their_gradients")
@pytest.mark.parametrize(("world_size", "config", "groups"), [(4, MIXED, CROSSED), (4, ODD, None)], ids=["groups", "odd"])
def test_whole_weights_collect_their_gradients(observe, world_size, config, groups):
    """Row-parallel biases beside RMSNorm; positions that are given, and fewer than the table has."""
    kind = f"{'two groups of two' if groups else 'world size 4, six words'}, given positions"
    run = models.run_model(observe, world_size, config, num_tokens=8, groups=groups, sequence_parallel=True, is_packed=True, kind=kind)
    models.judge_model(run, only_whole=True)


@pytest.mark.law("sequence.same_bytes_as_all_reduces")
def test_a_block_carries_the_same_bytes(observe):
    """On four ranks, SwiGLU with biases."""
    seen = models.run_block(observe, 4, ODD, num_tokens=8, sequence_parallel=True, kind="world size 4, SwiGLU with biases")
    models.judge_block_volume(seen)


@pytest.mark.law("sequence.stream_is_cut")
def test_the_stream_is_cut(observe):
    """Rotary positions on two ranks; nine tokens are refused."""
    config = models.LLAMA | {"num_layers": 1}
    models.judge_stream(models.run_block(observe, 2, config, num_tokens=6, sequence_parallel=True, kind="world size 2, rotary positions"))
    cases = [{"what": "gpt", "extent": 9, "config": config}]
    functions.judge_refusals(functions.run_refusals(observe, 2, cases, kind="world size 2, nine tokens"), sends=True)


# --- clipping --------------------------------------------------------------------------------------------------------
HALF = {"a": ("bfloat16", (30, 3)), "b": ("bfloat16", (2, 2))}
WHOLE_HALF = {"c": ("bfloat16", (9,))}
DOUBLE = {"y": ("float32", (3, 2)), "x": ("float64", (4,))}


@pytest.mark.law("clipping.norm_is_that_of_the_whole_model")
def test_the_norm_is_that_of_the_whole_model(observe):
    """In groups; bfloat16; nothing cut; a gradient missing in between."""
    for seen in (half(observe), double(observe)):
        clipping.judge_norm(seen)
    clipping.judge_norm(clipping.run_clip(observe, 2, max_norm=2.0, cut={}, whole=DOUBLE, missing=("x",), kind="world size 2, nothing cut"))


@pytest.mark.law("clipping.gradients_are_scaled_alike")
def test_gradients_are_scaled_alike(observe):
    """In groups; bfloat16, float64."""
    for seen in (half(observe), double(observe)):
        clipping.judge_scaled(seen)


def half(observe):
    """bfloat16 on three ranks."""
    return clipping.run_clip(observe, 3, max_norm=0.5, cut=HALF, whole=WHOLE_HALF, missing=("b",), kind="world size 3, bfloat16")


def double(observe):
    """float64 beside float32, in two groups of two."""
    return clipping.run_clip(observe, 4, max_norm=0.125, cut=DOUBLE, groups=CROSSED, kind="two groups of two, float64 and float32")
