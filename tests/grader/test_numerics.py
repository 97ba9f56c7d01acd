"""How two tensors differ, in words, and how far they may: every suspect is recognised, every bound holds and is tight enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grader.errors import CourseError, LawBroken
from grader.numerics import Hints, assert_close, assert_equal, bound, describe, mean_bound, rounding_bound, sum_bound, unit_roundoff
from grader.records import Message

Array = NDArray[Any]
FLOATS = ["float64", "float32", "float16", "bfloat16"]


def values(*shape: int, seed: int = 0) -> Array:
    """Numbers that no accident makes alike."""
    return np.random.default_rng(seed).standard_normal(shape)


def told(got: Array, expected: Array, *, allowed: float | Array = 1e-9, **hints: Any) -> Message:
    """The message of a comparison that has to fail."""
    with pytest.raises(LawBroken) as caught:
        assert_close(got, expected, allowed=allowed, what="y on rank 1", hints=Hints(**hints))
    return caught.value.message


# --- what counts as different ----------------------------------------------------------------------------------------
def test_a_message_says_where_how_many_and_how_much() -> None:
    """Number of wrong values, the largest difference with its place and both values, the limit there and the box around them all."""
    expected = np.zeros((6, 4))
    got = expected.copy()
    got[4, 1], got[5, 3] = 0.25, -3.0
    message = told(got, expected, allowed=np.full((6, 4), 0.125), world_size=3)
    assert message.seen == "y on rank 1: 2 of 24 values differ; largest difference 3 at [5, 3]: got -3, expected 0."
    assert message.allowed == "Allowed there: 0.125."
    assert message.where == "All of them lie in [4:6, 1:4] of [6, 4], chunk 2 of 3 (counted from 0)."


def test_a_difference_at_the_bound_is_allowed_and_beyond_it_is_not() -> None:
    """The bound is inclusive and holds per element."""
    allowed = np.array([0.5, 0.0])
    assert_close(np.array([1.5, 2.0]), np.array([1.0, 2.0]), allowed=allowed, what="y")
    for got in ([1.5000001, 2.0], [1.5, 2.0000001]):
        with pytest.raises(LawBroken):
            assert_close(np.array(got), np.array([1.0, 2.0]), allowed=allowed, what="y")


def test_integers_are_compared_without_rounding() -> None:
    """2⁵³ and 2⁵³ + 1 differ, by 1."""
    with pytest.raises(LawBroken, match=r"largest difference 1 at \[0\]: got 9007199254740993, expected 9007199254740992"):
        assert_equal(np.array([2**53 + 1]), np.array([2**53]), what="y")


def test_values_that_print_alike_are_printed_in_full() -> None:
    """A difference in the last bit is visible in the message."""
    with pytest.raises(LawBroken, match=r"got 1\.0000000000000002, expected 1\.0"):
        assert_equal(np.array([1 + 2**-52]), np.array([1.0]), what="y")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_narrow_dtypes_are_compared_in_fp64(dtype: str) -> None:
    """bf16 and fp8 arrays differ exactly when their values do, and the difference isn't rounded to their dtype."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    one, next_one = np.array([1.0], kind), np.array([1 + 2 * unit_roundoff(dtype)], kind)
    assert_equal(one, one.astype(np.float64), what="y")
    assert_close(next_one, np.array([1.0]), allowed=2 * unit_roundoff(dtype), what="y")
    with pytest.raises(LawBroken):
        assert_close(next_one, np.array([1.0]), allowed=1.99 * unit_roundoff(dtype), what="y")


def test_non_finite_values_come_first_and_are_right_where_expected() -> None:
    """A NaN is named before anything else, also when the shape is wrong; −inf that is expected there is no fault."""
    assert_close(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]), allowed=0.1, what="lse")
    assert_equal(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), what="y")
    message = told(np.array([1.0, np.nan, np.inf]), np.array([9.0, 1.0, 1.0]))
    assert message.seen == "y on rank 1: 2 of 3 values are NaN or infinite." and message.where == "All of them lie in [1:3] of [3]."
    assert "1 of 2 values is NaN" in told(np.array([np.nan, 1.0]), np.zeros(3)).seen
    assert "infinite" in told(np.array([np.inf]), np.array([-np.inf])).seen
    assert "1 of 1 values differs" in told(np.array([1.0]), np.array([-np.inf])).seen


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        ((2, 3), (3, 2), "reverse order"),
        ((6,), (2, 3), "number of elements is right"),
        ((3, 2), (12, 2), "Dim 0 is world size times too short"),
        ((2, 12), (2, 3), "Dim 1 is world size times too long"),
        ((5,), (3,), ""),
    ],
)
def test_a_wrong_shape_is_told_with_what_it_suggests(got: tuple[int, ...], expected: tuple[int, ...], words: str) -> None:
    """Shapes before values: transposed, unshaped, a shard for the whole, the whole for a shard."""
    message = told(np.zeros(got), np.ones(expected), world_size=4)
    assert message.seen == f"y on rank 1: the shape is {list(got)}, expected {list(expected)}."
    assert words in message.diagnosis and bool(words) == bool(message.diagnosis)


@pytest.mark.parametrize("allowed", [-1.0, math.nan, math.inf, np.zeros(3)])
def test_what_is_no_bound_is_the_courses_fault(allowed: float | Array) -> None:
    """A negative, non-finite or misshapen bound would judge nothing: it is refused, and nobody's answer is blamed."""
    with pytest.raises(CourseError):
        assert_close(np.zeros(2), np.zeros(2), allowed=allowed, what="y")


# --- suspects --------------------------------------------------------------------------------------------------------
E = values(6, 4)
OTHER, PART, BEFORE = values(6, 4, seed=1), values(6, 4, seed=2), values(6, 4, seed=3)
SUSPECTS: list[tuple[str, Array, dict[str, Any], str]] = [
    ("N", E * 3, {"world_size": 3}, "times 3 = world size."),
    ("1/N", E / 3, {"world_size": 3}, "times 0.3333 = 1 / world size."),
    ("N squared", E * 9, {"world_size": 3}, "times 9 = world size²."),
    ("1/N squared", E / 9, {"world_size": 3}, "times 0.1111 = 1 / world size²."),
    ("twice", E * 2, {}, "times 2."),
    ("half", E / 2, {"world_size": 3}, "times 0.5."),
    ("root d", E * 8, {"head_dim": 64}, "times 8 = √head_dim."),
    ("one over root d", E / 8, {"head_dim": 64}, "times 0.125 = 1 / √head_dim."),
    ("a named factor", E * 5, {"factors": {"micro-batches": 5}}, "times 5 = micro-batches."),
    ("sign", -E, {}, "times -1."),
    ("another ratio", E * 1.37, {}, "times 1.37."),
    ("transposed", values(4, 4).T, {"expected": values(4, 4)}, "dims 0 and 1 transposed"),
    ("transposed inside", values(2, 3, 3).swapaxes(1, 2), {"expected": values(2, 3, 3)}, "dims 1 and 2 transposed"),
    ("rolled", np.roll(E, 1, axis=0), {}, "shifted by 1 along dim 0."),
    ("rolled back", np.roll(E, -1, axis=1), {}, "shifted by -1 along dim 1."),
    ("shifted", np.concatenate([values(1, 4, seed=9), E[:-1]]), {}, "shifted by 1 along dim 0; what fell off the end is lost."),
    ("reversed", E[::-1], {}, "reverse order along dim 0"),
    ("chunks rolled", np.roll(E, 2, axis=0), {"world_size": 3}, "stand in the order [2, 0, 1]."),
    ("a chunk everywhere", np.tile(E[:2], (3, 1)), {"world_size": 3}, "chunks [0, 0, 0] stand where [0, 1, 2] belong"),
    ("a chunk among alike ones", np.repeat([5, 0, 5], 2), {"expected": np.repeat([0, 0, 5], 2), "world_size": 3}, "chunks [2, 1, 2] stand"),
    ("two names", E * 2, {"world_size": 2, "factors": {"micro-batches": 2}}, "times 2 = world size = micro-batches."),
    ("the likelier", np.array([2.9]), {"expected": np.ones(1), "allowed": 0.5, "world_size": 3, "factors": {"it": 2.5}}, "= world size."),
    ("zero", np.zeros_like(E), {}, "Every wrong value is 0."),
    ("another value", OTHER, {"others": {"rank 0's value": OTHER}}, "Every wrong value is rank 0's value."),
    ("another value that is 0", np.zeros_like(E), {"others": {"what an empty rank has": np.zeros_like(E)}}, "is what an empty rank has."),
    ("untouched", BEFORE, {"untouched": BEFORE}, "Every wrong value is what stood there before."),
    ("a part missing", E - PART, {"parts": {"rank 2's part": PART}}, "Every wrong value lacks rank 2's part."),
    ("a part twice", E + PART, {"parts": {"rank 2's part": PART}}, "counts rank 2's part twice"),
    ("offset", E + 0.75, {}, "off by the same amount"),
    ("computed in float32", (E.astype(np.float32) / np.float32(3)).astype(float) * 3, {}, "right to float32's precision only"),
    ("kept in bfloat16", E.astype(ml_dtypes.bfloat16).astype(float), {}, "right to bfloat16's precision only"),
    ("nearly", E + np.random.default_rng(3).uniform(-3e-3, 3e-3, E.shape), {"allowed": 1e-3}, "Nearly right"),
    ("nearly, by a factor too", E * 0.999, {"allowed": np.abs(E) * 3e-4}, "Nearly right"),
    ("never written", np.where(E > 1, 2.5e36, E), {}, "memory that was never written"),
]


@pytest.mark.parametrize(("got", "hints", "words"), [case[1:] for case in SUSPECTS], ids=[case[0] for case in SUSPECTS])
def test_a_known_way_to_be_wrong_is_recognised(got: Array, hints: dict[str, Any], words: str) -> None:
    """Each suspect is named, comes with a question, and gives away no expected value."""
    message = told(got, **({"expected": E} | hints))
    assert words in message.diagnosis
    assert message.suggestion.endswith("?")


def test_a_suspect_is_recognised_where_only_some_values_are_wrong() -> None:
    """One chunk that was never divided is told with its place."""
    got = E.copy()
    got[2:4] *= 3
    message = told(got, E, world_size=3)
    assert "= world size." in message.diagnosis and "chunk 1 of 3" in message.where


def test_a_value_with_a_name_is_told_with_what_the_test_suggests() -> None:
    """The test's own question is asked instead, where it has one."""
    others = {"rank 0's value": OTHER}
    assert told(OTHER, E, others=others, suggestion="Read your own.").suggestion == "Read your own."
    assert told(OTHER, E, others=others, suggestion="Read your own.", question="Whose is it?").suggestion == "Whose is it?"


def test_a_mistake_that_would_be_right_here_is_not_suspected() -> None:
    """A result that rounds too often lies as near to it as to the right one."""
    named = told(E + 0.015, E, allowed=0.01, others={"the root without eps": E + 0.005})
    assert "without eps" not in named.diagnosis
    assert "without eps" in told(E + 0.015, E, allowed=0.01, others={"the root without eps": E + 0.012}).diagnosis


def test_what_is_not_finite_is_told_by_the_mistake_that_makes_it_so() -> None:
    """By one that is not finite in the same places, and in the same way; by none if there is none."""
    got, other, elsewhere = E.copy(), E * 2, E.copy()
    got[1], other[1], elsewhere[2] = np.nan, np.nan, np.nan
    others = {"the sum of infinite ones": np.where(np.isnan(other), np.inf, other), "the sum without a mask": other}
    message = told(got, E, others=others, suggestion="Mask it.")
    assert "the same ones as in the sum without a mask." in message.diagnosis and message.suggestion == "Mask it."
    assert "the same ones" not in told(got, E, others={"the sum without a mask": elsewhere}).diagnosis


def test_what_is_0_but_for_rounding_is_no_multiple_of_the_right_one() -> None:
    """Any factor that is small enough would do; none is told."""
    got = E * 1e-6 + np.random.default_rng(5).uniform(-1e-4, 1e-4, E.shape)
    assert "times" not in told(got, E, allowed=1e-3).diagnosis


def test_values_without_a_pattern_get_the_tests_own_suggestion() -> None:
    """No guess is made up; what the test knows to try is printed instead."""
    message = told(values(6, 4, seed=7), E, world_size=3, untouched=BEFORE, parts={"a": PART}, suggestion="Draw it for two ranks.")
    assert (message.diagnosis, message.suggestion) == ("", "Draw it for two ranks.")
    near = told(E * (1 + 2.0**-9), E, suggestion="Draw it for two ranks.")  # as near as bfloat16 is, and no number of bfloat16
    assert "precision" not in near.diagnosis
    broad = told(E.astype(np.float32).astype(float), E, suggestion="Draw it for two ranks.")
    assert "float32" in broad.suggestion and broad.suggestion.endswith("Draw it for two ranks.")
    for vague in (E * 1.37, E + 0.25, E * 0):
        assert told(vague, E, suggestion="Draw it for two ranks.").suggestion.endswith("? Draw it for two ranks.")


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_ratio_is_recognised_through_rounding(dtype: str) -> None:
    """A sum for a mean is named in every dtype, though its values were rounded after they were multiplied."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    message = told((E * 3).astype(kind), (E).astype(kind).astype(np.float64), allowed=0.01 * unit_roundoff(dtype), world_size=3)
    assert "= world size." in message.diagnosis


@given(st.integers(2, 9), st.integers(1, 8), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_any_wrong_value_is_found_and_counted(num_rows: int, num_columns: int, seed: int) -> None:
    """Whatever is changed by more than the bound is counted, whatever by less is not, and equal tensors have no difference."""
    rng = np.random.default_rng(seed)
    expected = rng.standard_normal((num_rows, num_columns))
    noise = rng.choice([0.0, 0.9e-3, 1.1e-3, 5.0], expected.shape) * rng.choice([-1, 1], expected.shape)
    num_wrong = int(np.sum(np.abs(noise) > 1e-3))
    difference = describe(expected + noise, expected, 1e-3, Hints(world_size=3))
    assert describe(expected, expected.copy()) is None
    assert (difference is None) == (num_wrong == 0)
    if difference:
        assert difference.seen.startswith(f"{num_wrong} of {expected.size} ")


@given(st.permutations(range(4)), st.integers(1, 5))
def test_any_order_of_chunks_is_told(order: list[int], chunk: int) -> None:
    """Chunks in another order are named in that order, whatever it is; a cyclic one of single elements may be told as a shift."""
    expected = values(4 * chunk)
    got = np.concatenate([np.split(expected, 4)[i] for i in order])
    difference = describe(got, expected, 0.0, Hints(world_size=4))
    assert difference is None if order == [0, 1, 2, 3] else f"in the order {order}" in (difference.diagnosis if difference else "")


# --- bounds ----------------------------------------------------------------------------------------------------------
def added(terms: Array, order: list[int], kind: Any) -> Any:
    """The terms added one after the other in `kind`."""
    total = terms[order[0]]
    for index in order[1:]:
        total = kind.type(total + terms[index])
    return total


@given(st.sampled_from(FLOATS[1:]), st.floats(-2.0, 2.0), st.integers(-30, 8))
@settings(max_examples=150, deadline=None)
def test_one_rounding_keeps_its_bound(dtype: str, mantissa: float, scale: int) -> None:
    """Also where float16 has no more than its subnormals."""
    exact = mantissa * 2.0**scale
    rounded = float(np.float64(exact).astype(np.dtype(getattr(ml_dtypes, dtype, dtype))))
    assert abs(rounded - exact) <= float(rounding_bound(dtype, exact))


def test_a_rounding_among_subnormals_loses_half_their_gap() -> None:
    """2^-25 lies between 0 and float16's smallest number."""
    assert float(np.float16(2.0**-25)) == 0
    assert 2.0**-25 <= float(rounding_bound("float16", 2.0**-25)) <= 1.001 * 2.0**-25
    assert rounding_bound("int64", 3.0) == 0


@given(st.sampled_from(FLOATS), st.integers(1, 40), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_a_sum_in_any_order_keeps_its_bound(dtype: str, num_terms: int, seed: int) -> None:
    """No order of additions is further from the exact sum than the bound, for terms of very different sizes."""
    kind, rng = np.dtype(getattr(ml_dtypes, dtype, dtype)), np.random.default_rng(seed)
    terms = (rng.standard_normal(num_terms) * 2.0 ** rng.integers(-8, 8, num_terms)).astype(kind)
    exact = sum((Fraction(float(term)) for term in terms), Fraction(0))
    magnitude = float(np.sum(np.abs(terms.astype(np.float64))))
    total = added(terms, list(rng.permutation(num_terms)), kind)
    assert abs(Fraction(float(total)) - exact) <= Fraction(float(sum_bound(dtype, num_terms, magnitude))) * (1 + Fraction(1, 2**40))


@given(st.sampled_from(FLOATS), st.integers(1, 9), st.booleans(), st.integers(-30, 3), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_a_mean_keeps_its_bound_whenever_it_is_divided(dtype: str, num_terms: int, divides_first: bool, scale: int, seed: int) -> None:
    """Divided before or after the additions, also down among the subnormals, a mean stays within its bound."""
    kind, rng = np.dtype(getattr(ml_dtypes, dtype, dtype)), np.random.default_rng(seed)
    terms = (rng.standard_normal(num_terms) * 2.0**scale).astype(kind)
    exact = sum((Fraction(float(term)) for term in terms), Fraction(0)) / num_terms
    magnitude = float(np.sum(np.abs(terms.astype(np.float64))))
    order, n = list(range(num_terms)), kind.type(num_terms)
    if divides_first:
        mean = added(np.array([kind.type(term / n) for term in terms], kind), order, kind)
    else:
        mean = kind.type(added(terms, order, kind) / n)
    assert abs(Fraction(float(mean)) - exact) <= Fraction(float(mean_bound(dtype, num_terms, magnitude))) * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_bound_of_a_sum_is_reached(dtype: str) -> None:
    """1 + u loses u: a bound half as large would reject a right answer, so it is no looser than twice what happens."""
    kind, u = np.dtype(getattr(ml_dtypes, dtype, dtype)), unit_roundoff(dtype)
    terms = np.array([1.0, u], kind)
    lost = 1 + Fraction(u) - Fraction(float(added(terms, [0, 1], kind)))
    assert lost == u
    assert lost <= Fraction(float(sum_bound(dtype, 2, 1.0 + u))) <= 2 * lost


def test_a_mean_loses_at_the_additions_and_at_the_division() -> None:
    """(1 + u + u) / 3 in fp64 is further off than the additions alone allow, and within the bound of a mean."""
    u = unit_roundoff("float64")
    lost = (1 + 2 * Fraction(u)) / 3 - Fraction((1.0 + u + u) / 3.0)
    assert 2 * Fraction(u) * (1 + 2 * Fraction(u)) / 3 < lost <= Fraction(float(mean_bound("float64", 3, 1 + 2 * u)))


@pytest.mark.parametrize("bounded", [sum_bound, mean_bound])
def test_the_oracle_of_a_float64_sum_rounds_too(bounded: Callable[[str, int, Array], Array]) -> None:
    """Two orders of adding in float64, one of them the oracle's, are within the bound; half of it refuses some."""
    terms = values(3, 100_000)
    ours, theirs = (added(terms, order, np.dtype("float64")) / (3 if bounded is mean_bound else 1) for order in ([0, 1, 2], [2, 1, 0]))
    allowed = bounded("float64", 3, np.sum(np.abs(terms), axis=0))
    assert_close(ours, theirs, allowed=allowed, what="y")
    assert np.any(np.abs(ours - theirs) > allowed / 2)


def test_a_mean_off_by_two_last_bits_is_not_called_float32() -> None:
    """What is wrong in the last bits of a float64 has nothing to do with float32."""
    expected = values(48)
    got = expected + 2.0**-51 * np.abs(expected)
    assert "float32" not in told(got, expected, allowed=1e-18).diagnosis
    assert "float32" in told(expected.astype(np.float32).astype(np.float64), expected, allowed=1e-15).diagnosis


def test_a_one_percent_error_is_beyond_the_bound_of_eight_ranks() -> None:
    """In fp32 and fp16 the bound is tight enough for a 1 % scale error of an eight-term sum to be caught."""
    terms = np.random.default_rng(0).standard_normal((8, 100))
    total, magnitude = terms.sum(axis=0), np.abs(terms).sum(axis=0)
    for dtype in ("float32", "float16"):
        assert describe(total * 1.01, total, sum_bound(dtype, 8, magnitude)) is not None


def test_the_unit_roundoff_is_half_the_gap_above_one() -> None:
    """u is 2⁻ᵖ with p significant bits, the hidden one included; integers don't round."""
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
    assert {dtype: unit_roundoff(dtype) for dtype in bits} == {dtype: 2.0**-p for dtype, p in bits.items()}
    assert unit_roundoff("int64") == unit_roundoff("bool") == 0.0


def test_the_budget_is_the_larger_of_twice_the_plain_error_and_the_derived_bound() -> None:
    """Both sides of the error budget count, and the plain implementation's largest error holds for every element."""
    assert bound("float16", plain_error=np.array([0.0, 0.5]), derived=0.75) == 1.0
    assert bound("bfloat16", plain_error=0.25, derived=0.75) == 0.75
    assert np.array_equal(bound("float32", plain_error=0.5, derived=np.array([0.25, 3.0])), [1.0, 3.0])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bound("int64", plain_error=0.0, derived=0.0),
        lambda: bound("float32", plain_error=math.nan, derived=1.0),
        lambda: bound("float32", plain_error=0.0, derived=math.nan),
        lambda: sum_bound("float32", 0, 1.0),
        lambda: sum_bound("float32", 2, -1.0),
        lambda: unit_roundoff("float31"),
    ],
)
def test_a_budget_without_sense_is_the_courses_fault(ask: Any) -> None:
    """Integers, a plain answer of NaN, an empty sum, a negative magnitude, an unknown dtype: no bound comes of them."""
    with pytest.raises(CourseError):
        ask()
