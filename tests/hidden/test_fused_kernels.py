"""Hidden cases of the laws of `fused_kernels`: other shapes, dtypes, values and layouts. The laws: tests/laws/fused_kernels/."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.records import MiB
from tests.laws.fused_kernels import blocks, cases, kernels, more_traces, roofline, traces, values
from tests.laws.fused_kernels.blocks import Found, Graphs
from tests.laws.fused_kernels.cases import ENOUGH, Case

NORM = Case(of="rms_norm", shape=(3, 200), dtype="float16", eps=0.5)
NORM_BRAIN = Case(of="rms_norm", shape=(2, 3, 40), dtype="bfloat16", wide_parameter=True)
NORM_SHAPES = [Case(of="rms_norm", shape=(2, 5000)), Case(of="rms_norm", shape=(2, 0, 12)), Case(of="rms_norm", shape=(17, 1))]
NORM_LAYOUTS = [
    Case(of="rms_norm", shape=(5, 18), layout="transposed"),
    Case(of="rms_norm", shape=(6, 32), dtype="float16", layout="broadcast"),
]
NORM_LARGE = Case(of="rms_norm", shape=(4, 30), dtype="float16", values="tiny", eps=1e-12)
NORM_SUMS = Case(of="rms_norm", shape=(300, 24), dtype="bfloat16", values="offset")
NORM_COUNTED = Case(of="rms_norm", shape=(3, 9, 72), dtype="float16", wide_parameter=True, layout="rows")

GELU = Case(of="bias_gelu", shape=(5, 300), dtype="float16")
GELU_BRAIN = Case(of="bias_gelu", shape=(2, 3, 40), dtype="bfloat16", wide_parameter=True)
GELU_SHAPES = [
    Case(of="bias_gelu", shape=(3, 2100)),
    Case(of="bias_gelu", shape=(11,)),
    Case(of="bias_gelu", shape=(5, 18), layout="transposed"),
    Case(of="bias_gelu", shape=(6, 32), dtype="float16", layout="broadcast"),
    Case(of="bias_gelu", shape=(4, 24), dtype="float16", layout="far"),
]
GELU_SUMS = Case(of="bias_gelu", shape=(400, 9), dtype="bfloat16", values="offset")
GELU_LARGE = Case(of="bias_gelu", shape=(3, 50), dtype="float16", values="large")
GELU_COUNTED = Case(of="bias_gelu", shape=(3, 9, 72), dtype="float16", wide_parameter=True, layout="rows")

LOSS = Case(of="cross_entropy", shape=(7, 257), dtype="float16")
LOSS_BRAIN = Case(of="cross_entropy", shape=(9, 500), dtype="bfloat16", values="falling")
ONE_ROW = Case(of="cross_entropy", shape=(1, 33))
IGNORED = Case(of="cross_entropy", shape=(9, 60), dtype="float16", ignored=0.7, ignore_index=0)
POISONED = Case(of="cross_entropy", shape=(6, 45), dtype="float16", ignored=0.3, ignore_index=-1, values="poisoned")
NO_ROWS = Case(of="cross_entropy", shape=(0, 20))
ALL_IGNORED = Case(of="cross_entropy", shape=(3, 20), ignored=1.0, ignore_index=3, values="poisoned")
LARGE = Case(of="cross_entropy", shape=(4, 90), dtype="float16", values="large")
MASKED = Case(of="cross_entropy", shape=(2, 17_000), dtype="float16", values="masked")
VOCABULARIES = [
    Case(of="cross_entropy", shape=(2, 131_073), dtype="float16", values="falling"),
    Case(of="cross_entropy", shape=(4, 30), dtype="float16", layout="far"),
    Case(of="cross_entropy", shape=(5, 18), layout="transposed"),
    Case(of="cross_entropy", shape=(6, 77), layout="broadcast", ignored=0.3),
]
CAPPED = Case(of="cross_entropy", shape=(30, 100_003), dtype="float16", ignored=0.2)
LOSS_COUNTED = Case(of="cross_entropy", shape=(4, 5001), layout="rows", ignored=0.25)

CALLS = Found(dim=10, hidden=7, limit=1.5, eps=1e-4, calls=((2, 3, (3, 3), 6.0), (4, 2, (2, 0, 1, 2), 1.0), (2, 6, (6, 4), 2.5)))
ZEROS = Found(dim=6, hidden=5, limit=2.0, calls=((2, 3, (1, 3), 0.0),))
AT_THE_LIMIT = Found(dim=6, hidden=5, limit=2.0, calls=((3, 2, (0, 0, 0), 3.0), (3, 2, (2, 1, 0), 2.0)))
GRAPHS, OTHER_SHAPES = Graphs(shapes=((3, 2), (6, 9), (2, 2)), small=(3, 4), large=(40, 4), limit=0.5), "another limit, other shapes"


# --- roofline --------------------------------------------------------------------------------------------------------
@pytest.mark.law("roofline.the_lower_of_two_roofs")
def test_the_lower_of_two_roofs(observe):
    """Other machines; nothing moved, nothing done; a bandwidth of nothing."""
    kind = "other machines, and zeros"
    roofline.judge_intensity(observe, [(1, 3), (0, 7), (0, 0), (3e15, 0), (4e12, 8e11)], kind=kind)
    rows = [(64, 125e12, 0.9e12), (0.25, 2e12, 1e11), ("inf", 1e12, 0), (3, 1e12, 0), (1e9, 1e12, 1), ("inf", 5e14, 2e12)]
    roofline.judge_roof(observe, rows, kind=kind)


@pytest.mark.law("roofline.matmul_intensity_counts_each_matrix_once")
def test_matmul_intensity_counts_each_matrix_once(observe):
    """Three different sizes, one column, bytes of one."""
    roofline.judge_matmul(observe, [(3, 5, 7, 1, 1), (1000, 1, 10, 4, 3), (17, 4096, 1, 2, 5)], kind="three different sizes")


@pytest.mark.law("roofline.fusion_saves_what_lay_between")
def test_fusion_saves_what_lay_between(observe):
    """Longer chains with many operands, and nothing to move."""
    roofline.judge_chains(observe, [([2, 3, 0, 1, 1], 777, 8), ([0], 5, 2), ([4], 0, 4), ([], 0, 2)], kind="longer chains, and empty ones")


# --- rms_norm --------------------------------------------------------------------------------------------------------
@pytest.mark.law("rms_norm.output_is_normalised")
@pytest.mark.parametrize("case", [NORM, NORM_BRAIN], ids=["float16", "bfloat16"])
def test_output_is_normalised(observe, case):
    """x / sqrt(mean(x²) + eps) · weight."""
    values.judge_forward(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.any_shape")
@pytest.mark.parametrize("case", NORM_SHAPES, ids=["5000", "no_rows", "one_column"])
def test_norm_takes_any_shape(observe, case):
    """A long row, none within leading dims, rows of one."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.any_layout")
@pytest.mark.parametrize("case", NORM_LAYOUTS, ids=["transposed", "broadcast"])
def test_norm_takes_any_layout(observe, case):
    """Transposed and broadcast tensors; they come back as they went in."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("rms_norm.squares_stay_finite")
def test_squares_stay_finite(observe):
    """Numbers whose squares vanish in float16, with a tiny eps."""
    values.judge_forward(cases.run(observe, NORM_LARGE), NORM_LARGE)


@pytest.mark.law("rms_norm.gradients_are_exact")
@pytest.mark.parametrize("case", [NORM, NORM_BRAIN, NORM_SUMS], ids=["float16", "bfloat16", "long_sums"])
def test_norm_gradients_are_exact(observe, case):
    """dx and dweight against fp64."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.reads_each_tensor_once")
def test_norm_reads_each_tensor_once(observe):
    """Rows at a distance, in float16: read where they lie."""
    kernels.judge_bytes_of_rows(cases.run(observe, NORM_COUNTED, is_backward=True, is_watched=True), NORM_COUNTED)


@pytest.mark.law("rms_norm.keeps_only_its_inputs")
def test_norm_keeps_only_its_inputs(observe):
    """x, weight, and a number for each row."""
    kernels.judge_kept(cases.run(observe, NORM_COUNTED, is_backward=True, is_watched=True), NORM_COUNTED)


@pytest.mark.law("rms_norm.no_two_programs_race")
def test_norm_has_no_race(observe):
    """No two programs touch the same memory unless atomically."""
    kernels.judge_no_race(cases.run(observe, NORM_COUNTED, is_backward=True, is_watched=True))


@pytest.mark.law("rms_norm.compiles_for_every_generation")
def test_norm_compiles(observe):
    """float16, rows of 1000."""
    kernels.judge_compiled(cases.run_compiled(observe, "rms_norm", capability=75))


# --- bias_gelu -------------------------------------------------------------------------------------------------------
@pytest.mark.law("bias_gelu.output_is_gelu")
@pytest.mark.parametrize("case", [GELU, GELU_BRAIN, GELU_LARGE], ids=["float16", "bfloat16", "large"])
def test_output_is_gelu(observe, case):
    """gelu(x + bias) in its tanh form."""
    values.judge_forward(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("bias_gelu.any_shape_and_layout")
@pytest.mark.parametrize("case", GELU_SHAPES[:4], ids=["long_rows", "no_leading_dim", "transposed", "broadcast"])
def test_gelu_takes_any_shape_and_layout(observe, case):
    """Long rows, no leading dim, transposed and broadcast tensors; they come back as they went in."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("bias_gelu.any_shape_and_layout")
def test_gelu_takes_rows_that_lie_far_apart(observe):
    """The fourth row begins 3 · 2**30 elements behind the first."""
    case = GELU_SHAPES[4]
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("bias_gelu.gradients_are_exact")
@pytest.mark.parametrize("case", [GELU, GELU_BRAIN, GELU_SUMS, GELU_LARGE], ids=["float16", "bfloat16", "long_sums", "large"])
def test_gelu_gradients_are_exact(observe, case):
    """dx and dbias against fp64."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("bias_gelu.reads_each_tensor_once")
def test_gelu_reads_each_tensor_once(observe):
    """Rows at a distance, in float16: read where they lie."""
    kernels.judge_bytes_of_rows(cases.run(observe, GELU_COUNTED, is_backward=True, is_watched=True), GELU_COUNTED)


@pytest.mark.law("bias_gelu.keeps_only_its_inputs")
def test_gelu_keeps_only_its_inputs(observe):
    """x and bias."""
    kernels.judge_kept(cases.run(observe, GELU_COUNTED, is_backward=True, is_watched=True), GELU_COUNTED)


@pytest.mark.law("bias_gelu.no_two_programs_race")
def test_gelu_has_no_race(observe):
    """No two programs touch the same memory unless atomically."""
    kernels.judge_no_race(cases.run(observe, GELU_COUNTED, is_backward=True, is_watched=True))


@pytest.mark.law("bias_gelu.compiles_for_every_generation")
def test_gelu_compiles(observe):
    """float16, rows of 1000."""
    kernels.judge_compiled(cases.run_compiled(observe, "bias_gelu", capability=75))


# --- cross_entropy ---------------------------------------------------------------------------------------------------
@pytest.mark.law("cross_entropy.loss_is_the_mean")
@pytest.mark.parametrize("case", [LOSS, LOSS_BRAIN, ONE_ROW], ids=["float16", "bfloat16", "one_row"])
def test_loss_is_the_mean(observe, case):
    """The mean of lse minus the target's logit, in float32."""
    values.judge_forward(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("cross_entropy.ignored_targets_count_nowhere")
@pytest.mark.parametrize("case", [IGNORED, POISONED], ids=["class_0", "poisoned"])
def test_ignored_targets_count_nowhere(observe, case):
    """ignore_index is class 0, or -1; ignored rows hold anything."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_gradients(seen, case)
    values.judge_ignored_rows(seen, case)


@pytest.mark.law("cross_entropy.ignored_targets_count_nowhere")
@pytest.mark.parametrize("case", [NO_ROWS, ALL_IGNORED], ids=["no_rows", "all_ignored"])
def test_no_target_counts(observe, case):
    """No rows, or all of them ignored: loss and gradient are 0."""
    values.judge_zero(cases.run(observe, case, is_backward=True), case, is_backward=True)


@pytest.mark.law("cross_entropy.large_logits_stay_finite")
@pytest.mark.parametrize("case", [LARGE, MASKED], ids=["large", "masked"])
def test_large_logits_stay_finite(observe, case):
    """Logits around 10000 and -10000 in float16, and whole blocks masked by -inf."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("cross_entropy.any_vocabulary_and_layout")
@pytest.mark.parametrize("case", VOCABULARIES, ids=["above_131072", "far", "transposed", "broadcast"])
def test_any_vocabulary_and_layout(observe, case):
    """131073 classes; far apart, transposed and broadcast rows."""
    seen = cases.run(observe, case, is_backward=True)
    if case.layout != "far":
        values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("cross_entropy.gradients_are_exact")
@pytest.mark.parametrize("case", [LOSS, LOSS_BRAIN, ONE_ROW], ids=["float16", "bfloat16", "one_row"])
def test_loss_gradients_are_exact(observe, case):
    """dlogits against fp64, times the gradient that comes in."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("cross_entropy.never_holds_float32_logits")
def test_never_holds_float32_logits(observe):
    """With room for the gradient and 5 MiB more, some targets ignored."""
    limits = replace(ENOUGH, extra_bytes=CAPPED.shape[0] * CAPPED.shape[1] * 2 + 5 * MiB)
    values.judge_gradients(cases.run(observe, CAPPED, is_backward=True, limits=limits), CAPPED)


@pytest.mark.law("cross_entropy.reads_the_logits_once")
def test_reads_the_logits_once(observe):
    """Rows at a distance, in float32."""
    kernels.judge_bytes_of_logits(cases.run(observe, LOSS_COUNTED, is_backward=True, is_watched=True), LOSS_COUNTED)


@pytest.mark.law("cross_entropy.keeps_only_its_inputs")
def test_loss_keeps_only_its_inputs(observe):
    """The logits, the targets, and a number for each row; and nothing is asked of the device."""
    seen = cases.run(observe, LOSS_COUNTED, is_backward=True, is_watched=True)
    kernels.judge_kept(seen, LOSS_COUNTED)
    kernels.judge_nothing_is_asked(seen, LOSS_COUNTED)


@pytest.mark.law("cross_entropy.compiles_for_every_generation")
def test_loss_compiles(observe):
    """float16, a vocabulary of 70001."""
    kernels.judge_compiled(cases.run_compiled(observe, "cross_entropy", capability=75))


# --- compile ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("compile.computes_the_same")
@pytest.mark.parametrize(
    ("found", "kind"), [(CALLS, "three calls, one beyond the limit"), (ZEROS, "x = 0"), (AT_THE_LIMIT, "the limit itself; lengths of 0")],
    ids=["three_calls", "zeros", "at_the_limit"],
)  # fmt: skip
def test_ready_block_computes_the_same(observe, found, kind):
    """Several calls, inputs of 0, the limit itself."""
    blocks.judge_outputs(blocks.run(observe, found, is_backward=True, kind=kind), found)


@pytest.mark.law("compile.gradients_are_the_same")
@pytest.mark.parametrize(
    ("found", "kind"), [(CALLS, "three calls, one beyond the limit"), (ZEROS, "x = 0"), (AT_THE_LIMIT, "the limit itself; lengths of 0")],
    ids=["three_calls", "zeros", "at_the_limit"],
)  # fmt: skip
def test_ready_blocks_gradients_are_the_same(observe, found, kind):
    """Of x and of the block's own parameters."""
    blocks.judge_gradients(blocks.run(observe, found, is_backward=True, kind=kind), found)


@pytest.mark.law("compile.is_one_graph")
def test_ready_block_is_one_graph(observe):
    """Other limits and shapes, with the small input first."""
    blocks.judge_one_graph(blocks.run_graphs(observe, GRAPHS, kind=OTHER_SHAPES))


@pytest.mark.law("compile.grows_with_nothing")
def test_ready_block_grows_with_nothing(observe):
    """Batches of 3 and of 40."""
    blocks.judge_size(blocks.run_graphs(observe, GRAPHS, kind=OTHER_SHAPES))


@pytest.mark.law("compile.says_what_is_fused")
def test_says_what_is_fused(observe):
    """Dim 0, another dim behind a pointwise operation, reductions after a product, views and breaks at the ends, one dim around a break."""
    p, r, m, v, b = "pointwise", "reduction", "matmul", "view", "break"
    chains = [
        [["max", r, 0], ["exp", p, None], ["sum", r, 0], ["mean", r, 1], ["scale", p, None], ["amax", r, 1]],
        [["item", b, None], ["view", v, None], ["sum", r, 2], ["item2", b, None], ["sum2", r, 2], ["view2", v, None], ["up", m, None],
         ["var", r, 1]],
        [["x", p, None], ["sum", r, 1], ["cut", b, None], ["y", p, None], ["norm", r, 0], ["z", p, None], ["last", v, None]],
        [["up", m, None], ["t", v, None], ["down", m, None], ["bias", p, None], ["mean", r, 2], ["gelu", p, None], ["amax", r, 1]],
        [["t", v, None], ["stop", b, None]],
    ]  # fmt: skip
    blocks.judge_predictions(observe, chains, kind="other chains of the same five kinds")


# --- trace -----------------------------------------------------------------------------------------------------------
each_trace = pytest.mark.parametrize("name", sorted(more_traces.ALL))


@pytest.mark.law("trace.busy_time_is_counted_once")
@each_trace
def test_busy_time_is_counted_once(observe, name):
    """Other traces, of a second device too."""
    kind, trace, options = more_traces.ALL[name]
    traces.judge_busy(traces.run(observe, trace, kind=kind, **options), trace, **options)


@pytest.mark.law("trace.top_kernels_by_total_time")
@each_trace
def test_top_kernels_by_total_time(observe, name):
    """Other traces, and another number of kernels asked for."""
    kind, trace, options = more_traces.ALL[name]
    traces.judge_top(traces.run(observe, trace, kind=kind, **options), trace, **options)


@pytest.mark.law("trace.launch_gaps_are_the_hosts")
@each_trace
def test_launch_gaps_are_the_hosts(observe, name):
    """Other traces: a call at the very moment, none at all, by the driver."""
    kind, trace, options = more_traces.ALL[name]
    traces.judge_gaps(traces.run(observe, trace, kind=kind, **options), trace, **options)


@pytest.mark.law("trace.memory_bound_share_and_bottleneck")
@each_trace
def test_memory_bound_share_and_bottleneck(observe, name):
    """Other traces: shares of exactly one half, gaps of exactly a third."""
    kind, trace, options = more_traces.ALL[name]
    traces.judge_share(traces.run(observe, trace, kind=kind, **options), trace, **options)
