"""Public cases of the laws of `tensor_parallel`. What each law means stands in tests/laws/tensor_parallel/.

Equal requests share one run: laws that can look at the same run ask for it through the same function here.
"""

from __future__ import annotations

import pytest

from tests.laws.tensor_parallel import clipping, functions, layers, losses, models, randomness
from tests.laws.tensor_parallel.functions import PAIRS

WORLDS = [(1, "wire"), (2, "gloo"), (3, "wire"), (4, "wire")]
SOME = WORLDS[1:3]
PAIRED = [[0, 2], [1, 3]]  # two groups of two ranks, side by side; nobody's rank in the group is his global one throughout

# --- functions -------------------------------------------------------------------------------------------------------
PART = (2, 3, 4)


def all_functions(observe, world_size, transport="wire"):
    """The run that most laws of this task look at."""
    return functions.run_functions(observe, world_size, PART, transport=transport)


@pytest.mark.law("functions.copy_and_reduce_are_conjugate")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_copy_and_reduce_are_conjugate(observe, world_size, transport):
    """Forward and backward of f and g, on one to four ranks."""
    functions.judge_values(all_functions(observe, world_size, transport), PAIRS["whole"])


@pytest.mark.law("functions.scatter_and_gather_are_conjugate")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_scatter_and_gather_are_conjugate(observe, world_size, transport):
    """Parts of the last dim, taken and joined, on one to four ranks."""
    functions.judge_values(all_functions(observe, world_size, transport), PAIRS["last"])


@pytest.mark.law("functions.sequence_functions_are_conjugate")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_sequence_functions_are_conjugate(observe, world_size, transport):
    """Tokens joined, and summed and cut, on one to four ranks."""
    functions.judge_values(all_functions(observe, world_size, transport), PAIRS["sequence"])


@pytest.mark.law("functions.sequence_functions_are_conjugate")
def test_sequence_functions_take_any_dim(observe):
    """Tokens that are the first dim."""
    functions.judge_values(functions.run_functions(observe, 2, PART, dim=0, names=PAIRS["sequence"]), PAIRS["sequence"])


@pytest.mark.law("functions.sequence_functions_are_conjugate")
@pytest.mark.parametrize("name", PAIRS["sequence"])
def test_sequence_functions_may_nest(observe, name):
    """Two calls along other dims before the backward of either."""
    functions.judge_nested(functions.run_nested(observe, 2, name))


@pytest.mark.law("functions.moves_no_byte_too_many")
@pytest.mark.parametrize("world_size", [3, 4])
def test_functions_move_no_byte_too_many(observe, world_size):
    """Each pass of each function, against section 3's table."""
    functions.judge_volume(all_functions(observe, world_size))


@pytest.mark.law("functions.inputs_stay_as_they_were")
@pytest.mark.parametrize("world_size", [1, 3])
def test_inputs_stay_as_they_were(observe, world_size):
    """Inputs and incoming gradients, after both passes."""
    functions.judge_untouched(all_functions(observe, world_size))


@pytest.mark.law("functions.any_layout_and_dtype")
@pytest.mark.parametrize(("layout", "dtype"), [("transposed", "float32"), ("plain", "bfloat16")])
def test_functions_take_any_layout_and_dtype(observe, layout, dtype):
    """Tensors whose dims are swapped, and bfloat16."""
    seen = functions.run_functions(observe, 2, PART, layout=layout, dtype=dtype)
    functions.judge_values(seen)
    functions.judge_traffic(seen)


@pytest.mark.law("functions.any_layout_and_dtype")
def test_sequence_functions_take_any_layout(observe):
    """Tokens that are the first dim of tensors whose dims are swapped."""
    seen = functions.run_functions(observe, 2, PART, layout="transposed", dim=0, names=PAIRS["sequence"])
    functions.judge_values(seen, PAIRS["sequence"])
    functions.judge_traffic(seen, PAIRS["sequence"])


@pytest.mark.law("functions.subgroups_use_their_own_ranks")
def test_subgroups_use_their_own_ranks(observe):
    """Two groups of two, side by side."""
    seen = functions.run_functions(observe, 4, PART, groups=PAIRED)
    functions.judge_values(seen)
    functions.judge_traffic(seen)


UNEVEN = [
    {"what": "scatter_to_tensor_parallel", "extent": 10, "shape": [2, 10]},
    {"what": "reduce_scatter_sequence", "extent": 10, "shape": [2, 10, 6]},
    {"what": "ColumnParallelLinear", "extent": 10, "shape": [6, 10]},
    {"what": "RowParallelLinear", "extent": 10, "shape": [10, 6]},
]


@pytest.mark.law("functions.uneven_parts_are_refused")
def test_uneven_parts_are_refused(observe):
    """Ten of something on three ranks."""
    functions.judge_refusals(functions.run_refusals(observe, 3, UNEVEN))


# --- linear ----------------------------------------------------------------------------------------------------------
WHOLE = {"gather_output": True}, {"input_is_parallel": False}
SEQUENCE = {"sequence_parallel": True}


@pytest.mark.law("linear.column_computes_its_outputs")
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_column_computes_its_outputs(observe, world_size, transport):
    """Outputs and gradients on two and three ranks."""
    layers.judge_linear(layers.run_linear(observe, world_size, "Column", 5, 24, transport=transport))


@pytest.mark.law("linear.row_adds_up_once")
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_row_adds_up_once(observe, world_size, transport):
    """Outputs and gradients on two and three ranks."""
    layers.judge_linear(layers.run_linear(observe, world_size, "Row", 24, 5, transport=transport))


@pytest.mark.law("linear.whole_inputs_and_outputs")
def test_layers_take_whole_inputs_and_give_whole_outputs(observe):
    """gather_output and input_is_parallel=False, on three ranks."""
    layers.judge_linear(layers.run_linear(observe, 3, "Column", 5, 12, options=WHOLE[0]))
    layers.judge_linear(layers.run_linear(observe, 3, "Row", 12, 5, options=WHOLE[1]))


@pytest.mark.law("linear.whole_inputs_and_outputs")
@pytest.mark.parametrize(("kind", "options"), [("Column", WHOLE[0]), ("Row", WHOLE[1])])
def test_a_layer_uses_no_part_but_its_own(observe, kind, options):
    """The other ranks' parts of the weight that a rank is given are numbers of no meaning."""
    layers.judge_linear(layers.run_linear(observe, 3, kind, 6, 6, options=options, knows_all=False))


@pytest.mark.law("linear.sequence_parallel_layers_are_exact")
@pytest.mark.parametrize("kind", ["Column", "Row"])
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_sequence_parallel_layers_are_exact(observe, kind, world_size, transport):
    """This rank's tokens in, or out."""
    layers.judge_linear(layers.run_linear(observe, world_size, kind, 12, 6, options=SEQUENCE, transport=transport))


@pytest.mark.law("linear.holds_its_part_only")
@pytest.mark.parametrize(("kind", "num_in", "num_out"), [("Column", 5, 24), ("Row", 24, 5)])
def test_a_layer_holds_its_part_only(observe, kind, num_in, num_out):
    """Values, marks and memory on three ranks."""
    layers.judge_parts(layers.run_linear(observe, 3, kind, num_in, num_out))


@pytest.mark.law("linear.one_collective_each_way")
@pytest.mark.parametrize(("kind", "num_in", "num_out"), [("Column", 5, 24), ("Row", 24, 5)])
def test_a_layer_sends_what_f_or_g_sends(observe, kind, num_in, num_out):
    """On three ranks."""
    layers.judge_linear_volume(layers.run_linear(observe, 3, kind, num_in, num_out))


# --- vocabulary ------------------------------------------------------------------------------------------------------
@pytest.mark.law("vocabulary.embedding_equals_the_whole")
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_the_embedding_equals_the_whole(observe, world_size, transport):
    """Twelve words."""
    layers.judge_embedding(layers.run_embedding(observe, world_size, 12, transport=transport))


@pytest.mark.law("vocabulary.embedding_equals_the_whole")
def test_the_embedding_of_own_tokens(observe):
    """With sequence_parallel, on three ranks."""
    layers.judge_embedding(layers.run_embedding(observe, 3, 12, sequence_parallel=True))


@pytest.mark.law("vocabulary.embedding_equals_the_whole")
def test_the_embedding_uses_no_rows_but_its_own(observe):
    """The other ranks' rows that a rank is given are numbers of no meaning."""
    layers.judge_embedding(layers.run_embedding(observe, 3, 9, knows_all=False))


@pytest.mark.law("vocabulary.uneven_vocabularies_are_padded")
@pytest.mark.parametrize(("world_size", "vocab_size"), [(3, 10), (4, 5)])
def test_uneven_vocabularies_are_padded(observe, world_size, vocab_size):
    """Two rows too few, and a rank that has nothing but padding."""
    layers.judge_embedding(layers.run_embedding(observe, world_size, vocab_size))
    losses.judge_loss(losses.run_loss(observe, world_size, vocab_size))


@pytest.mark.law("vocabulary.loss_and_gradient_equal_the_whole")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_loss_and_gradient_equal_the_whole(observe, world_size, transport):
    """Forty words; logits and targets stay as they were."""
    seen = losses.run_loss(observe, world_size, 40, transport=transport)
    losses.judge_loss(seen)
    losses.judge_inputs(seen)


@pytest.mark.law("vocabulary.loss_and_gradient_equal_the_whole")
def test_the_gradient_is_scaled(observe):
    """As loss scaling does."""
    losses.judge_loss(losses.run_loss(observe, 2, 12, scale=1024.0))


@pytest.mark.law("vocabulary.ignored_targets_do_not_count")
@pytest.mark.parametrize(("ignored", "ignore_index"), [("some", None), ("some", 3), ("all", None)])
def test_ignored_targets_do_not_count(observe, ignored, ignore_index):
    """Some of them, by -100 and by a word's own number; and all, which gives NaN."""
    losses.judge_loss(losses.run_loss(observe, 2, 12, ignored=ignored, ignore_index=ignore_index))


@pytest.mark.law("vocabulary.large_logits_stay_finite")
def test_large_logits_stay_finite(observe):
    """Up to 10000 of either sign, beside padding."""
    losses.judge_loss(losses.run_loss(observe, 3, 10, how="large"))


@pytest.mark.law("vocabulary.half_precision_is_summed_in_float32")
def test_half_precision_is_summed_in_float32(observe):
    """Thirty words in bfloat16, and more tokens than bfloat16 can count."""
    seen = losses.run_loss(observe, 2, 30, tokens=(7, 37), dtype="bfloat16")
    losses.judge_loss(seen)
    losses.judge_loss_volume(seen)


@pytest.mark.law("vocabulary.logits_are_never_gathered")
def test_the_loss_never_holds_all_logits(observe):
    """Four ranks with room for seven tensors of the size of their logits."""
    losses.judge_large(losses.run_large(observe))


@pytest.mark.law("vocabulary.sends_a_few_numbers_per_token")
@pytest.mark.parametrize("world_size", [3, 4])
def test_the_loss_sends_a_few_numbers_per_token(observe, world_size):
    """Forty words, so that logits would be seen."""
    losses.judge_loss_volume(losses.run_loss(observe, world_size, 40))


# --- randomness ------------------------------------------------------------------------------------------------------
@pytest.mark.law("randomness.streams_are_the_ranks_own")
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_streams_are_the_ranks_own(observe, world_size, transport):
    """Five seeds, two forks of each."""
    randomness.judge_streams(randomness.run_streams(observe, world_size, transport=transport))


@pytest.mark.law("randomness.streams_are_the_ranks_own")
def test_streams_are_the_same_in_every_world(observe):
    """On two ranks and on three."""
    randomness.judge_same_streams(randomness.run_streams(observe, 2, transport="gloo"), randomness.run_streams(observe, 3))


@pytest.mark.law("randomness.shared_stream_is_untouched")
def test_the_shared_stream_is_untouched(observe):
    """What is drawn around forks, and around one that an exception leaves."""
    randomness.judge_outside(randomness.run_streams(observe, 3))


@pytest.mark.law("randomness.dropout_is_shared_where_the_stream_is_whole")
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_dropout_is_shared_where_the_stream_is_whole(observe, sequence_parallel):
    """On three ranks that have seeded the global generator alike."""
    randomness.judge_dropped(randomness.run_dropped(observe, 3, models.GPT2, sequence_parallel=sequence_parallel))


@pytest.mark.law("randomness.dropout_is_shared_where_the_stream_is_whole")
def test_the_seed_is_that_of_the_dropouts(observe):
    """Seeds 0 and 5, with cut tokens."""
    runs = [randomness.run_dropped(observe, 3, models.GPT2, sequence_parallel=True, seed=seed) for seed in (0, 5)]
    randomness.judge_seeds(*runs)


# --- model -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("model.starts_from_the_whole_weights")
@pytest.mark.parametrize("world_size", [1, 3])
def test_the_model_starts_from_the_whole_weights(observe, world_size):
    """Names, values and memory; head and embedding are tied."""
    models.judge_start(models.run_model(observe, world_size, models.GPT2))


@pytest.mark.law("model.loss_and_gradients_equal_the_whole")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_loss_and_gradients_equal_the_whole_models(observe, world_size, transport):
    """29 words, which 2, 3 and 4 ranks don't divide."""
    models.judge_model(models.run_model(observe, world_size, models.GPT2, transport=transport))


@pytest.mark.law("model.loss_and_gradients_equal_the_whole")
def test_two_groups_of_two_train_side_by_side(observe):
    """As with data parallelism around it: each group has another batch."""
    models.judge_model(models.run_model(observe, 4, models.GPT2, groups=PAIRED))


@pytest.mark.law("model.every_architecture")
def test_every_architecture(observe):
    """Rotary, RMSNorm, SwiGLU, grouped queries, no biases, an untied head."""
    seen = models.run_model(observe, 3, models.LLAMA)
    models.judge_model(seen)
    models.judge_start(seen)


@pytest.mark.law("model.two_all_reduces_each_way_per_block")
@pytest.mark.parametrize("config", [models.GPT2, models.LLAMA], ids=["gpt2", "llama"])
def test_a_block_carries_two_all_reduces_each_way(observe, config):
    """On three ranks."""
    models.judge_block_volume(models.run_block(observe, 3, config))


@pytest.mark.law("model.logits_are_never_gathered")
def test_the_model_never_holds_all_logits(observe):
    """A vocabulary of 16384 on four ranks with room for seven tensors of the size of their logits."""
    models.judge_large(models.run_large(observe))


REFUSED = [
    {"what": "num_kv_heads", "name": "num_kv_heads", "extent": 4, "config": models.GPT2 | {"num_kv_heads": 4}},
    {"what": "mlp_size", "name": "mlp_size", "extent": 40, "config": models.GPT2 | {"mlp_size": 40}},
]


@pytest.mark.law("model.what_cannot_be_cut_is_refused")
def test_what_cannot_be_cut_is_refused(observe):
    """Four key/value heads, and an MLP of 40, on three ranks."""
    seen = models.run_refused(observe, 3, REFUSED)
    functions.judge_refusals(seen)
    models.judge_intact(seen)


# --- sequence --------------------------------------------------------------------------------------------------------
@pytest.mark.law("sequence.loss_and_gradients_equal_the_whole")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS[1:])
def test_sequence_parallel_loss_and_gradients(observe, world_size, transport):
    """Twelve tokens on two to four ranks."""
    models.judge_model(models.run_model(observe, world_size, models.GPT2, sequence_parallel=True, transport=transport))


@pytest.mark.law("sequence.whole_weights_collect_their_gradients")
@pytest.mark.parametrize("config", [models.GPT2, models.LLAMA], ids=["gpt2", "llama"])
def test_whole_weights_collect_their_gradients(observe, config):
    """Norms, positions and row-parallel biases, after two backwards that add up."""
    seen = models.run_model(observe, 2, config, sequence_parallel=True, num_backwards=2)
    models.judge_model(seen, only_whole=True)


@pytest.mark.law("sequence.same_bytes_as_all_reduces")
@pytest.mark.parametrize("config", [models.GPT2, models.LLAMA], ids=["gpt2", "llama"])
def test_a_block_carries_the_same_bytes(observe, config):
    """On three ranks."""
    models.judge_block_volume(models.run_block(observe, 3, config, sequence_parallel=True))


@pytest.mark.law("sequence.stream_is_cut")
def test_the_stream_is_cut(observe):
    """Four of twelve tokens on each of three ranks; ten are refused."""
    models.judge_stream(models.run_block(observe, 3, models.GPT2, sequence_parallel=True))
    functions.judge_refusals(functions.run_refusals(observe, 3, [{"what": "gpt", "extent": 10, "config": models.GPT2}]), sends=True)


# --- clipping --------------------------------------------------------------------------------------------------------
@pytest.mark.law("clipping.norm_is_that_of_the_whole_model")
@pytest.mark.parametrize(("world_size", "transport"), SOME)
def test_the_norm_is_that_of_the_whole_model(observe, world_size, transport):
    """Two parts, two whole parameters, of which one has no gradient."""
    clipping.judge_norm(clipping.run_clip(observe, world_size, max_norm=1.0, missing=("bias",), transport=transport))


@pytest.mark.law("clipping.norm_is_that_of_the_whole_model")
def test_the_norm_of_narrow_gradients(observe):
    """bfloat16, summed in float32."""
    cut = {"a": ("bfloat16", (30, 3)), "b": ("bfloat16", (2, 2))}
    clipping.judge_norm(clipping.run_clip(observe, 2, max_norm=1.0, cut=cut, whole={"c": ("bfloat16", (9,))}))


@pytest.mark.law("clipping.gradients_are_scaled_alike")
@pytest.mark.parametrize("max_norm", [1.0, 100.0])
def test_gradients_are_scaled_alike(observe, max_norm):
    """Larger than max_norm, and smaller."""
    clipping.judge_scaled(clipping.run_clip(observe, 3, max_norm=max_norm, missing=("bias",)))
