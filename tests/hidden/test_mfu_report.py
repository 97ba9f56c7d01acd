"""Hidden cases of the laws of `mfu_report`: other models, another ladder, other worlds, and every bound from another side."""

from __future__ import annotations

import pytest

from tests.laws.memory_accounting.models import PLAIN, Sizes, plain_but
from tests.laws.mfu_report import bounds, figures, flops, tampered
from tests.laws.mfu_report.logs import LADDER, OTHER_LADDER

EVERYTHING = plain_but(activation="swiglu", positions="rotary", norm="rmsnorm", bias=False, tied=False, attention="flash")
OTHER = {"kind": "another ladder"}


# --- flops -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("flops.matrix_products_count_six")
@pytest.mark.parametrize("kv_share", [1, 3])
def test_matrix_products_count_six(observe, kv_share):
    """Narrow MLPs, wide heads, many layers, all options at once."""
    sizes = [Sizes(kv_share=kv_share, mlp_per_hidden=1.5), Sizes(kv_share=kv_share, layers=7), Sizes(kv_share=kv_share, head_dim=64)]
    flops.judge_products(observe, sizes, [EVERYTHING, plain_but(bias=False), plain_but(activation="swiglu")], kind="other models")


@pytest.mark.law("flops.head_counts_and_embeddings_do_not")
def test_the_head_counts(observe):
    """A large vocabulary."""
    flops.judge_head(observe, [Sizes(vocab=50257, layers=1)] * 2, [plain_but(tied=False), PLAIN], kind="a large vocabulary")


@pytest.mark.law("flops.head_counts_and_embeddings_do_not")
def test_embeddings_do_not_count(observe):
    """The other way round: beginning with an untied head and no positions."""
    options = [plain_but(tied=False, positions="rotary"), PLAIN, plain_but(norm="rmsnorm"), plain_but(bias=False)]
    flops.judge_free(observe, options, kind="other models")


@pytest.mark.law("flops.attention_counts_both_products")
def test_attention_counts_both_products(observe):
    """All options at once."""
    flops.judge_attention(observe, [Sizes(kv_share=3), Sizes(layers=5)], [EVERYTHING, PLAIN], kind="other models")


@pytest.mark.law("flops.causal_counts_visible_pairs")
def test_causal_counts_visible_pairs(observe):
    """All options at once."""
    flops.judge_causal(observe, [Sizes(kv_share=3), Sizes(layers=5)], [EVERYTHING, PLAIN], kind="other models")


@pytest.mark.law("flops.recomputation_is_added")
@pytest.mark.parametrize("causal", [False, True])
def test_recomputation_is_added(observe, causal):
    """All options at once."""
    flops.judge_recomputation(observe, [Sizes(kv_share=3), Sizes(layers=5)], [EVERYTHING, PLAIN], causal, kind="other models")


# --- utilisation -----------------------------------------------------------------------------------------------------
@pytest.mark.law("utilisation.counts_all_ranks_and_micro_batches")
def test_tokens_of_all_ranks_and_micro_batches_count(observe):
    """Three and five ranks, three pieces."""
    figures.judge_tokens(observe, OTHER_LADDER, figures.with_even_steps, **OTHER)


@pytest.mark.law("utilisation.takes_the_median_step")
def test_the_median_step_is_taken(observe):
    """On another ladder."""
    figures.judge_tokens(observe, OTHER_LADDER, figures.with_a_disturbed_step, **OTHER)


@pytest.mark.law("utilisation.mfu_is_over_all_dense_peaks")
def test_mfu_is_over_all_dense_peaks(observe):
    """fp16, three and five ranks."""
    figures.judge_mfu(observe, OTHER_LADDER, **OTHER)


@pytest.mark.law("utilisation.recomputation_counts_in_hfu_only")
def test_recomputation_counts_in_hfu_only(observe):
    """Selective recomputation."""
    figures.judge_recomputation(observe, OTHER_LADDER, **OTHER)


@pytest.mark.law("utilisation.refuses_a_missing_peak")
def test_a_missing_peak_is_refused(observe):
    """TF32 on a card before Ampere."""
    figures.judge_missing_peak(observe, LADDER, missing="tf32", kind="hardware without TF32")


# --- communication ---------------------------------------------------------------------------------------------------
@pytest.mark.law("communication.ring_volume")
def test_a_ring_sends_its_volume(observe):
    """Numbers of ranks that divide nothing."""
    figures.judge_ring(observe, "volume", [5, 7, 16, 1000], kind="other numbers of ranks")


@pytest.mark.law("communication.time_is_volume_over_bandwidth")
def test_time_is_volume_over_bandwidth(observe):
    """Other numbers of ranks."""
    figures.judge_ring(observe, "time", [5, 7, 16, 1000], kind="other numbers of ranks")


@pytest.mark.law("communication.latency_counts_every_hop")
def test_latency_counts_every_hop(observe):
    """Other numbers of ranks."""
    figures.judge_ring(observe, "time", [5, 7, 16, 1000], latency=True, kind="other numbers of ranks")


# --- scaling ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("scaling.compares_per_rank")
@pytest.mark.parametrize("tamper", [None, figures.faster_than_alone], ids=["as climbed", "above 1"])
def test_efficiency_compares_per_rank(observe, tamper):
    """Three and five ranks; an efficiency above 1 is passed on."""
    figures.judge_efficiency(observe, OTHER_LADDER, tamper, kind="another ladder; an efficiency may be above 1")


@pytest.mark.law("scaling.refuses_other_work")
def test_other_work_is_refused(observe):
    """fp32 instead of fp16, eager instead of compiled, recomputation, pieces, several ranks."""
    pairs = [("g", base) for base in ("d", "c", "a", "f", "j", "i")] + [("e", "g")]
    figures.judge_other_work(observe, OTHER_LADDER, pairs, **OTHER)


@pytest.mark.law("scaling.refuses_other_work")
def test_each_field_is_compared(observe):
    """Bases that differ in one field each."""
    figures.judge_each_field(observe, OTHER_LADDER, "g", kind="bases that differ in one field each")


# --- report ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("report.possible_logs_pass")
@pytest.mark.parametrize("tamper", [tampered.at_every_edge, tampered.knows_nothing])
def test_a_log_at_every_edge_passes(observe, tamper):
    """As fast and as small as can be; hardware of which little is known."""
    bounds.judge_possible(observe, LADDER, tamper, kind="at the edge of the possible, or on unknown hardware")


@pytest.mark.law("report.possible_logs_pass")
def test_another_possible_log_passes(observe):
    """Another ladder."""
    bounds.judge_possible(observe, OTHER_LADDER, None, **OTHER)


@pytest.mark.law("report.timing_bound")
def test_bad_timing_is_named(observe):
    """Zero and infinite steps, in runs that are the base of others."""
    bounds.judge_timing(observe, OTHER_LADDER, tampered.timing_of_other, kind="bad times in runs that others are based on")


BOUNDS = {
    "mfu": (tampered.utilisation_of_other,),
    "memory": (tampered.memory_of_other,),
    "volume": (tampered.volume_of_other,),
    "link": (tampered.link_of_other,),
    "one_change": (tampered.one_change_of_other,),
    "speed_up": (tampered.speed_up_of_other, tampered.speed_up_by_halves),
}


@pytest.mark.parametrize(
    ("bound", "tamper"),
    [pytest.param(bound, tamper, marks=pytest.mark.law(f"report.{bound}_bound")) for bound, all_ in BOUNDS.items() for tamper in all_],
)
def test_a_broken_bound_is_named(observe, bound, tamper):
    """Each bound from another side."""
    bounds.judge_bound(observe, OTHER_LADDER, tamper, bound, kind="another ladder, just beyond the bound and just within")


@pytest.mark.law("report.rows_follow_from_the_log")
@pytest.mark.parametrize("tamper", [None, tampered.bases_are_gone], ids=["as climbed", "little known"])
def test_rows_follow_from_the_log(observe, tamper):
    """Another ladder; bases that are missing, hardware of which little is known."""
    bounds.judge_rows(observe, OTHER_LADDER, tamper, kind="another ladder; bases or peaks that are missing")
