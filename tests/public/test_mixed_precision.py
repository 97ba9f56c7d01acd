"""Public cases of the laws of `mixed_precision`. What each law means stands in tests/laws/mixed_precision/."""

from __future__ import annotations

import pytest

from tests.laws.mixed_precision import casts, formats, masters, scaling, steps

RULE = {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3}
both = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


# --- formats ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("formats.rounds_to_nearest_even")
@both
def test_numbers_round_to_nearest_even(observe, dtype):
    """Normal numbers and ties of fp16 and bf16."""
    formats.judge_rounded(observe, dtype, "normal")


@pytest.mark.law("formats.keeps_subnormals_and_zeros")
@both
def test_subnormals_and_zeros_are_kept(observe, dtype):
    """Numbers around and below the smallest normal one, and zeros of both signs."""
    formats.judge_rounded(observe, dtype, "tiny")


@pytest.mark.law("formats.overflows_to_infinity")
def test_large_numbers_overflow_to_infinity(observe):
    """Numbers around and beyond fp16's largest, infinities and NaN."""
    formats.judge_rounded(observe, "float16", "huge")


@pytest.mark.law("formats.rounds_to_nearest_even")
def test_tensors_of_any_form_are_rounded(observe):
    """A single number, no numbers, a transposed matrix, and formats that have all of x's numbers."""
    formats.judge_forms(observe)


# --- casting ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("casting.products_run_narrow")
@pytest.mark.parametrize(("given", "policy"), [("float32", "float16"), ("float32", "bfloat16"), ("bfloat16", "float16")])
def test_products_run_narrow(observe, given, policy):
    """All products of section 3, given float32 or another 16-bit dtype."""
    casts.judge_dtypes(observe, casts.NARROW, given=given, policy=policy, expected=policy)


@pytest.mark.law("casting.sensitive_operations_run_wide")
@pytest.mark.parametrize(("given", "policy"), [("float16", "float16"), ("float32", "bfloat16")])
def test_sensitive_operations_run_wide(observe, given, policy):
    """All wide operations of section 3 give float32, and the values that float32 gives."""
    casts.judge_wide_values(casts.judge_dtypes(observe, casts.ALSO_WIDE, given=given, policy=policy, expected="float32"))


@pytest.mark.law("casting.others_run_as_given")
@pytest.mark.parametrize("given", ["float32", "float16"])
def test_other_operations_run_as_given(observe, given):
    """Activations, sums of two, copies and slices keep their dtype; float64, integers and masks pass."""
    casts.judge_dtypes(observe, casts.AS_GIVEN, given=given, policy="float16", expected=given)
    casts.judge_untouched(observe, "float16")


@pytest.mark.law("casting.gradients_come_back_in_fp32")
@both
@pytest.mark.parametrize("evaluates_first", [False, True], ids=["alone", "after_no_grad"])
def test_gradients_come_back_in_fp32(observe, dtype, evaluates_first):
    """Of a product's two float32 factors, also where the same product was made under no_grad before."""
    casts.judge_product_gradients(observe, dtype, evaluates_first=evaluates_first)


@pytest.mark.law("casting.model_is_as_exact_as_autocast")
@both
def test_a_model_is_as_exact_as_autocast(observe, dtype):
    """A GPT's logits."""
    casts.judge_logits(observe, dtype)


@pytest.mark.law("casting.works_without_bf16")
def test_the_policy_works_without_bf16(observe):
    """A GPT's forward where every bfloat16 tensor raises."""
    casts.judge_no_bf16(observe, steps=False)


# --- masters ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("masters.small_updates_add_up")
@both
def test_small_updates_add_up(observe, dtype):
    """400 steps, of which none reaches half of a spacing."""
    masters.judge_small_updates(observe, dtype=dtype, num_steps=400)


@pytest.mark.law("masters.weights_are_the_rounded_masters")
@both
def test_weights_are_the_rounded_masters(observe, dtype):
    """After each of six steps of momentum."""
    masters.judge_rounding(masters.run_steps(observe, dtype=dtype, optimizer="momentum", num_steps=6))


@pytest.mark.law("masters.moments_are_fp32")
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
def test_masters_step_in_fp32(observe, optimizer):
    """Six steps of SGD, momentum and AdamW in float32."""
    masters.judge_masters(masters.run_steps(observe, dtype="bfloat16", optimizer=optimizer, num_steps=6))


@pytest.mark.law("masters.missing_gradients_change_nothing")
def test_missing_gradients_change_nothing(observe):
    """AdamW with decay, where some parameters have no gradient in some steps and one is frozen; a step after zero_grad."""
    missing = [[0], [], [0], [0]]
    masters.judge_missing(masters.run_steps(observe, dtype="bfloat16", optimizer="adamw", num_steps=4, missing=missing, frozen=[1]))
    masters.judge_skipped_decay(observe, "bfloat16")


@pytest.mark.law("masters.groups_and_schedules_are_obeyed")
def test_groups_and_schedules_are_obeyed(observe):
    """Three groups with rates of their own, changed in param_groups."""
    masters.judge_scheduled(observe, dtype="bfloat16", rates=[[0.1, 0.2, 0.0], [0.05, 0.2, 0.3], [0.5, 0.0, 0.1]])


@pytest.mark.law("masters.state_dict_resumes_bit_by_bit")
def test_a_state_dict_resumes_bit_by_bit(observe):
    """Eight steps of AdamW on bf16, saved after the fifth."""
    masters.judge_resumed(observe, dtype="bfloat16", optimizer="adamw", num_steps=8, save_at=5)


@pytest.mark.law("masters.holds_one_wide_copy")
def test_masters_are_one_wide_copy(observe):
    """A master and two moments of a bf16 parameter."""
    masters.judge_held(observe, "bfloat16")


# --- scaler ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("scaler.loss_and_gradients_are_scaled")
def test_loss_and_gradients_are_scaled(observe):
    """By 1024."""
    scaling.judge_scaled(observe, 1024.0)


@pytest.mark.law("scaler.unscales_once")
@pytest.mark.parametrize("how", ["step", "unscale", "twice", "after"])
def test_gradients_are_unscaled_once(observe, how):
    """By step alone, by unscale_ before it, and with a second unscale_, before step or after it, which is refused."""
    scaling.judge_unscaled(observe, scale=256.0, how=how)


@pytest.mark.law("scaler.non_finite_gradients_skip_the_step")
@pytest.mark.parametrize(("where", "what"), [(0, "inf"), (3, "nan")])
@pytest.mark.parametrize("over", ["adamw", "masters"])
def test_non_finite_gradients_skip_the_step(observe, where, what, over):
    """An infinity in the first and a NaN in the last parameter, with AdamW and with fp16 masters."""
    scaling.judge_overflow(observe, where=where, what=what, masters=over == "masters")


@pytest.mark.law("scaler.scale_follows_the_published_rule")
@pytest.mark.parametrize("overflow_probability", [0.0, 0.2, 0.6])
def test_the_scale_follows_the_published_rule(observe, overflow_probability):
    """40 steps without, with some and with many overflows."""
    scaling.judge_trajectory(observe, settings=RULE, num_steps=40, overflow_probability=overflow_probability)


@pytest.mark.law("scaler.state_dict_resumes_the_trajectory")
@pytest.mark.parametrize("resume_at", [5, 16])
def test_a_state_dict_resumes_the_trajectory(observe, resume_at):
    """Saved and loaded within a growth interval, into a scaler that was made otherwise."""
    settings = RULE | {"growth_interval": 4}
    scaling.judge_trajectory(observe, settings=settings, num_steps=40, overflow_probability=0.1, resume_at=resume_at)


@pytest.mark.law("scaler.small_fp16_gradients_survive")
def test_small_fp16_gradients_survive(observe):
    """Gradients of 1e-9, scaled by 2 to the 20th."""
    scaling.judge_tiny_gradients(observe, 2.0**20)


# --- step ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("step.clips_unscaled_gradients")
@pytest.mark.parametrize(("scale", "over"), [(None, "fp32"), (1024.0, "fp32"), (None, "masters")])
@pytest.mark.parametrize("max_norm", [0.5, 1e4, None], ids=["clips", "does_not", "no_limit"])
def test_unscaled_gradients_are_clipped(observe, scale, over, max_norm):
    """With and without a scaler, over fp32 weights and over masters, where the norm is too large and where it isn't."""
    steps.judge_clipped(observe, max_norm=max_norm, scale=scale, masters=over == "masters")


@pytest.mark.law("step.gradients_agree_with_fp32")
@pytest.mark.parametrize(("policy", "scale"), [("bfloat16", None), ("float16", 1024.0)])
def test_the_gradients_of_a_step_agree_with_fp32(observe, policy, scale):
    """A GPT's, tensor by tensor."""
    steps.judge_step_gradients(observe, policy=policy, scale=scale)


@pytest.mark.law("step.follows_the_fp32_curve")
@pytest.mark.parametrize("way", ["fp16 policy", "bf16 masters"])
def test_the_curve_follows_fp32(observe, way):
    """Twenty steps of SGD, in fp16 with a policy and in bf16 with masters."""
    steps.judge_curve(observe, way=way, num_steps=20)


@pytest.mark.law("step.works_without_bf16")
def test_a_step_works_without_bf16(observe):
    """Three steps of a fp16 GPT with masters and scaler where every bfloat16 tensor raises."""
    casts.judge_no_bf16(observe, steps=True)


@pytest.mark.law("step.a_skipped_step_changes_nothing")
def test_a_skipped_step_changes_nothing(observe):
    """The second of three steps overflows."""
    steps.judge_overflowing_step(observe)


@pytest.mark.law("step.a_skipped_step_changes_nothing")
def test_nothing_is_skipped_without_a_scaler(observe):
    """An infinite loss."""
    steps.judge_diverged(observe)
