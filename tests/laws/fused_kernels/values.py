"""What the three operations must return. Expected is fp64; allowed is twice a plain implementation's error, or the derived bound."""

from __future__ import annotations

from collections.abc import Sequence
from math import erf
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal, bound
from grader.numerics.describe import describe
from grader.records import Message
from tests.laws.fused_kernels import oracle
from tests.laws.fused_kernels.cases import Array, Case, as_if_contiguous
from tests.laws.fused_kernels.saying import about

SECTION = {"rms_norm": 5, "bias_gelu": 6, "cross_entropy": 7}
OVERFLOWS = 30  # from here on exponentials of GELU's inner argument, which grows like u³, are infinite in float32
SUGGESTION = {
    "rms_norm": "Arithmetic and sums are float32 whatever the inputs' dtype is, and are rounded once, at the end.",
    "bias_gelu": "Arithmetic and sums are float32 whatever the inputs' dtype is; dbias sums dx before it is rounded.",
    "cross_entropy": "Is the running sum rescaled whenever the running maximum grows, and are lanes beyond the vocabulary -inf?",
}


def judge_forward(seen: Any, case: Case) -> None:
    """The output is right."""
    _judge(seen, case, ["y"])


def judge_gradients(seen: Any, case: Case) -> None:
    """The gradients are right; so is the output, since they are those of a function."""
    _judge(seen, case, ["y", *sorted(name for name in oracle.exact(case, seen.inputs) if name != "y")])


def _judge(seen: Any, case: Case, names: Sequence[str]) -> None:
    inputs, returned = seen.inputs, seen.rank(0)
    with np.errstate(all="ignore"):
        right, rough = oracle.exact(case, inputs), oracle.plain(case, inputs)
        derived = oracle.derived(case, inputs, right)
    for name in names:
        got = returned[name]
        plain_error = np.abs(rough[name].astype(np.float64) - right[name])
        allowed = np.broadcast_to(bound(oracle.dtype_of(case, name), plain_error=plain_error, derived=derived[name]), right[name].shape)
        if describe(got, right[name], allowed) is not None:
            others = _others(case, inputs, name, got, right[name])
            question = f"Compare that line with the formulas of section {SECTION[case.of]}."
            hints = Hints(factors=_factors(case, inputs), others=others, question=question, suggestion=_suggestion(case))
            with about(_words_of(case, name)):
                assert_close(got, right[name], allowed=allowed, what=f"{name} ({_about(case)})", hints=hints)


def _factors(case: Case, inputs: dict[str, Array]) -> dict[str, float]:
    if case.of != "cross_entropy":
        return {"rows": float(max(1, case.num_rows)), "D": float(case.shape[-1])}
    counting = (inputs["targets"] != case.ignoring).sum()
    return {"targets that count": float(max(1, counting)), "the incoming gradient": float(inputs["d"])}


def _others(case: Case, inputs: dict[str, Array], name: str, got: Array, right: Array) -> dict[str, Array]:
    others = {words: found[name] for words, found in oracle.other_answers(case, inputs).items() if name in found}
    for each in ("d", case.parameter, case.first):
        read = as_if_contiguous(inputs[each], case.layout)
        if read is not None:
            words = "the incoming gradient" if each == "d" else each
            others[f"the result with {words} read as if it were contiguous"] = oracle.exact(case, inputs | {each: read})[name]
    if case.of == "bias_gelu" and name == "y":
        u = inputs["x"].astype(np.float64) + inputs["bias"].astype(np.float64)
        others["GELU by erf, not by tanh"] = u / 2 * (1 + np.vectorize(erf, otypes=[float])(u / np.sqrt(2)))
    broken = ~np.isfinite(got.astype(np.float64)) & np.isfinite(right)
    if case.of == "bias_gelu" and broken.shape == case.shape and np.all(np.abs(inputs["x"].astype(np.float64)) > OVERFLOWS, where=broken):
        others["the result with tanh as a quotient of exponentials: inf / inf"] = got
    if name == "dlogits":
        others |= _other_gradients(case, inputs, got, right, broken)
    if case.values == "masked":
        others["-inf taken from -inf, as long as a row has shown nothing but masked classes"] = np.full_like(right, np.nan)
    return others


def _other_gradients(case: Case, inputs: dict[str, Array], got: Array, right: Array, broken: Array) -> dict[str, Array]:
    """What dlogits is if its own mistakes explain it."""
    counts, others = inputs["targets"] != case.ignoring, {}
    if broken.any() and not broken[counts].any():
        others["0 times what ignored rows hold, where NaN and inf become NaN: choose with tl.where"] = got
    scale = float(inputs["d"]) / max(1, counts.sum())
    others["the softmax with its 1 taken off elsewhere than at the target, as if that were a place in a block, not a class"] = (
        right + scale * np.round((got.astype(np.float64) - right) / scale)
    )
    return others


def _suggestion(case: Case) -> str:
    if case.layout != "plain":
        return f"The tensors are views here: is each one read by its own strides, {case.parameter} and the incoming gradient too?"
    return SUGGESTION[case.of]


def judge_left_alone(seen: Any, case: Case) -> None:
    """The inputs hold the bits that they held before, and the output is contiguous memory of its own."""
    for name in (case.first, case.parameter, "d"):
        got, before = seen.rank(0)[f"{name}.after"], seen.inputs[name]
        with about(f"{_words_of(case, name)}, an input, which has to stay as it is"):
            assert_equal(got, before, what=f"{name} after the call")
    facts = seen.facts(0)
    if not facts["is_contiguous"] or not facts["is_new"]:
        what = "is not contiguous" if facts["is_new"] else "lies in an input's memory"
        diagnosis = f"In question: the output of {case.of}. It {what}."
        suggestion = "Return new, contiguous memory: torch.empty of the shape."
        raise LawBroken(Message(seen=f"The output {what}.", diagnosis=diagnosis, suggestion=suggestion))


def judge_zero(seen: Any, case: Case, *, is_backward: bool) -> None:
    """No target counts: the loss is 0, and so is every gradient, exactly."""
    names = ["y", "dlogits"] if is_backward else ["y"]
    for name in names:
        got = seen.rank(0)[name]
        others = {"0 / 0, the sum over no target by their number": np.full_like(got, np.nan)}
        hints = Hints(others=others, suggestion="Divide by max(number that count, 1).")
        with about(_words_of(case, name)):
            assert_equal(got, np.zeros_like(got), what=f"{name} where no target counts", hints=hints)


def judge_ignored_rows(seen: Any, case: Case) -> None:
    """The gradient of every ignored row is exactly 0."""
    targets = seen.inputs["targets"]
    is_ignored = targets == case.ignoring
    got = seen.rank(0)["dlogits"][is_ignored]
    hints = Hints(suggestion="Choose with tl.where(counts, gradient, 0.0); multiplying by 0 leaves NaN and inf as NaN.")
    with about("dlogits, the gradient of ignored rows"):
        assert_equal(got, np.zeros_like(got), what="the gradient of ignored rows", hints=hints)


def _words_of(case: Case, name: str) -> str:
    if name == "y":
        return "the loss that cross_entropy returns" if case.of == "cross_entropy" else f"y, the output of {case.of}"
    if name == "d":
        return f"the gradient that comes in at {case.of}"
    return f"{name}, the gradient of {name[1:]} in {case.of}" if name.startswith("d") else name


def _about(case: Case) -> str:
    words = f"{case.dtype}, shape {case.shape}"
    words += f", {case.parameter} in {case.parameter_dtype}" if case.wide_parameter else ""
    words += f", {case.values} values" if case.values != "normal" else ""
    return words + (f", layout: {case.layout}" if case.layout != "plain" else "")
