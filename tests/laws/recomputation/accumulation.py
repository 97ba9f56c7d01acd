"""The judgements on accumulate_gradients. The oracle is the whole batch in float64, its gradients worked out by hand."""

# R rows, T tokens a row, C inputs, H hidden, V classes, n counted targets
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader.errors import LawBroken, SubmissionError
from grader.numerics import Hints, assert_close
from grader.records import Limits, Message, MiB

Array = np.ndarray[Any, Any]

IGNORED = -100
TOKENS, INPUTS, HIDDEN, CLASSES = 5, 4, 6, 7
ROUNDINGS = 1e-11  # float64 rounds at 1e-16; sums of some hundred terms around 1, in any order
SIX_DIGITS = 5e-6  # half a unit of the sixth; so a mean that is summed and handed back in float32 is right too
PATTERN, LARGE_REPEAT = 256, 4096  # a tensor of 4 MiB in float32


# --- runs ------------------------------------------------------------------------------------------------------------
def whole_batch(
    counts: Sequence[Sequence[int]], *, loss: str, with_gradients: bool = False, diverged: bool = False
) -> Callable[[np.random.Generator], dict[str, Array]]:
    """Inputs whose row r has counts[r] counted targets, in random places, for the micro-batches' rows in turn; `diverged`: row 0 is NaN."""
    flat = [count for micro_batch in counts for count in micro_batch]

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        shape = len(flat), TOKENS
        # Of a distance the targets are real numbers on both sides of IGNORED.
        targets = rng.uniform(-300, 100, shape) if loss == "distance" else rng.integers(0, CLASSES, shape)
        for row, count in zip(targets, flat, strict=True):
            row[rng.permutation(TOKENS)[count:]] = IGNORED
        drawn = {
            "A": rng.standard_normal((INPUTS, HIDDEN)), "B": rng.standard_normal((HIDDEN, CLASSES)),
            "x": rng.standard_normal((len(flat), TOKENS, INPUTS)), "targets": targets,
        }  # fmt: skip
        if with_gradients:
            drawn |= {f"{name}.grad": rng.standard_normal(drawn[name].shape) for name in "AB"}
        if diverged:
            drawn["x"][0] = np.nan
        return drawn

    return draw


def run_accumulated(
    observe: Any,
    counts: Sequence[Sequence[int]],
    *,
    loss: str = "cross_entropy",
    with_gradients: bool = False,
    diverged: bool = False,
    **case: Any,
) -> Any:
    """One accumulation: counts[i][r] counted targets in row r of micro-batch i."""
    returns = {"A.grad": ("float64", (INPUTS, HIDDEN)), "B.grad": ("float64", (HIDDEN, CLASSES)), "mean": ("float64", ())}
    inputs = whole_batch(counts, loss=loss, with_gradients=with_gradients, diverged=diverged)
    return observe("accumulated", transport="none", inputs=inputs, returns=returns,
                   rows=[len(each) for each in counts], loss=loss, with_gradients=with_gradients, **case)  # fmt: skip


# --- the oracle ------------------------------------------------------------------------------------------------------
def expected_of(given: dict[str, Array], loss: str, rows: slice | None = None) -> dict[str, Array]:
    """Mean loss and gradients of tanh(x A) B over the counted targets of these rows, by the chain rule; zeros where none is counted."""
    x, targets = (given[name][rows or slice(None)].reshape(-1, *given[name].shape[2:]) for name in ("x", "targets"))
    x, targets = x[targets != IGNORED], targets[targets != IGNORED]
    hidden = np.tanh(x @ given["A"])
    logits = hidden @ given["B"]
    count = max(1, len(x))
    wanted = targets[:, None] if loss == "distance" else np.eye(CLASSES)[targets]
    if loss == "cross_entropy":
        shifted = logits - logits.max(1, keepdims=True, initial=-np.inf) if len(x) else logits
        softmax = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
        losses, d_logits = -np.log(softmax[wanted.astype(bool)]), (softmax - wanted) / count
    else:
        losses, d_logits = ((logits - wanted) ** 2).sum(1), 2 * (logits - wanted) / count
    d_hidden = d_logits @ given["B"].T * (1 - hidden**2)
    return {"A.grad": x.T @ d_hidden, "B.grad": hidden.T @ d_logits, "mean": np.asarray(losses.sum() / count)}


def mean_of_means(given: dict[str, Array], loss: str, rows: Sequence[int]) -> dict[str, Array]:
    """What comes out if every micro-batch weighs the same."""
    parts = [expected_of(given, loss, slice(a, b)) for a, b in itertools.pairwise(np.cumsum([0, *rows]))]
    return {name: np.mean([part[name] for part in parts], axis=0) for name in parts[0]}


def judge_gradients(seen: Any) -> None:
    """Both gradients are the whole batch's, on top of what was there."""
    case, given = seen.request.parameters, seen.inputs
    right, unweighted = expected_of(given, case["loss"]), mean_of_means(given, case["loss"], case["rows"])
    for name in ("A.grad", "B.grad"):
        before = given.get(name, np.zeros_like(right[name]))
        hints = Hints(
            factors={"the number of micro-batches": float(len(case["rows"]))},
            others={"the mean of the micro-batches' means, where counted tokens weigh unequally": before + unweighted[name]},
            parts={"what was in .grad already": before} if case["with_gradients"] else {},
            suggestion=rounded_in_float32(seen.rank(0)[name], before + right[name])
            or "Write down the weight of one counted token (target not IGNORED) in the whole batch's mean, and its weight in yours.",
        )
        allowed = ROUNDINGS * (1 + np.abs(right[name]).max(initial=0.0))
        assert_close(seen.rank(0)[name], before + right[name], allowed=allowed, what=f"the gradient of {name[0]}", hints=hints)


def rounded_in_float32(got: Array, right: Array) -> str:
    """What to ask if two tensors differ by no more than a few roundings of float32; else nothing."""
    if np.abs(got - right).max(initial=0.0) > 1e-5 * np.abs(right).max(initial=0.0):  # some hundred roundings
        return ""
    return "The difference is as small as float32's roundings: where do numbers leave float64?"


def judge_mean(seen: Any) -> None:
    """The whole batch's mean loss is returned, as a tensor without a graph."""
    case, facts = seen.request.parameters, seen.facts(0)
    right, unweighted = expected_of(seen.inputs, case["loss"]), mean_of_means(seen.inputs, case["loss"], case["rows"])
    hints = Hints(
        factors={"the number of micro-batches": float(len(case["rows"]))},
        others={"the mean of the micro-batches' means": unweighted["mean"]},
        suggestion="Sum the shares that you called backward on, detached.",
    )
    allowed = SIX_DIGITS * (1 + abs(float(right["mean"])))
    assert_close(seen.rank(0)["mean"], right["mean"], allowed=allowed, what="the mean loss that is returned", hints=hints)
    if facts["requires_grad"] or not facts["is_scalar"]:
        form = "is a tensor with a dimension" if facts["is_tensor"] else "is no tensor"
        raise LawBroken(
            Message(
                seen=f"What is returned {'requires grad' if facts['requires_grad'] else form}.",
                allowed="Expected: a detached scalar tensor.",
                diagnosis="The mean loss keeps a graph." if facts["requires_grad"] else f"The mean loss {form}.",
                suggestion="Who keeps the loss for a log would keep the graph with it: detach it."
                if facts["requires_grad"]
                else "Its shape is (), as that of a loss.",
            )
        )


def judge_diverged(seen: Any) -> None:
    """Where a micro-batch with counted targets is NaN, so are the mean and the gradients."""
    finite = [name for name in ("A.grad", "B.grad", "mean") if np.isfinite(seen.rank(0)[name]).all()]
    if finite:
        raise LawBroken(
            Message(
                seen=f"A micro-batch with counted targets has the loss NaN, and these are finite: {', '.join(finite)}.",
                allowed="Expected: NaN, as of the whole batch.",
                diagnosis="A run that diverged is taken for padding.",
                suggestion="Count the targets to know padding; the loss doesn't tell.",
            )
        )


def judge_calls(seen: Any) -> None:
    """The model ran once for each micro-batch with a counted target, in order, and not for others' sake."""
    rows, targets = seen.request.parameters["rows"], seen.inputs["targets"]
    starts = np.cumsum([0, *rows])
    counted = [n for n, a in zip(rows, starts, strict=False) if (targets[a : a + n] != IGNORED).any()]
    calls = seen.facts(0)["calls"]
    if calls not in (counted, list(rows)):
        raise LawBroken(
            Message(
                seen=f"The model is called on micro-batches of {calls} rows.",
                allowed=f"Expected: once on each that has a counted target, {counted}.",
                diagnosis="The model runs more or less often than there are micro-batches.",
                suggestion="One forward and one backward for each micro-batch is enough.",
            )
        )


# --- memory and training ---------------------------------------------------------------------------------------------
def run_large(observe: Any, *, num_micro_batches: int, depth: int, room_mib: int, **case: Any) -> Any:
    """Micro-batches that each keep `depth` tensors of 4 MiB, in a process that may grow by `room_mib` only."""

    def patterns(rng: np.random.Generator) -> dict[str, Array]:
        return {"x": rng.standard_normal((num_micro_batches, PATTERN)).astype(np.float32), "scale": np.float32(rng.uniform(0.5, 1, ()))}

    seen = observe("accumulated_large", transport="none", inputs=patterns, returns={"scale.grad": ("float32", ())}, depth=depth,
                   repeat=LARGE_REPEAT, limits=Limits(extra_bytes=room_mib * MiB), **case)  # fmt: skip
    return advised(seen, "memory", "Only one micro-batch's graph may be alive at a time: when is each freed?")


def advised(seen: Any, kind: str, advice: str) -> Any:
    """`seen` if the probe ended well; otherwise the blame, with advice if the fault is of this kind and no stub's."""
    try:
        return seen.require()
    except SubmissionError as blame:
        fault, message = blame.fault, blame.message
        if fault and fault.kind == kind and "NotImplementedError" not in fault.sentence:
            message = replace(message, suggestion=f"{advice} {message.suggestion}".strip())
        raise SubmissionError(message, fault) from None


def judge_large(seen: Any) -> None:
    """It came to an end, with the gradient of the mean of all."""
    x, scale, depth = seen.inputs["x"].astype(np.float64), float(seen.inputs["scale"]), seen.request.parameters["depth"]
    assert_scale_gradient(seen, float(np.mean(derivative_of_sines(x, scale, depth))))


def assert_scale_gradient(seen: Any, right: float) -> None:
    """The gradient that a run in little memory gives back: a mean of a million numbers in float32, added in blocks."""
    allowed = 1e-4 * (1 + abs(right))
    assert_close(seen.rank(0)["scale.grad"], np.asarray(right), allowed=allowed, what="the gradient of the scale")


def derivative_of_sines(x: Array, scale: float, depth: int) -> Array:
    """d/dscale of sin applied `depth` times to scale·x, by the chain rule."""
    value, slope = scale * x, x.copy()
    for _ in range(depth):
        value, slope = np.sin(value), slope * np.cos(value)
    return slope


def run_trained(observe: Any, *, rows: Sequence[int], num_steps: int, **case: Any) -> Any:
    """A small GPT trained by SGD on batches whose micro-batches have very different numbers of counted targets."""

    def batches(rng: np.random.Generator) -> dict[str, Array]:
        tokens = rng.integers(0, 13, (num_steps, sum(rows), 8))
        targets = rng.integers(0, 13, tokens.shape)
        for index, step in enumerate(targets):
            most = 3 if index % 2 else 8  # steps differ in all that is counted, too
            for row, kept in zip(step, rng.permutation(np.linspace(1, most, len(step)).astype(int)), strict=True):
                row[kept:] = IGNORED
        return {"tokens": tokens, "targets": targets}

    num_weights = 13 * 16 + 8 * 16 + (16 * 48 + 48) + (16 * 16 + 16) + (16 * 24 + 24) + (24 * 16 + 16) + 3 * 32
    returns = {f"{how}.{what}": ("float64", (size,)) for how in ("accumulated", "whole")
               for what, size in (("losses", num_steps), ("weights", num_weights))}  # fmt: skip
    return observe(
        "trained", transport="none", inputs=batches, returns=returns, rows=list(rows), num_steps=num_steps, learning_rate=0.5, **case
    )


def judge_trained(seen: Any) -> None:
    """Losses and weights are those of the run on the whole batch, but for roundings that each step may widen a little."""
    for name in ("losses", "weights"):
        ours, whole = seen.rank(0)[f"accumulated.{name}"], seen.rank(0)[f"whole.{name}"]
        allowed = 1e3 * ROUNDINGS if name == "weights" else SIX_DIGITS * (1 + np.abs(whole))
        hints = Hints(suggestion="Compare the gradients of the first step: does every counted token weigh the same?")
        assert_close(ours, whole, allowed=allowed, what=f"the {name} after training with SGD", hints=hints)
