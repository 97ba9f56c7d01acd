"""What attention must return. Expected values are fp64; allowed is twice a plain implementation's error, or the derived bound."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, assert_close, assert_equal, bound
from grader.numerics.describe import describe
from tests.laws.flash_attention import oracle
from tests.laws.flash_attention.cases import Case
from tests.laws.flash_attention.oracle import Array, Attention

SAY_IEEE = 'Errors of three digits in float32 come of tf32, which tl.dot takes unless it is told input_precision="ieee".'

ASKS = "Which line of yours decides this, and does it do so in every block, for every row and head?"


def judge_forward(seen: Any, case: Case, names: Sequence[str] = ("o",), *, suggestion: str = "") -> None:
    """The outputs called `names` are right, o in rows without keys being 0 and lse -inf. `suggestion`: for an error of no known kind."""
    q, k, v = (seen.inputs[name] for name in "qkv")
    exact, plain = oracle.forward(case.of, q, k, v), oracle.plain_forward(case.of, q, k, v)
    derived, returned = oracle.forward_bounds(case.of, q, k, v), seen.rank(0)
    for name in names:
        allowed = _allowed(returned[name], exact[name], plain[name], derived[name])
        if describe(returned[name], exact[name], allowed) is not None:
            others = {sin: x[name] for sin, x in _other_forwards(case, q, k, v).items() if name in x}
            hints = Hints(
                head_dim=case.head_dim,
                factors={"log2(e)": float(np.log2(np.e))},
                others=others,
                question=ASKS,
                suggestion=suggestion or _about_layout(case),
            )
            with _telling_which_rows(returned[name], exact[name], allowed, largest=oracle.weights(case.of, q, k, v).scores.max(-1)):
                assert_close(returned[name], exact[name], allowed=allowed, what=f"{name} ({_about(case)})", hints=hints)


def judge_rows_without_keys(seen: Any, case: Case) -> None:
    """Rows that see no key give o = 0 and lse = -inf, exactly."""
    is_empty = ~case.of.visible(case.queries, case.k_shape[2]).any(1)
    assert is_empty.any(), "a case of this law has rows without keys"
    returned = seen.rank(0)
    for name, value in (("lse", -np.inf), ("o", 0.0)):
        got = returned[name][:, :, is_empty]
        if difference := describe(got, np.full_like(got, value)):
            message = difference.message(f"{name} of rows without keys")
            raise LawBroken(replace(message, diagnosis=f"In a row that sees no key, {name} is not {value:g}. {message.diagnosis}".strip()))


def judge_backward(seen: Any, case: Case, names: Sequence[str] = oracle.GRADIENTS) -> None:
    """The gradients called `names` are right."""
    do, q, k, v = (seen.inputs[name] for name in ("do", "q", "k", "v"))
    exact = oracle.forward(case.of, q, k, v)
    judge_gradients(seen.rank(0), case, do, q, k, v, o=exact["o"].astype(q.dtype), names=names)


def judge_gradients(
    returned: dict[str, Array], case: Case, do: Array, q: Array, k: Array, v: Array, *, o: Array, names: Sequence[str] = oracle.GRADIENTS
) -> None:
    """As `judge_backward`, of gradients that came another way; `o` is the output in the inputs' dtype."""
    expected, plain = oracle.backward(case.of, do, q, k, v), oracle.plain_backward(case.of, do, q, k, v, o)
    derived = oracle.backward_bounds(case.of, do, q, k, v)
    for name in names:
        allowed = _allowed(returned[name], expected[name], plain[name], derived[name])
        if describe(returned[name], expected[name], allowed) is not None:
            others = {sin: x[name] for sin, x in _other_backwards(case, do, q, k, v).items() if name in x}
            hints = Hints(
                head_dim=case.head_dim,
                factors={"scale": case.of.scale_for(case.head_dim)},
                others=others,
                question=ASKS,
                suggestion=_about_layout(case),
            )
            assert_close(returned[name], expected[name], allowed=allowed, what=f"{name} ({_about(case)})", hints=hints)


def judge_autograd(seen: Any, case: Case, *, is_sum: bool) -> None:
    """o is right, and so are the gradients that came from backward(), of `(o * do).sum()` or of `o.sum()`."""
    judge_forward(seen, case)
    do, q, k, v = (seen.inputs[name] for name in ("do", "q", "k", "v"))
    incoming = np.ones_like(do) if is_sum else do
    judge_gradients(seen.rank(0), case, incoming, q, k, v, o=oracle.forward(case.of, q, k, v)["o"].astype(q.dtype))


def judge_left_alone(seen: Any, names: Sequence[str]) -> None:
    """The inputs called `names` hold the bits that they held before."""
    for name in names:
        assert_equal(seen.rank(0)[f"{name}.after"], seen.inputs[name], what=f"{name} after the call")


def judge_same_bits(seen: Any) -> None:
    """Two passes over the same inputs, their programs in other orders, gave the same bits."""
    returned = seen.rank(0)
    for name in oracle.FORWARD:
        hints = Hints(suggestion="Does a program read what another one writes, or add to it? Each should own its block of queries.")
        assert_equal(returned[name], returned[f"{name}.first"], what=f"{name} of a second run, in another order of programs", hints=hints)


# --- shared ----------------------------------------------------------------------------------------------------------
def _allowed(returned: Array, exact: Array, plain: Array, derived: Array) -> Array:
    """Per element; where the answer isn't finite, nothing but it is right."""
    finite = np.isfinite(exact)
    with np.errstate(invalid="ignore"):
        plain_error = np.where(finite, np.abs(plain.astype(np.float64) - exact), 0.0)
    return np.asarray(
        np.broadcast_to(bound(returned.dtype.name, plain_error=plain_error, derived=np.where(finite, derived, 0.0)), exact.shape)
    )


@contextlib.contextmanager
def _telling_which_rows(got: Array, exact: Array, allowed: Array, *, largest: Array) -> Iterator[None]:
    """Add to a failure's diagnosis what the wrong rows have in common: they see no key, or all their scores are negative."""
    try:
        yield
    except LawBroken as broken:
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(got.astype(np.float64) - exact) <= allowed) | (got == exact))
        rows = wrong.reshape(*largest.shape, -1).any(-1)
        told = ""
        if np.isneginf(largest[rows]).all():
            told = "The wrong rows are among those that see no key."
        elif (largest[rows] < 0).all() and not (largest < 0).all():
            told = "The wrong rows are among those whose scores are all negative."
        if told:
            told = f"{broken.message.diagnosis} {told}".strip()
            raise LawBroken(replace(broken.message, diagnosis=told)) from None
        raise


def _other_forwards(case: Case, q: Array, k: Array, v: Array) -> dict[str, dict[str, Array]]:
    """Well-known sins, for the messages."""
    of, scale = case.of, case.of.scale_for(case.head_dim)
    sins: dict[str, dict[str, Array]] = {
        "attention with the scale applied twice": oracle.forward(replace(of, scale=scale * scale), q, k, v),
        "attention without the scale": oracle.forward(replace(of, scale=1.0), q, k, v),
    }
    if of.scale is not None:
        sins["attention with the default scale instead of the given one"] = oracle.forward(replace(of, scale=None), q, k, v)
    if of.causal:
        sins["attention without the causal mask"] = oracle.forward(Attention(scale=of.scale), q, k, v)
        at_start, finite = oracle.weights(of, q, k, v, at_start=True), oracle.weights(of, q, k, v, masked=-1e4)
        sins["attention with the causal mask aligned to the start"] = {"o": at_start.o, "lse": at_start.lse}
        sins["attention with a mask of -10000 instead of -inf"] = {"o": finite.o, "lse": finite.lse}
    if k.shape[1] not in (1, q.shape[1]):
        heads = np.arange(q.shape[1]) % k.shape[1]
        sins["attention with query head h on key head h % G"] = oracle.forward(of, q, k[:, heads], v[:, heads])
    exact = oracle.weights(of, q, k, v)
    largest = np.where(np.isfinite(exact.scores.max(-1)), exact.scores.max(-1), 0.0)
    sins |= _without_new_scales(case, exact, oracle.repeated(v, q.shape[1]))
    sins["the logarithm in base 2, not the natural one"] = {"lse": exact.lse * np.log2(np.e)}
    sins["the largest score plus the logarithm of the sum in base 2"] = {"lse": largest + (exact.lse - largest) * np.log2(np.e)}
    sins["the logarithm without the largest score"] = {"lse": exact.lse - largest}
    sins["the largest score alone"] = {"lse": largest}
    return sins


def _without_new_scales(case: Case, exact: oracle.Weights, v: Array) -> dict[str, dict[str, Array]]:
    """What comes out where blocks of keys are added up and what was there is not multiplied by exp(old maximum - new maximum)."""
    num_keys, block = exact.scores.shape[-1], case.block_k or 0
    if not 0 < block < num_keys:
        return {}
    edges = np.arange(0, num_keys, block)
    finite = np.where(np.isfinite(exact.scores), exact.scores, np.nan_to_num(exact.scores, neginf=-1e300))
    of_block = np.maximum.reduceat(finite, edges, axis=-1)
    origins = {"": np.maximum.accumulate(of_block, axis=-1), ", each with its own maximum": of_block}
    right = np.exp(np.where(np.isfinite(exact.lse), exact.lse, 0.0))
    sins = {}
    for words, origin in origins.items():
        p = np.exp(exact.scores - np.repeat(origin, np.diff([*edges, num_keys]), axis=-1))
        total, acc = p.sum(-1), p @ v.astype(np.float64)
        largest = finite.max(-1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            sums = right / np.exp(largest)
            sins[f"attention whose blocks are added up without a new scale when the maximum rises{words}"] = {
                "o": acc / total[..., None], "lse": largest + np.log(total)}  # fmt: skip
            sins[f"attention whose output, not its sum, lacks the new scale when the maximum rises{words}"] = {"o": acc / sums[..., None]}
            sins[f"attention whose sum, not its output, lacks the new scale when the maximum rises{words}"] = {
                "o": exact.o * (sums / total)[..., None], "lse": largest + np.log(total)}  # fmt: skip
    return sins


def _other_backwards(case: Case, do: Array, q: Array, k: Array, v: Array) -> dict[str, dict[str, Array]]:
    """Well-known sins, for the messages."""
    of, right = case.of, oracle.backward(case.of, do, q, k, v)
    scale = of.scale_for(case.head_dim)
    sins = {
        "the gradient without the scale": {"dq": right["dq"] / scale, "dk": right["dk"] / scale},
        "the gradient with the scale applied twice": {"dq": right["dq"] * scale, "dk": right["dk"] * scale},
    }
    if of.scale is not None:
        sins["the gradient with the default scale instead of the given one"] = oracle.backward(replace(of, scale=None), do, q, k, v)
    sins["the gradient with lse taken for a logarithm in base 2"] = oracle.backward_in_base_two(of, do, q, k, v)
    misread = np.ascontiguousarray(do.swapaxes(1, 2)).reshape(do.shape)
    sins["the gradient with do read by the strides of another tensor"] = oracle.backward(of, misread, q, k, v)
    if of.causal:
        sins["the gradient without the causal mask"] = oracle.backward(Attention(scale=of.scale), do, q, k, v)
    if k.shape[1] != q.shape[1]:
        each = oracle.backward(of, do, q, oracle.repeated(k, q.shape[1]), oracle.repeated(v, q.shape[1]))
        num_sharing = q.shape[1] // k.shape[1]
        mean = {name: right[name] / num_sharing for name in ("dk", "dv")}
        sins["the mean over the query heads that share a key head, where a sum is due"] = mean
        for which, name in ((0, "first"), (num_sharing - 1, "last")):
            one = {"dk": each["dk"][:, which::num_sharing], "dv": each["dv"][:, which::num_sharing]}
            sins[f"the gradient from the {name} of the query heads that share a key head"] = one
    return sins


def _about_layout(case: Case) -> str:
    about = "The tensors are views here: is each one read by its own strides? If laws on plain ones fail too, begin there."
    return "" if case.layout == "plain" else about


def _about(case: Case) -> str:
    mask = "causal" if case.causal else "not causal"
    heads = f", {case.heads} heads on {case.k_shape[1]}" if case.k_shape[1] != case.heads else ""
    scores = ", large scores" if case.values == "large" else ""
    return f"{case.dtype}, T={case.queries}, S={case.k_shape[2]}, D={case.head_dim}, {mask}{heads}{scores}"
