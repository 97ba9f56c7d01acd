"""Public cases of the laws of `expert_parallel`."""

from __future__ import annotations

import pytest

from tests.laws.expert_parallel import averages, dispatching, exchanges, mixtures, routers

UNEVEN = {  # sent[i][j]: rows of rank i for rank j
    1: [[4]],
    2: [[1, 3], [0, 2]],
    3: [[2, 0, 1], [3, 1, 0], [0, 0, 2]],
    4: [[1, 2, 0, 3], [0, 0, 0, 0], [2, 0, 1, 0], [1, 1, 1, 1]],
}
AGAIN = {2: [[0, 2], [4, 1]], 3: [[0, 1, 2], [1, 0, 3], [1, 1, 1]], 4: [[0, 1, 1, 0], [3, 0, 2, 1], [0, 0, 0, 5], [1, 0, 0, 2]]}
PAIRED = [[0, 2], [1, 3]]


# --- route -----------------------------------------------------------------------------------------------------------
def plain(observe):
    """Seven tokens, five experts, three choices."""
    return routers.run_routing(observe, 7, 5, 3)


@pytest.mark.law("route.takes_the_largest_logits")
def test_route_takes_the_largest_logits(observe):
    """Best first; where many logits are equal, the lower number first; dropped ones too."""
    routers.judge_experts(plain(observe))
    routers.judge_experts(routers.run_routing(observe, 40, 6, 4, how="tied"))
    routers.judge_experts(sharing(observe))


def sharing(observe):
    """Most tokens want the same experts, and half of the choices is dropped; renormalized."""
    return routers.run_routing(observe, 12, 4, 2, 0.5, how="crowded", renormalize=True)


@pytest.mark.law("route.weights_are_probabilities")
@pytest.mark.parametrize("renormalize", [False, True])
def test_weights_are_probabilities(observe, renormalize):
    """Of all experts, and as shares of the token's own, though half of them is dropped."""
    routers.judge_weights(sharing(observe) if renormalize else routers.run_routing(observe, 6, 5, 2))


@pytest.mark.law("route.router_gets_its_gradient")
@pytest.mark.parametrize("renormalize", [False, True])
def test_the_router_gets_its_gradient(observe, renormalize):
    """In fp64, of weights and probabilities."""
    routers.judge_logits_gradient(routers.run_routing(observe, 6, 5, 2, dtype="float64", renormalize=renormalize))


@pytest.mark.law("route.half_precision_is_widened")
def test_half_precision_is_widened(observe):
    """bfloat16 logits, float32 probabilities; float64 stays as it is."""
    for seen in (routers.run_routing(observe, 9, 12, 2, dtype="bfloat16"), routers.run_routing(observe, 6, 5, 2, dtype="float64")):
        routers.judge_weights(seen)
        routers.judge_logits_gradient(seen)


@pytest.mark.law("route.capacity_is_rounded_up")
def test_capacity_is_rounded_up(observe):
    """Quotients that are integers and others, several choices, no tokens."""
    even, uneven = [[8, 4, 2, 1.0], [29, 7, 2, 3.5], [8, 5, 3, 1.25], [6, 3, 2, 0.5]], [[10, 4, 1, 1.0], [10, 4, 3, 1.25], [5, 8, 2, 1.0]]
    routers.judge_capacities(observe, [*even, *uneven, [0, 4, 2, 1.0], [3, 2, 2, 4.0]])


@pytest.mark.law("route.drops_in_the_stated_order")
@pytest.mark.parametrize("factor", [None, 0.5, 1.0])
def test_route_drops_in_the_stated_order(observe, factor):
    """Most tokens want the same experts."""
    routers.judge_kept(routers.run_routing(observe, 12, 4, 2, factor, how="crowded"))


@pytest.mark.law("route.logits_stay_as_they_were")
def test_logits_stay_as_they_were(observe):
    """Compared afterwards."""
    routers.judge_logits_untouched(plain(observe))


# --- exchange --------------------------------------------------------------------------------------------------------
def twice(observe, world_size, **case):
    """Two calls, then their two backwards in the same order."""
    return exchanges.run_exchange(observe, world_size, [UNEVEN[world_size], AGAIN[world_size]], **case)


@pytest.mark.law("exchange.rows_reach_their_rank")
@pytest.mark.parametrize(("world_size", "transport"), [(2, "wire"), (3, "wire"), (3, "gloo"), (4, "wire")])
def test_rows_reach_their_rank(observe, world_size, transport):
    """Uneven numbers, 0 among them."""
    exchanges.judge_exchange(twice(observe, world_size, transport=transport), backward=False)


@pytest.mark.law("exchange.rows_reach_their_rank")
def test_rows_of_one_rank_stay(observe):
    """A group of one."""
    exchanges.judge_exchange(exchanges.run_exchange(observe, 1, [UNEVEN[1]]), backward=False)


@pytest.mark.law("exchange.gradients_go_home")
@pytest.mark.parametrize(("world_size", "transport"), [(2, "wire"), (3, "wire"), (3, "gloo"), (4, "wire")])
def test_gradients_go_home(observe, world_size, transport):
    """Another call, with other numbers, lies between forward and backward."""
    exchanges.judge_exchange(twice(observe, world_size, transport=transport), backward=True)


@pytest.mark.law("exchange.carries_each_row_once")
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_exchange_carries_each_row_once(observe, world_size):
    """Bytes, and to whom."""
    exchanges.judge_volume(twice(observe, world_size))


LAYOUTS = [("plain", "float64"), ("transposed", "bfloat16"), ("expanded", "float32"), ("plain", "int64")]


@pytest.mark.law("exchange.any_layout_and_dtype")
@pytest.mark.parametrize(("layout", "dtype"), LAYOUTS)
def test_the_exchange_takes_any_layout_and_dtype(observe, layout, dtype):
    """Swapped dims in bfloat16, a gradient that is one row repeated, integers; and as many rows back as there."""
    seen = exchanges.run_exchange(observe, 2, [UNEVEN[2], [[1, 2], [2, 1]]], layout=layout, dtype=dtype, dims=(3, 2))
    exchanges.judge_traffic(seen)
    for backward in (False, True)[: 1 if dtype == "int64" else 2]:
        exchanges.judge_exchange(seen, backward=backward)
    exchanges.judge_volume(seen)
    exchanges.judge_untouched(seen)


@pytest.mark.law("exchange.subgroups_use_their_own_ranks")
def test_the_exchange_uses_its_own_group(observe):
    """Two groups of two, side by side."""
    seen = exchanges.run_exchange(observe, 4, [UNEVEN[2]], groups=PAIRED)
    exchanges.judge_traffic(seen)
    for backward in (False, True):
        exchanges.judge_exchange(seen, backward=backward)


# --- dispatch --------------------------------------------------------------------------------------------------------
TOKENS = {1: [5], 2: [5, 3], 3: [4, 6, 3], 4: [3, 5, 2, 4]}
EXPERTS = {1: 3, 2: 4, 3: 6, 4: 8}


def sent_out(observe, world_size, **case):
    """Two choices, most of them kept, of one token none, two experts on each rank."""
    experts, kept = dispatching.choices(world_size, TOKENS[world_size], EXPERTS[world_size], 2)
    kept[0][1] = False
    return dispatching.run_dispatch(observe, world_size, EXPERTS[world_size], (experts, kept), **case)


def emptied(observe):
    """Rank 0 has no tokens, and all want experts 2 and 3 of six; nothing is left for ranks 0 and 2."""
    return dispatching.run_dispatch(observe, 3, 6, dispatching.choices(5, [0, 4, 3], 6, 2, of=[2, 3]))


@pytest.mark.law("dispatch.rows_arrive_by_expert")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "wire"), (3, "gloo"), (3, "wire")])
def test_rows_arrive_by_expert(observe, world_size, transport):
    """Two experts on each rank."""
    dispatching.judge_arrived(sent_out(observe, world_size, transport=transport))


@pytest.mark.law("dispatch.sends_the_kept_rows_only")
@pytest.mark.parametrize("world_size", [2, 3])
def test_dispatch_sends_the_kept_rows_only(observe, world_size):
    """A third of the choices is dropped."""
    seen = sent_out(observe, world_size)
    dispatching.judge_volume(seen)
    dispatching.judge_traffic(seen)


@pytest.mark.law("dispatch.combine_weighs_and_adds_up")
@pytest.mark.parametrize(("world_size", "transport"), [(1, "wire"), (2, "wire"), (3, "gloo"), (3, "wire")])
def test_combine_weighs_and_adds_up(observe, world_size, transport):
    """Weights of any sign."""
    dispatching.judge_combined(sent_out(observe, world_size, transport=transport))


@pytest.mark.law("dispatch.gradients_go_both_ways")
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_gradients_go_both_ways(observe, world_size):
    """Of x, outputs and weights."""
    dispatching.judge_gradients(sent_out(observe, world_size))


@pytest.mark.law("dispatch.nobody_waits_for_an_empty_rank")
def test_nobody_waits_for_an_empty_rank(observe):
    """A rank without tokens, and two without rows."""
    dispatching.judge_empty(emptied(observe))


@pytest.mark.law("dispatch.holds_rows_and_no_mask")
def test_dispatch_holds_rows_and_no_mask(observe):
    """4096 tokens and 128 experts."""
    dispatching.judge_large(dispatching.run_large(observe))


@pytest.mark.law("dispatch.half_precision_is_summed_in_float32")
def test_half_precision_is_summed_in_float32(observe):
    """bfloat16 rows, six choices of each token."""
    chosen = dispatching.choices(9, [4, 5], 8, 6, dropped=0.1)
    seen = dispatching.run_dispatch(observe, 2, 8, chosen, dtype="bfloat16")
    dispatching.judge_combined(seen)
    dispatching.judge_volume(seen)


@pytest.mark.law("dispatch.inputs_stay_as_they_were")
def test_inputs_stay_as_they_were(observe):
    """Compared afterwards."""
    dispatching.judge_untouched(sent_out(observe, 2))


# --- balance ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("balance.equals_its_formula")
@pytest.mark.parametrize(("num_tokens", "top_k"), [(12, 2), (0, 2)])
def test_the_balance_loss_equals_its_formula(observe, num_tokens, top_k):
    """Two choices, most of them dropped; and no tokens."""
    routers.judge_balance(routers.run_balance(observe, num_tokens, 4, top_k, how="crowded"))


@pytest.mark.law("balance.gradient_goes_through_probabilities")
@pytest.mark.parametrize(("num_tokens", "top_k"), [(12, 2), (0, 2)])
def test_the_balance_losss_gradient_goes_through_probabilities(observe, num_tokens, top_k):
    """Of the same."""
    routers.judge_balance_gradient(routers.run_balance(observe, num_tokens, 4, top_k, how="crowded"))


# --- layer -----------------------------------------------------------------------------------------------------------
WORLDS = {
    1: mixtures.World(3, ((5,),)),
    2: mixtures.World(4, ((2, 3), (1, 5))),
    3: mixtures.World(6, ((4,), (2,), (5,))),
    4: mixtures.World(4, ((3,), (4,), (2,), (3,))),
}
RANKS = [(1, "wire"), (2, "wire"), (3, "gloo"), (4, "wire")]
LONELY = mixtures.World(6, ((4,), (0,), (3,)), wanted=(2, 5))


@pytest.mark.law("layer.equals_the_dense_mixture")
@pytest.mark.parametrize(("world_size", "transport"), RANKS)
def test_the_layer_equals_the_dense_mixture(observe, world_size, transport):
    """Every rank has another number of tokens."""
    mixtures.judge_outputs(mixtures.run_layer(observe, WORLDS[world_size], transport=transport))


@pytest.mark.law("layer.equals_the_dense_mixture")
def test_the_layer_drops_and_renormalizes(observe):
    """Capacity factor 0.75, renormalized."""
    mixtures.judge_outputs(mixtures.run_layer(observe, WORLDS[2], factor=0.75, renormalize=True, layout="transposed"))


@pytest.mark.law("layer.equals_the_dense_mixture")
def test_a_float32_router_beside_bfloat16(observe):
    """Its logits are closer to each other than bfloat16 can tell."""
    mixtures.judge_narrow(mixtures.run_layer(observe, WORLDS[2], dtype="bfloat16"))


@pytest.mark.law("layer.gradients_equal_the_dense_mixture")
@pytest.mark.parametrize(("world_size", "transport"), RANKS)
def test_gradients_equal_the_dense_mixture(observe, world_size, transport):
    """Of x, router and experts."""
    mixtures.judge_gradients(mixtures.run_layer(observe, WORLDS[world_size], transport=transport))


@pytest.mark.law("layer.gradients_equal_the_dense_mixture")
def test_gradients_with_drops_and_renormalized(observe):
    """Capacity factor 0.75, renormalized."""
    mixtures.judge_gradients(mixtures.run_layer(observe, WORLDS[2], factor=0.75, renormalize=True, layout="transposed"))


@pytest.mark.law("layer.empty_experts_do_not_hang")
def test_empty_experts_do_not_hang(observe):
    """Rank 1 has no tokens, and nobody wants rank 0's experts."""
    mixtures.judge_empty(mixtures.run_layer(observe, LONELY))


@pytest.mark.law("layer.three_exchanges_and_two")
@pytest.mark.parametrize("factor", [None, 0.75])
def test_the_layer_makes_three_exchanges_and_two(observe, factor):
    """With drops and without."""
    options = {} if factor is None else {"factor": factor, "renormalize": True}
    mixtures.judge_volume(mixtures.run_layer(observe, WORLDS[2], **options))


@pytest.mark.law("layer.holds_its_own_experts")
def test_the_layer_holds_its_own_experts(observe):
    """Two of four on each of two ranks, and of each of two groups of two."""
    mixtures.judge_held(mixtures.run_layer(observe, WORLDS[2]))
    mixtures.judge_held(mixtures.run_layer(observe, WORLDS[4], groups=PAIRED))


@pytest.mark.law("layer.calls_are_independent")
def test_calls_are_independent(observe):
    """Two forwards of as many tokens, then two backwards."""
    seen = mixtures.run_layer(observe, WORLDS[2], num_calls=2)
    mixtures.judge_outputs(seen)
    mixtures.judge_gradients(seen)
    mixtures.judge_inputs(seen)


@pytest.mark.law("layer.uneven_experts_are_refused")
def test_uneven_experts_are_refused(observe):
    """Five experts on two ranks."""
    mixtures.judge_refusals(mixtures.run_refusals(observe, 2, 5))


# --- gradients -------------------------------------------------------------------------------------------------------
MISSING = {"router.weight": [1], "expert.bias": [2]}


def averaged(observe, **case):
    """Four ranks, two expert-parallel groups of two."""
    return averages.run_average(observe, [[0, 1, 2, 3]], [[0, 2], [1, 3]], missing=MISSING, **case)


@pytest.mark.law("gradients.experts_are_divided_once")
def test_experts_are_divided_once(observe):
    """By W = 4; and where each expert has one replica, by W = 2."""
    averages.judge_average(averaged(observe), of_experts=True)
    averages.judge_average(averages.run_average(observe, [[0, 1]], [[0], [1]]), of_experts=True)


@pytest.mark.law("gradients.the_rest_is_averaged")
def test_the_rest_is_averaged(observe):
    """With a missing gradient and a frozen parameter."""
    averages.judge_average(averaged(observe), of_experts=False)
