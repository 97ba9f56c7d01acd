"""merge_attention against one softmax over both sets of keys, in fp64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from tests.laws.context_parallel.oracle import Array, draw
from tests.laws.sentences import broken

PARTS = ("o_a", "lse_a", "o_b", "lse_b")
GARBAGE = (np.nan, np.inf, -np.inf, 3e38)  # what may stand in the o of a row that has seen nothing
# A difference, an exponential, a logarithm, a product and a sum: each is off by a few roundings.
ROUNDINGS = 16

Case = dict[str, Any]


def case_of(
    name: str, shape: tuple[int, ...] = (2, 3, 5, 4), *, dtype: str = "float32", size: float = 1.0, apart: float = 0.0, empty: str = ""
) -> Case:  # fmt: skip
    """shape: of o. size: of the log-sum-exps; apart: how far the second lies above the first. empty: what empty rows hold, if any."""
    return {"name": name, "shape": list(shape), "dtype": dtype, "size": size, "apart": apart, "empty": empty}


def wide(dtype: str) -> str:
    """The dtype of the arithmetic."""
    return "float64" if dtype == "float64" else "float32"


def run(observe: Any, cases: list[Case], **words: Any) -> Any:
    """All cases in one run."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        drawn = {}
        for case in cases:
            shape, dtype = tuple(case["shape"]), case["dtype"]
            lse = {part: rng.standard_normal(shape[:-1]) * case["size"] for part in "ab"}
            lse["b"] = lse["b"] + case["apart"]
            o = {part: draw(rng, dtype, shape) for part in "ab"}
            lot = rng.permutation(lse["a"].size).reshape(shape[:-1]) % 4  # a quarter of the rows each: both, a, b, none empty
            for part, lots in (("a", (0, 1)), ("b", (0, 2))):
                rows = np.isin(lot, lots) if case["empty"] else np.zeros(shape[:-1], bool)
                lse[part][rows] = -np.inf
                garbage = (
                    np.asarray(GARBAGE).astype(np.dtype(getattr(ml_dtypes, dtype, dtype))) if case["empty"] == "garbage" else np.zeros(1)
                )
                o[part][rows] = np.resize(garbage, o[part][rows].shape)
            for part in "ab":
                drawn[f"{case['name']}/o_{part}"] = o[part]
                drawn[f"{case['name']}/lse_{part}"] = lse[part].astype(wide(dtype))
        return drawn

    returns: dict[str, Any] = {}
    for case in cases:
        shape, dtype = tuple(case["shape"]), case["dtype"]
        returns |= {f"{case['name']}/o": (wide(dtype), shape), f"{case['name']}/lse": (wide(dtype), shape[:-1])}
        returns |= {f"{case['name']}/o_{part} after": (dtype, shape) for part in "ab"}
        returns |= {f"{case['name']}/lse_{part} after": (wide(dtype), shape[:-1]) for part in "ab"}
    names = [case["name"] for case in cases]
    return observe("merge", world_size=1, transport="none", inputs=inputs, returns=returns, names=names, **words)


def judge(seen: Any, cases: list[Case]) -> None:
    """o and lse of every case."""
    judge_dtypes(seen, cases)
    for case in cases:
        name = case["name"]
        o_a, lse_a, o_b, lse_b = (np.asarray(seen.input(f"{name}/{part}", 0), np.float64) for part in PARTS)
        lse = np.logaddexp(lse_a, lse_b)
        with np.errstate(invalid="ignore"):
            shares = [np.where(np.isneginf(part), 0.0, np.exp(part - lse)) for part in (lse_a, lse_b)]
        parts = [np.where(np.isneginf(part)[..., None], 0.0, o) for part, o in ((lse_a, o_a), (lse_b, o_b))]
        right = sum(share[..., None] * part for share, part in zip(shares, parts, strict=True))
        size = sum(share[..., None] * np.abs(part) for share, part in zip(shares, parts, strict=True))
        # A difference of two log-sum-exps is off by roundings relative to them, and the exponential by as much absolutely.
        finite = np.maximum(*(np.where(np.isneginf(part), 0.0, np.abs(part)) for part in (lse_a, lse_b)))
        unit = unit_roundoff(wide(case["dtype"]))
        got, words = seen.rank(0), f"merge_attention, {words_of(case)}"
        plain = {} if case["empty"] else {"the mean of both o": (o_a + o_b) / 2, "o_a": o_a, "o_b": o_b}
        hints = Hints(others=plain, suggestion="Weigh each part by exp(lse_part - lse), and leave out one whose lse is -inf.")
        allowed = np.asarray(ROUNDINGS * unit * (1 + finite[..., None]) * size)
        assert_close(got[f"{name}/o"], right, allowed=allowed, what=f"{words}: o", hints=hints)
        hints = Hints(others={} if case["empty"] else {"the larger lse": np.maximum(lse_a, lse_b), "their sum": lse_a + lse_b})
        allowed = np.asarray(ROUNDINGS * unit * (1 + finite))
        assert_close(got[f"{name}/lse"], lse, allowed=allowed, what=f"{words}: lse", hints=hints)


def judge_dtypes(seen: Any, cases: list[Case]) -> None:
    """An answer in 16 bits is told as such."""
    if seen.fault is not None and any(case["dtype"] in seen.fault.sentence for case in cases if case["dtype"] != wide(case["dtype"])):
        raise broken(seen.fault.sentence, "Expected: o and lse in float32 for o's in 16 bits.", "Merging is done in 16 bits.",
                     "Convert before you multiply: every merge in 16 bits rounds once more.")  # fmt: skip


def words_of(case: Case) -> str:
    """A case in words."""
    words = [case["dtype"], f"o of shape {case['shape']}"]
    words += [f"log-sum-exps of size {case['size']:g}"] if case["size"] != 1 else []
    words += [f"{case['apart']:g} apart"] if case["apart"] else []
    words += [f"rows that have seen nothing (lse -inf){', with garbage in o' * (case['empty'] == 'garbage')}"] if case["empty"] else []
    return ", ".join(words)


def judge_untouched(seen: Any, cases: list[Case]) -> None:
    """The four inputs afterwards."""
    for case in cases:
        for part in PARTS:
            name = f"{case['name']}/{part}"
            hints = Hints(suggestion="It is the caller's: an in-place operation has written to it.")
            assert_equal(seen.rank(0)[f"{name} after"], seen.input(name, 0), what=f"merge_attention: {part} afterwards", hints=hints)
