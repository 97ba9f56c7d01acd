"""The judgements on checkpoint, checkpoint_sequential and selective_checkpoint. Oracles: the chain rule in float64, and counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal
from tests.laws.draws import draws_after
from tests.laws.recomputation.accumulation import ROUNDINGS, advised, rounded_in_float32
from tests.laws.sentences import broken

Array = np.ndarray[Any, Any]
Shapes = dict[str, tuple[int, ...]]

B, C, H, D = 5, 6, 7, 4
CHAIN: Shapes = {"x": (B, C), "w": (C, H), "v": (H, D), "dy": (B, D)}
# Both products of the mixture have one shape, so that nothing but the order tells their outputs apart.
MIXTURE: Shapes = {"x": (B, C), "w": (C, H), "v": (H, H), "dy": (B,)}


def drawn(shapes: Shapes, dtype: str = "float64") -> Callable[[np.random.Generator], dict[str, Array]]:
    """Random normal inputs."""
    return lambda rng: {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def doubles(**shapes: tuple[int, ...]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """float64 tensors that a probe gives back."""
    return {name: ("float64", shape) for name, shape in shapes.items()}


def assert_all(seen: Any, expected: dict[str, Array], *, suggestion: str = "", **hints: Any) -> None:
    """Every named tensor is as expected, within a few roundings of float64."""
    for name, right in expected.items():
        what = {"y": "the output", "dx": "the gradient of x"}.get(name, f"the gradient of {name[1:]}" if name[0] == "d" else name)
        allowed = ROUNDINGS * (1 + np.abs(right).max(initial=0.0))
        advice = rounded_in_float32(seen.rank(0)[name], right) or suggestion
        assert_close(seen.rank(0)[name], right, allowed=allowed, what=what, hints=Hints(suggestion=advice, **hints))


# --- gradients -------------------------------------------------------------------------------------------------------
def judge_chain(observe: Any, **case: Any) -> Any:
    """y = tanh(x w) v and its three gradients; what was seen."""
    returns = doubles(y=(B, D), dx=(B, C), dw=(C, H), dv=(H, D))
    seen = observe("chain", transport="none", inputs=drawn(CHAIN), returns=returns, **case)
    x, w, v, dy = (seen.inputs[name] for name in ("x", "w", "v", "dy"))
    hidden = np.tanh(x @ w)
    inner = dy @ v.T * (1 - hidden**2)
    expected = {"y": hidden @ v, "dx": inner @ w.T, "dw": x.T @ inner, "dv": hidden.T @ dy}
    twice = 2 * expected["dx"]
    if np.allclose(seen.rank(0)["dx"], twice, rtol=1e-9, atol=ROUNDINGS):
        raise broken(
            "The gradient of x is twice what it must be.",
            "Expected: as without checkpoint.",
            "The inner backward adds it to x, and autograd adds what backward returns.",
            "Recompute on detached tensors: then the inner backward ends at them and not in the caller's graph.",
        )
    assert_all(seen, expected)
    return seen


def judge_given_twice(observe: Any, **case: Any) -> None:
    """tanh(x) sin(x), x being both arguments: its gradient is the sum of both places'."""
    seen = observe("given_twice", transport="none", inputs=drawn({"x": (B, C), "dy": (B, C)}), returns=doubles(y=(B, C), dx=(B, C)), **case)
    x, dy = seen.inputs["x"], seen.inputs["dy"]
    right = dy * ((1 - np.tanh(x) ** 2) * np.sin(x) + np.tanh(x) * np.cos(x))
    hints = Hints(suggestion="Each place has its own gradient; autograd adds them up.")
    assert_close(seen.rank(0)["dx"], right, allowed=ROUNDINGS * (1 + np.abs(right).max()), what="the gradient of x, which is given twice",
                 hints=hints)  # fmt: skip


def judge_calls(calls: Sequence[int], in_backward: int = 1) -> None:
    """Of `calls` in forward and in all: once in forward, and so often in backward."""
    in_forward, in_all = calls
    if (in_forward, in_all) != (1, 1 + in_backward):
        raise broken(
            f"The function {'inside ' if in_backward > 1 else ''}is called {in_forward} times in forward and {in_all} in all.",
            f"Expected: once, and {'three times' if in_backward > 1 else 'twice'} in all.",
            "The function runs too often or too seldom.",
            "One forward without a graph, one recomputation with a graph, however many outputs; inside another checkpoint twice as many.",
        )


def run_several_outputs(observe: Any, used: Sequence[int], **case: Any) -> Any:
    """(x w, sin x, cos x without a graph, argmax x, √0), of which those in `used` go on: never the last, whose slope is infinite."""
    shapes: Shapes = {"x": (B, C), "w": (C, H), "dy0": (B, H), "dy1": (B, C), "dy2": (B, C)}
    returns = doubles(product=(B, H), sine=(B, C), cosine=(B, C), dx=(B, C), dw=(C, H)) | {"largest": ("int64", (B,))}
    seen = observe("several_outputs", transport="none", inputs=drawn(shapes), returns=returns, used=list(used), **case)
    return advised(seen, "raised", "There are several outputs: some aren't used, one is of integers, one is of floats and has no graph.")


def judge_several_outputs(seen: Any) -> None:
    """The outputs that have no gradient, or get none, don't disturb."""
    used, x, w = seen.request.parameters["used"], seen.inputs["x"], seen.inputs["w"]
    d0, d1 = (seen.inputs[f"dy{index}"] * (index in used) for index in (0, 1))
    if np.isnan(seen.rank(0)["dx"]).any():
        raise broken(
            "The gradient of x is NaN, where one output has an infinite slope and isn't used.",
            "Expected: as without checkpoint, where backward doesn't come by that output.",
            "Zeros go backward through an output that nobody used: 0 times infinity.",
            "ctx.set_materialize_grads(False) in forward: then its gradient is None, and it can be left out.",
        )
    assert_equal(seen.rank(0)["largest"], x.argmax(-1), what="the integer output")
    assert_all(seen, {"product": x @ w, "sine": np.sin(x), "cosine": np.cos(x), "dx": d0 @ w.T + d1 * np.cos(x), "dw": x.T @ d0})


def judge_arguments(observe: Any, **case: Any) -> None:
    """sin(x)·scale² + 1.5·table[rows]·x, called with None, a number, a string, integers and keyword tensors."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        normal = drawn({"x": (B, C), "scale": (C,), "table": (9, C), "dy": (B, C)})(rng)
        return normal | {"rows": rng.integers(0, 9, B)}

    seen = observe("many_arguments", transport="none", inputs=inputs, returns=doubles(y=(B, C), dx=(B, C), dscale=(C,)), **case)
    advised(seen, "raised", "Does every argument come back in its own position or under its own keyword, None too?")
    x, scale, dy, looked_up = (*(seen.inputs[name] for name in ("x", "scale", "dy")), seen.inputs["table"][seen.inputs["rows"]])
    assert_all(
        seen,
        {
            "y": np.sin(x) * scale**2 + 1.5 * looked_up * x,
            "dx": dy * (np.cos(x) * scale**2 + 1.5 * looked_up),
            "dscale": 2 * scale * ((dy * np.sin(x)).sum(0) + 1),
        },
        suggestion="Are tensors put back where they were taken from, those given by keyword too?",
    )
    if seen.facts(0)["table_has_gradient"]:
        raise broken(
            "A tensor that does not require grad has a gradient.",
            "Expected: none.",
            "A constant gets a gradient.",
            "Detached tensors require grad as the originals did, not always.",
        )


def judge_token_inputs(observe: Any, **case: Any) -> None:
    """table[rows] v: the only argument is integers."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        return drawn({"table": (9, C), "v": (C, D), "dy": (B, D)})(rng) | {"rows": rng.integers(0, 9, B)}

    seen = observe("token_inputs", transport="none", inputs=inputs, returns=doubles(y=(B, D), dtable=(9, C), dv=(C, D)), **case)
    table, v, dy, rows = (seen.inputs[name] for name in ("table", "v", "dy", "rows"))
    d_table = np.zeros_like(table)
    np.add.at(d_table, rows, dy @ v.T)
    assert_all(seen, {"y": table[rows] @ v, "dtable": d_table, "dv": table[rows].T @ dy})


def judge_overwritten(observe: Any, **case: Any) -> None:
    """An input that was changed in place before backward is an error."""
    seen = observe("chain", transport="none", inputs=drawn(CHAIN), returns={}, in_between="overwrite", **case)
    if seen.facts(0)["raised"] == "nothing":
        raise broken(
            "An argument is changed in place after forward, and backward recomputes with it as if nothing were wrong.",
            "Expected: autograd's error about a variable that was modified in place.",
            "A changed input goes unnoticed.",
            "save_for_backward remembers each tensor's version; an attribute of ctx does not.",
        )


# --- surroundings ----------------------------------------------------------------------------------------------------
def run_noisy(observe: Any, noise: str, in_between: str, **case: Any) -> Any:
    """noise(x w), with what else may happen to the generator between forward and backward."""
    shapes: Shapes = {"x": (B, C), "w": (C, H), "dy": (B, H)}
    numbers = dict.fromkeys(("after_plain", "after_forward", "before_backward", "after_backward"), (4,))
    returns = doubles(y_plain=(B, H), y=(B, H), dx=(B, C), dw=(C, H), **numbers)

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        normal = drawn(shapes)(rng)
        return normal | {"seed": np.asarray(rng.integers(0, 2**31))} if in_between == "seed" else normal

    return observe("noisy", transport="none", inputs=inputs, returns=returns, noise=noise, in_between=in_between, **case)


def judge_noise(seen: Any) -> None:
    """Forward draws what a plain call draws and no more, and gradients have the noise of the output: what forward drew is y / (x w)."""
    x, w, dy = (seen.inputs[name] for name in ("x", "w", "dy"))
    answer, advice = seen.rank(0), "In forward the function runs as without checkpoint: leave its random state alone."
    assert_equal(answer["y"], answer["y_plain"], what="the output of forward, as of a plain call", hints=Hints(suggestion=advice))
    assert_equal(
        answer["after_forward"], answer["after_plain"], what="the random numbers that come after forward", hints=Hints(suggestion=advice)
    )
    drawn_in_forward = answer["y"] / (x @ w)
    inner = dy * drawn_in_forward
    expected = {"dx": inner @ w.T, "dw": x.T @ inner}
    for name, right in expected.items():
        allowed = 1e3 * ROUNDINGS * (1 + np.abs(right).max())  # the quotient loses where x w is near zero
        advice = "The recomputation drew other random numbers than forward did: which state did the generator have when forward began?"
        what = f"the gradient of {name[1:]}, with the noise of the output"
        assert_close(seen.rank(0)[name], right, allowed=allowed, what=what, hints=Hints(suggestion=advice))


def judge_generator(seen: Any) -> None:
    """Backward leaves the generator where it was."""
    answer, advice = seen.rank(0), "Put back the random state that was there before the recomputation."
    what = "the random numbers that come after backward"
    assert_equal(answer["after_backward"], answer["before_backward"], what=what, hints=Hints(suggestion=advice))
    if "seed" in seen.inputs and seen.request.device != "cuda":  # there they are another generator's
        right = draws_after(int(seen.inputs["seed"]), len(answer["after_backward"]))
        assert_equal(answer["after_backward"], right, what=f"{what}, of the seed set before it", hints=Hints(suggestion=advice))


def judge_autocast(observe: Any, *, forward: str, backward: str, **case: Any) -> None:
    """The function ran twice in the dtype of the forward's autocast, and the gradients are a product's in that dtype."""
    shapes: Shapes = {"x": (B, C), "w": (C, H), "dy": (B, H)}
    returns = {"dx": ("float32", (B, C)), "dw": ("float32", (C, H))}
    seen = observe(
        "autocasted", transport="none", inputs=drawn(shapes, "float32"), returns=returns, forward=forward, backward=backward, **case
    )
    dtype = "float32" if forward == "none" else forward
    inside = seen.facts(0)["inside"]
    if inside != [dtype, dtype]:
        raise broken(
            f"With {said(forward)} in forward and {said(backward)} around backward the product is {' then '.join(inside)}.",
            f"Expected: {dtype} both times.",
            "The recomputation runs under another autocast than forward.",
            "Remember whether autocast is on, and with which dtype; enter it again, also where it was off.",
        )
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rounded = {name: seen.inputs[name].astype(kind).astype(np.float64) for name in shapes}
    # Backward's own products are cast as well, if it is called under an autocast.
    narrowest = max(float(ml_dtypes.finfo(getattr(ml_dtypes, name, name)).eps) for name in (dtype, backward) if name != "none")
    u = narrowest / 2
    for name, left, right in (("dx", rounded["dy"], rounded["w"].T), ("dw", rounded["x"].T, rounded["dy"])):
        # Each factor may be rounded once and the product once; a sum in float32 loses hardly anything.
        allowed = (3 * u + 1e-5) * (np.abs(left) @ np.abs(right))
        assert_close(seen.rank(0)[name], left @ right, allowed=allowed, what=f"the gradient of {name[1:]} under {said(forward)}")


def said(autocast: str) -> str:
    """An autocast in words."""
    return "no autocast" if autocast == "none" else f"an autocast to {autocast}"


def judge_without_gradients(observe: Any, **case: Any) -> None:
    """Under no_grad: one call, no graph."""
    inputs = drawn({"x": (B, C), "times": (B, C)})
    seen = observe("without_gradients", transport="none", inputs=inputs, returns=doubles(y=(B, C)), **case)
    facts = seen.facts(0)
    if facts["num_calls"] != 1 or facts["requires_grad"]:
        raise broken(
            f"Under no_grad the function is called {facts['num_calls']} times; its output requires grad: {facts['requires_grad']}.",
            "Expected: one call, and none required.",
            "Without gradients the function is not just called.",
            "Ask torch.is_grad_enabled() first.",
        )
    x, times = seen.inputs["x"], seen.inputs["times"]
    others = {"what comes without the keyword arguments": np.sin(x)}
    assert_all(seen, {"y": np.sin(x) ** 2 * times}, others=others, question="Is the function given everything under no_grad, too?")
