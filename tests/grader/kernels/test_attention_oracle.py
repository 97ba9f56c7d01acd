"""The oracle of attention is right itself: against loops, against finite differences, and its bounds hold for a plain implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.laws.flash_attention import kernels, oracle, traffic
from tests.laws.flash_attention.cases import Case

CASES = {
    "decoding": Case(queries=3, keys=5, head_dim=16, causal=True),
    "rows_without_keys": Case(queries=5, keys=2, head_dim=16, causal=True, scale=0.7),
    "shared_heads": Case(heads=4, kv_heads=2, queries=4, keys=3, head_dim=16),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_the_output_is_that_of_loops_over_queries_and_keys(case):
    """Softmax as its definition says, row by row, with the keys that rule 5 lets a query see."""
    drawn = case.draw(np.random.default_rng(0))
    got, scale = oracle.forward(case.of, drawn["q"], drawn["k"], drawn["v"]), case.of.scale_for(case.head_dim)
    for h in range(case.heads):
        g = h // (case.heads // case.k_shape[1])
        for t in range(case.queries):
            seen = [j for j in range(case.k_shape[2]) if not case.causal or j <= t + case.k_shape[2] - case.queries]
            weights = [math.exp(scale * float(drawn["q"][0, h, t].astype(float) @ drawn["k"][0, g, j].astype(float))) for j in seen]
            total = sum(weights)
            o = sum((w / total * drawn["v"][0, g, j].astype(float) for w, j in zip(weights, seen, strict=True)), np.zeros(case.head_dim))
            np.testing.assert_allclose(got["o"][0, h, t], o, atol=1e-12)
            assert got["lse"][0, h, t] == pytest.approx(math.log(total)) if seen else got["lse"][0, h, t] == -math.inf


@each_case
def test_the_gradients_are_finite_differences(case):
    """Each of dq, dk and dv, along a random direction."""
    draw = np.random.default_rng(1)
    drawn = {name: x.astype(np.float64) for name, x in case.draw(draw).items()}
    q, k, v, do = (drawn[name] for name in ("q", "k", "v", "do"))
    found = oracle.backward(case.of, do, q, k, v)
    for name in ("q", "k", "v"):
        along, step = draw.standard_normal(drawn[name].shape), 1e-6
        ends = [oracle.forward(case.of, **({"q": q, "k": k, "v": v} | {name: drawn[name] + sign * step * along}))["o"] for sign in (1, -1)]
        slope = (do * (ends[0] - ends[1])).sum() / (2 * step)
        assert slope == pytest.approx((found[f"d{name}"] * along).sum(), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("values", ["normal", "large", "offset"])
def test_a_plain_implementation_keeps_the_derived_bounds(dtype, values):
    """What rounds as tensor cores do is within the bound that was derived for it, in every element."""
    case = Case(heads=2, kv_heads=1, queries=40, keys=60, causal=True, dtype=dtype, values=values)
    drawn = case.draw(np.random.default_rng(2))
    q, k, v, do = (drawn[name] for name in ("q", "k", "v", "do"))
    exact, plain, bounds = oracle.forward(case.of, q, k, v), oracle.plain_forward(case.of, q, k, v), oracle.forward_bounds(case.of, q, k, v)
    for name in oracle.FORWARD:
        assert (np.abs(plain[name].astype(np.float64) - exact[name]) <= bounds[name]).all(), name
    o = exact["o"].astype(q.dtype)
    exact, plain = oracle.backward(case.of, do, q, k, v), oracle.plain_backward(case.of, do, q, k, v, o)
    bounds = oracle.backward_bounds(case.of, do, q, k, v)
    for name in oracle.GRADIENTS:
        assert (np.abs(plain[name].astype(np.float64) - exact[name]) <= bounds[name]).all(), name


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys", "block_q", "block_k"), [(64, 64, 16, 32), (50, 77, 16, 32), (77, 50, 32, 16), (5, 5, 64, 64)])
def test_the_formula_for_bytes_is_what_a_walk_over_tiles_counts(causal, queries, keys, block_q, block_k):
    """Section 7's formula, which the kernels are held against, and the tiles, which the student's formula is held against."""
    case = Case(batch=2, heads=3, queries=queries, keys=keys, head_dim=40, causal=causal)
    _, most = kernels.forward_bytes(case, block_q, block_k)
    assert most == traffic.counted((2, 3, queries, keys, 40, 4, block_q, block_k, causal))
