"""Public cases of the laws of `memory_accounting`. What each law means stands in tests/laws/memory_accounting/."""

from __future__ import annotations

import pytest

from tests.laws.memory_accounting import kept, laws
from tests.laws.memory_accounting.judging import assert_refused
from tests.laws.memory_accounting.models import PLAIN, Sizes, plain_but

WITH_ADAM = [(precision, "adam") for precision in laws.PRECISIONS]
OTHER_OPTIMIZERS = [("fp32", "momentum"), ("bf16", "momentum"), ("mixed", "momentum"), ("mixed", "sgd")]
DENSE, FUSED = PLAIN, plain_but(attention="sdpa")
TP8 = {"tp": 8, "sequence_parallel": True}


# --- parameters ------------------------------------------------------------------------------------------------------
@pytest.mark.law("parameters.equals_the_model")
def test_parameter_count_equals_the_model(observe):
    """A GPT-2 of any size has exactly so many parameters as are counted."""
    laws.judge_parameters(laws.run_parameters(observe, [Sizes()] * 4, [PLAIN]))


@pytest.mark.law("parameters.tied_head_counts_once")
def test_a_tied_head_counts_once(observe):
    """An untied head adds V · C, and nothing when it is tied."""
    options = [plain_but(tied=True), plain_but(tied=False)] * 2
    seen = laws.run_parameters(observe, [Sizes()] * 4, options, heads_per_kv_head=1)
    suggestion = "A tied head is the token embedding itself; one of its own is a V x C matrix without bias."
    laws.judge_pairs(seen, difference="an untied head instead of a tied one", suggestion=suggestion)


@pytest.mark.law("parameters.options_change_what_exists")
def test_options_change_what_exists(observe):
    """Without biases, with RMSNorm, with rotary positions, with a gated MLP, and with all of them."""
    changes = ({"bias": False}, {"norm": "rmsnorm"}, {"positions": "rotary"}, {"activation": "swiglu"})
    options = [plain_but(**change) for change in changes]
    options.append(plain_but(bias=False, norm="rmsnorm", positions="rotary", activation="swiglu"))
    laws.judge_parameters(laws.run_parameters(observe, [Sizes()] * 5, options))


@pytest.mark.law("parameters.grouped_heads_narrow_qkv")
def test_grouped_heads_narrow_qkv(observe):
    """With half as many key/value heads, qkv loses half of its keys' and values' columns."""
    seen = laws.run_parameters(observe, [Sizes()] * 4, [PLAIN], heads_per_kv_head=2)
    suggestion = "qkv maps C to (H + 2 G) D; the output projection maps H D back to C whatever G is."
    laws.judge_pairs(seen, difference="full instead of shared key/value heads", suggestion=suggestion)


@pytest.mark.law("parameters.matches_published_sizes")
def test_parameter_counts_match_published_sizes(observe):
    """Models from 1.7 to 76.1 billion parameters have the sizes that Megatron-LM's table prints."""
    laws.judge_megatron_sizes(observe, slice(0, 6))


# --- states ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("states.weights_and_gradients_follow_the_precision")
def test_weights_and_gradients_follow_the_precision(observe):
    """In each of the five precisions they cost what a real step holds."""
    suggestion = "In which dtype is what forward reads, and in which is what waits for the step? autocast casts neither of them."
    laws.judge_states(laws.run_states(observe, WITH_ADAM), laws.WEIGHTS, laws.GRADIENTS, suggestion=suggestion)


@pytest.mark.law("states.masters_exist_in_mixed_precision_only")
def test_masters_exist_in_mixed_precision_only(observe):
    """Four bytes a parameter in the two mixed precisions, none in fp32, autocast and bf16."""
    suggestion = "A master is a second, wider copy. Which precisions have a copy at all?"
    laws.judge_states(laws.run_states(observe, WITH_ADAM), laws.MASTERS, suggestion=suggestion)


@pytest.mark.law("states.moments_follow_the_optimizer")
@pytest.mark.parametrize("recipes", [WITH_ADAM, OTHER_OPTIMIZERS], ids=["adam", "others"])
def test_moments_follow_the_optimizer(observe, recipes):
    """Two for Adam, one for momentum, none for SGD, in the dtype of what the optimizer steps on."""
    suggestion = "How many numbers does the optimizer remember per parameter, and are they in the dtype of the weights that it is given?"
    laws.judge_states(laws.run_states(observe, recipes), laws.MOMENTS, suggestion=suggestion)


@pytest.mark.law("states.matches_published_bytes_per_parameter")
def test_states_match_published_bytes_per_parameter(observe):
    """16 and 18 bytes, for a model of 76.1 billion parameters."""
    laws.judge_bytes_per_parameter(observe, 5)


@pytest.mark.law("states.refuses_unknown_names")
def test_unknown_precisions_and_optimizers_are_refused(observe):
    """A precision or optimizer that doesn't exist raises ValueError."""
    refused = [(["fp8", "adam"], laws.PRECISIONS), (["fp32", "lion"], laws.OPTIMIZERS)]
    assert_refused(observe, "model_state_bytes", refused, names="precisions and optimizers")


# --- sharding --------------------------------------------------------------------------------------------------------
@pytest.mark.law("sharding.stage_1_cuts_the_optimizer")
def test_stage_1_cuts_the_optimizer(observe):
    """Masters and moments are divided by dp, weights and gradients are not; at stage 0 nothing is."""
    laws.judge_sharded(observe, [{"dp": 8, "stage": 0}, {"dp": 8, "stage": 1}, {"dp": 1, "stage": 1}, {"dp": 3, "stage": 1}])


@pytest.mark.law("sharding.stage_2_cuts_gradients_too")
def test_stage_2_cuts_gradients_too(observe):
    """Gradients are divided by dp as well, weights are not."""
    laws.judge_sharded(observe, [{"dp": 8, "stage": 2}, {"dp": 8, "stage": 2}, {"dp": 8, "stage": 2}])


@pytest.mark.law("sharding.stage_3_cuts_everything")
def test_stage_3_cuts_everything(observe):
    """All four are divided by dp."""
    laws.judge_sharded(observe, [{"dp": 8, "stage": 3}, {"dp": 8, "stage": 3}, {"dp": 8, "stage": 3}])


@pytest.mark.law("sharding.model_parallelism_cuts_everything")
@pytest.mark.parametrize(("tp", "pp"), [(4, 1), (1, 6), (2, 3)])
def test_model_parallelism_cuts_everything(observe, tp, pp):
    """All four are divided by tp and by pp, at stages 0 to 3, and then by what the stage divides."""
    suggestion = "tp and pp cut the model itself, so they divide all four figures: at stage 0 as at stage 3, and apart from dp."
    laws.judge_sharded(observe, [{"dp": 5, "stage": stage, "tp": tp, "pp": pp} for stage in range(4)], suggestion=suggestion)


@pytest.mark.law("sharding.matches_the_zero_table")
def test_sharded_states_match_the_zero_table(observe):
    """7.5 and 128 billion parameters on 1 to 1024 devices."""
    laws.judge_zero_table(observe, (7.5e9, 128e9))


@pytest.mark.law("sharding.refuses_other_stages")
def test_other_stages_are_refused(observe):
    """Stages -1 and 4 raise ValueError, of a single replica too."""
    assert_refused(observe, "sharded_state_bytes", [([4, 2], "03"), ([-1, 2], "03"), ([4, 1], "03")], names="stages")


# --- published -------------------------------------------------------------------------------------------------------
@pytest.mark.law("published.one_layer_alone")
def test_one_layer_alone(observe):
    """34 bytes for each number of the hidden state, 5 for each of the scores; also where the config has another MLP and fewer heads."""
    kept.judge_published_layers(observe, [{}] * 3)
    advice = "The papers' layer has an MLP of 4h and full heads, whatever mlp_size and num_kv_heads are."
    kept.judge_published_layers(observe, [{}] * 3, is_papers_kind=False, suggestion=advice)


@pytest.mark.law("published.tensor_parallelism_cuts_all_but_ten")
def test_tensor_parallelism_cuts_all_but_ten(observe):
    """24 of the 34 and the square are divided by tp."""
    kept.judge_published_layers(observe, [{"tp": 8}] * 3, suggestion="Which lines of section 5's table does every rank hold whole?")


@pytest.mark.law("published.sequence_parallelism_cuts_the_ten")
def test_sequence_parallelism_cuts_the_ten(observe):
    """The ten are divided by tp as well."""
    kept.judge_published_layers(observe, [TP8] * 3)


@pytest.mark.law("published.recomputation_drops_what_it_makes_again")
def test_recomputation_drops_what_it_makes_again(observe):
    """Selective: no square. Full: the layer's input, whole on every rank."""
    selective = [{"recompute": "selective"}, {"tp": 8, "recompute": "selective"}, TP8 | {"recompute": "selective"}]
    kept.judge_published_layers(observe, selective)
    kept.judge_published_layers(observe, [{"recompute": "full"}, {"tp": 8, "recompute": "full"}, TP8 | {"recompute": "full"}])


@pytest.mark.law("published.first_stage_holds_all_layers")
def test_the_first_stage_holds_all_layers(observe):
    """Without and with pipelining, plain and interleaved."""
    suggestion = "L/p layers, times the p micro-batches that are under way; interleaving multiplies by 1 + (p - 1)/(p m)."
    kept.judge_published_stages(observe, [{}, {"tp": 8}, {"tp": 8, "pp": 4}], "layers", suggestion=suggestion)
    kept.judge_published_stages(observe, [{"tp": 2, "pp": 4, "interleave": 2}] * 2, "layers", suggestion=suggestion)


@pytest.mark.law("published.embedding_and_head_are_counted")
def test_embedding_and_head_are_counted(observe):
    """The embedding's mask for p micro-batches; norm, head and logits with one stage only."""
    layouts = [{}, {"tp": 8}, TP8, {"tp": 4, "pp": 4}, TP8 | {"pp": 4, "interleave": 2}]
    kept.judge_published_stages(
        observe, layouts, "embedding", "head", suggestion="What is cut by tp in any case, what under sequence parallelism?"
    )


@pytest.mark.law("published.matches_printed_figures")
def test_activations_match_printed_figures(observe):
    """Models of 22 and 175 billion parameters: per cent saved, and the bars of figures 1 and 7."""
    kept.judge_printed(observe, ["22B", "175B"])


# --- activations -----------------------------------------------------------------------------------------------------
@pytest.mark.law("activations.dense_attention_keeps_its_squares")
def test_dense_attention_keeps_its_squares(observe):
    """Short sequences, sequences longer than the hidden size, and one where the mask counts."""
    sizes = [Sizes(), Sizes(), Sizes(heads=2, head_dim=8, mlp_per_hidden=1, max_tokens=160)]
    ways = [("bfloat16", "none"), ("float32", "none"), ("bfloat16", "none")]
    kept.judge_activations(kept.run_activations(observe, sizes, [DENSE] * 3, [(3, 16), (2, 70), (1, 160)], ways))


@pytest.mark.law("activations.fused_attention_keeps_no_square")
def test_fused_attention_keeps_no_square(observe):
    """The same sequences without the square, and narrow heads, where the log-sum-exp counts."""
    sizes = [Sizes(), Sizes(), Sizes(heads=16, head_dim=2, vocab=11, mlp_per_hidden=1, max_tokens=160)]
    ways = [("bfloat16", "none"), ("float32", "none"), ("bfloat16", "none")]
    options = [FUSED, plain_but(attention="flash"), FUSED]
    kept.judge_activations(kept.run_activations(observe, sizes, options, [(3, 16), (2, 70), (1, 160)], ways))


@pytest.mark.law("activations.shared_heads_and_rotation")
def test_activations_with_shared_heads_and_rotation(observe):
    """Four query heads share a key/value head, in dense and fused attention; rotary positions in dense."""
    sizes = [Sizes(kv_share=4, mlp_per_hidden=1), Sizes(kv_share=4, mlp_per_hidden=1), Sizes(heads=8), Sizes(kv_share=2)]
    options = [DENSE, FUSED, plain_but(positions="rotary"), plain_but(positions="rotary")]
    ways = [("float32", "none"), ("bfloat16", "none"), ("float32", "none"), ("float32", "none")]
    kept.judge_activations(kept.run_activations(observe, sizes, options, [(3, 24)] * 4, ways))


@pytest.mark.law("activations.gated_mlp_keeps_four")
def test_a_gated_mlp_keeps_four(observe):
    """Wide and narrow MLPs of both kinds, without biases."""
    sizes = [Sizes(mlp_per_hidden=5), Sizes(mlp_per_hidden=2.5), Sizes(mlp_per_hidden=0.5)]
    options = [plain_but(activation="swiglu", bias=False, tied=False), plain_but(activation="swiglu", bias=False), DENSE]
    kept.judge_activations(kept.run_activations(observe, sizes, options, [(2, 16)] * 3, [("bfloat16", "none")] * 3))


@pytest.mark.law("activations.head_keeps_the_vocabulary")
def test_the_head_keeps_the_vocabulary(observe):
    """A large vocabulary, a tiny one where the two hidden states of the head count, tied and untied."""
    sizes = [Sizes(layers=1, vocab=3001), Sizes(layers=1, vocab=5, mlp_per_hidden=0.5), Sizes(layers=1, vocab=1001)]
    options = [DENSE, FUSED, plain_but(tied=False)]
    kept.judge_activations(kept.run_activations(observe, sizes, options, [(2, 16)] * 3, [("float32", "none")] * 3))


@pytest.mark.law("activations.recomputation_keeps_inputs")
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputation_keeps_inputs(observe, recompute):
    """Of attention q, k and v as they were handed over; of a block its input."""
    sizes = [
        Sizes(vocab=31),
        Sizes(vocab=31, layers=6),
        Sizes(vocab=31, kv_share=4, mlp_per_hidden=0.5),
        Sizes(heads=8, vocab=31, mlp_per_hidden=0.5),
        Sizes(heads=8, vocab=31, mlp_per_hidden=0.5),
    ]
    options = [DENSE, FUSED, FUSED, plain_but(positions="rotary", attention="sdpa"), plain_but(positions="rotary")]
    ways = [("bfloat16", recompute)] + [("float32", recompute)] * 4
    kept.judge_activations(kept.run_activations(observe, sizes, options, [(3, 70)] + [(4, 16)] * 4, ways))


@pytest.mark.law("activations.holds_at_full_size")
def test_activations_hold_at_full_size(observe):
    """Six layers of the model of 39.1 billion parameters, on the meta device."""
    kept.judge_full_size(observe, 4, layers=6)


# --- fit -------------------------------------------------------------------------------------------------------------
@pytest.mark.law("fit.largest_that_fits")
def test_the_largest_micro_batch_fits_and_one_more_does_not(observe):
    """Room for 1, 3 and 6 sequences and a half, in three precisions."""
    sizes = [Sizes(max_tokens=96, vocab=401)] * 3
    ways = [{"precision": "fp32", "optimizer": "sgd"}, {"precision": "mixed"}, {"precision": "bf16", "optimizer": "momentum"}]
    laws.judge_fits(observe, sizes, [DENSE, FUSED, DENSE], ways, sequence=96, targets=[6, 1, 3])


@pytest.mark.law("fit.largest_that_fits")
def test_the_largest_micro_batch_of_a_real_card(observe):
    """The model of 1.7 billion parameters in 80 GB."""
    laws.judge_fit_at_full_size(observe, {"precision": "mixed"}, sequence=512, device_bytes=80e9)


@pytest.mark.law("fit.largest_that_fits")
def test_an_exact_fit_fits(observe):
    """Device bytes that one's own figures for 1, 3 and 4 sequences sum to, to the byte."""
    ways = [{"precision": "mixed"}, {"precision": "fp32", "optimizer": "sgd"}, {"precision": "bf16", "recompute": "full"}]
    laws.judge_exact_fits(observe, [Sizes(max_tokens=96)] * 3, [FUSED, DENSE, DENSE], ways, sequence=96, targets=[1, 3, 4])


@pytest.mark.law("fit.largest_that_fits")
def test_what_does_not_grow_with_the_batch_counts_once(observe):
    """One head and long sequences, where a layer's mask is a large part of what the first sequence costs."""
    sizes = [Sizes(heads=1, head_dim=8, layers=2, vocab=7, mlp_per_hidden=1, max_tokens=512)] * 2
    ways = [{"precision": "bf16"}, {"precision": "mixed", "recompute": "none"}]
    laws.judge_fits(observe, sizes, [DENSE] * 2, ways, sequence=512, targets=[3, 4])


@pytest.mark.law("fit.nothing_fits_is_zero")
def test_nothing_fits_is_zero(observe):
    """Half a sequence fits, or only half of the states."""
    ways = [{"precision": "mixed"}, {"precision": "fp32"}]
    laws.judge_fits(observe, [Sizes(max_tokens=96)] * 2, [FUSED] * 2, ways, sequence=96, targets=[0, -1])


@pytest.mark.law("fit.sharding_and_recomputation_make_room")
def test_sharding_and_recomputation_make_room(observe):
    """dp divides states by stage and no activation; recomputed blocks are smaller."""
    ways = [
        {"precision": "mixed", "dp": 8, "stage": 1},
        {"precision": "mixed_fp32_gradients", "dp": 8, "stage": 3},
        {"precision": "fp32", "dp": 4, "stage": 0, "recompute": "selective"},
        {"precision": "bf16", "dp": 2, "stage": 2, "recompute": "full"},
    ]
    laws.judge_fits(observe, [Sizes(max_tokens=128, vocab=201)] * 4, [DENSE] * 4, ways, sequence=128, targets=[3, 4, 2, 5])
