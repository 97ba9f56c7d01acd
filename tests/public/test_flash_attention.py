"""Public cases of the laws of `flash_attention`. What each law means stands in tests/laws/flash_attention/.

Equal requests share one run: laws that can look at the same tensors use the same cases here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.records import MiB
from tests.laws.flash_attention import cases, kernels, traffic, values
from tests.laws.flash_attention.cases import ENOUGH, Case

TILED, TILED_BACKWARD = "tiled_attention", "tiled_attention_backward"
FLASH, FLASH_BACKWARD = "flash_attention_forward", "flash_attention_backward"

PLAIN = Case(batch=2, queries=64)
SCALED = Case(queries=40, keys=72, scale=0.3)
HALF = Case(queries=128, dtype="float16", values="offset", block_k=16)
BRAIN = Case(heads=1, queries=48, dtype="bfloat16")
UNEVEN = Case(queries=45, keys=77, block_k=16)
ONE_QUERY = Case(queries=1, keys=50, block_q=16)
WIDE_BLOCKS = Case(queries=20, keys=24, block_q=64, block_k=128)
ODD_BLOCKS = Case(queries=50, keys=41, block_q=7, block_k=13)
CAUSAL = Case(queries=64, causal=True, block_k=16)
DECODING = Case(queries=40, keys=100, causal=True)
FEWER_KEYS = Case(queries=100, keys=36, causal=True)
HALF_BLIND = Case(queries=45, keys=20, causal=True, block_q=16, block_k=16)  # in one block of queries some rows see nothing and some do
MASKED = [CAUSAL, DECODING, FEWER_KEYS, HALF_BLIND]
MASKED_IDS = ["square", "decoding", "fewer_keys", "half_blind"]
LARGE = Case(queries=48, values="large", block_k=16)
GROUPED = Case(heads=6, kv_heads=2, queries=40)
GROUPED_CAUSAL = Case(batch=2, heads=4, kv_heads=2, queries=50, causal=True)
PEAKED = Case(queries=24, head_dim=16, values="peaked")
VIEWS = [Case(batch=2, queries=37, layout="mixed"), Case(queries=37, causal=True, layout="sliced")]
MANY_TILES = Case(heads=1, queries=256, dtype="float16", values="offset", block_q=2, block_k=32)
# Far smaller than their matrices of scores (6.25 and 8 MiB); in the second that is one block of rows.
LONG = Case(heads=1, queries=1280, head_dim=16, block_q=128, block_k=128)
MANY_KEYS = Case(heads=1, queries=64, keys=32768, head_dim=16, block_q=64, block_k=1024)
COUNTED = [Case(queries=100, causal=True, block_q=16, block_k=16), Case(queries=96, keys=128, block_q=32, block_k=64)]


# --- tiled -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("tiled.output_is_softmax_attention")
@pytest.mark.parametrize("case", [PLAIN, SCALED, HALF, VIEWS[1]], ids=["float32", "given_scale", "float16", "sliced"])
def test_tiled_output_is_softmax_attention(observe, case):
    """o = softmax(scale q kT) v; the inputs come back as they went in."""
    seen = cases.run_forward(observe, case, TILED)
    values.judge_forward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v"))


@pytest.mark.law("tiled.log_sum_exp_is_natural")
@pytest.mark.parametrize("case", [PLAIN, HALF], ids=["float32", "float16"])
def test_tiled_log_sum_exp_is_natural(observe, case):
    """lse is the natural logarithm of the denominator, in float32."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("lse",))


@pytest.mark.law("tiled.any_lengths_and_blocks")
@pytest.mark.parametrize("case", [UNEVEN, ONE_QUERY, WIDE_BLOCKS, ODD_BLOCKS], ids=["uneven", "one_query", "wide_blocks", "odd_blocks"])
def test_tiled_works_for_any_lengths_and_blocks(observe, case):
    """Lengths that no block divides, one query, blocks larger than everything."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("o", "lse"))


@pytest.mark.law("tiled.causal_is_aligned_to_the_end")
@pytest.mark.parametrize("case", [CAUSAL, DECODING, FEWER_KEYS], ids=["square", "decoding", "fewer_keys"])
def test_tiled_causal_is_aligned_to_the_end(observe, case):
    """Query t sees the keys up to t + S - T."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("o", "lse"))


@pytest.mark.law("tiled.rows_without_keys_are_zero")
@pytest.mark.parametrize("case", [FEWER_KEYS, HALF_BLIND], ids=["whole_blocks", "half_blind"])
def test_tiled_rows_without_keys_are_zero(observe, case):
    """With more queries than keys the first rows see nothing: whole blocks of them, or some of a block."""
    values.judge_rows_without_keys(cases.run_forward(observe, case, TILED), case)


@pytest.mark.law("tiled.large_scores_stay_finite")
def test_tiled_large_scores_stay_finite(observe):
    """Scores around 10000 and around -10000."""
    values.judge_forward(cases.run_forward(observe, LARGE, TILED), LARGE, ("o", "lse"))


@pytest.mark.law("tiled.query_heads_share_key_heads")
def test_tiled_query_heads_share_key_heads(observe):
    """Six query heads on two key heads."""
    values.judge_forward(cases.run_forward(observe, GROUPED, TILED), GROUPED, ("o", "lse"))


@pytest.mark.law("tiled.gradients_are_exact")
@pytest.mark.parametrize("case", [PLAIN, SCALED, HALF, MANY_TILES], ids=["float32", "given_scale", "float16", "many_tiles"])
def test_tiled_gradients_are_exact(observe, case):
    """dq, dk and dv against fp64; the inputs come back as they went in."""
    seen = cases.run_backward(observe, case, TILED_BACKWARD)
    values.judge_backward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v", "do"))


@pytest.mark.law("tiled.gradients_respect_the_mask")
@pytest.mark.parametrize("case", [*MASKED, ODD_BLOCKS], ids=[*MASKED_IDS, "odd_blocks"])
def test_tiled_gradients_respect_the_mask(observe, case):
    """Causal, with as many, more and fewer keys than queries, and blocks that divide nothing."""
    values.judge_backward(cases.run_backward(observe, case, TILED_BACKWARD), case)


@pytest.mark.law("tiled.shared_key_heads_collect_gradients")
def test_tiled_shared_key_heads_collect_gradients(observe):
    """dk and dv of a key head sum over its query heads."""
    values.judge_backward(cases.run_backward(observe, GROUPED, TILED_BACKWARD), GROUPED)


@pytest.mark.law("tiled.never_holds_the_scores")
@pytest.mark.parametrize(("case", "extra_bytes"), [(LONG, 4 * MiB), (MANY_KEYS, 6 * MiB)], ids=["long", "many_keys"])
def test_tiled_never_holds_the_scores(observe, case, extra_bytes):
    """With room for tiles, and for neither the matrix of scores nor a block of its rows."""
    values.judge_forward(cases.run_forward(observe, case, TILED, limits=replace(ENOUGH, extra_bytes=extra_bytes)), case)


@pytest.mark.law("tiled.never_holds_the_scores")
def test_tiled_backward_never_holds_the_scores(observe):
    """With room for tiles, and not for the matrix of scores."""
    values.judge_backward(cases.run_backward(observe, LONG, TILED_BACKWARD, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


# --- traffic ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("traffic.matches_the_derivation")
def test_traffic_matches_the_derivation(observe):
    """Bytes for equal and different lengths, blocks that divide them or not, causal or not."""
    traffic.judge_rows(traffic.run_rows(observe, traffic.PUBLIC_ROWS), traffic.PUBLIC_ROWS)


# --- forward ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("forward.output_is_softmax_attention")
@pytest.mark.parametrize("case", [PLAIN, SCALED, HALF, BRAIN], ids=["float32", "given_scale", "float16", "bfloat16"])
def test_flash_output_is_softmax_attention(observe, case):
    """o = softmax(scale q kT) v, from a kernel."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case)


@pytest.mark.law("forward.log_sum_exp_is_natural")
@pytest.mark.parametrize("case", [PLAIN, HALF], ids=["float32", "float16"])
def test_flash_log_sum_exp_is_natural(observe, case):
    """lse is the natural logarithm of the denominator, in float32."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("lse",))


@pytest.mark.law("forward.any_lengths_and_blocks")
@pytest.mark.parametrize("case", [UNEVEN, ONE_QUERY, WIDE_BLOCKS], ids=["uneven", "one_query", "wide_blocks"])
def test_flash_works_for_any_lengths_and_blocks(observe, case):
    """Lengths that no block divides, one query, blocks larger than everything."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.any_head_dim")
@pytest.mark.parametrize("head_dim", [16, 80])
def test_flash_works_for_any_head_dim(observe, head_dim):
    """The least head dim, and one that is no power of two."""
    case = Case(queries=40, head_dim=head_dim, causal=True)
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.causal_is_aligned_to_the_end")
@pytest.mark.parametrize("case", [CAUSAL, DECODING, FEWER_KEYS], ids=["square", "decoding", "fewer_keys"])
def test_flash_causal_is_aligned_to_the_end(observe, case):
    """Query t sees the keys up to t + S - T."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.rows_without_keys_are_zero")
@pytest.mark.parametrize("case", [FEWER_KEYS, HALF_BLIND], ids=["whole_blocks", "half_blind"])
def test_flash_rows_without_keys_are_zero(observe, case):
    """With more queries than keys the first rows see nothing: whole blocks of them, or some of a block."""
    values.judge_rows_without_keys(cases.run_forward(observe, case, FLASH), case)


@pytest.mark.law("forward.large_scores_stay_finite")
def test_flash_large_scores_stay_finite(observe):
    """Scores around 10000 and around -10000."""
    values.judge_forward(cases.run_forward(observe, LARGE, FLASH), LARGE, ("o", "lse"))


@pytest.mark.law("forward.query_heads_share_key_heads")
def test_flash_query_heads_share_key_heads(observe):
    """Four query heads on two key heads, in a batch of two."""
    values.judge_forward(cases.run_forward(observe, GROUPED_CAUSAL, FLASH), GROUPED_CAUSAL, ("o", "lse"))


@pytest.mark.law("forward.any_layout")
@pytest.mark.parametrize("case", VIEWS, ids=["mixed", "sliced"])
def test_flash_takes_any_layout(observe, case):
    """Views whose neighbours in memory are NaN; they come back as they went in."""
    seen = cases.run_forward(observe, case, FLASH)
    values.judge_forward(seen, case, ("o", "lse"))
    values.judge_left_alone(seen, ("q", "k", "v"))


@pytest.mark.law("forward.float32_means_float32")
def test_flash_float32_means_float32(observe):
    """Few keys carry a row, so that ten bits in place of 23 show."""
    values.judge_forward(cases.run_forward(observe, PEAKED, FLASH), PEAKED, ("o", "lse"), suggestion=values.SAY_IEEE)


@pytest.mark.law("forward.moves_the_bytes_of_its_blocks")
@pytest.mark.parametrize("case", COUNTED, ids=["causal", "wide_key_blocks"])
def test_flash_moves_the_bytes_of_its_blocks(observe, case):
    """All that kernels load and store, in bytes."""
    kernels.judge_forward_bytes(cases.run_forward(observe, case, FLASH, num_watched=2), case, case.block_q, case.block_k)


@pytest.mark.law("forward.never_holds_the_scores")
def test_flash_never_holds_the_scores(observe):
    """With 4 MiB of room, and 6.25 MiB of scores."""
    values.judge_forward(cases.run_forward(observe, LONG, FLASH, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


@pytest.mark.law("forward.same_bits_in_any_order")
def test_flash_gives_the_same_bits_in_any_order(observe):
    """Two passes, their programs in different orders, and no race in either."""
    seen = cases.run_forward(observe, COUNTED[0], FLASH, num_watched=2)
    kernels.judge_no_race(seen)
    values.judge_same_bits(seen)


@pytest.mark.law("forward.compiles_for_every_generation")
@pytest.mark.parametrize("capability", [80, 90])
def test_flash_forward_compiles(observe, capability):
    """float16, head dim 64, the blocks that the submission chooses."""
    kernels.judge_compiled(cases.run_compiled(observe, capability=capability, head_dim=64, block=None, backward=False), may_spill=False)


# --- backward --------------------------------------------------------------------------------------------------------
@pytest.mark.law("backward.gradients_are_exact")
@pytest.mark.parametrize("case", [PLAIN, SCALED, HALF, BRAIN], ids=["float32", "given_scale", "float16", "bfloat16"])
def test_flash_gradients_are_exact(observe, case):
    """dq, dk and dv against fp64."""
    values.judge_backward(cases.run_backward(observe, case, FLASH_BACKWARD), case)


@pytest.mark.law("backward.gradients_respect_the_mask")
@pytest.mark.parametrize("case", MASKED, ids=MASKED_IDS)
def test_flash_gradients_respect_the_mask(observe, case):
    """Causal, with as many, more and fewer keys than queries."""
    values.judge_backward(cases.run_backward(observe, case, FLASH_BACKWARD), case)


@pytest.mark.law("backward.shared_key_heads_collect_gradients")
def test_flash_shared_key_heads_collect_gradients(observe):
    """dk and dv of a key head sum over its query heads."""
    values.judge_backward(cases.run_backward(observe, GROUPED_CAUSAL, FLASH_BACKWARD), GROUPED_CAUSAL)


@pytest.mark.law("backward.any_lengths_head_dims_and_layouts")
@pytest.mark.parametrize("case", [UNEVEN, Case(queries=40, head_dim=80), *VIEWS], ids=["uneven", "head_dim_80", "mixed", "sliced"])
def test_flash_backward_takes_any_lengths_head_dims_and_layouts(observe, case):
    """Uneven lengths, a head dim that is no power of two, views whose neighbours in memory are NaN."""
    seen = cases.run_backward(observe, case, FLASH_BACKWARD)
    values.judge_backward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v", "do"))


@pytest.mark.law("backward.large_scores_stay_finite")
def test_flash_backward_large_scores_stay_finite(observe):
    """Scores around 10000 and around -10000."""
    values.judge_backward(cases.run_backward(observe, LARGE, FLASH_BACKWARD), LARGE)


@pytest.mark.law("backward.moves_the_bytes_of_visible_blocks")
def test_flash_backward_moves_the_bytes_of_visible_blocks(observe):
    """All that kernels load and store, in bytes."""
    case = COUNTED[0]
    kernels.judge_backward_bytes(cases.run_backward(observe, case, FLASH_BACKWARD, is_watched=True), case, case.block_q, case.block_k)


@pytest.mark.law("backward.never_holds_the_scores")
def test_flash_backward_never_holds_the_scores(observe):
    """With 4 MiB of room, and 6.25 MiB of scores."""
    values.judge_backward(cases.run_backward(observe, LONG, FLASH_BACKWARD, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


@pytest.mark.law("backward.no_two_programs_race")
def test_flash_backward_has_no_race(observe):
    """No two programs touch the same memory unless atomically."""
    kernels.judge_no_race(cases.run_backward(observe, COUNTED[0], FLASH_BACKWARD, is_watched=True))


@pytest.mark.law("backward.compiles_for_every_generation")
@pytest.mark.parametrize("capability", [80, 90])
def test_flash_backward_compiles(observe, capability):
    """float16, head dim 32, blocks of 32."""
    kernels.judge_compiled(cases.run_compiled(observe, capability=capability, head_dim=32, block=32, backward=True), may_spill=True)


# --- autograd --------------------------------------------------------------------------------------------------------
@pytest.mark.law("autograd.gradients_flow_to_q_k_v")
@pytest.mark.parametrize(("case", "is_sum"), [(DECODING, False), (GROUPED_CAUSAL, True)], ids=["decoding", "sum"])
def test_gradients_flow_to_q_k_v(observe, case, is_sum):
    """backward() fills the gradients, also under that of a sum."""
    seen = cases.run_autograd(observe, case, is_sum=is_sum)
    values.judge_autograd(seen, case, is_sum=is_sum)


@pytest.mark.law("autograd.saves_no_more_than_the_tokens")
def test_autograd_saves_no_more_than_the_tokens(observe):
    """q, k, v, o and lse are kept, nothing else."""
    kernels.judge_kept(cases.run_autograd(observe, DECODING, is_sum=False), DECODING)
