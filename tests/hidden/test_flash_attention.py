"""Hidden cases of the laws of `flash_attention`: other shapes, dtypes, blocks and layouts. The laws: tests/laws/flash_attention/."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.records import MiB
from tests.laws.flash_attention import cases, kernels, traffic, values
from tests.laws.flash_attention.cases import ENOUGH, Case

TILED, TILED_BACKWARD = "tiled_attention", "tiled_attention_backward"
FLASH, FLASH_BACKWARD = "flash_attention_forward", "flash_attention_backward"

BRAIN = Case(batch=3, heads=1, queries=33, dtype="bfloat16", causal=True)
LONG_HALF = Case(heads=1, queries=96, keys=224, head_dim=64, dtype="float16", values="offset", block_q=64, block_k=16)
SCALED_HALF = Case(queries=30, keys=90, dtype="float16", scale=0.7)
SHAPES = [
    Case(queries=5, keys=1, block_q=16, block_k=16),
    Case(heads=1, queries=130, keys=19, block_q=128, block_k=16),
    Case(batch=2, heads=3, queries=33, keys=65),
]
TINY_BLOCKS = Case(queries=9, keys=7, block_q=1, block_k=1)
ONE_QUERY = Case(queries=1, keys=65, causal=True, block_q=16, block_k=64)
UNEVEN_DECODING = Case(queries=33, keys=98, causal=True, block_q=16, block_k=64)
UNEVEN_SQUARE = Case(queries=75, causal=True, dtype="float16", block_q=64, block_k=16)
ONE_KEY = Case(heads=1, queries=67, keys=1, causal=True, block_q=32, block_k=16)
FEWER_KEYS = Case(queries=90, keys=41, causal=True, dtype="float16", block_q=16, block_k=64)
LARGE = Case(queries=33, keys=50, causal=True, dtype="float16", values="large")
MULTI_QUERY = Case(heads=4, kv_heads=1, queries=30, keys=45, causal=True)
GROUPED = Case(batch=2, heads=6, kv_heads=3, queries=35, dtype="float16", block_k=16)
PEAKED = Case(queries=20, keys=31, head_dim=24, causal=True, values="peaked", scale=0.5)
VIEWS = [
    Case(batch=2, queries=40, keys=56, causal=True, layout="broadcast"),
    Case(queries=37, head_dim=40, causal=True, dtype="float16", layout="sliced"),
]
LONG = Case(heads=1, queries=1280, head_dim=16, causal=True, block_q=128, block_k=128)
MANY_KEYS = Case(heads=1, queries=64, keys=32768, head_dim=16, block_q=64, block_k=1024)
COUNTED = [
    Case(queries=100, head_dim=80, causal=True, block_q=32, block_k=16),
    Case(queries=64, keys=160, causal=True, dtype="float16", block_q=16, block_k=64),
]

each_other_chip = pytest.mark.parametrize(("capability", "size"), [(75, 16), (100, 32)])


# --- tiled -----------------------------------------------------------------------------------------------------------
@pytest.mark.law("tiled.output_is_softmax_attention")
@pytest.mark.parametrize("case", [BRAIN, LONG_HALF, VIEWS[0]], ids=["bfloat16", "float16", "broadcast"])
def test_tiled_output_is_softmax_attention(observe, case):
    """o = softmax(scale q kT) v; the inputs come back as they went in."""
    seen = cases.run_forward(observe, case, TILED)
    values.judge_forward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v"))


@pytest.mark.law("tiled.log_sum_exp_is_natural")
@pytest.mark.parametrize("case", [SCALED_HALF, BRAIN], ids=["float16", "bfloat16"])
def test_tiled_log_sum_exp_is_natural(observe, case):
    """lse is the natural logarithm of the denominator, in float32."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("lse",))


@pytest.mark.law("tiled.any_lengths_and_blocks")
@pytest.mark.parametrize("case", [*SHAPES, TINY_BLOCKS], ids=["one_key", "wide_queries", "uneven", "tiny_blocks"])
def test_tiled_works_for_any_lengths_and_blocks(observe, case):
    """One key, blocks of one, lengths that no block divides."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("o", "lse"))


@pytest.mark.law("tiled.causal_is_aligned_to_the_end")
@pytest.mark.parametrize("case", [ONE_QUERY, UNEVEN_DECODING, UNEVEN_SQUARE], ids=["one_query", "decoding", "square"])
def test_tiled_causal_is_aligned_to_the_end(observe, case):
    """Query t sees the keys up to t + S - T."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("o", "lse"))


@pytest.mark.law("tiled.rows_without_keys_are_zero")
@pytest.mark.parametrize("case", [ONE_KEY, FEWER_KEYS], ids=["one_key", "fewer_keys"])
def test_tiled_rows_without_keys_are_zero(observe, case):
    """Rows that see nothing, and beside them rows that do."""
    seen = cases.run_forward(observe, case, TILED)
    values.judge_rows_without_keys(seen, case)
    values.judge_forward(seen, case, ("o", "lse"))


@pytest.mark.law("tiled.large_scores_stay_finite")
def test_tiled_large_scores_stay_finite(observe):
    """Scores around 10000 and -10000, in float16, causal."""
    values.judge_forward(cases.run_forward(observe, LARGE, TILED), LARGE, ("o", "lse"))


@pytest.mark.law("tiled.query_heads_share_key_heads")
@pytest.mark.parametrize("case", [MULTI_QUERY, GROUPED], ids=["one_key_head", "three_key_heads"])
def test_tiled_query_heads_share_key_heads(observe, case):
    """One key head for all, and two query heads on each."""
    values.judge_forward(cases.run_forward(observe, case, TILED), case, ("o", "lse"))


@pytest.mark.law("tiled.gradients_are_exact")
@pytest.mark.parametrize("case", [BRAIN, LONG_HALF, SCALED_HALF, LARGE], ids=["bfloat16", "float16", "given_scale", "large_scores"])
def test_tiled_gradients_are_exact(observe, case):
    """dq, dk and dv against fp64; the inputs come back as they went in."""
    seen = cases.run_backward(observe, case, TILED_BACKWARD)
    values.judge_backward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v", "do"))


@pytest.mark.law("tiled.gradients_respect_the_mask")
@pytest.mark.parametrize("case", [UNEVEN_DECODING, FEWER_KEYS, TINY_BLOCKS], ids=["decoding", "fewer_keys", "tiny_blocks"])
def test_tiled_gradients_respect_the_mask(observe, case):
    """Causal, with more and fewer keys than queries; blocks of one."""
    values.judge_backward(cases.run_backward(observe, case, TILED_BACKWARD), case)


@pytest.mark.law("tiled.shared_key_heads_collect_gradients")
@pytest.mark.parametrize("case", [MULTI_QUERY, GROUPED], ids=["one_key_head", "three_key_heads"])
def test_tiled_shared_key_heads_collect_gradients(observe, case):
    """dk and dv of a key head sum over its query heads."""
    values.judge_backward(cases.run_backward(observe, case, TILED_BACKWARD), case)


@pytest.mark.law("tiled.never_holds_the_scores")
def test_tiled_never_holds_the_scores(observe):
    """Causal, with room for tiles and not for the matrix of scores."""
    values.judge_forward(cases.run_forward(observe, LONG, TILED, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


@pytest.mark.law("tiled.never_holds_the_scores")
def test_tiled_backward_never_holds_a_block_of_rows(observe):
    """Few queries and many keys: room for the gradients and tiles, not for the gradients and a block of rows of scores (8 MiB)."""
    limits = replace(ENOUGH, extra_bytes=11 * MiB)
    values.judge_backward(cases.run_backward(observe, MANY_KEYS, TILED_BACKWARD, limits=limits), MANY_KEYS)


# --- traffic ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("traffic.matches_the_derivation")
def test_traffic_matches_the_derivation(observe):
    """One query, fewer keys than queries, blocks that divide nothing."""
    kind = "one query, fewer keys than queries, blocks that divide nothing"
    traffic.judge_rows(traffic.run_rows(observe, traffic.HIDDEN_ROWS, kind=kind), traffic.HIDDEN_ROWS)


# --- forward ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("forward.output_is_softmax_attention")
@pytest.mark.parametrize("case", [BRAIN, LONG_HALF], ids=["bfloat16", "float16"])
def test_flash_output_is_softmax_attention(observe, case):
    """o = softmax(scale q kT) v, from a kernel."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case)


@pytest.mark.law("forward.output_is_softmax_attention")
def test_flash_output_is_right_with_blocks_of_its_own(observe):
    """No blocks are given: the submission chooses."""
    case = Case(heads=1, queries=150, dtype="float16", causal=True, block_q=None, block_k=None)
    values.judge_forward(cases.run_forward(observe, case, FLASH), case)


@pytest.mark.law("forward.log_sum_exp_is_natural")
@pytest.mark.parametrize("case", [SCALED_HALF, BRAIN], ids=["float16", "bfloat16"])
def test_flash_log_sum_exp_is_natural(observe, case):
    """lse is the natural logarithm of the denominator, in float32."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("lse",))


@pytest.mark.law("forward.any_lengths_and_blocks")
@pytest.mark.parametrize("case", SHAPES, ids=["one_key", "wide_queries", "uneven"])
def test_flash_works_for_any_lengths_and_blocks(observe, case):
    """One key, lengths that no block divides."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.any_head_dim")
@pytest.mark.parametrize("head_dim", [24, 128, 256])
def test_flash_works_for_any_head_dim(observe, head_dim):
    """Multiples of eight up to 256."""
    case = Case(heads=1, queries=35, head_dim=head_dim, dtype="float16")
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.causal_is_aligned_to_the_end")
@pytest.mark.parametrize("case", [ONE_QUERY, UNEVEN_DECODING, UNEVEN_SQUARE], ids=["one_query", "decoding", "square"])
def test_flash_causal_is_aligned_to_the_end(observe, case):
    """Query t sees the keys up to t + S - T."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.rows_without_keys_are_zero")
@pytest.mark.parametrize("case", [ONE_KEY, FEWER_KEYS], ids=["one_key", "fewer_keys"])
def test_flash_rows_without_keys_are_zero(observe, case):
    """Rows that see nothing, and beside them rows that do."""
    seen = cases.run_forward(observe, case, FLASH)
    values.judge_rows_without_keys(seen, case)
    values.judge_forward(seen, case, ("o", "lse"))


@pytest.mark.law("forward.large_scores_stay_finite")
def test_flash_large_scores_stay_finite(observe):
    """Scores around 10000 and -10000, in float16, causal."""
    values.judge_forward(cases.run_forward(observe, LARGE, FLASH), LARGE, ("o", "lse"))


@pytest.mark.law("forward.query_heads_share_key_heads")
@pytest.mark.parametrize("case", [MULTI_QUERY, GROUPED], ids=["one_key_head", "three_key_heads"])
def test_flash_query_heads_share_key_heads(observe, case):
    """One key head for all, and two query heads on each."""
    values.judge_forward(cases.run_forward(observe, case, FLASH), case, ("o", "lse"))


@pytest.mark.law("forward.any_layout")
@pytest.mark.parametrize("case", VIEWS, ids=["broadcast", "sliced"])
def test_flash_takes_any_layout(observe, case):
    """Broadcast keys and values; a slice whose neighbours are NaN."""
    seen = cases.run_forward(observe, case, FLASH)
    values.judge_forward(seen, case, ("o", "lse"))
    values.judge_left_alone(seen, ("q", "k", "v"))


@pytest.mark.law("forward.float32_means_float32")
def test_flash_float32_means_float32(observe):
    """Few keys carry a row, causal, with a scale of its own."""
    values.judge_forward(cases.run_forward(observe, PEAKED, FLASH), PEAKED, ("o", "lse"), suggestion=values.SAY_IEEE)


@pytest.mark.law("forward.moves_the_bytes_of_its_blocks")
@pytest.mark.parametrize("case", COUNTED, ids=["uneven", "decoding"])
def test_flash_moves_the_bytes_of_its_blocks(observe, case):
    """All that kernels load and store, in bytes."""
    kernels.judge_forward_bytes(cases.run_forward(observe, case, FLASH, num_watched=2), case, case.block_q, case.block_k)


@pytest.mark.law("forward.never_holds_the_scores")
def test_flash_never_holds_the_scores(observe):
    """Causal, with 4 MiB of room and 6.25 MiB of scores."""
    values.judge_forward(cases.run_forward(observe, LONG, FLASH, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


@pytest.mark.law("forward.same_bits_in_any_order")
def test_flash_gives_the_same_bits_in_any_order(observe):
    """Two passes, their programs in different orders, and no race in either."""
    seen = cases.run_forward(observe, COUNTED[0], FLASH, num_watched=2)
    kernels.judge_no_race(seen)
    values.judge_same_bits(seen)


@pytest.mark.law("forward.compiles_for_every_generation")
@each_other_chip
def test_flash_forward_compiles(observe, capability, size):
    """float16, small head dim and blocks."""
    seen = cases.run_compiled(observe, capability=capability, head_dim=size, block=size, backward=False)
    kernels.judge_compiled(seen, may_spill=False)


# --- backward --------------------------------------------------------------------------------------------------------
@pytest.mark.law("backward.gradients_are_exact")
@pytest.mark.parametrize("case", [BRAIN, LONG_HALF, SCALED_HALF], ids=["bfloat16", "float16", "given_scale"])
def test_flash_gradients_are_exact(observe, case):
    """dq, dk and dv against fp64."""
    values.judge_backward(cases.run_backward(observe, case, FLASH_BACKWARD), case)


@pytest.mark.law("backward.gradients_respect_the_mask")
@pytest.mark.parametrize("case", [UNEVEN_DECODING, FEWER_KEYS, ONE_KEY], ids=["decoding", "fewer_keys", "one_key"])
def test_flash_gradients_respect_the_mask(observe, case):
    """Causal, with more and fewer keys than queries, one key."""
    values.judge_backward(cases.run_backward(observe, case, FLASH_BACKWARD), case)


@pytest.mark.law("backward.shared_key_heads_collect_gradients")
@pytest.mark.parametrize("case", [MULTI_QUERY, GROUPED], ids=["one_key_head", "three_key_heads"])
def test_flash_shared_key_heads_collect_gradients(observe, case):
    """dk and dv of a key head sum over its query heads."""
    values.judge_backward(cases.run_backward(observe, case, FLASH_BACKWARD), case)


@pytest.mark.law("backward.any_lengths_head_dims_and_layouts")
@pytest.mark.parametrize("case", [SHAPES[0], SHAPES[1], Case(heads=1, queries=33, head_dim=256, dtype="float16"), *VIEWS],
                         ids=["one_key", "wide_queries", "head_dim_256", "broadcast", "sliced"])  # fmt: skip
def test_flash_backward_takes_any_lengths_head_dims_and_layouts(observe, case):
    """Uneven lengths, the largest head dim, broadcast and sliced tensors."""
    seen = cases.run_backward(observe, case, FLASH_BACKWARD)
    values.judge_backward(seen, case)
    values.judge_left_alone(seen, ("q", "k", "v", "do"))


@pytest.mark.law("backward.large_scores_stay_finite")
def test_flash_backward_large_scores_stay_finite(observe):
    """Scores around 10000 and -10000, in float16, causal."""
    values.judge_backward(cases.run_backward(observe, LARGE, FLASH_BACKWARD), LARGE)


@pytest.mark.law("backward.moves_the_bytes_of_visible_blocks")
def test_flash_backward_moves_the_bytes_of_visible_blocks(observe):
    """All that kernels load and store, in bytes."""
    case = COUNTED[0]
    kernels.judge_backward_bytes(cases.run_backward(observe, case, FLASH_BACKWARD, is_watched=True), case, case.block_q, case.block_k)


@pytest.mark.law("backward.never_holds_the_scores")
def test_flash_backward_never_holds_the_scores(observe):
    """Causal, with 4 MiB of room and 6.25 MiB of scores."""
    values.judge_backward(cases.run_backward(observe, LONG, FLASH_BACKWARD, limits=replace(ENOUGH, extra_bytes=4 * MiB)), LONG)


@pytest.mark.law("backward.no_two_programs_race")
def test_flash_backward_has_no_race_between_shared_heads(observe):
    """Three query heads add to the same key head."""
    case = Case(heads=3, kv_heads=1, queries=50, causal=True, block_q=16, block_k=32)
    kernels.judge_no_race(cases.run_backward(observe, case, FLASH_BACKWARD, is_watched=True))


@pytest.mark.law("backward.compiles_for_every_generation")
@each_other_chip
def test_flash_backward_compiles(observe, capability, size):
    """float16, small head dim and blocks."""
    kernels.judge_compiled(cases.run_compiled(observe, capability=capability, head_dim=size, block=size, backward=True), may_spill=True)


# --- autograd --------------------------------------------------------------------------------------------------------
@pytest.mark.law("autograd.gradients_flow_to_q_k_v")
@pytest.mark.parametrize(("case", "is_sum"), [(SCALED_HALF, False), (VIEWS[0], False)], ids=["given_scale", "broadcast"])
def test_gradients_flow_to_q_k_v(observe, case, is_sum):
    """backward() fills the gradients, with options other than the defaults and tensors of other layouts."""
    values.judge_autograd(cases.run_autograd(observe, case, is_sum=is_sum), case, is_sum=is_sum)


@pytest.mark.law("autograd.saves_no_more_than_the_tokens")
def test_autograd_saves_no_more_than_the_tokens(observe):
    """q, k, v, o and lse are kept, nothing else, in float16 and with shared heads."""
    kernels.judge_kept(cases.run_autograd(observe, GROUPED, is_sum=False), GROUPED)
