"""Public cases of the laws of `tensor_parallel`. What each law means stands in tests/laws/tensor_parallel/.

Equal requests share one run: laws that can look at the same run ask for it through the same function here.
"""

from __future__ import annotations

import pytest

from tests.laws.tensor_parallel import functions

# --- functions -------------------------------------------------------------------------------------------------------
PART = (2, 3, 4)
WORLDS = [(1, "wire"), (2, "gloo"), (3, "wire"), (4, "wire")]


@pytest.mark.law("functions.copy_and_reduce_are_conjugate")
@pytest.mark.parametrize(("world_size", "transport"), WORLDS)
def test_copy_and_reduce_are_conjugate(observe, world_size, transport):
    """Forward and backward of f and g, on one to four ranks."""
    functions.judge_values(functions.run_functions(observe, world_size, PART, transport=transport), functions.PAIRS["whole"])
