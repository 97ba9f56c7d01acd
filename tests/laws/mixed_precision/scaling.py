"""The judgements on the loss scaler. Oracles: the published rule in a few lines, and the gradients without a scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from tests.laws.mixed_precision.formats import Array
from tests.laws.sentences import broken


# --- the published rule ----------------------------------------------------------------------------------------------
def published_scales(
    pattern: Sequence[int], *, init_scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
) -> list[float]:
    """The scale at first and after each step; pattern: 1 for an overflow.

    The rule of torch.amp.GradScaler (documentation of `growth_interval` and `update`; after Micikevicius et al. 2018, section 3.2):
    back off after every overflow; grow after growth_interval steps in a row without one. Written without a counter: growth comes at
    every growth_interval-th good step since the scale last changed or the last overflow.
    """
    scale, scales, good_since = init_scale, [init_scale], 0
    for step, overflow in enumerate(pattern):
        if overflow:
            scale, good_since = scale * backoff_factor, step + 1
        elif step + 1 - good_since == growth_interval:
            scale, good_since = scale * growth_factor, step + 1
        scales.append(scale)
    return scales


def judge_trajectory(
    observe: Any,
    *,
    settings: dict[str, Any],
    num_steps: int,
    overflow_probability: float,
    resume_at: int = -1,
    calls_unscale: bool = False,
    **case: Any,
) -> None:
    """The scale after every update is the rule's, for overflows that come at random, alone and in runs; good steps step."""

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        pattern = rng.random(num_steps) < overflow_probability
        quiet = int(rng.integers(0, num_steps // 2))
        pattern[quiet : quiet + num_steps // 3] = False  # long enough to grow
        return {"pattern": pattern.astype(np.int64)}

    returns = {"scales": ("float64", (num_steps + 1,))}
    seen = observe(
        "trajectory",
        transport="none",
        inputs=draw,
        returns=returns,
        settings=settings,
        resume_at=resume_at,
        calls_unscale=calls_unscale,
        **case,
    )
    pattern = seen.inputs["pattern"].tolist()
    right = np.asarray(published_scales(pattern, **settings))
    got = seen.rank(0)["scales"]
    off = np.flatnonzero(np.abs(got - right) > 1e-6 * right)  # a scale that is kept in float32 is right too
    if off.size:
        at = int(off[0])
        told = "".join("x" if overflow else "." for overflow in pattern[:at])
        raise broken(
            f"With {settings}, after the steps {told} (x: an overflow) the scale is {got[at]:g}.",
            f"Expected: {right[at]:g}.",
            suspicion(got, right, pattern, at, resume_at),
            "Back off after an overflow; grow after growth_interval good steps in a row, counted anew after each change.",
        )
    if seen.facts(0)["stepped"] != [not overflow for overflow in pattern]:
        raise broken(
            "step returns something else than whether it stepped.",
            "Expected: True for a step, False for a skipped one.",
            "step doesn't say whether it stepped.",
            "Return a bool.",
        )


def suspicion(got: Array, right: Array, pattern: Sequence[int], at: int, resume_at: int) -> str:
    """What the first wrong scale looks like."""
    before, overflow = got[at - 1] if at else got[0], at > 0 and pattern[at - 1]
    if at == 0:
        return "The scale is another one from the start."
    if 0 <= resume_at < at and np.all(np.abs(got[: resume_at + 1] - right[: resume_at + 1]) <= 1e-6 * right[: resume_at + 1]):
        return "It is right until the state is loaded: something is not saved (settings, the count of good steps), or goes on changing."
    if overflow:
        return "The scale is not lowered after an overflow." if got[at] >= before else "The scale is lowered by another factor."
    if right[at] > right[at - 1]:
        return "The scale does not grow when it should."
    return "The scale grows too early: is the count of good steps set to 0 after an overflow and after growth?"


# --- scaling and unscaling -------------------------------------------------------------------------------------------
def judge_scaled(observe: Any, scale: float, **case: Any) -> None:
    """Loss and gradient are `scale` times those of a sum of squares."""
    returns = {"loss": ("float64", ()), "dx": ("float64", (12,))}
    seen = observe(
        "scaled",
        transport="none",
        inputs=lambda rng: {"x": rng.standard_normal(12).astype(np.float32)},
        returns=returns,
        scale=scale,
        **case,
    )
    x = seen.inputs["x"].astype(np.float64)
    hints = Hints(factors={"the scale": scale})
    assert_close(
        seen.rank(0)["loss"], np.asarray(scale * (x**2).sum()), allowed=1e-5 * scale * (x**2).sum(), what="the scaled loss", hints=hints
    )
    assert_close(
        seen.rank(0)["dx"], scale * 2 * x, allowed=1e-5 * scale * (1 + np.abs(x)), what="the gradient of the scaled loss", hints=hints
    )


def judge_unscaled(observe: Any, *, scale: float, how: str, **case: Any) -> None:
    """The optimizer steps with the true gradients, in two steps in a row; a second unscale_ in a step is refused."""
    shape = dict.fromkeys(("x", "y", "g"), (9,))
    seen = observe(
        "unscaled",
        transport="none",
        inputs=lambda rng: {n: rng.standard_normal(s).astype(np.float32) for n, s in shape.items()},
        returns={"gradients": ("float64", (2, 2, 9))},
        scale=scale,
        how=how,
        **case,
    )
    g = np.broadcast_to(seen.inputs["g"].astype(np.float64), (2, 2, 9))
    ways = {"step": "step alone unscales", "unscale": "unscale_ was called before step", "twice": "unscale_ was called twice"}
    told = (ways | {"after": "step unscales, and unscale_ was called after it"})[how]
    hints = Hints(factors={"the scale": scale}, suggestion="Remember within a step that it was done, and forget it in update.")
    what = f"the gradients that the optimizer steps with, where {told}"
    assert_close(seen.rank(0)["gradients"], g, allowed=1e-6 * (1 + np.abs(g)), what=what, hints=hints)
    if not seen.facts(0).get("in_place", True) or seen.facts(0)["scale_is"] != "float":
        is_new = not seen.facts(0).get("in_place", True)
        raise broken(
            "After unscale_ the parameter has another tensor as its gradient."
            if is_new
            else f"get_scale() gives a {seen.facts(0)['scale_is']}.",
            "Expected: the same tensor, divided in place." if is_new else "Expected: a Python float.",
            "The gradient is replaced." if is_new else "The scale is no Python float.",
            "Whoever holds the gradient, a bucket or a view of it, wouldn't see what happened." if is_new else "float(...) makes it one.",
        )
    second = seen.facts(0).get("second", "RuntimeError")
    if second != "RuntimeError":
        told = "is done as if it were the first" if second == "nothing" else f"raises {second}"
        raise broken(
            f"A second unscale_ in the same step {told}.",
            "Expected: RuntimeError.",
            "A second unscale_ is not refused with RuntimeError.",
            "Gradients divided twice are too small by the scale, silently: better an error.",
        )


def judge_overflow(observe: Any, *, where: int, what: str, masters: bool, unscale_first: bool = False, **case: Any) -> None:
    """A step with one gradient that isn't finite changes no bit of weights, masters, moments and step counts; the next step goes on."""
    returns = dict.fromkeys(("before", "after", "last"), ("float64", (400,)))
    inputs = lambda rng: {name: rng.standard_normal((4, 6)).astype(np.float32) for name in ("w", "g")}  # noqa: E731
    seen = observe(
        "overflown",
        transport="none",
        inputs=inputs,
        returns=returns,
        where=where,
        what=what,
        masters=masters,
        unscale_first=unscale_first,
        **case,
    )
    answer, stepped = seen.rank(0), seen.facts(0)["stepped"]
    if what == "huge":
        if stepped != [True, True, True]:
            raise broken(
                f"Gradients of 3e38, all finite: step returns {stepped}.",
                "Expected: [True, True, True].",
                "A step with finite gradients is skipped.",
                "Ask each element whether it is finite; a sum or a norm of finite numbers may overflow.",
            )
        return
    advice = "Look at every element of every gradient before anything steps."
    place = f"a gradient of {what} in the last place of parameter {where} of 4"
    if stepped[1]:
        raise broken(f"With {place}, step returns True.", "Expected: False, and nothing has changed.", "The step is not skipped.", advice)
    told = f"weights, {'masters, ' * masters}moments and step counts after a step skipped for {place}"
    assert_equal(answer["after"], answer["before"], what=told, hints=Hints(suggestion=advice))
    if stepped != [True, False, True] or np.array_equal(answer["last"], answer["after"]):
        raise broken(
            f"Of three steps, the second with an overflow, step returns {stepped}.",
            "Expected: [True, False, True], and the third changes weights.",
            "A step is skipped that should not be, or the other way round.",
            "What is found in one step is forgotten in update.",
        )


def judge_tiny_gradients(observe: Any, scale: float, **case: Any) -> None:
    """Gradients that fp16 would round to zero reach the optimizer, as exact as fp16 is where the scale has lifted them to."""

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        tiny = rng.choice([-1, 1], 16) * 10 ** rng.uniform(-9.5, -8.2, 16)
        return {"w": rng.standard_normal(16).astype(np.float32), "g": tiny.astype(np.float32)}

    seen = observe("tiny_gradients", transport="none", inputs=draw, returns={"given": ("float64", (16,))}, scale=scale, **case)
    right = seen.inputs["g"].astype(np.float64)
    others = {"0, as a quotient in fp16 is": np.zeros_like(right)}
    hints = Hints(factors={"the scale": scale}, others=others, suggestion="First to float32, then divide.")
    allowed = 2 * unit_roundoff("float16") * np.abs(right)
    assert_close(
        seen.rank(0)["given"],
        right,
        allowed=allowed,
        what="gradients below fp16's range, as the optimizer gets them",
        hints=hints,
    )
