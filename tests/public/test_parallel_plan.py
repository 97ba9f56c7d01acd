"""Public cases of the laws of `parallel_plan`. What each law means stands in tests/laws/parallel_plan/."""

from __future__ import annotations

import pytest

from tests.laws.parallel_plan import figures, meshes, pairs, searches, wording
from tests.laws.parallel_plan.cases import ALL, DENSE_ONLY

WORLD = {"world_size": 16, "dp": 2, "tp": 2, "pp": 2, "cp": 2, "ep": 1}
AGREED = [pairs.PUBLIC["GPT 1.7B on 32 A100 (Megatron-LM's table 1)"], pairs.NODE]
SMALL = [
    (pairs.gpt(6, 768, 12, 24, sequence=2048), pairs.dgx_a100(1)),
    (pairs.mixture(pairs.gpt(4, 512, 8, 16, sequence=4096), 4, 2), pairs.dgx_a100(2)),
]


# --- mesh ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("mesh.neighbours_share_the_inner_axes")
def test_neighbours_share_the_inner_axes(observe):
    """All groups of tp, cp, dp and pp, in several worlds."""
    meshes.judge_groups(observe, ["tp", "cp", "dp", "pp"])


@pytest.mark.law("mesh.experts_lie_within_dp")
def test_experts_lie_within_dp(observe):
    """The groups of ep, which add no ranks."""
    meshes.judge_groups(observe, ["ep"], experts=True)


@pytest.mark.law("mesh.gradients_are_averaged_over_replicas")
def test_gradients_are_averaged_over_replicas(observe):
    """All ranks that hold the same weights, and the same experts."""
    meshes.judge_groups(observe, ["dp_cp", "expert_dp_cp"], experts=True)


@pytest.mark.law("mesh.refuses_other_worlds")
def test_other_worlds_are_refused(observe):
    """A product that isn't the world, an ep that does not divide dp, a size of zero."""
    worlds = [WORLD | {"world_size": 32}, WORLD | {"dp": 4}, WORLD | {"ep": 3}, WORLD | {"tp": 0, "world_size": 0}]
    meshes.judge_refusals(observe, [*worlds, WORLD | {"dp": 3, "ep": 2, "world_size": 24}])


# --- memory, compute, communication, step ----------------------------------------------------------------------------
@pytest.mark.law("memory.stages_hold_layers_and_micro_batches")
def test_stages_hold_layers_and_micro_batches(observe):
    """Pipelines of all kinds: uneven, interleaved, with few micro-batches."""
    figures.judge(observe, "stages", DENSE_ONLY)


@pytest.mark.law("memory.parameters_of_a_rank")
def test_parameters_of_a_rank(observe):
    """First, middle and last stages, dense and of experts."""
    figures.judge(observe, "rank_parameters")


@pytest.mark.law("memory.a_layer_keeps_its_activations")
def test_a_layer_keeps_its_activations(observe):
    """Gated and plain, rotary and learned, shared heads, experts."""
    figures.judge(observe, "layer_activation_bytes")


@pytest.mark.law("memory.states_are_sharded_over_all_replicas")
def test_states_are_sharded_over_all_replicas(observe):
    """The five terms of a stage, under every ZeRO stage."""
    figures.judge(observe, "stage_memory", columns=("weights", "gradients", "optimizer"))


@pytest.mark.law("memory.recomputation_keeps_inputs")
def test_recomputation_keeps_inputs(observe):
    """Activations in flight, recomputed or not."""
    figures.judge(observe, "stage_memory", columns=("activations",))


@pytest.mark.law("memory.fullest_stage_decides")
def test_the_fullest_stage_decides(observe):
    """The estimate of whole plans."""
    figures.judge(observe, "estimate_memory")


@pytest.mark.law("memory.fullest_stage_decides")
def test_logits_are_on_the_last_stage(observe):
    """fp32 logits with their gradient, and two inputs."""
    figures.judge(observe, "stage_memory", columns=("logits",))


@pytest.mark.law("memory.fullest_stage_decides")
def test_memory_agrees_with_the_simulator(observe):
    """Candidates of published pairs."""
    searches.judge_agreement(observe, AGREED, "memory")


@pytest.mark.law("compute.products_obey_the_roofline")
def test_products_obey_the_roofline(observe):
    """Thick products and thin ones."""
    figures.judge(observe, "product_s")


@pytest.mark.law("compute.a_layer_is_products_attention_and_bytes")
def test_a_layer_is_products_attention_and_bytes(observe):
    """Layers of all kinds, on all axes."""
    figures.judge(observe, "layer_seconds")


@pytest.mark.law("compute.head_and_optimizer_count")
@pytest.mark.parametrize("function", ["head_seconds", "optimizer_seconds"])
def test_head_and_optimizer_count(observe, function):
    """The head and the loss; Adam's update."""
    figures.judge(observe, function)


@pytest.mark.law("communication.gathers_take_the_cheaper_way")
def test_gathers_take_the_cheaper_way(observe):
    """Groups in a node and over several, close together and far apart."""
    figures.judge(observe, "gather_s")


@pytest.mark.law("communication.exchanges_and_messages")
@pytest.mark.parametrize("function", ["all_to_all_s", "message_s"])
def test_exchanges_and_messages(observe, function):
    """Within nodes and between them."""
    figures.judge(observe, function)


@pytest.mark.law("communication.layers_wait_for_what_is_in_their_way")
def test_layers_wait_for_what_is_in_their_way(observe):
    """tp, cp and ep, hidden or not."""
    figures.judge(observe, "layer_waits_s")


@pytest.mark.law("communication.shards_travel_among_replicas")
@pytest.mark.parametrize("function", ["layer_shards_s", "exposed_s"])
def test_shards_travel_among_replicas(observe, function):
    """Weights and gradients of a layer, and what arithmetic hides of them."""
    figures.judge(observe, function)


@pytest.mark.law("step.a_stage_computes_and_waits")
def test_a_stage_computes_and_waits(observe):
    """Stages of all kinds, forward and backward."""
    figures.judge(observe, "stage_seconds", ALL)


@pytest.mark.law("step.some_things_travel_once")
def test_some_things_travel_once(observe):
    """What is left in the open once in a step."""
    figures.judge(observe, "once_s")


@pytest.mark.law("step.a_step_is_work_waiting_and_bubble")
def test_a_step_is_work_waiting_and_bubble(observe):
    """Whole plans."""
    figures.judge(observe, "estimate_step")


@pytest.mark.law("step.agrees_with_the_simulator")
def test_a_step_agrees_with_the_simulator(observe):
    """The fastest candidates of published pairs."""
    searches.judge_agreement(observe, AGREED, "step")


# --- candidates, choice, reasons -------------------------------------------------------------------------------------
@pytest.mark.law("candidates.rules_are_told_apart")
def test_rules_are_told_apart(observe):
    """Plans that break some rules, or none."""
    searches.judge_rules(observe, ALL, 18)


@pytest.mark.law("candidates.every_candidate_once")
def test_every_candidate_comes_once(observe):
    """One node and two, dense and of experts."""
    searches.judge_candidates(observe, SMALL)


@pytest.mark.law("choice.the_plan_fits")
@pytest.mark.parametrize("name", pairs.PUBLIC)
def test_the_plan_fits(observe, name):
    """A candidate, within memory."""
    searches.judge_fits(observe, name, pairs.PUBLIC[name])


@pytest.mark.law("choice.within_ten_per_cent_of_the_best")
@pytest.mark.parametrize("name", pairs.PUBLIC)
def test_the_plan_is_within_ten_per_cent_of_the_best(observe, name):
    """As the simulator plays it."""
    searches.judge_speed(observe, name, pairs.PUBLIC[name])


@pytest.mark.law("choice.refuses_with_the_reason")
def test_what_cannot_be_is_refused(observe):
    """Too many states, too many activations, no way to cut."""
    searches.judge_refusal(observe, pairs.REFUSED)


@pytest.mark.law("reasons.each_axis_has_its_reason")
def test_each_axis_has_its_reason(observe):
    """Plans of several pairs."""
    searches.judge_reasons(observe, pairs.ASKED)


# --- settings --------------------------------------------------------------------------------------------------------
@pytest.mark.law("settings.deepspeed_batches_multiply")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_deepspeed_batches_multiply(observe, precision):
    """Plans without interleaving."""
    wording.judge(observe, "deepspeed_config", [wording.a_plan(interleaved=False)] * 12, precision=precision)


@pytest.mark.law("settings.megatron_flags_are_real")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_megatron_flags_are_real(observe, precision):
    """Plans of all kinds."""
    wording.judge(observe, "megatron_arguments", [wording.a_plan()] * 16, precision=precision)


@pytest.mark.law("settings.torchtitan_degrees_multiply")
def test_torchtitan_degrees_multiply(observe):
    """Plans of all kinds."""
    wording.judge(observe, "fsdp2_settings", [wording.a_plan()] * 16)


@pytest.mark.law("settings.refuses_what_a_library_cannot")
def test_what_a_library_cannot_is_refused(observe):
    """Interleaving in DeepSpeed, fp16 in torchtitan."""
    calls = [
        ("deepspeed_config", "bf16", wording.a_plan(pipeline=True, interleaved=True), "deepspeed_config of an interleaved plan"),
        ("fsdp2_settings", "fp16", wording.a_plan(pipeline=False), "fsdp2_settings in fp16"),
    ]
    wording.judge_refusals(observe, calls)
