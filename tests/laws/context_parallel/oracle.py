"""Attention over the whole sequence as its definition says, in fp64; where each rank's tokens stand in it; and what rounding may do."""

# B batch, H query heads, G key/value heads, T tokens (U of queries, where they are others), D head dim
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import unit_roundoff

Array = np.ndarray[Any, Any]
NAMES = ("o", "dq", "dk", "dv")
HIDDEN_FROM = 100.0  # keys whose first number is larger: the probe's kernel can hide them
HALVES = ("float16", "bfloat16")


def draw(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Normal numbers of a dtype."""
    return np.asarray(rng.standard_normal(shape)).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def places(place: int, n: int, num_tokens: int, *, zigzag: bool) -> Array:
    """Where the tokens of one of n ranks, `num_tokens` each, stand in the whole sequence."""
    if not zigzag:
        return np.arange(place * num_tokens, (place + 1) * num_tokens)
    half = num_tokens // 2
    return np.concatenate([np.arange(chunk * half, (chunk + 1) * half) for chunk in (place, 2 * n - 1 - place)])


@dataclass(slots=True, eq=False)
class Whole:
    """Attention of all queries to all keys, and the magnitudes of what was added up."""

    q: Array
    k: Array
    v: Array
    gradient: Array
    visible: Array  # (B, H, U, T)
    values: dict[str, Array] = field(default_factory=dict)
    sizes: dict[str, Array] = field(default_factory=dict)
    shift: dict[str, Array] = field(default_factory=dict)  # what an o that is rounded by 1 relative to its size does to a gradient
    largest_score: float = 0.0

    def __post_init__(self) -> None:
        q, gradient = self.q, self.gradient
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (self.k, self.v))
        scale = q.shape[-1] ** -0.5
        scores = np.where(self.visible, q @ k.swapaxes(-1, -2) * scale, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        total = weights.sum(-1, keepdims=True)
        p = weights / np.where(total == 0, 1.0, total)
        o = p @ v
        dp, delta = gradient @ v.swapaxes(-1, -2), (gradient * o).sum(-1, keepdims=True)
        ds = p * (dp - delta) * scale
        self.values = {"o": o, "dq": ds @ k, "dk": self._shared(ds.swapaxes(-1, -2) @ q), "dv": self._shared(p.swapaxes(-1, -2) @ gradient)}
        size_o = p @ np.abs(v)
        size_delta = (np.abs(gradient) * size_o).sum(-1, keepdims=True)
        size_ds = p * (np.abs(gradient) @ np.abs(v).swapaxes(-1, -2) + size_delta) * scale
        self.sizes = {"o": size_o} | self._from(size_ds, k) | {"dv": self._shared(p.swapaxes(-1, -2) @ np.abs(gradient))}
        self.shift = self._from(p * (np.abs(gradient) * np.abs(o)).sum(-1, keepdims=True) * scale, k)
        sizes = np.where(self.visible, np.abs(q) @ np.abs(k).swapaxes(-1, -2) * scale, 0.0)
        self.largest_score = float(sizes.max(initial=0.0))

    def _shared(self, x: Array) -> Array:
        """Query heads that share a key head add up."""
        return np.asarray(x.reshape(len(x), self.k.shape[1], -1, *x.shape[2:]).sum(2))

    def _from(self, ds: Array, k: Array) -> dict[str, Array]:
        """Magnitudes of dq and dk, from those of the scores' gradient."""
        return {"dq": ds @ np.abs(k), "dk": self._shared(ds.swapaxes(-1, -2) @ np.abs(self.q))}

    def allowed(self, name: str, dtype: str, num_blocks: int) -> Array:
        """How far one of `values` may be off.

        All is computed in float32 (float64): sums of up to T or U and D terms, an exponential and a logarithm of a score that is itself
        such a sum, and per block a merge of a dozen roundings. In 16 bits the result is rounded once more, and o may have been when it met
        its gradient.
        """
        unit = unit_roundoff("float64" if dtype == "float64" else "float32")
        num_terms = sum(self.q.shape[2:]) + self.k.shape[2] + 16 * (num_blocks + 1)
        rounds = 2 * (num_terms + (self.q.shape[-1] + 8) * self.largest_score)
        bound = rounds * unit * self.sizes[name]
        if dtype in HALVES:
            half = unit_roundoff(dtype)
            bound = bound + half * np.abs(self.values[name]) + half * self.shift.get(name, np.zeros(())) + _tiny(dtype)
        return np.asarray(bound)


def _tiny(dtype: str) -> float:
    """The gap between numbers next to zero."""
    return float(ml_dtypes.finfo(np.dtype(getattr(ml_dtypes, dtype, dtype))).smallest_subnormal)
