"""Hidden cases of the laws of `parallel_plan`: other models, clusters and plans by lot, and pairs that nobody has published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.simulator import dgx_a100, h100, slow_network, two_t4
from tests.laws.parallel_plan import figures, meshes, searches, wording
from tests.laws.parallel_plan.cases import ALL, EXPERTS, FEW, INTERLEAVED, MANY_EXPERTS, NO_PIPELINE, PLAIN_PIPELINE, WIDE_CONTEXT, lot
from tests.laws.parallel_plan.pairs import MIXTURE, NODE, ONE_KEY_HEAD, PUBLIC, SLOW, TOO_BIG_ALONE, Pair, Wanted, gpt, llama, mixture

WORLD = {"world_size": 24, "dp": 2, "tp": 2, "pp": 3, "cp": 2, "ep": 2}
OTHERS = {"kind": "other models, clusters and plans"}
TIED_PIPELINE = lot(pp=(2, 3), tied=(True,), cp=(1, 2, 4), zero=(0, 1))
DDP = lot(zero=(0,), dp=(2, 4, 8))
ZERO_2 = lot(pp=(1,), zero=(2,), dp=(2, 4, 8))
ZERO_3 = lot(pp=(1,), zero=(3,), dp=(2, 4, 8), experts=True)
HIDDEN: dict[str, Pair] = {
    "a trillion parameters": (gpt(128, 25600, 160, 3072), dgx_a100(384)),
    "long sequences": (llama(126, 16384, 128, 53248, 128, sequence=131_072), h100(2048)),
    "experts": (mixture(llama(32, 4096, 32, 14336, 128), 8, 2), h100(4)),
    "another node of eight": (gpt(36, 4096, 32, 96), dgx_a100(1)),
    "a slow network and a large model": (llama(80, 8192, 64, 28672, 256), slow_network(16)),
    "a number of GPUs that is no power of two": (gpt(42, 6144, 48, 720), dgx_a100(9)),
    "many layers and few heads": (gpt(60, 3072, 24, 192), dgx_a100(3)),
    "a slow network, where recomputing saves it": (gpt(24, 2048, 16, 32, sequence=4096), replace(slow_network(2), memory_bytes=12e9)),
    "a slow network, where gradients must be sharded": (gpt(24, 2048, 16, 32, sequence=4096), replace(slow_network(2), memory_bytes=10e9)),
    "memory for the most frugal plan and hardly more": (PUBLIC["GPT 355M on two T4"][0], replace(two_t4(), memory_bytes=3.47e9)),
}
ALSO_REFUSED: dict[str, Pair] = {
    "states": (llama(126, 16384, 128, 53248, 64), h100(4)),
    "activations": (llama(32, 4096, 32, 14336, 8, sequence=1_048_576), replace(h100(1), num_nodes=1)),
    "shape": (gpt(7, 896, 7, 9, sequence=1001), dgx_a100(2)),
    # The plan with the least bytes in all has not the least states, which would fit.
    "activations, beside states that hardly fit": (gpt(24, 2048, 16, 8, sequence=131_072), replace(dgx_a100(1), memory_bytes=3.5e9)),
    "states of experts": (mixture(llama(32, 4096, 32, 14336, 64), 8, 2), dgx_a100(1)),
}
ALSO_ASKED: list[Wanted] = [
    (SLOW, {"tp": 8}), (ONE_KEY_HEAD, {"pp": 2}), (MIXTURE, {"ep": 8}), (TOO_BIG_ALONE, {"pp": 2, "tp": 4}), (NODE, {"cp": 2, "dp": 4}),
    (PUBLIC["GPT 355M on two T4"], {"dp": 2}),
]  # fmt: skip


# --- mesh ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("mesh.neighbours_share_the_inner_axes")
def test_neighbours_share_the_inner_axes(observe):
    """Worlds with experts, in which dp is cut further."""
    meshes.judge_groups(observe, ["tp", "cp", "dp", "pp"], experts=True, num=12, kind="a world with experts")


@pytest.mark.law("mesh.experts_lie_within_dp")
def test_experts_lie_within_dp(observe):
    """ep of 1: every rank alone."""
    meshes.judge_groups(observe, ["ep"], num=6, kind="a world without experts")


@pytest.mark.law("mesh.gradients_are_averaged_over_replicas")
def test_gradients_are_averaged_over_replicas(observe):
    """Without experts both are the same."""
    meshes.judge_groups(observe, ["dp_cp", "expert_dp_cp"], num=6, kind="a world without experts")


@pytest.mark.law("mesh.refuses_other_worlds")
def test_other_worlds_are_refused(observe):
    """ep counted as ranks of its own, negative sizes, a world that is too small."""
    worlds = [WORLD | {"world_size": 48}, WORLD | {"world_size": 12}, WORLD | {"ep": 4}, WORLD | {"ep": 0}]
    worlds.append(WORLD | {"dp": 6, "ep": 4, "world_size": 72})
    worlds += [WORLD | {"dp": -2, "tp": -2}, WORLD | {"cp": 0, "world_size": 0}, WORLD | {"ep": -1}]
    meshes.judge_refusals(observe, worlds, kind="sizes that do not fit together")


# --- memory ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("memory.stages_hold_layers_and_micro_batches")
def test_stages_hold_layers_and_micro_batches(observe):
    """Deep pipelines, many of them."""
    draws = [*[lot(pp=(4, 6, 7), chunks=(1,), zero=(0, 1))] * 12, *[FEW] * 8, *[INTERLEAVED] * 12, *[lot(pp=(2,), zero=(0, 1))] * 6]
    figures.judge(observe, "stages", draws, kind="deep pipelines")


@pytest.mark.law("memory.parameters_of_a_rank")
def test_parameters_of_a_rank(observe):
    """Tied and untied tables, many experts."""
    figures.judge(observe, "rank_parameters", [TIED_PIPELINE, MANY_EXPERTS, NO_PIPELINE, EXPERTS] * 8, **OTHERS)


@pytest.mark.law("memory.a_layer_keeps_its_activations")
def test_a_layer_keeps_its_activations(observe):
    """Many experts, wide contexts."""
    figures.judge(observe, "layer_activation_bytes", [MANY_EXPERTS, WIDE_CONTEXT, NO_PIPELINE] * 10, **OTHERS)


@pytest.mark.law("memory.states_are_sharded_over_all_replicas")
def test_states_are_sharded_over_all_replicas(observe):
    """Every stage of ZeRO, with experts and wide contexts."""
    draws = [ZERO_2, ZERO_3, DDP, WIDE_CONTEXT, MANY_EXPERTS] * 8
    figures.judge(observe, "stage_memory", draws, columns=("weights", "gradients", "optimizer"), **OTHERS)


@pytest.mark.law("memory.recomputation_keeps_inputs")
def test_recomputation_keeps_inputs(observe):
    """Recomputation on several tp ranks."""
    draws = [lot(tp=(2, 4), recompute=("full",)), PLAIN_PIPELINE, INTERLEAVED] * 8
    figures.judge(observe, "stage_memory", draws, columns=("activations",), **OTHERS)


@pytest.mark.law("memory.fullest_stage_decides")
def test_the_fullest_stage_decides(observe):
    """Uneven pipelines, large vocabularies, few micro-batches."""
    figures.judge(observe, "estimate_memory", [PLAIN_PIPELINE, FEW, INTERLEAVED, TIED_PIPELINE, ZERO_3] * 8, **OTHERS)


@pytest.mark.law("memory.fullest_stage_decides")
def test_memory_agrees_with_the_simulator(observe):
    """Pairs that nobody has published."""
    asked = [HIDDEN[name] for name in ("experts", "another node of eight")]
    searches.judge_agreement(observe, asked, "memory", kind="another cluster")


# --- compute, communication, step ------------------------------------------------------------------------------------
@pytest.mark.law("compute.products_obey_the_roofline")
def test_products_obey_the_roofline(observe):
    """Other rates."""
    figures.judge(observe, "product_s", [NO_PIPELINE] * 32, **OTHERS)


@pytest.mark.law("compute.a_layer_is_products_attention_and_bytes")
def test_a_layer_is_products_attention_and_bytes(observe):
    """Many experts, wide contexts, single micro-batches."""
    figures.judge(observe, "layer_seconds", [MANY_EXPERTS, WIDE_CONTEXT, NO_PIPELINE, lot(pp=(2,), few=True)] * 8, **OTHERS)


@pytest.mark.law("compute.head_and_optimizer_count")
@pytest.mark.parametrize("function", ["head_seconds", "optimizer_seconds"])
def test_head_and_optimizer_count(observe, function):
    """Other sizes."""
    figures.judge(observe, function, [NO_PIPELINE] * 16, **OTHERS)


@pytest.mark.law("communication.gathers_take_the_cheaper_way")
def test_gathers_take_the_cheaper_way(observe):
    """Other links."""
    figures.judge(observe, "gather_s", ALL * 2, **OTHERS)


@pytest.mark.law("communication.exchanges_and_messages")
@pytest.mark.parametrize("function", ["all_to_all_s", "message_s"])
def test_exchanges_and_messages(observe, function):
    """Other links."""
    figures.judge(observe, function, [NO_PIPELINE] * 40, **OTHERS | {"kind": f"{function} on other clusters and plans"})


@pytest.mark.law("communication.layers_wait_for_what_is_in_their_way")
def test_layers_wait_for_what_is_in_their_way(observe):
    """Wide contexts that attention hides, or not."""
    figures.judge(observe, "layer_waits_s", [WIDE_CONTEXT, MANY_EXPERTS, NO_PIPELINE] * 10, **OTHERS)


@pytest.mark.law("communication.shards_travel_among_replicas")
@pytest.mark.parametrize("function", ["layer_shards_s", "exposed_s"])
def test_shards_travel_among_replicas(observe, function):
    """Many experts, every stage of ZeRO."""
    figures.judge(observe, function, [DDP, MANY_EXPERTS, ZERO_3, WIDE_CONTEXT] * 8, **OTHERS)


@pytest.mark.law("step.a_stage_computes_and_waits")
def test_a_stage_computes_and_waits(observe):
    """Every stage of ZeRO, chunks, recomputation."""
    figures.judge(observe, "stage_seconds", [ZERO_2, ZERO_3, INTERLEAVED, PLAIN_PIPELINE, MANY_EXPERTS] * 8, **OTHERS)


@pytest.mark.law("step.some_things_travel_once")
def test_some_things_travel_once(observe):
    """Tied pipelines, every stage of ZeRO."""
    figures.judge(observe, "once_s", [ZERO_2, TIED_PIPELINE, DDP, MANY_EXPERTS, WIDE_CONTEXT] * 8, **OTHERS)


@pytest.mark.law("step.a_step_is_work_waiting_and_bubble")
def test_a_step_is_work_waiting_and_bubble(observe):
    """Deep pipelines and none, experts, tied tables."""
    figures.judge(observe, "estimate_step", [PLAIN_PIPELINE, INTERLEAVED, TIED_PIPELINE, MANY_EXPERTS, ZERO_2, FEW] * 8, **OTHERS)


@pytest.mark.law("step.agrees_with_the_simulator")
def test_a_step_agrees_with_the_simulator(observe):
    """Pairs that nobody has published."""
    asked = [HIDDEN[name] for name in ("experts", "another node of eight")]
    searches.judge_agreement(observe, asked, "step", kind="another cluster")


# --- candidates, choice, reasons -------------------------------------------------------------------------------------
@pytest.mark.law("candidates.rules_are_told_apart")
def test_rules_are_told_apart(observe):
    """Other plans that break some rules, or none."""
    searches.judge_rules(observe, [INTERLEAVED, EXPERTS, PLAIN_PIPELINE, WIDE_CONTEXT, NO_PIPELINE], 24, **OTHERS)


@pytest.mark.law("candidates.every_candidate_once")
def test_every_candidate_comes_once(observe):
    """Three nodes of six GPUs; a single GPU; contexts down to the shortest that is allowed."""
    six = replace(dgx_a100(3), gpus_per_node=6)
    one = replace(two_t4(), gpus_per_node=1)
    asked = [
        (gpt(9, 768, 12, 36, sequence=3072), six),
        (gpt(4, 512, 8, 8, sequence=2048), one),
        (mixture(gpt(6, 512, 8, 12, sequence=3000), 6, 1), six),
    ]
    searches.judge_candidates(observe, asked, kind="nodes of six GPUs, and a single GPU")


@pytest.mark.law("choice.the_plan_fits")
@pytest.mark.parametrize("name", HIDDEN)
def test_the_plan_fits(observe, name):
    """A candidate, within memory."""
    searches.judge_fits(observe, name, HIDDEN[name], kind=name)


@pytest.mark.law("choice.within_ten_per_cent_of_the_best")
@pytest.mark.parametrize("name", HIDDEN)
def test_the_plan_is_within_ten_per_cent_of_the_best(observe, name):
    """As the simulator plays it."""
    searches.judge_speed(observe, name, HIDDEN[name], kind=name)


@pytest.mark.law("choice.refuses_with_the_reason")
@pytest.mark.parametrize("name", ALSO_REFUSED)
def test_what_cannot_be_is_refused(observe, name):
    """Other clusters that are too small, or cannot be filled."""
    searches.judge_refusal(observe, {name: ALSO_REFUSED[name]}, kind="a cluster that is too small")


@pytest.mark.law("reasons.each_axis_has_its_reason")
def test_each_axis_has_its_reason(observe):
    """Plans that aren't the best."""
    searches.judge_reasons(observe, ALSO_ASKED, kind="plans that are not the best")


# --- settings --------------------------------------------------------------------------------------------------------
@pytest.mark.law("settings.deepspeed_batches_multiply")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_deepspeed_batches_multiply(observe, precision):
    """Every stage of ZeRO, with pipelines and contexts."""
    wording.judge(observe, "deepspeed_config", [wording.a_plan(interleaved=False)] * 20, precision=precision, kind="other plans")


@pytest.mark.law("settings.megatron_flags_are_real")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_megatron_flags_are_real(observe, precision):
    """Every stage of ZeRO, with and without a pipeline."""
    draws = [wording.a_plan(pipeline=False), wording.a_plan(pipeline=True)] * 10
    wording.judge(observe, "megatron_arguments", draws, precision=precision, kind="other plans")


@pytest.mark.law("settings.torchtitan_degrees_multiply")
def test_torchtitan_degrees_multiply(observe):
    """Every stage of ZeRO, with and without a pipeline."""
    wording.judge(observe, "fsdp2_settings", [wording.a_plan(pipeline=False), wording.a_plan(pipeline=True)] * 10, kind="other plans")


@pytest.mark.law("settings.refuses_what_a_library_cannot")
def test_what_a_library_cannot_is_refused(observe):
    """Also in the other precision, and with a pipeline."""
    calls = [
        ("deepspeed_config", "fp16", wording.a_plan(pipeline=True, interleaved=True), "deepspeed_config of an interleaved plan"),
        ("fsdp2_settings", "fp16", wording.a_plan(pipeline=True), "fsdp2_settings in fp16"),
    ]
    wording.judge_refusals(observe, calls, kind="other plans")
