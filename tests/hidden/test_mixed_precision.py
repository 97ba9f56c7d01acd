"""Hidden cases of the laws of `mixed_precision`: other formats, dtypes, patterns. What each law means: tests/laws/mixed_precision/."""

from __future__ import annotations

import pytest

from tests.laws.mixed_precision import casts, formats, masters, scaling, steps

eight_bits = pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3", "float8_e3m4"])
both = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


# --- formats ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("formats.rounds_to_nearest_even")
@eight_bits
def test_numbers_round_to_nearest_even(observe, dtype):
    """Normal numbers and ties of eight bits, also given in float32."""
    formats.judge_rounded(observe, dtype, "normal", kind=f"{dtype}")
    formats.judge_rounded(observe, dtype, "normal", dtype="float32", kind=f"{dtype}, given float32")


@pytest.mark.law("formats.keeps_subnormals_and_zeros")
@eight_bits
def test_subnormals_and_zeros_are_kept(observe, dtype):
    """Numbers around the smallest normal one of eight bits."""
    formats.judge_rounded(observe, dtype, "tiny", kind=f"{dtype}, tiny numbers")


@pytest.mark.law("formats.overflows_to_infinity")
@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3", "bfloat16"])
def test_large_numbers_overflow_to_infinity(observe, dtype):
    """Numbers around the largest of other formats."""
    formats.judge_rounded(observe, dtype, "huge", kind=f"{dtype}, huge numbers")


# --- casting ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("casting.products_run_narrow")
@pytest.mark.parametrize(("given", "policy"), [("float16", "bfloat16"), ("float16", "float16")])
def test_products_run_narrow(observe, given, policy):
    """Given 16 bits of the policy's kind and of the other."""
    casts.judge_dtypes(observe, casts.NARROW, given=given, policy=policy, expected=policy, kind=f"{given} under {policy}")


@pytest.mark.law("casting.sensitive_operations_run_wide")
@pytest.mark.parametrize(("given", "policy"), [("bfloat16", "bfloat16"), ("bfloat16", "float16"), ("float32", "float16")])
def test_sensitive_operations_run_wide(observe, given, policy):
    """Given 16 bits of either kind, and float32."""
    seen = casts.judge_dtypes(observe, casts.ALSO_WIDE, given=given, policy=policy, expected="float32", kind=f"{given} under {policy}")
    casts.judge_wide_values(seen)


@pytest.mark.law("casting.others_run_as_given")
@pytest.mark.parametrize("given", ["float32", "bfloat16"])
def test_other_operations_run_as_given(observe, given):
    """Under a bfloat16 policy."""
    casts.judge_dtypes(observe, casts.AS_GIVEN, given=given, policy="bfloat16", expected=given, kind=f"{given} under bfloat16")
    casts.judge_untouched(observe, "bfloat16", kind="float64, integers, masks and numbers")


@pytest.mark.law("casting.gradients_come_back_in_fp32")
@both
def test_gradients_come_back_in_fp32(observe, dtype):
    """Other numbers."""
    casts.judge_product_gradients(observe, dtype, kind=f"a product under {dtype}")


@pytest.mark.law("casting.model_is_as_exact_as_autocast")
@both
def test_a_model_is_as_exact_as_autocast(observe, dtype):
    """Other weights and tokens."""
    casts.judge_logits(observe, dtype, kind=f"a GPT under {dtype}")


@pytest.mark.law("casting.works_without_bf16")
def test_the_policy_works_without_bf16(observe):
    """Other weights and tokens."""
    casts.judge_no_bf16(observe, steps=False, kind="a device without bfloat16")


# --- masters ---------------------------------------------------------------------------------------------------------
@pytest.mark.law("masters.small_updates_add_up")
@both
def test_small_updates_add_up(observe, dtype):
    """700 steps."""
    masters.judge_small_updates(observe, dtype=dtype, num_steps=700, kind=f"700 small steps, {dtype}")


@pytest.mark.law("masters.weights_are_the_rounded_masters")
@pytest.mark.parametrize(("dtype", "optimizer"), [("float16", "adamw"), ("bfloat16", "sgd")])
def test_weights_are_the_rounded_masters(observe, dtype, optimizer):
    """After each of nine steps, one parameter frozen."""
    kind = f"{optimizer} on {dtype}, one parameter frozen"
    masters.judge_rounding(masters.run_steps(observe, dtype=dtype, optimizer=optimizer, num_steps=9, frozen=[2], kind=kind))


@pytest.mark.law("masters.moments_are_fp32")
@pytest.mark.parametrize(("dtype", "optimizer"), [("float16", "adamw"), ("float16", "momentum"), ("float32", "adamw")])
def test_masters_step_in_fp32(observe, dtype, optimizer):
    """Twelve steps on fp16 and on fp32 parameters."""
    masters.judge_masters(masters.run_steps(observe, dtype=dtype, optimizer=optimizer, num_steps=12, kind=f"{optimizer} on {dtype}"))


@pytest.mark.law("masters.missing_gradients_change_nothing")
def test_missing_gradients_change_nothing(observe):
    """Gradients that come and go, of fp16 parameters."""
    missing = [[0, 1, 2], [1], [], [0], [0, 1], [2]]
    kind = "gradients that come and go"
    seen = masters.run_steps(observe, dtype="float16", optimizer="adamw", num_steps=6, missing=missing, kind=kind)
    masters.judge_missing(seen)
    masters.judge_masters(seen)
    masters.judge_skipped_decay(observe, "float16", kind="a step after zero_grad")


@pytest.mark.law("masters.groups_and_schedules_are_obeyed")
def test_groups_and_schedules_are_obeyed(observe):
    """Other rates, of fp16 parameters."""
    rates = [[0.0, 0.3, 0.1], [0.2, 0.0, 0.1], [0.4, 0.1, 0.0], [0.0, 0.0, 0.7]]
    masters.judge_scheduled(observe, dtype="float16", rates=rates, kind="rates that change")


@pytest.mark.law("masters.state_dict_resumes_bit_by_bit")
@pytest.mark.parametrize(("dtype", "optimizer", "save_at"), [("float16", "momentum", 1), ("bfloat16", "sgd", 6), ("float16", "adamw", 3)])
def test_a_state_dict_resumes_bit_by_bit(observe, dtype, optimizer, save_at):
    """Other optimizers, saved early and late."""
    kind = f"{optimizer} on {dtype}, saved after step {save_at}"
    masters.judge_resumed(observe, dtype=dtype, optimizer=optimizer, num_steps=9, save_at=save_at, kind=kind)


@pytest.mark.law("masters.holds_one_wide_copy")
def test_masters_are_one_wide_copy(observe):
    """Of a fp16 parameter."""
    masters.judge_held(observe, "float16", kind="a fp16 parameter")


# --- scaler ----------------------------------------------------------------------------------------------------------
@pytest.mark.law("scaler.loss_and_gradients_are_scaled")
def test_loss_and_gradients_are_scaled(observe):
    """By a scale that is no power of two."""
    scaling.judge_scaled(observe, 3000.0, kind="a scale that is no power of two")


@pytest.mark.law("scaler.unscales_once")
@pytest.mark.parametrize("how", ["step", "unscale", "twice"])
def test_gradients_are_unscaled_once(observe, how):
    """With a scale that is no power of two."""
    scaling.judge_unscaled(observe, scale=3000.0, how=how, kind="a scale that is no power of two")


@pytest.mark.law("scaler.non_finite_gradients_skip_the_step")
@pytest.mark.parametrize(
    ("where", "what", "over"),
    [(1, "-inf", "adamw"), (1, "huge", "adamw"), (2, "nan", "masters"), (3, "inf", "masters"), (0, "nan", "adamw")],
)
def test_non_finite_gradients_skip_the_step(observe, where, what, over):
    """A negative infinity, and unscale_ called before step."""
    kind = f"{what} in parameter {where}, {over}"
    scaling.judge_overflow(observe, where=where, what=what, masters=over == "masters", unscale_first=True, kind=kind)


@pytest.mark.law("scaler.scale_follows_the_published_rule")
@pytest.mark.parametrize("growth_interval", [1, 2, 5])
@pytest.mark.parametrize("overflow_probability", [0.1, 0.4])
def test_the_scale_follows_the_published_rule(observe, growth_interval, overflow_probability):
    """Other intervals and factors, with unscale_ called before step."""
    settings = {"init_scale": 1000.0, "growth_factor": 1.5, "backoff_factor": 0.25, "growth_interval": growth_interval}
    kind = f"growth interval {growth_interval}, factors 1.5 and 0.25"
    scaling.judge_trajectory(
        observe, settings=settings, num_steps=60, overflow_probability=overflow_probability, calls_unscale=True, kind=kind
    )


@pytest.mark.law("scaler.state_dict_resumes_the_trajectory")
@pytest.mark.parametrize("resume_at", [3, 10, 11, 29])
def test_a_state_dict_resumes_the_trajectory(observe, resume_at):
    """Saved at other places."""
    settings = {"init_scale": 512.0, "growth_factor": 4.0, "backoff_factor": 0.125, "growth_interval": 5}
    kind = f"saved before step {resume_at}"
    scaling.judge_trajectory(observe, settings=settings, num_steps=45, overflow_probability=0.15, resume_at=resume_at, kind=kind)


@pytest.mark.law("scaler.small_fp16_gradients_survive")
def test_small_fp16_gradients_survive(observe):
    """Other gradients, scaled by 2 to the 22nd."""
    scaling.judge_tiny_gradients(observe, 2.0**22, kind="gradients below fp16's range")


# --- step ------------------------------------------------------------------------------------------------------------
@pytest.mark.law("step.clips_unscaled_gradients")
@pytest.mark.parametrize(("scale", "over"), [(65536.0, "fp32"), (64.0, "masters")])
@pytest.mark.parametrize("max_norm", [2.0, 1e5])
def test_unscaled_gradients_are_clipped(observe, scale, over, max_norm):
    """Other scales and norms, with a scaler over masters."""
    kind = f"scale {scale:g}, max_norm {max_norm:g}, {over}"
    steps.judge_clipped(observe, max_norm=max_norm, scale=scale, masters=over == "masters", kind=kind)


@pytest.mark.law("step.gradients_agree_with_fp32")
@pytest.mark.parametrize(("policy", "scale"), [("bfloat16", 8.0), ("float16", 4096.0)])
def test_the_gradients_of_a_step_agree_with_fp32(observe, policy, scale):
    """Other weights, tokens and scales."""
    steps.judge_step_gradients(observe, policy=policy, scale=scale, kind=f"a GPT under {policy}")


@pytest.mark.law("step.follows_the_fp32_curve")
@pytest.mark.parametrize("way", ["bf16 policy", "fp16 masters"])
def test_the_curve_follows_fp32(observe, way):
    """In bf16 with a policy and in fp16 with masters."""
    steps.judge_curve(observe, way=way, num_steps=20, kind=way)


@pytest.mark.law("step.works_without_bf16")
def test_a_step_works_without_bf16(observe):
    """Other weights and tokens."""
    casts.judge_no_bf16(observe, steps=True, kind="a device without bfloat16")


@pytest.mark.law("step.a_skipped_step_changes_nothing")
def test_a_skipped_step_changes_nothing(observe):
    """Other numbers."""
    steps.judge_overflowing_step(observe, kind="the second of three steps overflows")
