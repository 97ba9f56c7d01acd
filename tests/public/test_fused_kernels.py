"""Public cases of the laws of `fused_kernels`. What the laws mean: tests/laws/fused_kernels/."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.records import MiB
from tests.laws.fused_kernels import blocks, cases, kernels, roofline, traces, values
from tests.laws.fused_kernels.blocks import Found, Graphs
from tests.laws.fused_kernels.cases import ENOUGH, Case

NORM = Case(of="rms_norm", shape=(12, 64), eps=1e-3)
NORM_HALF = Case(of="rms_norm", shape=(2, 5, 100), dtype="float16", wide_parameter=True)
NORM_BRAIN = Case(of="rms_norm", shape=(6, 48), dtype="bfloat16")
NORM_SHAPES = [Case(of="rms_norm", shape=shape) for shape in ((3, 33), (1, 1), (0, 24), (40,))]
NORM_LAYOUTS = [Case(of="rms_norm", shape=(2, 7, 20), layout="sliced"), Case(of="rms_norm", shape=(4, 24), dtype="float16", layout="far")]
NORM_LARGE = Case(of="rms_norm", shape=(5, 40), dtype="float16", values="large")
NORM_SUMS = Case(of="rms_norm", shape=(200, 16), dtype="float16", values="offset")
NORM_COUNTED = Case(of="rms_norm", shape=(20, 100))

GELU = Case(of="bias_gelu", shape=(9, 64))
GELU_HALF = Case(of="bias_gelu", shape=(2, 3, 50), dtype="float16", wide_parameter=True)
GELU_BRAIN = Case(of="bias_gelu", shape=(6, 48), dtype="bfloat16")
GELU_LARGE = Case(of="bias_gelu", shape=(4, 40), values="large")
GELU_SHAPES = [
    Case(of="bias_gelu", shape=(70, 3)),
    Case(of="bias_gelu", shape=(0, 12)),
    Case(of="bias_gelu", shape=(2, 6, 20), layout="sliced"),
]
GELU_SUMS = Case(of="bias_gelu", shape=(300, 8), dtype="float16", values="offset")
GELU_COUNTED = Case(of="bias_gelu", shape=(20, 100))

LOSS = Case(of="cross_entropy", shape=(10, 100))
LOSS_HALF = Case(of="cross_entropy", shape=(6, 9001), dtype="float16", values="falling")
LOSS_BRAIN = Case(of="cross_entropy", shape=(5, 64), dtype="bfloat16")
IGNORED = Case(of="cross_entropy", shape=(12, 40), ignored=0.4)
POISONED = Case(of="cross_entropy", shape=(8, 50), ignored=0.5, ignore_index=7, values="poisoned")
ALL_IGNORED = Case(of="cross_entropy", shape=(4, 30), ignored=1.0)
LARGE = Case(of="cross_entropy", shape=(6, 200), values="large")
MASKED = Case(of="cross_entropy", shape=(3, 20_001), values="masked")
VOCABULARIES = [
    Case(of="cross_entropy", shape=(2, 70_001), dtype="float16"),
    Case(of="cross_entropy", shape=(3, 1)),
    Case(of="cross_entropy", shape=(5, 90), layout="sliced", target_dtype="int32"),
]
# 6.2 MB of logits in float16, as much for the gradient: 12.3 MB for a float32 copy don't fit.
CAPPED = Case(of="cross_entropy", shape=(48, 64_100), dtype="float16")
LOSS_COUNTED = Case(of="cross_entropy", shape=(6, 9000), dtype="float16", ignored=1 / 3)

WITHIN = Found(dim=8, hidden=12, limit=4.0, calls=((2, 5, (5, 2), 3.0), (3, 4, (0, 4, 1), 1.0)))
BEYOND = Found(dim=8, hidden=12, limit=2.0, calls=((3, 4, (4, 1, 3), 7.5),))
GRAPHS = Graphs(shapes=((2, 5), (2, 5), (4, 7), (3, 30)), small=(2, 5), large=(9, 5), for_inductor=(3, 5))

each_chip = pytest.mark.parametrize("capability", [80, 90])


# --- roofline --------------------------------------------------------------------------------------------------------
@pytest.mark.law("roofline.the_lower_of_two_roofs")
def test_the_lower_of_two_roofs(observe):
    """Below, at and beyond the ridge; work that moves nothing."""
    roofline.judge_intensity(observe, [(2e9, 1e9), (5, 20), (7, 0), (0, 0), (0, 3)])
    rows = [(10, 990e12, 4.8e12), (206.25, 990e12, 4.8e12), (1000, 990e12, 4.8e12), ("inf", 65e12, 0.3e12), (0, 1e12, 1e9)]
    roofline.judge_roof(observe, rows)


@pytest.mark.law("roofline.matmul_intensity_counts_each_matrix_once")
def test_matmul_intensity_counts_each_matrix_once(observe):
    """Square, one row, a batch."""
    roofline.judge_matmul(observe, [(4096, 4096, 4096, 2, 1), (1, 4096, 4096, 2, 1), (128, 64, 256, 4, 8)])


@pytest.mark.law("roofline.fusion_saves_what_lay_between")
def test_fusion_saves_what_lay_between(observe):
    """One operation, three, and none."""
    roofline.judge_chains(observe, [([1], 1000, 4), ([1, 0, 1], 1 << 20, 2), ([], 10, 4), ([0, 0, 0, 0], 4096, 2)])


# --- rms_norm --------------------------------------------------------------------------------------------------------
@pytest.mark.law("rms_norm.output_is_normalised")
@pytest.mark.parametrize("case", [NORM, NORM_HALF, NORM_BRAIN], ids=["float32", "float16", "bfloat16"])
def test_output_is_normalised(observe, case):
    """x / sqrt(mean(x²) + eps) · weight."""
    values.judge_forward(cases.run(observe, case), case)


@pytest.mark.law("rms_norm.any_shape")
@pytest.mark.parametrize("case", NORM_SHAPES, ids=["33", "one", "no_rows", "no_leading_dim"])
def test_norm_takes_any_shape(observe, case):
    """Row sizes that are no power of two, one number, no row, no leading dim; forward and backward."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.any_layout")
def test_norm_takes_any_layout(observe):
    """Views whose neighbours in memory are NaN; they come back as they went in."""
    case = NORM_LAYOUTS[0]
    seen = cases.run(observe, case, is_backward=True)
    values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("rms_norm.any_layout")
def test_norm_takes_rows_that_lie_far_apart(observe):
    """The fourth row begins 3 · 2**30 elements behind the first."""
    case = NORM_LAYOUTS[1]
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.squares_stay_finite")
def test_squares_stay_finite(observe):
    """Numbers of several hundred, in float16."""
    values.judge_forward(cases.run(observe, NORM_LARGE), NORM_LARGE)


@pytest.mark.law("rms_norm.gradients_are_exact")
@pytest.mark.parametrize("case", [NORM, NORM_HALF, NORM_SUMS], ids=["float32", "float16", "long_sums"])
def test_norm_gradients_are_exact(observe, case):
    """dx and dweight against fp64."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("rms_norm.reads_each_tensor_once")
def test_norm_reads_each_tensor_once(observe):
    """All that the kernels load and store, in bytes."""
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
@each_chip
def test_norm_compiles(observe, capability):
    """float16, rows of 1000."""
    kernels.judge_compiled(cases.run_compiled(observe, "rms_norm", capability=capability))


# --- bias_gelu -------------------------------------------------------------------------------------------------------
@pytest.mark.law("bias_gelu.output_is_gelu")
@pytest.mark.parametrize("case", [GELU, GELU_HALF, GELU_BRAIN, GELU_LARGE], ids=["float32", "float16", "bfloat16", "large"])
def test_output_is_gelu(observe, case):
    """gelu(x + bias) in its tanh form."""
    values.judge_forward(cases.run(observe, case), case)


@pytest.mark.law("bias_gelu.any_shape_and_layout")
@pytest.mark.parametrize("case", GELU_SHAPES, ids=["three_columns", "no_rows", "sliced"])
def test_gelu_takes_any_shape_and_layout(observe, case):
    """Short rows, none, and views whose neighbours are NaN; they come back as they went in."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("bias_gelu.gradients_are_exact")
@pytest.mark.parametrize("case", [GELU, GELU_HALF, GELU_SUMS, GELU_LARGE], ids=["float32", "float16", "long_sums", "large"])
def test_gelu_gradients_are_exact(observe, case):
    """dx and dbias against fp64."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("bias_gelu.reads_each_tensor_once")
def test_gelu_reads_each_tensor_once(observe):
    """All that the kernels load and store, in bytes."""
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
@each_chip
def test_gelu_compiles(observe, capability):
    """float16, rows of 1000."""
    kernels.judge_compiled(cases.run_compiled(observe, "bias_gelu", capability=capability))


# --- cross_entropy ---------------------------------------------------------------------------------------------------
@pytest.mark.law("cross_entropy.loss_is_the_mean")
@pytest.mark.parametrize("case", [LOSS, LOSS_HALF, LOSS_BRAIN], ids=["float32", "float16", "bfloat16"])
def test_loss_is_the_mean(observe, case):
    """The mean of lse minus the target's logit, in float32."""
    values.judge_forward(cases.run(observe, case), case)


@pytest.mark.law("cross_entropy.ignored_targets_count_nowhere")
@pytest.mark.parametrize("case", [IGNORED, POISONED], ids=["ignored", "poisoned"])
def test_ignored_targets_count_nowhere(observe, case):
    """Some rows are ignored; their logits may be NaN, and ignore_index may be a class."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_gradients(seen, case)
    values.judge_ignored_rows(seen, case)


@pytest.mark.law("cross_entropy.ignored_targets_count_nowhere")
def test_no_target_counts(observe):
    """All are ignored: loss and gradient are 0."""
    values.judge_zero(cases.run(observe, ALL_IGNORED, is_backward=True), ALL_IGNORED, is_backward=True)


@pytest.mark.law("cross_entropy.large_logits_stay_finite")
@pytest.mark.parametrize("case", [LARGE, MASKED], ids=["large", "masked"])
def test_large_logits_stay_finite(observe, case):
    """Logits around 10000 and -10000, and half of a vocabulary masked by -inf."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("cross_entropy.any_vocabulary_and_layout")
@pytest.mark.parametrize("case", VOCABULARIES, ids=["above_65536", "one", "sliced"])
def test_any_vocabulary_and_layout(observe, case):
    """70001 classes, one class, and views whose neighbours are NaN; they come back as they went in."""
    seen = cases.run(observe, case, is_backward=True)
    values.judge_left_alone(seen, case)
    values.judge_gradients(seen, case)


@pytest.mark.law("cross_entropy.gradients_are_exact")
@pytest.mark.parametrize("case", [LOSS, LOSS_HALF, LOSS_BRAIN], ids=["float32", "float16", "bfloat16"])
def test_loss_gradients_are_exact(observe, case):
    """dlogits against fp64, times the gradient that comes in."""
    values.judge_gradients(cases.run(observe, case, is_backward=True), case)


@pytest.mark.law("cross_entropy.never_holds_float32_logits")
def test_never_holds_float32_logits(observe):
    """With room for the gradient and 5 MiB more."""
    limits = replace(ENOUGH, extra_bytes=CAPPED.shape[0] * CAPPED.shape[1] * 2 + 5 * MiB)
    values.judge_gradients(cases.run(observe, CAPPED, is_backward=True, limits=limits), CAPPED)


@pytest.mark.law("cross_entropy.reads_the_logits_once")
def test_reads_the_logits_once(observe):
    """All that the kernels load and store, in bytes."""
    kernels.judge_bytes_of_logits(cases.run(observe, LOSS_COUNTED, is_backward=True, is_watched=True), LOSS_COUNTED)


@pytest.mark.law("cross_entropy.keeps_only_its_inputs")
def test_loss_keeps_only_its_inputs(observe):
    """The logits, the targets, and a number for each row; and nothing is asked of the device."""
    seen = cases.run(observe, LOSS_COUNTED, is_backward=True, is_watched=True)
    kernels.judge_kept(seen, LOSS_COUNTED)
    kernels.judge_nothing_is_asked(seen, LOSS_COUNTED)


@pytest.mark.law("cross_entropy.compiles_for_every_generation")
@each_chip
def test_loss_compiles(observe, capability):
    """float16, a vocabulary of 70001."""
    kernels.judge_compiled(cases.run_compiled(observe, "cross_entropy", capability=capability))


# --- compile ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("compile.computes_the_same")
@pytest.mark.parametrize("found", [WITHIN, BEYOND], ids=["within", "beyond"])
def test_ready_block_computes_the_same(observe, found):
    """Within and beyond the limit; largest_seen is the largest of all calls."""
    blocks.judge_outputs(blocks.run(observe, found, is_backward=False), found)


@pytest.mark.law("compile.gradients_are_the_same")
@pytest.mark.parametrize("found", [WITHIN, BEYOND], ids=["within", "beyond"])
def test_ready_blocks_gradients_are_the_same(observe, found):
    """Of x and of the block's own parameters."""
    blocks.judge_gradients(blocks.run(observe, found, is_backward=True), found)


@pytest.mark.law("compile.is_one_graph")
def test_ready_block_is_one_graph(observe):
    """Four calls with other values, lengths and sizes."""
    blocks.judge_one_graph(blocks.run_graphs(observe, GRAPHS))


@pytest.mark.law("compile.grows_with_nothing")
def test_ready_block_grows_with_nothing(observe):
    """Batches of 2 and of 9; Inductor's schedule for 3."""
    seen = blocks.run_graphs(observe, GRAPHS)
    blocks.judge_size(seen)
    blocks.judge_kernels(seen)


@pytest.mark.law("compile.says_what_is_fused")
def test_says_what_is_fused(observe):
    """The handout's chain, views, a break, and two products in a row."""
    p, r, m = "pointwise", "reduction", "matmul"
    blocks.judge_predictions(
        observe,
        [
            [["square", p, None], ["mean", r, 1], ["scale", p, None], ["up", m, None], ["bias", p, None], ["gelu", p, None], ["sum", r, 0],
             ["softmax_max", r, 1], ["exp", p, None]],
            [["add", p, None], ["reshape", "view", None], ["mul", p, None], ["print", "break", None], ["relu", p, None]],
            [["q", m, None], ["k", m, None], ["transpose", "view", None], ["max", r, 1], ["exp", p, None], ["sum", r, 1]],
            [],
        ],
    )  # fmt: skip


# --- trace -----------------------------------------------------------------------------------------------------------
EAGER, OVERLAPPING, LAUNCH_BOUND, NOTHING = traces.eager(), traces.overlapping(), traces.launch_bound(), traces.nothing()


@pytest.mark.law("trace.busy_time_is_counted_once")
@pytest.mark.parametrize("trace", [EAGER, OVERLAPPING, NOTHING], ids=["eager", "overlapping", "nothing"])
def test_busy_time_is_counted_once(observe, trace):
    """One stream, two, and a trace of the host alone."""
    traces.judge_busy(traces.run(observe, trace), trace)


@pytest.mark.law("trace.top_kernels_by_total_time")
@pytest.mark.parametrize("trace", [EAGER, LAUNCH_BOUND, NOTHING], ids=["eager", "launch_bound", "nothing"])
def test_top_kernels_by_total_time(observe, trace):
    """Names, times and launches; ties in order of names."""
    traces.judge_top(traces.run(observe, trace), trace)


@pytest.mark.law("trace.launch_gaps_are_the_hosts")
@pytest.mark.parametrize("trace", [EAGER, OVERLAPPING, LAUNCH_BOUND], ids=["eager", "overlapping", "launch_bound"])
def test_launch_gaps_are_the_hosts(observe, trace):
    """Gaps for which the host is to blame, and others."""
    traces.judge_gaps(traces.run(observe, trace), trace)


@pytest.mark.law("trace.memory_bound_share_and_bottleneck")
@pytest.mark.parametrize("trace", [EAGER, OVERLAPPING, LAUNCH_BOUND, NOTHING], ids=["eager", "overlapping", "launch_bound", "nothing"])
def test_memory_bound_share_and_bottleneck(observe, trace):
    """Shares of kernel time, and each of the bottlenecks."""
    traces.judge_share(traces.run(observe, trace), trace)
