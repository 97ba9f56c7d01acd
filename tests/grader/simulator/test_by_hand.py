"""Terms counted by hand, or by memory_accounting, which was held to what autograd really keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import memory_accounting as accounting
import pytest

from grader.simulator import Model, Plan, estimate_step, memory_bytes
from grader.simulator.collectives import Group, all_reduce_s, all_to_all_s, message_s, placed, reduce_scatter_s
from grader.simulator.kernels import layer_seconds, product_s
from grader.simulator.memory import layer_activation_bytes, rank_bytes
from lm.gpt import GPTConfig
from tests.grader.simulator.drawn import model, node


# --- links
@pytest.mark.parametrize(("inter_bytes_per_s", "through"), [(1e10, 8e10), (1e9, 8e9), (1e11, 1e11)])
def test_a_ring_over_nodes_leaves_each_by_all_its_links(inter_bytes_per_s: float, through: float) -> None:
    """8 links out of a node, and never more than a link within; between nodes it passes once, within fourteen times."""
    cluster = node(2, 8, inter_bytes_per_s=inter_bytes_per_s)
    expected_s = 14 * cluster.intra_latency_s + cluster.inter_latency_s + 15 / 16 * 1e9 / through
    assert reduce_scatter_s(cluster, Group(16, 8), 1e9) == pytest.approx(expected_s)
    assert reduce_scatter_s(cluster, Group(16, 1), 1e9) == pytest.approx(15 * cluster.inter_latency_s + 15 / 16 * 1e9 / inter_bytes_per_s)


def test_small_all_reduces_take_the_tree_or_the_levels() -> None:
    """A byte among 64 ranks costs a logarithm of latencies, not 126."""
    cluster = node(8, 8)
    tree_s = 2 * 3 * (cluster.inter_latency_s + cluster.intra_latency_s)
    assert all_reduce_s(cluster, Group(64, 8), 1) == pytest.approx(tree_s, rel=1e-3)


def test_an_all_to_all_sends_its_part_to_every_rank() -> None:
    """7 of 8 parts within a node; with two nodes half of all leaves it."""
    cluster = node(2, 8, intra_latency_s=0.0, inter_latency_s=0.0)
    assert all_to_all_s(cluster, Group(8, 8), 8e9) == pytest.approx(7e9 / cluster.intra_bytes_per_s)
    assert all_to_all_s(cluster, Group(16, 8), 16e9) == pytest.approx(8e9 / cluster.inter_bytes_per_s)


def test_axes_lie_as_they_are_said_to() -> None:
    """tp innermost: 4 of tp in a node of 8, 2 of the dp that is 4 apart, 1 of what is 8 apart; a message within a node uses its link."""
    cluster = node(4, 8)
    assert [placed(cluster, stride, 8) for stride in (1, 4, 8)] == [Group(8, 8), Group(8, 2), Group(8, 1)]
    assert message_s(cluster, 4, 1e9) < message_s(cluster, 8, 1e9)


# --- arithmetic
def test_products_are_rounded_up_to_tiles_and_rounds() -> None:
    """129 rows are two tiles; 65 tiles on 64 processors are two rounds; long and thin ones wait for memory."""
    cluster = node(memory_bytes_per_s=math.inf)
    full_s = 2 * 4096 * 64 * 128 * 256 / cluster.flops_per_s
    assert product_s(cluster, 8 * 128, 4096, 8 * 256) == pytest.approx(full_s)
    assert product_s(cluster, 8 * 128, 4096, 8 * 256 + 1) == pytest.approx(2 * full_s)
    slow = node(memory_bytes_per_s=1e9)
    assert product_s(slow, 1024, 64, 2048) == pytest.approx(2 * (1024 * 64 + 64 * 2048 + 1024 * 2048) / 1e9)


def test_a_layer_computes_two_flops_per_weight_and_token_and_twice_that_backward() -> None:
    """With memory that costs nothing, and attention's triangle beside it: 2 of its products forward, 5 backward."""
    a_model, cluster = model(), node(memory_bytes_per_s=math.inf, num_processors=1)
    layer = layer_seconds(a_model, cluster, Plan(micro_batch=2))
    matrices = a_model.hidden_size * (a_model.qkv_size + a_model.hidden_size + 2 * a_model.mlp_size)
    tokens, attention = 2 * a_model.sequence, 2 * a_model.sequence**2 * a_model.hidden_size * 2
    assert layer.core_s == pytest.approx(attention / cluster.flops_per_s)
    assert layer.forward_s == pytest.approx((2 * matrices * tokens + attention) / cluster.flops_per_s)
    assert layer.backward_s == pytest.approx((4 * matrices * tokens + 2.5 * attention) / cluster.flops_per_s)
    halved = layer_seconds(a_model, cluster, Plan(micro_batch=2, tp=2))
    assert halved.forward_s == pytest.approx(layer.forward_s / 2)


def test_summing_gradients_over_micro_batches_costs_their_bytes() -> None:
    """Fresh one and sum read, sum written: 6 bytes for each parameter of a layer and micro-batch, none with a single one."""
    a_model = model()
    layers = [layer_seconds(a_model, node(), Plan(num_micro_batches=count)) for count in (1, 2)]
    assert layers[0].accumulate_s == 0
    assert layers[1].accumulate_s == pytest.approx(6 * a_model.layer_parameters / node().memory_bytes_per_s)


def test_a_host_that_waits_costs_its_time_for_each_kernel() -> None:
    """16 kernels of a layer forward, 43 backward, and the 16 again where the layer is recomputed."""
    a_model, plan = model(num_layers=4), Plan(num_micro_batches=16, recompute="full")
    ahead, waiting = (estimate_step(a_model, node(1, 1, launch_s=launch_s), plan).compute_s for launch_s in (0.0, 1e-3))
    assert waiting - ahead == pytest.approx(16 * 4 * (16 + 43 + 16) * 1e-3)


def test_what_was_sent_in_shares_is_gathered_by_those_who_get_it() -> None:
    """An all-gather for each micro-batch that comes to the last stage; none if residuals were divided already."""
    a_model, cluster = model(num_kv_heads=8), node(1, 4)
    plan = Plan(tp=2, pp=2, num_micro_batches=16)
    hidden_bytes = 2 * a_model.sequence * a_model.hidden_size
    whole, divided = (
        estimate_step(a_model, cluster, replace(plan, sequence_parallel=divides)).exposed_communication_s for divides in (False, True)
    )
    assert whole - divided == pytest.approx(16 * reduce_scatter_s(cluster, Group(2, 2), hidden_bytes))


# --- once in a step
def test_a_tied_embedding_is_summed_over_both_ends_of_the_pipeline() -> None:
    """The one exposed message that a tied model has more."""
    cluster, plan = node(1, 2), Plan(pp=2, num_micro_batches=16)
    tied, free = (estimate_step(model(tied=tied), cluster, plan).exposed_communication_s for tied in (True, False))
    assert tied - free == pytest.approx(all_reduce_s(cluster, Group(2, 2), 2 * model().head_parameters))


def test_zero_3_gathers_twice_and_reduces_once_for_every_micro_batch() -> None:
    """Three passes of a layer's bytes around the ring, all in the open without overlap."""
    a_model, cluster = model(), node(1, 2, memory_bytes=math.inf)
    plan = Plan(dp=2, num_micro_batches=8, zero_stage=3, overlap=False)
    pass_s = reduce_scatter_s(cluster, Group(2, 2), 2 * a_model.layer_parameters)
    embedding_s = all_reduce_s(cluster, Group(2, 2), 2 * a_model.embedding_parameters)
    expected_s = 8 * 3 * a_model.num_layers * pass_s + embedding_s
    assert estimate_step(a_model, cluster, plan).exposed_communication_s == pytest.approx(expected_s)


# --- memory
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_each_stage_of_zero_divides_its_part_of_the_states(stage: int) -> None:
    """12, then 4, then 2 bytes a parameter by four replicas; the third holds two layers' weights and a gradient whole for a moment."""
    a_model = model()
    trained = a_model.num_parameters - 2 * a_model.hidden_size  # the final norm isn't counted
    plans = [Plan(dp=4, num_micro_batches=4, zero_stage=which, gradient_bytes=4) for which in (stage - 1, stage)]
    held = [memory_bytes(a_model, plan) for plan in plans]
    moment = 6 * a_model.layer_parameters if stage == 3 else 0
    assert held[0] - held[1] == pytest.approx((12, 4, 2)[stage - 1] * trained * 3 / 4 - moment)


@pytest.mark.parametrize(("gradient_bytes", "beside"), [(2, 2), (4, 0), (6, 4)])
def test_the_largest_gradient_stands_beside_the_sum_for_a_moment(gradient_bytes: int, beside: int) -> None:
    """The table's, in 16 bits or cast to fp32, unless the product adds by itself; with one micro-batch there is nothing to add to."""
    a_model, plan = model(), Plan(num_micro_batches=2, gradient_bytes=gradient_bytes)
    once = replace(plan, num_micro_batches=1)
    assert memory_bytes(a_model, plan) - memory_bytes(a_model, once) == beside * a_model.vocab_size * a_model.hidden_size


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("rotary", [False, True])
def test_a_layer_keeps_what_memory_accounting_counts(gated: bool, rotary: bool) -> None:
    """Fused attention without dropout: to the byte, as many as two models that differ by a layer."""
    a_model = model(gated=gated, rotary=rotary, num_kv_heads=4 if rotary else 8)

    def counted(num_layers: int) -> float:
        config = GPTConfig(
            8192, 1024, num_layers, 512, 8, a_model.num_kv_heads, 2048, attention="flash",
            activation="swiglu" if gated else "gelu", positions="rotary" if rotary else "learned",
        )  # fmt: skip
        return accounting.activation_bytes(config, 2, 1024, dtype_bytes=2)

    assert layer_activation_bytes(a_model, Plan(micro_batch=2)) == counted(2) - counted(1)


@pytest.mark.parametrize(("tp", "sequence_parallel"), [(1, False), (4, False), (4, True)])
def test_a_layer_with_dropout_keeps_what_the_paper_counts(tp: int, sequence_parallel: bool) -> None:
    """Korthikanti et al. 2022, table 2: (10 + 24/t) s b h + 5 a s² b/t, and all of it over t under sequence parallelism."""
    a_model = model(attention="dense", dropout=True, num_kv_heads=8)
    config = GPTConfig(8192, 1024, 1, 512, 8, 8, 2048)
    paper = accounting.published_layer_bytes(config, 2, 1024, tp=tp, sequence_parallel=sequence_parallel)
    assert layer_activation_bytes(a_model, Plan(tp=tp, micro_batch=2, sequence_parallel=sequence_parallel)) == paper


@pytest.mark.parametrize(
    ("plan", "chunks_in_flight"),
    [
        (Plan(pp=2, num_micro_batches=16), 2),
        (Plan(pp=2, num_micro_batches=16, schedule="gpipe"), 16),
        (Plan(pp=2, num_micro_batches=16, schedule="interleaved", chunks=2), (2 + 2 + 1) / 2),
    ],
)
def test_the_first_rank_keeps_the_micro_batches_in_flight(plan: Plan, chunks_in_flight: float) -> None:
    """1F1B as many as ranks, GPipe all, interleaved Megatron-LM's warm-up and one more: seen in what a longer sequence adds."""
    tiny_vocabulary = model(vocab_size=8, rotary=True)
    kept = 4 * layer_activation_bytes(tiny_vocabulary, plan)
    longer = replace(tiny_vocabulary, sequence=2 * tiny_vocabulary.sequence)
    assert rank_bytes(longer, plan, 0) - rank_bytes(tiny_vocabulary, plan, 0) == pytest.approx(chunks_in_flight * kept)


def test_models_must_have_shapes() -> None:
    """Heads divide the hidden size, groups the heads, and a token takes no more experts than there are."""
    for changes in ({"num_heads": 7}, {"num_kv_heads": 3}, {"top_k": 2}):
        with pytest.raises(ValueError, match="must be"):
            model(**changes)
    assert isinstance(model(), Model)
