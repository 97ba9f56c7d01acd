"""Public cases of the laws of `mfu_report`. What each law means stands in tests/laws/mfu_report/."""

from __future__ import annotations

import pytest

from tests.laws.memory_accounting.models import PLAIN, Sizes, plain_but
from tests.laws.mfu_report import bounds, figures, flops, tampered
from tests.laws.mfu_report.logs import LADDER, drawn

GATED, ROTARY = plain_but(activation="swiglu"), plain_but(positions="rotary", norm="rmsnorm", bias=False)


# --- flops -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("flops.matrix_products_count_six")
@pytest.mark.parametrize("kv_share", [1, 2])
def test_matrix_products_count_six(observe, kv_share):
    """What neither the sequence nor the vocabulary changes is six FLOPs for every weight of the blocks' matrices."""
    flops.judge_products(observe, [Sizes(kv_share=kv_share)] * 3, [PLAIN, GATED, ROTARY])


@pytest.mark.law("flops.head_counts_and_embeddings_do_not")
def test_the_head_counts(observe):
    """A vocabulary three times as large adds two heads, tied or not."""
    flops.judge_head(observe, [Sizes()] * 2, [PLAIN, plain_but(tied=False)])


@pytest.mark.law("flops.head_counts_and_embeddings_do_not")
def test_embeddings_do_not_count(observe):
    """Models that differ in positions, norms, biases and whether the head is tied cost the same."""
    flops.judge_free(observe, [PLAIN, plain_but(positions="rotary"), plain_but(tied=False), plain_but(bias=False, norm="rmsnorm")])


@pytest.mark.law("flops.attention_counts_both_products")
def test_attention_counts_both_products(observe):
    """A longer sequence adds 12 L H D for every token of it, whatever key/value heads are shared."""
    flops.judge_attention(observe, [Sizes(), Sizes(kv_share=2), Sizes(layers=1)], [PLAIN, PLAIN, plain_but(attention="sdpa")])


@pytest.mark.law("flops.causal_counts_visible_pairs")
def test_causal_counts_visible_pairs(observe):
    """The mask hides all but T(T+1)/2 pairs."""
    flops.judge_causal(observe, [Sizes(), Sizes(kv_share=2)], [PLAIN, plain_but(attention="sdpa")])


@pytest.mark.law("flops.recomputation_is_added")
@pytest.mark.parametrize("causal", [False, True])
def test_recomputation_is_added(observe, causal):
    """Selective recomputation adds attention once, full recomputation the blocks once, never the head."""
    flops.judge_recomputation(observe, [Sizes(), Sizes(kv_share=2)], [PLAIN, GATED], causal)


@pytest.mark.law("flops.refuses_unknown_recompute")
def test_unknown_recomputation_is_refused(observe):
    """recompute="some" raises ValueError."""
    seen = observe("refusals", transport="none", function="flops_per_token", arguments=[["some"], [""]], **drawn(LADDER[:1]))
    why = "Whoever mistypes a name should hear it at once, and not read a number."
    flops.assert_refused(seen, "flops_per_token", ["recompute='some'", "recompute=''"], why=why)


# --- utilisation -----------------------------------------------------------------------------------------------------
@pytest.mark.law("utilisation.counts_all_ranks_and_micro_batches")
def test_tokens_of_all_ranks_and_micro_batches_count(observe):
    """All tokens of a step, on every run of a ladder."""
    figures.judge_tokens(observe, LADDER, figures.with_even_steps)


@pytest.mark.law("utilisation.takes_the_median_step")
def test_the_median_step_is_taken(observe):
    """One step in four or five takes ten times as long."""
    figures.judge_tokens(observe, LADDER, figures.with_a_disturbed_step)


@pytest.mark.law("utilisation.mfu_is_over_all_dense_peaks")
def test_mfu_is_over_all_dense_peaks(observe):
    """Every run by its own precision's dense peak, on as many devices as ranks."""
    figures.judge_mfu(observe, LADDER)


@pytest.mark.law("utilisation.recomputation_counts_in_hfu_only")
def test_recomputation_counts_in_hfu_only(observe):
    """HFU of a run that recomputes is higher than its MFU; of others it is the same."""
    figures.judge_recomputation(observe, LADDER)


@pytest.mark.law("utilisation.refuses_a_missing_peak")
def test_a_missing_peak_is_refused(observe):
    """bf16 on hardware that has none raises ValueError."""
    figures.judge_missing_peak(observe, LADDER, missing="bf16")


# --- communication ---------------------------------------------------------------------------------------------------
@pytest.mark.law("communication.ring_volume")
def test_a_ring_sends_its_volume(observe):
    """2(N-1)/N of the message, for two to eight ranks."""
    figures.judge_ring(observe, "volume", [2, 3, 4, 8])


@pytest.mark.law("communication.time_is_volume_over_bandwidth")
def test_time_is_volume_over_bandwidth(observe):
    """Without latency."""
    figures.judge_ring(observe, "time", [2, 3, 4, 8])


@pytest.mark.law("communication.latency_counts_every_hop")
def test_latency_counts_every_hop(observe):
    """2(N-1) of them."""
    figures.judge_ring(observe, "time", [2, 3, 4, 8], latency=True)


@pytest.mark.law("communication.alone_costs_nothing")
@pytest.mark.parametrize("what", ["volume", "time"])
def test_alone_costs_nothing(observe, what):
    """One rank."""
    figures.judge_ring(observe, what, [1, 1], latency=True)


# --- scaling ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("scaling.compares_per_rank")
def test_efficiency_compares_per_rank(observe):
    """Four ranks against one."""
    figures.judge_efficiency(observe, LADDER)


@pytest.mark.law("scaling.refuses_other_work")
def test_other_work_is_refused(observe):
    """A smaller batch, another kernel, other precision, pieces, several ranks."""
    bases = ("padded", "fused", "bf16", "accumulated", "torch_ddp", "recomputed")
    figures.judge_other_work(observe, LADDER, [("ddp", base) for base in bases])


# --- report ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("report.possible_logs_pass")
def test_a_possible_log_passes(observe):
    """A ladder that a machine could have climbed."""
    bounds.judge_possible(observe, LADDER, None)


@pytest.mark.law("report.possible_logs_pass")
def test_an_impossible_log_does_not_pass(observe):
    """A ladder with a step at one and a half times the peak."""
    bounds.judge_impossible(observe, LADDER, tampered.too_good)


@pytest.mark.law("report.timing_bound")
def test_bad_timing_is_named(observe):
    """Steps that are missing, negative or no numbers, and an infinite loss."""
    bounds.judge_timing(observe, LADDER, tampered.timing)


BOUNDS = {
    "mfu": tampered.utilisation,
    "memory": tampered.memory,
    "volume": tampered.volume,
    "link": tampered.link,
    "one_change": tampered.one_change,
    "speed_up": tampered.speed_up,
}


@pytest.mark.parametrize("bound", [pytest.param(bound, marks=pytest.mark.law(f"report.{bound}_bound")) for bound in BOUNDS])
def test_a_broken_bound_is_named(observe, bound):
    """Runs just beyond the bound are named, runs just within are not."""
    bounds.judge_bound(observe, LADDER, BOUNDS[bound], bound)


@pytest.mark.law("report.rows_follow_from_the_log")
def test_rows_follow_from_the_log(observe):
    """A row for every run of a ladder, figure by figure."""
    bounds.judge_rows(observe, LADDER)
