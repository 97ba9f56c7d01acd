"""Hidden cases of the laws of `memory_accounting`: other models, layouts, recipes. What each law means: tests/laws/memory_accounting/."""

from __future__ import annotations

import pytest

from tests.laws.memory_accounting import kept, laws
from tests.laws.memory_accounting.judging import assert_refused
from tests.laws.memory_accounting.models import PLAIN, Sizes, plain_but

FUSED = plain_but(attention="sdpa")
GATED = plain_but(activation="swiglu", bias=False, tied=False)
LLAMA = plain_but(activation="swiglu", bias=False, tied=False, norm="rmsnorm", positions="rotary")
EVERY_RECIPE = [(precision, optimizer) for precision in laws.PRECISIONS for optimizer in ("sgd", "momentum", "adam")]
TP4 = {"tp": 4, "sequence_parallel": True}


# --- parameters ------------------------------------------------------------------------------------------------------
@pytest.mark.law("parameters.equals_the_model")
def test_parameter_count_equals_the_model(observe):
    """Models of one and of many layers, narrow and wide MLPs."""
    sizes = [Sizes(layers=1), Sizes(layers=7), Sizes(mlp_per_hidden=0.5), Sizes(mlp_per_hidden=6, heads=1)]
    laws.judge_parameters(laws.run_parameters(observe, sizes, [PLAIN], kind="one to seven layers, other MLPs"))


@pytest.mark.law("parameters.tied_head_counts_once")
def test_a_tied_head_counts_once(observe):
    """An untied head adds V · C in a model without biases, with rotary positions and a gated MLP too."""
    options = [LLAMA | {"tied": True}, LLAMA, GATED | {"tied": True}, GATED]
    seen = laws.run_parameters(
        observe, [Sizes(vocab=1003)] * 4, options, heads_per_kv_head=1, kind="tied and untied heads of Llama-like models"
    )
    laws.judge_pairs(seen, difference="an untied head instead of a tied one", suggestion="An untied head is a V x C matrix without bias.")


@pytest.mark.law("parameters.options_change_what_exists")
def test_options_change_what_exists(observe):
    """Pairs of options that meet: RMSNorm with biases, LayerNorm without, a gated MLP with biases, one key/value head."""
    options = [
        plain_but(norm="rmsnorm", bias=True, tied=False),
        plain_but(norm="layernorm", bias=False, positions="rotary"),
        plain_but(activation="swiglu", bias=True),
        LLAMA,
    ]
    sizes = [Sizes(), Sizes(), Sizes(), Sizes(kv_share=4)]
    laws.judge_parameters(laws.run_parameters(observe, sizes, options, kind="options in combination"))


@pytest.mark.law("parameters.grouped_heads_narrow_qkv")
def test_grouped_heads_narrow_qkv(observe):
    """Four query heads share a key/value head, with and without biases."""
    options = [PLAIN, PLAIN, LLAMA, LLAMA]
    seen = laws.run_parameters(observe, [Sizes(kv_share=4)] * 4, options, heads_per_kv_head=4, kind="four query heads to a key/value head")
    laws.judge_pairs(
        seen, difference="full instead of shared key/value heads", suggestion="Which matrices have a column for each key head?"
    )


@pytest.mark.law("parameters.matches_published_sizes")
def test_parameter_counts_match_published_sizes(observe):
    """Models from 145.6 to 1008 billion parameters."""
    laws.judge_megatron_sizes(observe, slice(6, 10), kind="the largest models of Megatron-LM's table")


# --- states ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("states.weights_and_gradients_follow_the_precision")
def test_weights_and_gradients_follow_the_precision(observe):
    """Whatever the optimizer, for a Llama-like model."""
    seen = laws.run_states(observe, EVERY_RECIPE, LLAMA, kind="every precision with every optimizer, a Llama-like model")
    laws.judge_states(seen, laws.WEIGHTS, laws.GRADIENTS, suggestion="Does the optimizer change the dtype of weights or gradients?")


@pytest.mark.law("states.masters_exist_in_mixed_precision_only")
def test_masters_exist_in_mixed_precision_only(observe):
    """Whatever the optimizer: plain SGD in mixed precision has masters too."""
    seen = laws.run_states(observe, EVERY_RECIPE, LLAMA, kind="every precision with every optimizer, a Llama-like model")
    laws.judge_states(seen, laws.MASTERS, suggestion="Masters belong to the precision, not to the optimizer.")


@pytest.mark.law("states.moments_follow_the_optimizer")
def test_moments_follow_the_optimizer(observe):
    """In every precision."""
    seen = laws.run_states(observe, EVERY_RECIPE, LLAMA, kind="every precision with every optimizer, a Llama-like model")
    laws.judge_states(seen, laws.MOMENTS, suggestion="How many numbers, and in the dtype of which weights?")


@pytest.mark.law("states.matches_published_bytes_per_parameter")
def test_states_match_published_bytes_per_parameter(observe):
    """For a model of a trillion parameters."""
    laws.judge_bytes_per_parameter(observe, 9, kind="a trillion parameters")


@pytest.mark.law("states.refuses_unknown_names")
def test_unknown_precisions_and_optimizers_are_refused(observe):
    """Names that are nearly right."""
    precisions, optimizers = [["FP32", "adam"], ["fp16", "adam"]], [["mixed", "adamw"], ["bf16", ""], ["autocast", "SGD"]]
    refused = [(given, laws.PRECISIONS) for given in precisions] + [(given, laws.OPTIMIZERS) for given in optimizers]
    assert_refused(observe, "model_state_bytes", refused, names="precisions and optimizers", kind="names that are nearly right")


# --- sharding --------------------------------------------------------------------------------------------------------
@pytest.mark.law("sharding.stage_1_cuts_the_optimizer")
def test_stage_1_cuts_the_optimizer(observe):
    """Many replicas, one replica, and stage 0."""
    layouts = [{"dp": 96, "stage": 1}, {"dp": 1, "stage": 1}, {"dp": 96, "stage": 0}]
    laws.judge_sharded(observe, layouts, kind="96 replicas and one")


@pytest.mark.law("sharding.stage_2_cuts_gradients_too")
def test_stage_2_cuts_gradients_too(observe):
    """Many replicas and one."""
    laws.judge_sharded(observe, [{"dp": 96, "stage": 2}, {"dp": 2, "stage": 2}, {"dp": 1, "stage": 2}], kind="96 replicas, two and one")


@pytest.mark.law("sharding.stage_3_cuts_everything")
def test_stage_3_cuts_everything(observe):
    """Many replicas and one."""
    laws.judge_sharded(observe, [{"dp": 96, "stage": 3}, {"dp": 2, "stage": 3}, {"dp": 1, "stage": 3}], kind="96 replicas, two and one")


@pytest.mark.law("sharding.model_parallelism_cuts_everything")
def test_model_parallelism_cuts_everything(observe):
    """tp = 8 and pp = 16, with one replica and with 6."""
    layouts = [{"dp": dp, "stage": stage, "tp": 8, "pp": 16} for dp in (1, 6) for stage in range(4)]
    laws.judge_sharded(observe, layouts, kind="tp 8 and pp 16")


@pytest.mark.law("sharding.matches_the_zero_table")
def test_sharded_states_match_the_zero_table(observe):
    """A trillion parameters on 1 to 1024 devices."""
    laws.judge_zero_table(observe, (1e12,), kind="a trillion parameters")


@pytest.mark.law("sharding.refuses_other_stages")
def test_other_stages_are_refused(observe):
    """A stage of another kind."""
    refused = [([1.5, 2], "03"), ([5, 2], "03"), ([1.5, 1], "03")]
    assert_refused(observe, "sharded_state_bytes", refused, names="stages", kind="stages 1.5 and 5")


# --- published -------------------------------------------------------------------------------------------------------
@pytest.mark.law("published.one_layer_alone")
def test_one_layer_alone(observe):
    """Other models."""
    layouts = [{}, {"tp": 1, "sequence_parallel": True}, {"recompute": "none"}]
    kept.judge_published_layers(observe, layouts, is_papers_kind=False, kind="other models, tp 1")


@pytest.mark.law("published.tensor_parallelism_cuts_all_but_ten")
def test_tensor_parallelism_cuts_all_but_ten(observe):
    """tp of 2, 4 and 16."""
    kept.judge_published_layers(observe, [{"tp": tp} for tp in (2, 4, 16)], kind="tp 2, 4 and 16")


@pytest.mark.law("published.sequence_parallelism_cuts_the_ten")
def test_sequence_parallelism_cuts_the_ten(observe):
    """tp of 2 and 4."""
    kept.judge_published_layers(observe, [TP4, TP4 | {"tp": 2}], kind="tp 2 and 4 with sequence parallelism")


@pytest.mark.law("published.recomputation_drops_what_it_makes_again")
def test_recomputation_drops_what_it_makes_again(observe):
    """With tp 4, with and without sequence parallelism."""
    layouts = [chosen | {"recompute": how} for how in ("selective", "full") for chosen in ({"tp": 4}, TP4)]
    kept.judge_published_layers(observe, layouts, kind="selective and full recomputation, tp 4")


@pytest.mark.law("published.first_stage_holds_all_layers")
def test_the_first_stage_holds_all_layers(observe):
    """Deep pipelines, interleaved by 4, recomputed."""
    layouts = [{"pp": 8}, TP4 | {"pp": 8, "interleave": 4}, {"tp": 4, "pp": 4, "interleave": 2, "recompute": "full"},
               TP4 | {"pp": 2, "interleave": 3, "recompute": "selective"}]  # fmt: skip
    kept.judge_published_stages(observe, layouts, "layers", kind="pipelines of 2 to 8 stages, interleaved and recomputed")


@pytest.mark.law("published.embedding_and_head_are_counted")
def test_embedding_and_head_are_counted(observe):
    """Interleaving and recomputation change neither."""
    layouts = [TP4, {"tp": 4, "recompute": "full"}, TP4 | {"pp": 8, "interleave": 2}, {"pp": 2, "interleave": 4}]
    kept.judge_published_stages(observe, layouts, "embedding", "head", kind="interleaved and recomputed")


@pytest.mark.law("published.matches_printed_figures")
def test_activations_match_printed_figures(observe):
    """Models of 530 billion and a trillion parameters."""
    kept.judge_printed(observe, ["530B", "1T"], kind="530 billion and a trillion parameters")


# --- activations -----------------------------------------------------------------------------------------------------
@pytest.mark.law("activations.dense_attention_keeps_its_squares")
def test_dense_attention_keeps_its_squares(observe):
    """Other lengths and batches, in both dtypes."""
    sizes = [Sizes(layers=4), Sizes(heads=2, head_dim=6, mlp_per_hidden=2, max_tokens=128), Sizes(mlp_per_hidden=1, vocab=7)]
    ways = [("float32", "none"), ("bfloat16", "none"), ("float32", "none")]
    kept.judge_activations(
        kept.run_activations(observe, sizes, [PLAIN] * 3, [(1, 64), (2, 128), (5, 8)], ways, kind="dense attention, other lengths")
    )


@pytest.mark.law("activations.fused_attention_keeps_no_square")
def test_fused_attention_keeps_no_square(observe):
    """Other lengths and batches, in both dtypes."""
    narrow = Sizes(heads=24, head_dim=2, kv_share=4, vocab=7, mlp_per_hidden=1, max_tokens=128)
    sizes = [Sizes(layers=4), narrow, Sizes(mlp_per_hidden=1, vocab=7)]
    ways = [("float32", "none"), ("bfloat16", "none"), ("float32", "none")]
    kept.judge_activations(
        kept.run_activations(observe, sizes, [FUSED] * 3, [(1, 64), (2, 128), (5, 8)], ways, kind="fused attention, other lengths")
    )


@pytest.mark.law("activations.shared_heads_and_rotation")
def test_activations_with_shared_heads_and_rotation(observe):
    """Two and six query heads to a key/value head, narrow MLPs; dense attention with rotation."""
    sizes = [
        Sizes(kv_share=2, mlp_per_hidden=1, vocab=31),
        Sizes(kv_share=6, mlp_per_hidden=1, vocab=31),
        Sizes(kv_share=4, mlp_per_hidden=1),
    ]
    options = [FUSED, FUSED, plain_but(positions="rotary", bias=False)]
    ways = [("float32", "none"), ("float32", "none"), ("float32", "none")]
    seen = kept.run_activations(observe, sizes, options, [(4, 16)] * 3, ways, kind="two to six query heads to a key/value head")
    kept.judge_activations(seen)


@pytest.mark.law("activations.gated_mlp_keeps_four")
def test_a_gated_mlp_keeps_four(observe):
    """With fused attention, in fp32."""
    sizes = [Sizes(mlp_per_hidden=3.5), Sizes(mlp_per_hidden=7), Sizes(mlp_per_hidden=1)]
    options = [GATED | {"attention": "sdpa"}, FUSED, GATED]
    kept.judge_activations(
        kept.run_activations(observe, sizes, options, [(3, 12)] * 3, [("float32", "none")] * 3, kind="gated and plain MLPs")
    )


@pytest.mark.law("activations.head_keeps_the_vocabulary")
def test_the_head_keeps_the_vocabulary(observe):
    """A large vocabulary in bf16, and a tiny one."""
    sizes = [Sizes(layers=2, vocab=5003), Sizes(layers=1, vocab=3, mlp_per_hidden=0.25)]
    kept.judge_activations(
        kept.run_activations(observe, sizes, [FUSED, FUSED], [(3, 8)] * 2, [("bfloat16", "none")] * 2, kind="vocabularies of 3 and 5003")
    )


@pytest.mark.law("activations.recomputation_keeps_inputs")
def test_recomputation_keeps_inputs(observe):
    """Shared heads in dense attention, a gated MLP, deep models."""
    sizes = [
        Sizes(vocab=31, kv_share=4, mlp_per_hidden=0.5),
        Sizes(vocab=31, layers=8),
        Sizes(vocab=31),
        Sizes(vocab=31, kv_share=4, layers=5),
        Sizes(vocab=31, kv_share=4, mlp_per_hidden=0.5),
    ]
    options = [PLAIN, PLAIN, GATED, FUSED, plain_but(positions="rotary", attention="sdpa")]
    ways = [("float32", "selective"), ("bfloat16", "full"), ("bfloat16", "selective"), ("float32", "full"), ("float32", "selective")]
    seen = kept.run_activations(observe, sizes, options, [(4, 32)] * 5, ways, kind="selective and full recomputation, other models")
    kept.judge_activations(seen)


@pytest.mark.law("activations.holds_at_full_size")
def test_activations_hold_at_full_size(observe):
    """Four layers of the model of a trillion parameters, on the meta device."""
    kept.judge_full_size(observe, 9, layers=4, kind="a trillion parameters")


# --- fit -------------------------------------------------------------------------------------------------------------
@pytest.mark.law("fit.largest_that_fits")
def test_the_largest_micro_batch_fits_and_one_more_does_not(observe):
    """Room for 2, 5 and 1 sequences and a half, other recipes and models."""
    sizes = [Sizes(max_tokens=128, vocab=301)] * 3
    ways = [{"precision": "mixed_fp32_gradients", "optimizer": "momentum"}, {"precision": "bf16"}, {"precision": "fp32"}]
    options = [PLAIN, GATED, FUSED]
    laws.judge_fits(observe, sizes, options, ways, sequence=128, targets=[2, 5, 1], kind="room for 1, 2 and 5 sequences")


@pytest.mark.law("fit.largest_that_fits")
def test_the_largest_micro_batch_of_a_real_card(observe):
    """The model of 1.7 billion parameters in 40 GB, sharded."""
    way = {"precision": "mixed", "dp": 16, "stage": 2, "recompute": "full"}
    laws.judge_fit_at_full_size(observe, way, sequence=2048, device_bytes=40e9, kind="a real card")


@pytest.mark.law("fit.nothing_fits_is_zero")
def test_nothing_fits_is_zero(observe):
    """Sharded states that don't fit, and half a sequence that does."""
    ways = [{"precision": "mixed", "dp": 4, "stage": 3}, {"precision": "bf16", "dp": 4, "stage": 1}]
    laws.judge_fits(observe, [Sizes(max_tokens=96)] * 2, [PLAIN] * 2, ways, sequence=96, targets=[-1, 0], kind="too little room, sharded")


@pytest.mark.law("fit.sharding_and_recomputation_make_room")
def test_sharding_and_recomputation_make_room(observe):
    """Other stages, degrees and recomputations."""
    ways = [
        {"precision": "mixed", "dp": 16, "stage": 2},
        {"precision": "fp32", "optimizer": "momentum", "dp": 3, "stage": 3, "recompute": "full"},
        {"precision": "mixed", "dp": 2, "stage": 0, "recompute": "selective"},
    ]
    options = [FUSED, PLAIN, PLAIN]
    laws.judge_fits(
        observe,
        [Sizes(max_tokens=128, vocab=201)] * 3,
        options,
        ways,
        sequence=128,
        targets=[4, 6, 2],
        kind="other stages and recomputations",
    )
