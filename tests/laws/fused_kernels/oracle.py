"""The three operations in numpy: fp64 formulas, the same in float32 for the plain implementation, and derived bounds of errors.

Every function returns, by name, `y` and the gradients. u is half the gap above 1 of a dtype (2**-24 for float32); a bound counts the
float32 roundings on the way, each relative to what it rounds, and one more to the tensor's own dtype at the end.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics.bounds import unit_roundoff
from tests.laws.fused_kernels.cases import Array, Case

U = unit_roundoff("float32")
FEW = 16  # roundings of a formula of some ten operations, exponentials by hardware included (2 units in the last place each)
ROOT = float(np.sqrt(2 / np.pi))
CUBIC = 0.044715
Found = dict[str, Array]


def exact(case: Case, inputs: dict[str, Array]) -> Found:
    """In fp64."""
    return _FORMULAS[case.of](case, inputs, np.float64)


def plain(case: Case, inputs: dict[str, Array]) -> Found:
    """In float32, rounded once at the end to each tensor's dtype."""
    found = _FORMULAS[case.of](case, inputs, np.float32)
    return {name: values.astype(_kind(dtype_of(case, name))) for name, values in found.items()}


def dtype_of(case: Case, name: str) -> str:
    """The dtype of an output."""
    return case.output[0] if name == "y" else case.dtype if name == f"d{case.first}" else case.parameter_dtype


def derived(case: Case, inputs: dict[str, Array], right: Found) -> Found:
    """Per element, the error that dtypes, lengths and magnitudes allow for."""
    inner = _BOUNDS[case.of](case, inputs)
    allowed = {}
    for name, values in right.items():
        dtype = dtype_of(case, name)
        smallest = float(ml_dtypes.finfo(_kind(dtype)).smallest_subnormal)
        size = np.abs(values) + inner[name]
        allowed[name] = inner[name] + unit_roundoff(dtype) * size + smallest
    return allowed


# --- RMSNorm ---------------------------------------------------------------------------------------------------------
def rms_norm(case: Case, inputs: dict[str, Array], dtype: Any, *, sin: str = "") -> Found:
    """Section 5 of the handout. `sin`: a well-known wrong way, for the messages."""
    x, weight, d = (_rows(inputs[name], dtype) for name in ("x", "weight", "d"))
    dim = x.shape[-1]
    divisor = _power_of_two(dim) if sin == "padded" else dim
    eps = dtype(0.0 if sin == "no_eps" else 1e-6 if case.eps is None or sin == "default_eps" else case.eps)
    squares = (x.astype(_kind(case.dtype)) ** 2).astype(dtype) if sin == "narrow_squares" else x * x
    r = 1 / (np.sqrt(_sum(squares, dtype)[:, None] / dtype(divisor)) + eps) if sin == "eps_outside" else (
        1 / np.sqrt(_sum(squares, dtype)[:, None] / dtype(divisor) + eps))  # fmt: skip
    x_hat, g = x * r, d * weight
    along = _sum((d if sin == "along_without_weight" else g) * x_hat, dtype)[:, None] / dtype(dim)
    dx = r * (g - (0 if sin == "rstd_constant" else x_hat * along))
    dweight = (d * (x if sin == "dweight_without_rstd" else x_hat)).sum(0, dtype=dtype)
    return {"y": (x_hat * weight).reshape(case.shape), "dx": dx.reshape(case.shape), "dweight": dweight}


def _rms_norm_bounds(case: Case, inputs: dict[str, Array]) -> Found:
    x, weight, d = (_rows(inputs[name], np.float64) for name in ("x", "weight", "d"))
    num_rows, dim = x.shape
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + (1e-6 if case.eps is None else case.eps))
    of_r = (dim / 2 + FEW) * U  # a sum of D squares in any order is off by at most D u; the root halves it
    x_hat, g = x * r, d * weight
    along = np.abs(g * x_hat).mean(-1, keepdims=True)
    dx = np.abs(r) * (np.abs(g) + np.abs(x_hat) * along) * of_r + np.abs(r * x_hat) * along * dim * U
    dweight = np.abs(d * x_hat).sum(0) * (of_r + num_rows * U)
    return {"y": (np.abs(x_hat * weight) * of_r).reshape(case.shape), "dx": dx.reshape(case.shape), "dweight": dweight}


# --- bias and GELU ---------------------------------------------------------------------------------------------------
def bias_gelu(case: Case, inputs: dict[str, Array], dtype: Any, *, sin: str = "") -> Found:
    """Section 6 of the handout."""
    x, bias, d = (_rows(inputs[name], dtype) for name in ("x", "bias", "d"))
    u = x if sin == "no_bias" else x + bias
    tanh = np.tanh(dtype(ROOT) * (u + dtype(CUBIC) * u * u * u))
    y = u / 2 * (1 + tanh)
    slope = (1 + tanh) / 2 + u / 2 * (1 - tanh * tanh) * dtype(ROOT) * (1 + dtype(3 * CUBIC) * u * u)
    dx = d * slope
    summed = dx.astype(_kind(case.dtype)).astype(dtype) if sin == "dbias_of_rounded" else d if sin == "dbias_of_dy" else dx
    return {"y": y.reshape(case.shape), "dx": dx.reshape(case.shape), "dbias": summed.sum(0, dtype=dtype)}


def _bias_gelu_bounds(case: Case, inputs: dict[str, Array]) -> Found:
    x, bias, d = (_rows(inputs[name], np.float64) for name in ("x", "bias", "d"))
    u = x + bias
    z2 = 2 * ROOT * (u + CUBIC * u**3)
    s = 1 / (1 + np.exp(-np.clip(z2, -700, 700)))
    bell = s * (1 - s)  # how the sigmoid answers to its argument
    dz2 = 2 * ROOT * (1 + 3 * CUBIC * u * u)
    slope = np.abs(s) + np.abs(u) * bell * dz2
    # The sum u carries one rounding, which the slope multiplies; the sigmoid carries those of its argument.
    y = FEW * U * (np.abs(u) * (s + bell * np.abs(z2)) + (np.abs(x) + np.abs(bias)) * slope) + np.abs(u) * 2.0**-126
    steep = slope * (1 + np.abs(z2)) + (np.abs(x) + np.abs(bias)) * bell * dz2 * (2 + np.abs(u) * dz2)
    dx = np.abs(d) * (FEW * U * np.where(np.abs(z2) < 200, steep, slope) + np.abs(u) * 2.0**-126)
    dbias = dx.sum(0) + np.abs(d * slope).sum(0) * len(x) * U
    return {"y": y.reshape(case.shape), "dx": dx.reshape(case.shape), "dbias": dbias}


# --- cross-entropy ---------------------------------------------------------------------------------------------------
def cross_entropy(case: Case, inputs: dict[str, Array], dtype: Any, *, sin: str = "") -> Found:
    """Section 7 of the handout."""
    targets = inputs["targets"].astype(np.int64)
    counts = targets != (-100 if sin == "default_index" else case.ignoring)
    logits, lse, rows = _lse(case, inputs, counts, dtype, sin)
    num_rows = len(targets)
    number = dtype(max(1, num_rows if sin == "ignored_in_the_mean" else 1 if sin == "sum" else counts.sum()))
    aims = np.where(counts, targets, 0)
    losses = np.where(counts, lse - logits[rows, aims], 0)
    losses = losses.astype(_kind(case.dtype)).astype(dtype) if sin == "losses_rounded" else losses
    loss = losses.sum(dtype=dtype) / number
    softmax = np.exp(logits - lse[:, None])
    softmax[rows, aims] -= 0 if sin == "no_one_hot" else 1
    scale = (dtype(1) if sin == "incoming_ignored" else dtype(inputs["d"])) / number
    return {"y": np.asarray(loss), "dlogits": np.where(counts[:, None], softmax * scale, 0)}


def _lse(case: Case, inputs: dict[str, Array], counts: Array, dtype: Any, sin: str = "") -> tuple[Array, Array, Array]:
    """Logits (0 in ignored rows), their log-sum-exp, and the rows' numbers."""
    logits = np.where(counts[:, None], inputs["logits"].astype(dtype), dtype(0))
    largest = logits.max(-1, initial=-np.inf) if logits.size else np.zeros(len(logits), dtype)
    if sin in ("from_zero", "no_maximum"):  # exponentials of float32, which overflow and vanish
        largest = np.maximum(largest, 0) if sin == "from_zero" else np.zeros_like(largest)
        return logits, largest + np.log(np.exp((logits - largest[:, None]).astype(np.float32)).sum(-1)), np.arange(len(logits))
    summed = logits[:, : 2**16] if sin == "one_block" else logits
    total = np.exp(summed - largest[:, None]).sum(-1, dtype=dtype)
    if sin == "zeros_beyond":
        total += (_power_of_two(case.shape[1]) - case.shape[1]) * np.exp(-largest)
    lse = largest + np.log(total)
    return logits, lse.astype(dtype), np.arange(len(logits))


def _cross_entropy_bounds(case: Case, inputs: dict[str, Array]) -> Found:
    targets = inputs["targets"].astype(np.int64)
    counts = targets != case.ignoring
    logits, lse, rows = _lse(case, inputs, counts, np.float64)
    number = max(1, counts.sum())
    # A sum of V exponentials: blocks of a few thousand and lanes within them keep each chain of additions below sqrt(V) roundings or so.
    size = np.where(np.isfinite(logits), np.abs(logits), 0.0)
    of_lse = U * (np.sqrt(case.shape[1]) + FEW + 2 * np.abs(lse) + 2 * size.max(-1, initial=0.0))
    aims = np.where(counts, targets, 0)
    loss = np.where(counts, of_lse, 0).sum() / number + (FEW + len(targets)) * U * np.abs(
        np.where(counts, lse - logits[rows, aims], 0)).sum() / number  # fmt: skip
    softmax = np.exp(logits - lse[:, None])
    scale = abs(float(inputs["d"])) / number
    distance = np.where(softmax > 0, np.abs(np.where(softmax > 0, logits, 0.0) - lse[:, None]), 0.0)
    is_target = np.zeros_like(softmax)
    is_target[rows, aims] = counts
    dlogits = np.where(counts[:, None], (softmax * (of_lse[:, None] + U * (FEW + distance)) + FEW * U * is_target) * scale, 0.0)
    return {"y": np.asarray(loss), "dlogits": dlogits}


# --- shared ----------------------------------------------------------------------------------------------------------
def _rows(x: Array, dtype: Any) -> Array:
    return x.astype(dtype).reshape(int(np.prod(x.shape[:-1])), x.shape[-1]) if x.ndim > 1 else x.astype(dtype)[None]


def _sum(x: Array, dtype: Any) -> Array:
    return x.sum(-1, dtype=dtype)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _kind(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


_FORMULAS = {"rms_norm": rms_norm, "bias_gelu": bias_gelu, "cross_entropy": cross_entropy}
_BOUNDS = {"rms_norm": _rms_norm_bounds, "bias_gelu": _bias_gelu_bounds, "cross_entropy": _cross_entropy_bounds}

# Well-known sins: what it might be instead.
SINS = {
    "rms_norm": {
        "padded": "the mean over the row padded to a power of two",
        "no_eps": "the root without eps",
        "default_eps": "the result with eps = 1e-6 instead of the one that was given",
        "eps_outside": "the result with eps outside the root",
        "narrow_squares": "the result with squares in x's dtype, where they overflow or vanish",
        "rstd_constant": "the gradient with rstd taken for a constant",
        "along_without_weight": "the gradient with the weight left out of the mean of dy · weight · x̂",
        "dweight_without_rstd": "the sum of dy · x without rstd",
    },
    "bias_gelu": {
        "no_bias": "the GELU of x without the bias",
        "dbias_of_dy": "the sum of the incoming gradient, not of dx",
    },
    "cross_entropy": {
        "ignored_in_the_mean": "the sum divided by the number of all rows, ignored ones included",
        "sum": "the sum, not the mean",
        "default_index": "the result with -100, or what is negative, ignored instead of the ignore_index that was given",
        "from_zero": "the loss with a running maximum that begins at 0: all exponentials vanish",
        "no_maximum": "the loss with exponentials of logits from which no maximum was taken",
        "one_block": "the loss over the first 65536 classes alone",
        "zeros_beyond": "the loss with 0, not -inf, in the lanes beyond the vocabulary",
        "losses_rounded": "the mean of losses that were rounded to the logits' dtype",
        "no_one_hot": "the softmax without 1 taken off at the target",
        "incoming_ignored": "the gradient without the factor that comes in",
    },
}


def other_answers(case: Case, inputs: dict[str, Array]) -> dict[str, Found]:
    """What well-known sins give, by their words."""
    with np.errstate(all="ignore"):
        return {words: _FORMULAS[case.of](case, inputs, np.float64, sin=sin) for sin, words in SINS[case.of].items()}
