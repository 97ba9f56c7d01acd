"""The judgements on a training step. Oracles: a linear model's gradient by hand, and a GPT in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, bound, unit_roundoff
from tests.laws.mixed_precision.formats import Array, as_format
from tests.laws.sentences import broken

VOCABULARY, ROWS, TOKENS = 31, 3, 10
SHARE_OF_THE_FALL = 0.35  # over ten seeds 16 bits were off by at most 0.22 of it; weights that don't move are off by all of it
NUM_WEIGHTS = 31 * 32 + 12 * 32 + 2 * ((32 * 64 + 64) + (32 * 32 + 32) + (32 * 48 + 48) + (48 * 32 + 32) + 4 * 32) + 64  # the probe's GPT


FEWER_BITS = "Does an operation run in fewer bits than the policy says, or are gradients rounded once more on their way?"


# --- the step --------------------------------------------------------------------------------------------------------
def judge_clipped(observe: Any, *, max_norm: float | None, scale: float | None, masters: bool, **case: Any) -> None:
    """A linear model's gradient is clipped in its true size, the report has loss and norm before clipping, the weights step by it."""
    shapes = {"x": (6, 5), "w": (5, 3), "y": (6, 3)}
    returns = {"given": ("float64", (5, 3)), "figures": ("float64", (2,)), "w": ("float64", (5, 3))}
    seen = observe(
        "clipped",
        transport="none",
        inputs=lambda rng: {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()},
        returns=returns,
        max_norm=max_norm,
        scale=scale,
        masters=masters,
        **case,
    )
    x, w, y = (seen.inputs[name].astype(np.float64) for name in ("x", "w", "y"))
    w = as_format(w, "bfloat16") if masters else w
    error = x @ w - y
    gradient = 2 * x.T @ error
    norm = np.sqrt((gradient**2).sum())
    u = unit_roundoff("bfloat16") if masters else 1e-5  # the gradient of a bf16 weight is rounded once
    limit = np.inf if max_norm is None else max_norm
    right = gradient * min(1.0, limit / (norm + 1e-6))  # torch.nn.utils.clip_grad_norm_'s own 1e-6
    others = {"clipped by the norm of gradients that are scaled still": gradient * min(1.0, limit / (norm * scale))} if scale else {}
    factors = {"the scale": scale or 1.0, "max_norm": max_norm or 1.0}
    hints = Hints(factors=factors, others=others, suggestion="Unscale, then clip, then step.")
    assert_close(
        seen.rank(0)["given"],
        right,
        allowed=2 * u * (np.abs(right) + np.abs(right).max()),
        what=f"the gradient that is stepped with, clipped to a norm of {limit:g} where it is larger",
        hints=hints,
    )
    figures = np.asarray([(error**2).sum(), norm])
    assert_close(seen.rank(0)["figures"], figures, allowed=2 * u * figures, what="loss and gradient_norm of the report", hints=hints)
    stepped = as_format(w - 0.1 * right, "bfloat16") if masters else w - 0.1 * right
    assert_close(seen.rank(0)["w"], stepped, allowed=4 * u * (1 + np.abs(stepped)), what="the weights after the step", hints=hints)
    if set(seen.facts(0)["figures_are"]) != {"float"}:
        raise broken(
            f"loss and gradient_norm of the report are {' and '.join(seen.facts(0)['figures_are'])}.",
            "Expected: float and float.",
            "The report holds no plain numbers.",
            "A loss that is kept as a tensor keeps its graph, and with it the step's activations.",
        )
    if seen.facts(0)["gradient_left"] or not seen.facts(0)["stepped"]:
        raise broken(
            "The weights still have a gradient." if seen.facts(0)["gradient_left"] else "The report says that it did not step.",
            "Expected: a step, and no gradient left.",
            "The step is not ended as it should be.",
            "zero_grad comes last.",
        )


def judge_step_gradients(observe: Any, *, policy: str, scale: float | None, **case: Any) -> None:
    """Tensor by tensor no further from float64 than twice a plain implementation in the same dtypes."""
    returns = dict.fromkeys(("ours", "plain", "exact"), ("float64", (NUM_WEIGHTS,)))

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = {name: rng.integers(0, VOCABULARY, (ROWS, TOKENS)) for name in ("tokens", "targets")}
        return drawn | {"one": np.ones((1, 1), np.float32)}

    seen = observe("step_gradients", transport="none", inputs=inputs, returns=returns, policy=policy, scale=scale, **case)
    ours, plain, exact = (seen.rank(0)[name] for name in ("ours", "plain", "exact"))
    if seen.facts(0)["logits"] != [policy]:
        raise broken(
            f"In a step with CastPolicy({policy}) the model's head gives {', '.join(seen.facts(0)['logits']) or 'nothing'}.",
            f"Expected: {policy}, once.",
            "The forward does not run under the policy, or not once.",
            "Enter the policy around model and loss; exact gradients in float32 are not what was asked for.",
        )
    if seen.facts(0)["products"] != [policy]:
        raise broken(
            f"A product inside of `loss`, in a step with CastPolicy({policy}), gives {', '.join(seen.facts(0)['products']) or 'nothing'}.",
            f"Expected: {policy}, once.",
            "The loss is not computed under the policy, or not once.",
            "loss(model(inputs), targets) runs under the policy as a whole: outside of it a loss of 16-bit logits is 16-bit too.",
        )
    u, start = unit_roundoff(policy), 0
    for index, size in enumerate(seen.facts(0)["sizes"]):
        part = slice(start, start + size)
        # A gradient comes through at least four products that round one after the other: two of its block, forward and backward.
        allowed = bound(policy, plain_error=np.abs(plain[part] - exact[part]), derived=4 * u * np.abs(exact[part]).max())
        hints = Hints(factors={"the scale": scale or 1.0}, suggestion=FEWER_BITS)
        assert_close(
            ours[part], exact[part], allowed=allowed, what=f"the gradient of parameter {index} of a GPT under {policy}", hints=hints
        )
        start += size


def judge_curve(observe: Any, *, way: str, num_steps: int, **case: Any) -> None:
    """A GPT's losses stay near those in float32, by the measure of how far these fall."""
    returns = dict.fromkeys(("plain", "ours"), ("float64", (num_steps,)))

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        tokens = np.tile(rng.integers(0, VOCABULARY, (1, ROWS, TOKENS)), (num_steps, 1, 1))
        return {"tokens": tokens, "targets": np.roll(tokens, -1, axis=2)}

    seen = observe("curves", transport="none", inputs=draw, returns=returns, way=way, num_steps=num_steps, learning_rate=0.05, **case)
    plain, ours = seen.rank(0)["plain"], seen.rank(0)["ours"]
    # Roundings move the moment at which the loss begins to fall; a step that goes elsewhere is off by the whole fall.
    allowed = SHARE_OF_THE_FALL * float(plain.max() - plain.min())
    hints = Hints(suggestion="Compare the gradients of the first step with those in float32; then look at what the weights lose.")
    assert_close(ours, plain, allowed=allowed, what=f"the losses with {way}, against float32", hints=hints)


def judge_diverged(observe: Any, **case: Any) -> None:
    """Without a scaler nothing is skipped: the step is taken, and reported."""
    shapes = {"x": (6, 5), "w": (5, 3), "y": (6, 3)}
    inputs = lambda rng: {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}  # noqa: E731
    facts = observe("step_that_diverges", transport="none", inputs=inputs, **case).facts(0)
    if not facts["stepped"] or facts["is_finite"]:
        raise broken(
            f"A step without a scaler whose loss is infinite: the report says {'stepped' if facts['stepped'] else 'not stepped'}, "
            f"the weights are {'finite' if facts['is_finite'] else 'not finite'}.",
            "Expected: a step like any other.",
            "A step is skipped though there is no scaler.",
            "Only the scaler skips, and lowers its scale; without one a run that has diverged would go unnoticed.",
        )


def judge_overflowing_step(observe: Any, **case: Any) -> None:
    """Three steps, the second overflows: it is reported, changes nothing but the scale, and the third goes on."""
    shapes = {"x": (6, 5), "w": (5, 3), "y": (6, 3)}
    returns = {"weights": ("float64", (4, 5, 3)), "scales": ("float64", (3,))}
    seen = observe(
        "overflowing_step",
        transport="none",
        inputs=lambda rng: {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()},
        returns=returns,
        **case,
    )
    weights, scales, facts = seen.rank(0)["weights"], seen.rank(0)["scales"].tolist(), seen.facts(0)
    assert_equal(weights[2], weights[1], what="the weights after a step that overflows")
    moved = [not np.array_equal(weights[at], weights[at + 1]) for at in (0, 2)]
    if facts["stepped"] != [True, False, True] or not all(moved) or facts["gradient_left"]:
        raise broken(
            f"Three steps, the second overflows: the reports say {facts['stepped']}; the weights move in the others: {moved}.",
            "Expected: [True, False, True], no gradient left.",
            "An overflow is not skipped, not reported, or stops what follows.",
            "Report what scaler.step returned; update and zero_grad come in any case.",
        )
    if scales != [64.0, 32.0, 32.0]:
        raise broken(
            f"The scale is {scales} after the three steps.",
            "Expected: [64, 32, 32].",
            "The step that overflows doesn't lower the scale.",
            "Call update after step.",
        )
