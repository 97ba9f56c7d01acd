"""The judgements on casts. Oracles: each operation's formula in float64, and ml_dtypes' own rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, bound, unit_roundoff
from tests.laws.mixed_precision.formats import Array, as_format
from tests.laws.sentences import broken

NARROW = (
    "linear",
    "matmul",
    "at_sign",
    "mm",
    "bmm",
    "mv",
    "addmm",
    "baddbmm",
    "einsum",
    "einsum_of_a_list",
    "product_of_no_rows",
    "conv1d",
    "conv2d",
    "conv3d",
    "scaled_dot_product_attention",
)
AS_GIVEN = ("gelu", "relu", "tanh", "add", "mul", "cat", "transpose", "dropout", "maximum")
LABELS = np.arange(4)  # the targets of the losses


def log_softmax(a: Array) -> Array:
    """By its definition, with the largest taken out."""
    shifted = a - a.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def normalised(a: Array, epsilon: float = 1e-5) -> Array:
    """Mean 0 and variance 1 over the last dim."""
    return np.asarray((a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + epsilon))


# The probe's operations on a, b (4 x 4) and v (4), worked out in float64.
WIDE: dict[str, Callable[[Array, Array, Array], Array | float]] = {
    "softmax": lambda a, b, v: np.exp(log_softmax(a)),
    "softmax_method": lambda a, b, v: np.exp(log_softmax(a)),
    "log_softmax": lambda a, b, v: log_softmax(a),
    "logsumexp": lambda a, b, v: np.log(np.exp(a).sum(0)),
    "exp": lambda a, b, v: np.exp(a),
    "exp_of_a_number": lambda a, b, v: np.exp(v[0]),
    "log": lambda a, b, v: np.log(np.abs(a)),
    "pow": lambda a, b, v: a**3,
    "power_sign": lambda a, b, v: a**2,
    "power_of_a_number": lambda a, b, v: 2.0**a,
    "rsqrt": lambda a, b, v: 1 / np.sqrt(np.abs(a)),
    "sum": lambda a, b, v: a.sum(),
    "sum_of_nothing": lambda a, b, v: 0.0,
    "mean": lambda a, b, v: a.mean(),
    "prod": lambda a, b, v: v.prod(),
    "cumsum": lambda a, b, v: a.cumsum(0),
    "var": lambda a, b, v: a.var(ddof=1),
    "std": lambda a, b, v: a.std(ddof=1),
    "norm": lambda a, b, v: np.sqrt((a**2).sum()),
    "layer_norm": lambda a, b, v: normalised(a) * v,
    "rms_norm": lambda a, b, v: a / np.sqrt((a**2).mean(-1, keepdims=True)) * v,
    "group_norm": lambda a, b, v: normalised(a.reshape(4, 2, 2)).reshape(4, 4) * v,
    "cross_entropy": lambda a, b, v: -log_softmax(a)[LABELS, LABELS].mean(),
    "nll_loss": lambda a, b, v: -a[LABELS, LABELS].mean(),
    "mse_loss": lambda a, b, v: ((a - b) ** 2).mean(),
}
SUMS = ("sum", "mean", "cumsum", "nll_loss")
ALSO_WIDE = (*WIDE, "binary_cross_entropy_with_logits")


def numbers(rng: np.random.Generator) -> dict[str, Array]:
    """The probe's a, b and v.

    Beyond 11 exp leaves fp16; a few large numbers among small ones. The norms take off a mean, which of two neighbours that are large
    and nearly equal leaves nothing but roundings: so neighbours have other signs.
    """
    size = np.where(rng.random((4, 4)) < 0.4, rng.uniform(8, 12, (4, 4)), np.abs(rng.standard_normal((4, 4))))
    drawn = {"a": size * [1, -1, 1, -1], "b": rng.standard_normal((4, 4)), "v": rng.uniform(0.5, 1.5, 4)}
    return {name: array.astype(np.float32) for name, array in drawn.items()}


def right_and_allowed(name: str, a: Array, b: Array, v: Array) -> tuple[Array, Array]:
    """What a wide operation gives, flat, and how far float32 may be from it: 16 numbers; a sum may lose in proportion to its terms."""
    right = np.asarray(WIDE[name](a, b, v), np.float64).reshape(-1)
    terms = np.max(np.abs(WIDE[name](np.abs(a), b, v))) if name in SUMS else 0.0
    return right, 1e-5 * (np.abs(right) + np.abs(right).max() + terms)


def judge_dtypes(observe: Any, names: Sequence[str], *, given: str, policy: str, expected: str, **case: Any) -> Any:
    """Each operation's output has the dtype that it should run in."""
    seen = observe(
        "operations",
        transport="none",
        inputs=numbers,
        returns={"values": ("float64", (len(names), 32))},
        names=list(names),
        given=given,
        policy=policy,
        **case,
    )
    dtypes = seen.facts(0)["dtypes"]
    wrong = {name: dtype for name, dtype in dtypes.items() if dtype != expected}
    if wrong:
        name, dtype = next(iter(wrong.items()))
        raise broken(
            f"Given {given} under CastPolicy({policy}), {name} gives {dtype}; off are {', '.join(wrong)}, {len(wrong)} of {len(dtypes)}.",
            f"Expected: {expected}.",
            f"{name} gives {dtype} where {expected} is right.",
            "Section 3 lists what is narrow, what is wide, and what is left as given; func.__name__ tells them apart.",
        )
    return seen


def judge_wide_values(seen: Any) -> None:
    """What gives float32 was computed in it: values are those of float64 but for float32's rounding."""
    kind = seen.request.parameters["given"]
    a, b, v = (as_format(seen.inputs[name].astype(np.float64), kind) for name in ("a", "b", "v"))
    for row, name in zip(seen.rank(0)["values"], seen.request.parameters["names"], strict=True):
        if name in WIDE:
            right, allowed = right_and_allowed(name, a, b, v)
            advice = "Cast before the operation; what it has lost in 16 bits doesn't come back by a cast of its output."
            assert_close(row[: right.size], right, allowed=allowed, what=f"{name} of {kind}", hints=Hints(suggestion=advice))


def judge_untouched(observe: Any, policy: str, **case: Any) -> None:
    """float64, integers, masks and numbers pass through."""
    expected = {
        "float64 product": "float64",
        "float64 softmax": "float64",
        "integer sum": "int64",
        "integer cumsum": "int64",
        "embedding": "float32",
        "masked attention": policy,
        "numbers": "float32",
    }

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        return {"d": rng.standard_normal((4, 4)), "f": rng.standard_normal((4, 4)).astype(np.float32), "i": rng.integers(0, 4, 4)}

    dtypes = observe("untouched", transport="none", inputs=inputs, policy=policy, **case).facts(0)["dtypes"]
    for name, dtype in expected.items():
        if dtypes[name] != dtype:
            raise broken(
                f"{name} under CastPolicy({policy}): {dtypes[name]}.",
                f"Expected: {dtype}.",
                f"{name} is not left alone.",
                "Only tensors in float32, float16 or bfloat16 are cast.",
            )


def judge_product_gradients(observe: Any, policy: str, *, evaluates_first: bool = False, **case: Any) -> None:
    """float32 gradients of a narrow product: each the product of the rounded factors, rounded once."""
    shapes = {"x": (6, 8), "w": (5, 8), "dy": (6, 5)}
    returns = {"dx": ("float32", (6, 8)), "dw": ("float32", (5, 8))}
    seen = observe(
        "product_gradients",
        transport="none",
        inputs=lambda rng: {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()},
        returns=returns,
        policy=policy,
        evaluates_first=evaluates_first,
        **case,
    )
    if seen.fault is not None and "does not require grad" in seen.fault.sentence:
        raise broken(
            seen.fault.sentence,
            "Expected: a graph from the product back to both float32 factors.",
            "A cast is outside of the graph" + (", and the same product was made under no_grad before." if evaluates_first else "."),
            "A cast is an operation like any other: make it anew, with its graph, and keep none that was made under no_grad.",
        )
    x, w, dy = (as_format(seen.inputs[name].astype(np.float64), policy) for name in ("x", "w", "dy"))
    u = unit_roundoff(policy)
    for name, left, right in (("dx", dy, w), ("dw", dy.T, x)):
        allowed = 2 * u * np.abs(left @ right) + 1e-5 * (np.abs(left) @ np.abs(right))  # the output rounds once; float32 sums
        assert_close(seen.rank(0)[name], left @ right, allowed=allowed, what=f"the gradient of {name[1:]}")


def judge_logits(observe: Any, policy: str, **case: Any) -> None:
    """No further from float64 than twice a plain implementation in the same dtypes."""
    shape = (3, 10, 31)
    returns = dict.fromkeys(("exact", "plain", "ours"), ("float64", shape))
    seen = observe(
        "logits", transport="none", inputs=lambda rng: {"tokens": rng.integers(0, 31, (3, 10))}, returns=returns, policy=policy, **case
    )
    exact, plain, ours = (seen.rank(0)[name] for name in ("exact", "plain", "ours"))
    allowed = bound(policy, plain_error=np.abs(plain - exact), derived=unit_roundoff(policy) * np.abs(exact).max())
    assert_close(
        ours,
        exact,
        allowed=allowed,
        what=f"a GPT's logits under CastPolicy({policy})",
        hints=Hints(suggestion="Which operation runs in fewer bits than section 3 allows it?"),
    )


def judge_no_bf16(observe: Any, *, steps: bool, **case: Any) -> None:
    """It came to an end where bfloat16 raises, without autocast, with a loss."""

    def draw(rng: np.random.Generator) -> dict[str, Array]:
        numbers = {name: rng.uniform(0.5, 1.5, size).astype(np.float32) for name, size in (("a", (4, 4)), ("b", (4, 4)), ("v", 4))}
        return numbers | {name: rng.integers(0, 31, (3, 10)) for name in ("tokens", "targets")}

    facts = observe("without_bf16", transport="none", inputs=draw, steps=steps, **case).facts(0)
    if facts["autocasts"]:
        raise broken(
            "torch.autocast is on while the model runs.",
            "Expected: it is off; the policy does the casting.",
            "torch.autocast is used.",
            "It is what you rebuild here.",
        )
    if not np.isfinite(facts["loss"]):
        raise broken(
            f"The loss is {facts['loss']}.", "Expected: a finite loss.", "The loss is not finite.", "Which operation leaves fp16's range?"
        )
