"""Attention as its definition says, in fp64; a plain implementation in the case's own dtype; and what rounding may do to each.

Everything works on (B, H, T, D) and (B, G, S, D) numpy arrays of any float dtype. Never the reference solution.
"""

# B batch, H query heads, G key/value heads, T queries, S keys, D head dim
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics.bounds import unit_roundoff

Array = np.ndarray[Any, Any]
FORWARD, GRADIENTS = ("o", "lse"), ("dq", "dk", "dv")

# A float32 exponential or logarithm is off by a few roundings; GPUs' own exp2 by two units in the last place.
EXP_ROUNDINGS = 8
# scale and log2(e) are each rounded, and so are their products with a score and the difference from the maximum.
SCALE_ROUNDINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What is asked: everything but the values."""

    causal: bool = False
    scale: float | None = None

    def scale_for(self, head_dim: int) -> float:
        """The factor on the scores."""
        return head_dim**-0.5 if self.scale is None else self.scale

    def visible(self, num_queries: int, num_keys: int, *, at_start: bool = False) -> Array:
        """(T, S) bool: which keys a query sees. `at_start`: the causal mask that is aligned to the wrong end."""
        if not self.causal:
            return np.ones((num_queries, num_keys), bool)
        offset = 0 if at_start else num_keys - num_queries
        return np.arange(num_keys)[None, :] <= np.arange(num_queries)[:, None] + offset


def repeated(x_BGSD: Array, num_heads: int) -> Array:
    """Each key/value head once for every query head that uses it."""
    return np.repeat(x_BGSD, num_heads // x_BGSD.shape[1], axis=1)


def summed(x_BHSD: Array, num_kv_heads: int) -> Array:
    """The inverse for gradients: query heads that share a key head add up."""
    batch, num_heads, *rest = x_BHSD.shape
    return np.asarray(x_BHSD.reshape(batch, num_kv_heads, num_heads // num_kv_heads, *rest).sum(2))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """One forward pass in `dtype`, with what the backward pass needs."""

    scores: Array  # -inf where nothing is seen
    lse: Array
    p: Array
    o: Array


NUM_REMEMBERED = 4  # one judgement asks for the same weights several times
_RECENT: dict[Any, Weights] = {}


def weights(
    of: Attention, q: Array, k: Array, v: Array, *, dtype: type = np.float64, at_start: bool = False, masked: float = -np.inf
) -> Weights:
    """softmax(scale q kT) v. Rows that see nothing give 0 and -inf. `dtype` is float64, or float32 for the plain implementation.

    `at_start` and `masked` (the score of a key that isn't seen) are sins, for the messages only.
    """
    key = (of, dtype, at_start, masked, q.dtype, *(part for x in (q, k, v) for part in (x.shape, hash(x.tobytes()))))
    if key not in _RECENT:
        while len(_RECENT) >= NUM_REMEMBERED:
            del _RECENT[next(iter(_RECENT))]
        _RECENT[key] = _weights(of, q, k, v, dtype, at_start, masked)
    return _RECENT[key]


def _weights(of: Attention, q: Array, k: Array, v: Array, dtype: type, at_start: bool, masked: float) -> Weights:
    q, k, v = q.astype(dtype), repeated(k, q.shape[1]).astype(dtype), repeated(v, q.shape[1]).astype(dtype)
    scores = (q @ k.swapaxes(-1, -2)) * dtype(of.scale_for(q.shape[-1]))
    scores = np.where(of.visible(q.shape[2], k.shape[2], at_start=at_start), scores, dtype(masked))
    largest = scores.max(-1, keepdims=True)
    origin = np.where(np.isfinite(largest), largest, dtype(0))
    exponentials = np.exp(scores - origin)
    total = exponentials.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (origin + np.log(total))[..., 0]
    p = exponentials / np.where(total == 0, dtype(1), total)
    return Weights(scores, lse, p, p @ v)


def forward(of: Attention, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """o and lse in fp64."""
    exact = weights(of, q, k, v)
    return {"o": exact.o, "lse": exact.lse}


def plain_forward(of: Attention, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """As `forward`, in float32, with the weights and the output rounded to the inputs' dtype as tensor cores want it."""
    dtype = q.dtype
    rough = weights(of, q, k, v, dtype=np.float32)
    p = rough.p.astype(dtype).astype(np.float32)
    return {"o": (p @ repeated(v, q.shape[1]).astype(np.float32)).astype(dtype), "lse": rough.lse}


def backward(of: Attention, do: Array, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """dq, dk and dv in fp64."""
    exact = weights(of, q, k, v)
    return _gradients(of, exact.p, (do.astype(np.float64) * exact.o).sum(-1, keepdims=True), do, q, k, v)


def backward_in_base_two(of: Attention, do: Array, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """A sin, for the messages: the gradients when the given lse is taken for a logarithm in base 2."""
    exact = weights(of, q, k, v)
    finite = np.where(np.isfinite(exact.lse), exact.lse, 0.0)[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        p = np.exp(exact.scores - finite * np.log(2))
        return _gradients(of, p, (do.astype(np.float64) * exact.o).sum(-1, keepdims=True), do, q, k, v)


def plain_backward(of: Attention, do: Array, q: Array, k: Array, v: Array, o: Array) -> dict[str, Array]:
    """The plain implementation's gradients: float32, with p and ds rounded to the inputs' dtype; `o` is the output in that dtype."""
    rough = weights(of, q, k, v, dtype=np.float32)
    delta = (do.astype(np.float32) * o.astype(np.float32)).sum(-1, keepdims=True)
    found = _gradients(of, rough.p, delta, do, q, k, v, dtype=np.float32, rounded_to=q.dtype)
    return {name: x.astype(q.dtype) for name, x in found.items()}


def _gradients(
    of: Attention,
    p: Array,
    delta: Array,
    do: Array,
    q: Array,
    k: Array,
    v: Array,
    *,
    dtype: type = np.float64,
    rounded_to: Any = np.float64,
) -> dict[str, Array]:
    """dq, dk and dv from the weights and delta, in `dtype`; p and ds are rounded on the way."""
    num_kv_heads = k.shape[1]
    q, k, v, do = q.astype(dtype), repeated(k, q.shape[1]).astype(dtype), repeated(v, q.shape[1]).astype(dtype), do.astype(dtype)
    scale = dtype(of.scale_for(q.shape[-1]))
    ds = (p * (do @ v.swapaxes(-1, -2) - delta)).astype(rounded_to).astype(dtype)
    dk, dv = ds.swapaxes(-1, -2) @ q * scale, p.astype(rounded_to).astype(dtype).swapaxes(-1, -2) @ do
    return {"dq": ds @ k * scale, "dk": summed(dk, num_kv_heads), "dv": summed(dv, num_kv_heads)}


# --- what rounding may do --------------------------------------------------------------------------------------------
def forward_bounds(of: Attention, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """Derived bounds on |o - exact| and |lse - exact|, per element.

    Scores: a float32 dot of D terms and its scaling are off by (D + SCALE_ROUNDINGS) w |q|·|k| scale, w float32's unit roundoff. A weight
    is the exponential of the difference of two such scores and a quotient with a sum of S of them. The weight may be rounded to the inputs'
    dtype (u), where it may be subnormal; o is a float32 sum of S terms, rounded to that dtype.
    """
    exact, u, w = weights(of, q, k, v), unit_roundoff(q.dtype.name), unit_roundoff("float32")
    relative = _relative_weight_error(of, q, k, exact)
    magnitude = exact.p @ np.abs(repeated(v, q.shape[1]).astype(np.float64))
    num_keys = k.shape[2]
    tiny = _half_of_the_smallest(q.dtype) * np.abs(repeated(v, q.shape[1]).astype(np.float64)).sum(2, keepdims=True)
    o = np.expm1(relative)[..., None] * magnitude + (u + num_keys * w) * magnitude + u * np.abs(exact.o) + tiny
    finite = np.where(np.isfinite(exact.lse), exact.lse, 0.0)
    return {"o": o, "lse": relative + (num_keys + EXP_ROUNDINGS) * w + 4 * w * np.abs(finite)}


def backward_bounds(of: Attention, do: Array, q: Array, k: Array, v: Array) -> dict[str, Array]:
    """Derived bounds on the gradients' errors, per element, given lse in float32 and o in the inputs' dtype.

    With e the relative error of a weight: dP is a float32 dot of D terms; delta comes from an o that was rounded once; ds = p (dP - delta)
    takes on the errors of all three and may be rounded to the inputs' dtype; the gradients are float32 sums of T or S terms, rounded once.
    """
    exact, u, w = weights(of, q, k, v), unit_roundoff(q.dtype.name), unit_roundoff("float32")
    num_kv_heads, head_dim, scale = k.shape[1], q.shape[-1], of.scale_for(q.shape[-1])
    wide_q, wide_do = (np.abs(x.astype(np.float64)) for x in (q, do))
    wide_k, wide_v = (np.abs(repeated(x, q.shape[1]).astype(np.float64)) for x in (k, v))
    finite = np.where(np.isfinite(exact.lse), exact.lse, 0.0)
    e = np.expm1(_relative_weight_error(of, q, k, exact) + 4 * w * np.abs(finite))[..., None]

    delta = (do.astype(np.float64) * exact.o).sum(-1, keepdims=True)
    dp = do.astype(np.float64) @ repeated(v, q.shape[1]).astype(np.float64).swapaxes(-1, -2)
    dp_error = (head_dim + 2) * w * (wide_do @ wide_v.swapaxes(-1, -2))
    delta_error = (u + (head_dim + 2) * w) * (wide_do * np.abs(exact.o)).sum(-1, keepdims=True)
    ds = np.abs(exact.p * (dp - delta))
    ds_error = (e + u + 4 * w) * ds + exact.p * (1 + e) * (dp_error + delta_error) + _half_of_the_smallest(q.dtype)
    p_error = (e + u) * exact.p + _half_of_the_smallest(q.dtype)

    num_queries, num_keys = exact.p.shape[-2:]
    found = backward(of, do, q, k, v)
    num_terms = num_queries * (q.shape[1] // num_kv_heads)
    dk_error = scale * (ds_error + num_terms * w * ds).swapaxes(-1, -2) @ wide_q
    dv_error = (p_error + num_terms * w * exact.p).swapaxes(-1, -2) @ wide_do
    return {
        "dq": scale * (ds_error + num_keys * w * ds) @ wide_k + (u + 2 * w) * np.abs(found["dq"]),
        "dk": summed(dk_error, num_kv_heads) + (u + 2 * w) * np.abs(found["dk"]),
        "dv": summed(dv_error, num_kv_heads) + (u + 2 * w) * np.abs(found["dv"]),
    }


def _relative_weight_error(of: Attention, q: Array, k: Array, exact: Weights) -> Array:
    """(B, H, T): how far, relatively, a weight of this row may be off before it is rounded to the inputs' dtype."""
    w, head_dim = unit_roundoff("float32"), q.shape[-1]
    magnitude = np.abs(q.astype(np.float64)) @ np.abs(repeated(k, q.shape[1]).astype(np.float64)).swapaxes(-1, -2) * of.scale_for(head_dim)
    seen = np.isfinite(exact.scores)
    score_error = np.where(seen, (head_dim + SCALE_ROUNDINGS) * w * magnitude, 0.0).max(-1)
    return 2 * score_error + (EXP_ROUNDINGS + k.shape[2]) * w


def _half_of_the_smallest(dtype: np.dtype[Any]) -> float:
    return float(ml_dtypes.finfo(dtype).smallest_subnormal) / 2
