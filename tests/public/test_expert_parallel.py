"""Public cases of the laws of `expert_parallel`."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.law("route.capacity_is_rounded_up")
def test_capacity_is_rounded_up(observe):
    """10 tokens, 4 experts, 1 choice."""
    seen = observe("capacities", transport="none", cases=[[10, 4, 1, 1.0]], returns={"capacities": ("float64", (1,))})
    assert np.array_equal(seen.rank(0)["capacities"], [3.0])
