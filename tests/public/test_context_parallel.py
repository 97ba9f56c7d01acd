"""Public cases of the laws of `context_parallel`. What each means: tests/laws/context_parallel/."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.law("merging.inputs_stay_as_they_were")
def test_merging_leaves_its_inputs_alone(observe):
    """None of the four tensors is written to."""
    shapes = {"o_a": (2, 3), "lse_a": (2,), "o_b": (2, 3), "lse_b": (2,)}
    returns = {"o": ("float64", (2, 3)), "lse": ("float64", (2,))} | {f"{name} after": ("float64", shape) for name, shape in shapes.items()}
    seen = observe("merge", world_size=1, inputs=lambda rng: {n: rng.standard_normal(s) for n, s in shapes.items()}, returns=returns)
    for name in shapes:
        assert np.array_equal(seen.rank(0)[f"{name} after"], seen.input(name, 0)), f"{name} has changed"
