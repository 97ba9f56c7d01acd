"""Hidden cases of the laws of `expert_parallel`: other worlds, shapes, dtypes and traps for the same laws."""

from __future__ import annotations

import pytest

from tests.laws.expert_parallel import averages, dispatching, exchanges, mixtures, routers

CROSSED = [[0, 3], [1, 2]]
GROUPS = "two groups of two ranks, side by side"


# --- route -----------------------------------------------------------------------------------------------------------
def far(observe):
    """Logits so far below the largest that their probabilities are 0."""
    return routers.run_routing(observe, 11, 6, 4, how="far", kind="logits whose probabilities underflow")


def crowded(observe, factor, **case):
    """Everybody wants the same experts."""
    kind = f"23 tokens, 8 experts, 3 choices, capacity_factor {factor}{', renormalize' if case else ''}"
    return routers.run_routing(observe, 23, 8, 3, factor, how="crowded", kind=kind, **case)


def swapped(observe):
    """Logits whose dims lie swapped, float16."""
    kind = "float16 logits with swapped dims"
    return routers.run_routing(observe, 8, 16, 3, dtype="float16", layout="transposed", kind=kind)


def nobody(observe):
    """No tokens."""
    return routers.run_routing(observe, 0, 4, 2, 1.25, kind="no tokens")


@pytest.mark.law("route.takes_the_largest_logits")
def test_route_takes_the_largest_logits(observe):
    """Far apart, tied in bfloat16, closer than float32 can tell, all experts of each token, and with drops."""
    routers.judge_experts(far(observe))
    routers.judge_experts(crowded(observe, 0.5, renormalize=True))
    kind = "float64 logits that float32 can't tell apart"
    routers.judge_experts(routers.run_routing(observe, 7, 9, 3, dtype="float64", how="close", kind=kind))
    routers.judge_experts(routers.run_routing(observe, 64, 40, 5, dtype="bfloat16", how="tied", kind="many equal logits in bfloat16"))
    routers.judge_experts(routers.run_routing(observe, 5, 4, 4, dtype="float64", kind="as many choices as experts"))
    routers.judge_experts(nobody(observe))


@pytest.mark.law("route.weights_are_probabilities")
def test_weights_are_probabilities(observe):
    """Some of which are 0; with drops, which change no weight; one choice renormalized."""
    routers.judge_weights(far(observe))
    routers.judge_weights(crowded(observe, 0.5, renormalize=True))
    routers.judge_weights(crowded(observe, 0.625))
    routers.judge_weights(routers.run_routing(observe, 4, 3, 1, renormalize=True, kind="one choice, renormalized"))
    routers.judge_weights(nobody(observe))


@pytest.mark.law("route.router_gets_its_gradient")
@pytest.mark.parametrize("renormalize", [False, True])
def test_the_router_gets_its_gradient(observe, renormalize):
    """With drops, one choice, and float32."""
    words = ", renormalized" if renormalize else ""
    kind = f"9 tokens, 4 experts, factor 0.5{words}"
    routers.judge_logits_gradient(routers.run_routing(observe, 9, 4, 3, 0.5, dtype="float64", renormalize=renormalize, kind=kind))
    kind = f"one choice{words}"
    routers.judge_logits_gradient(routers.run_routing(observe, 9, 4, 1, renormalize=renormalize, kind=kind))


@pytest.mark.law("route.half_precision_is_widened")
def test_half_precision_is_widened(observe):
    """float16, swapped dims; bfloat16, renormalized."""
    shared = routers.run_routing(observe, 6, 24, 3, dtype="bfloat16", renormalize=True, kind="bfloat16, renormalized")
    for seen in (swapped(observe), shared):
        routers.judge_weights(seen)
        routers.judge_logits_gradient(seen)


@pytest.mark.law("route.capacity_is_rounded_up")
def test_capacity_is_rounded_up(observe):
    """Many quotients, in which floats round up what is an integer; a factor of 0; more than there are tokens."""
    tokens, experts, factors = (0, 1, 7, 10, 49, 1000), (2, 3, 6, 7, 49), (0.125, 1.0, 1.5, 6.0)
    cases = [[t, e, k, factor] for t in tokens for e in experts for k in (1, 2) for factor in factors]
    cases += [[44, 5, 2, 3.125], [24, 7, 3, 2.625], [6, 15, 3, 2.5], [9, 3, 2, 0.0], [4, 8, 1, 8.0]]
    routers.judge_capacities(observe, cases, kind="many quotients")


@pytest.mark.law("route.drops_in_the_stated_order")
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.625, 1.0, 3.0])
def test_route_drops_in_the_stated_order(observe, factor):
    """Three choices of 23 tokens."""
    routers.judge_kept(crowded(observe, factor))


@pytest.mark.law("route.drops_in_the_stated_order")
def test_nobody_is_dropped(observe):
    """No tokens, and no capacity factor."""
    routers.judge_kept(nobody(observe))
    routers.judge_kept(crowded(observe, None))


@pytest.mark.law("route.logits_stay_as_they_were")
def test_logits_stay_as_they_were(observe):
    """Of 16 bits, and with drops."""
    routers.judge_logits_untouched(swapped(observe))
    routers.judge_logits_untouched(crowded(observe, 0.5, renormalize=True))


# --- exchange --------------------------------------------------------------------------------------------------------
TO_ONE = [[0, 4, 0], [0, 2, 0], [0, 3, 0]]
FROM_ONE = [[0, 0, 0], [0, 0, 0], [2, 1, 3]]
NOTHING = [[0, 0, 0]] * 3
THREES = [[2, 0, 1, 5], [1, 1, 0, 2], [0, 4, 0, 0], [3, 0, 2, 0]]


def lopsided(observe, **case):
    """Everything to one rank, everything from one, nothing at all."""
    return exchanges.run_exchange(observe, 3, [TO_ONE, FROM_ONE, NOTHING], kind="all rows to one rank, from one rank, and none", **case)


def lines(observe):
    """Rows that are single numbers, float64, on four ranks; they land when they are waited for."""
    kind = "world size 4, rows of one number that land when they are waited for"
    return exchanges.run_exchange(observe, 4, [THREES, THREES[::-1]], dims=(), dtype="float64", late=True, kind=kind)


@pytest.mark.law("exchange.rows_reach_their_rank")
def test_rows_reach_their_rank(observe):
    """Lopsided, and rows without dims."""
    exchanges.judge_exchange(lopsided(observe), backward=False)
    exchanges.judge_exchange(lines(observe), backward=False)


@pytest.mark.law("exchange.gradients_go_home")
def test_gradients_go_home(observe):
    """The same, on gloo too."""
    exchanges.judge_exchange(lopsided(observe, transport="gloo"), backward=True)
    exchanges.judge_exchange(lines(observe), backward=True)


@pytest.mark.law("exchange.carries_each_row_once")
def test_the_exchange_carries_each_row_once(observe):
    """The same."""
    exchanges.judge_volume(lopsided(observe))
    exchanges.judge_volume(lines(observe))


@pytest.mark.law("exchange.any_layout_and_dtype")
@pytest.mark.parametrize(("layout", "dtype", "dims"), [("expanded", "bfloat16", (2, 1, 2)), ("transposed", "float16", (5,))])
def test_the_exchange_takes_any_layout_and_dtype(observe, layout, dtype, dims):
    """On three ranks."""
    sent = [[[2, 0, 1], [3, 1, 0], [0, 0, 2]], [[1, 1, 0], [1, 0, 1], [2, 1, 1]]]
    seen = exchanges.run_exchange(observe, 3, sent, layout=layout, dtype=dtype, dims=dims, kind=f"world size 3, {layout}, {dtype}")
    exchanges.judge_traffic(seen)
    for backward in (False, True):
        exchanges.judge_exchange(seen, backward=backward)
    exchanges.judge_volume(seen)
    exchanges.judge_untouched(seen)


@pytest.mark.law("exchange.subgroups_use_their_own_ranks")
def test_the_exchange_uses_its_own_group(observe):
    """Two groups of two."""
    seen = exchanges.run_exchange(observe, 4, [[[1, 3], [0, 2]]], groups=CROSSED, kind=GROUPS)
    exchanges.judge_traffic(seen)
    for backward in (False, True):
        exchanges.judge_exchange(seen, backward=backward)


# --- dispatch --------------------------------------------------------------------------------------------------------
def crossed(observe):
    """Four experts on each rank of two groups; C and C' differ."""
    chosen = dispatching.choices(31, [3, 4, 5, 1], 8, 3)
    return dispatching.run_dispatch(observe, 4, 8, chosen, channels=(2, 5), groups=CROSSED, dtype="float64", kind=GROUPS)


def nested(observe):
    """Two dispatches, then two combines, then the backwards; swapped dims."""
    chosen = dispatching.choices(32, [6, 2, 4], 9, 4, dropped=0.2)
    kind = "world size 3, two calls that overlap, swapped dims"
    return dispatching.run_dispatch(observe, 3, 9, chosen, channels=(4, 3), layout="transposed", num_calls=2, kind=kind)


def single(observe):
    """One expert on each of four ranks, one choice."""
    chosen = dispatching.choices(33, [5, 1, 6, 2], 4, 1)
    return dispatching.run_dispatch(observe, 4, 4, chosen, kind="world size 4, one expert on each rank")


@pytest.mark.law("dispatch.rows_arrive_by_expert")
def test_rows_arrive_by_expert(observe):
    """Four experts on a rank, in groups; overlapping calls; one expert on a rank."""
    for seen in (crossed(observe), nested(observe), single(observe)):
        dispatching.judge_arrived(seen)


@pytest.mark.law("dispatch.sends_the_kept_rows_only")
def test_dispatch_sends_the_kept_rows_only(observe):
    """The same."""
    for seen in (crossed(observe), nested(observe), single(observe)):
        dispatching.judge_volume(seen)
        dispatching.judge_traffic(seen)


@pytest.mark.law("dispatch.combine_weighs_and_adds_up")
def test_combine_weighs_and_adds_up(observe):
    """The same."""
    for seen in (crossed(observe), nested(observe), single(observe)):
        dispatching.judge_combined(seen)


@pytest.mark.law("dispatch.gradients_go_both_ways")
def test_gradients_go_both_ways(observe):
    """The same."""
    for seen in (crossed(observe), nested(observe), single(observe)):
        dispatching.judge_gradients(seen)


@pytest.mark.law("dispatch.nobody_waits_for_an_empty_rank")
def test_nobody_waits_for_a_rank_whose_choices_were_dropped(observe):
    """Rank 1 keeps nothing, and only one expert of four is wanted; on gloo. And a step in which nothing is kept anywhere."""
    experts, kept = dispatching.choices(41, [3, 4], 4, 1, of=[0], dropped=0.0)
    kind = "world size 2, a rank that keeps nothing, one expert that gets all"
    dispatching.judge_empty(dispatching.run_dispatch(observe, 2, 4, (experts, [kept[0], ~kept[1]]), transport="gloo", kind=kind))
    kind = "world size 2, nothing is kept"
    dispatching.judge_empty(dispatching.run_dispatch(observe, 2, 2, dispatching.choices(42, [2, 3], 2, 2, dropped=1.0), kind=kind))


@pytest.mark.law("dispatch.holds_rows_and_no_mask")
def test_dispatch_holds_rows_and_no_mask(observe):
    """4096 tokens and 128 experts."""
    dispatching.judge_large(dispatching.run_large(observe, kind="4096 tokens, 128 experts"))


@pytest.mark.law("dispatch.half_precision_is_summed_in_float32")
def test_half_precision_is_summed_in_float32(observe):
    """float16, seven choices."""
    chosen = dispatching.choices(43, [6, 3], 8, 7, dropped=0.1)
    seen = dispatching.run_dispatch(observe, 2, 8, chosen, dtype="float16", channels=(3, 6), kind="float16, seven choices")
    dispatching.judge_combined(seen)
    dispatching.judge_volume(seen)


@pytest.mark.law("dispatch.inputs_stay_as_they_were")
def test_inputs_stay_as_they_were(observe):
    """Two overlapping calls."""
    dispatching.judge_untouched(nested(observe))


# --- balance ---------------------------------------------------------------------------------------------------------
BALANCES = [(17, 5, 1, "float64"), (9, 6, 4, "float32"), (0, 3, 1, "float64")]


def balanced(observe, num_tokens, num_experts, top_k, dtype):
    """A gradient that comes in with a factor."""
    kind = f"{num_tokens} tokens, {num_experts} experts, {top_k} choices"
    return routers.run_balance(observe, num_tokens, num_experts, top_k, dtype=dtype, how="crowded", scale=-3.0, kind=kind)


@pytest.mark.law("balance.equals_its_formula")
@pytest.mark.parametrize(("num_tokens", "num_experts", "top_k", "dtype"), BALANCES)
def test_the_balance_loss_equals_its_formula(observe, num_tokens, num_experts, top_k, dtype):
    """One choice, four choices, no tokens."""
    routers.judge_balance(balanced(observe, num_tokens, num_experts, top_k, dtype))


@pytest.mark.law("balance.gradient_goes_through_probabilities")
@pytest.mark.parametrize(("num_tokens", "num_experts", "top_k", "dtype"), BALANCES)
def test_the_balance_losss_gradient_goes_through_probabilities(observe, num_tokens, num_experts, top_k, dtype):
    """The same."""
    routers.judge_balance_gradient(balanced(observe, num_tokens, num_experts, top_k, dtype))


# --- layer -----------------------------------------------------------------------------------------------------------
SIDE_BY_SIDE = mixtures.World(6, ((2, 2), (3, 1), (1, 5), (2, 1)))
THREE = mixtures.World(3, ((5,), (1,), (6,)))
BUSY = mixtures.World(4, ((6,), (4,)), wanted=(3,))


def in_groups(observe):
    """Two groups of two, three experts on each rank, drops."""
    return mixtures.run_layer(observe, SIDE_BY_SIDE, top_k=3, factor=0.5, groups=CROSSED, kind=GROUPS)


def overlapping(observe):
    """Two forwards, then two backwards, on three ranks with one expert each."""
    return mixtures.run_layer(observe, THREE, top_k=1, num_calls=2, kind="world size 3, two calls that overlap, one choice")


def first(observe):
    """x asks for no gradient, as in a model's first layer."""
    kind = "an input that asks for no gradient"
    return mixtures.run_layer(observe, BUSY, renormalize=True, factor=1.0, is_input_trained=False, kind=kind)


@pytest.mark.law("layer.equals_the_dense_mixture")
def test_the_layer_equals_the_dense_mixture(observe):
    """In groups, with one choice, and with a crowded expert."""
    for seen in (in_groups(observe), overlapping(observe), first(observe)):
        mixtures.judge_outputs(seen)


@pytest.mark.law("layer.equals_the_dense_mixture")
def test_a_float32_router_beside_bfloat16(observe):
    """Renormalized."""
    world = mixtures.World(6, ((7,), (2, 3)))
    mixtures.judge_narrow(mixtures.run_layer(observe, world, top_k=1, dtype="bfloat16", kind="bfloat16 tokens, a float32 router"))


@pytest.mark.law("layer.gradients_equal_the_dense_mixture")
def test_gradients_equal_the_dense_mixture(observe):
    """The same."""
    for seen in (in_groups(observe), overlapping(observe), first(observe)):
        mixtures.judge_gradients(seen)


@pytest.mark.law("layer.empty_experts_do_not_hang")
def test_empty_experts_do_not_hang(observe):
    """One expert gets all; and a capacity of 0."""
    one = mixtures.World(4, ((3,), (2,)), wanted=(0,))
    mixtures.judge_empty(mixtures.run_layer(observe, one, top_k=1, kind="world size 2, one expert gets all"))
    mixtures.judge_empty(mixtures.run_layer(observe, one, top_k=1, factor=0.0, kind="world size 2, capacity 0"))
    alone = mixtures.World(3, ((0,), (4,), (0,)), wanted=(0,))
    kind = "world size 3, tokens on one rank only, an input that asks for no gradient"
    mixtures.judge_empty(mixtures.run_layer(observe, alone, top_k=1, is_input_trained=False, transport="gloo", kind=kind))


@pytest.mark.law("layer.three_exchanges_and_two")
def test_the_layer_makes_three_exchanges_and_two(observe):
    """In groups, overlapping; and one backward only where x asks for no gradient."""
    for seen in (in_groups(observe), overlapping(observe), first(observe)):
        mixtures.judge_volume(seen)


@pytest.mark.law("layer.holds_its_own_experts")
def test_the_layer_holds_its_own_experts(observe):
    """Three of six in groups; one of three."""
    for seen in (in_groups(observe), overlapping(observe)):
        mixtures.judge_held(seen)


@pytest.mark.law("layer.calls_are_independent")
def test_calls_are_independent(observe):
    """Other experts are wanted in the second call than in the first."""
    seen = overlapping(observe)
    mixtures.judge_outputs(seen)
    mixtures.judge_gradients(seen)
    mixtures.judge_inputs(seen)


@pytest.mark.law("layer.uneven_experts_are_refused")
def test_uneven_experts_are_refused(observe):
    """Fewer than ranks, and one too many."""
    mixtures.judge_refusals(mixtures.run_refusals(observe, 3, 2, kind="2 experts, 3 ranks"))
    mixtures.judge_refusals(mixtures.run_refusals(observe, 3, 7, kind="7 experts, 3 ranks"))


# --- gradients -------------------------------------------------------------------------------------------------------
def two_jobs(observe):
    """Two groups that know nothing of each other: two ranks with replicas, and two without."""
    missing = {"expert.weight": [0, 3], "norm.weight": [2], "expert.bias": [1]}
    kind = "two groups of two: replicas in one, each expert once in the other"
    return averages.run_average(observe, [[0, 3], [1, 2]], [[0, 3], [1], [2]], missing=missing, dtype="float64", kind=kind)


def six(observe):
    """Three experts' ranks, two replicas of each."""
    kind = "six ranks, expert-parallel size 3, gradients that aren't contiguous"
    groups, missing = [[0, 3], [1, 4], [2, 5]], {"router.weight": [0, 5]}
    return averages.run_average(observe, [[0, 1, 2, 3, 4, 5]], groups, missing=missing, layout="transposed", kind=kind)


@pytest.mark.law("gradients.experts_are_divided_once")
def test_experts_are_divided_once(observe):
    """In two groups, with missing gradients; expert-parallel size 3."""
    for seen in (two_jobs(observe), six(observe)):
        averages.judge_average(seen, of_experts=True)


@pytest.mark.law("gradients.the_rest_is_averaged")
def test_the_rest_is_averaged(observe):
    """The same."""
    for seen in (two_jobs(observe), six(observe)):
        averages.judge_average(seen, of_experts=False)
