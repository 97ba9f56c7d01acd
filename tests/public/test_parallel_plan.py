"""Public cases of the laws of `parallel_plan`. What each law means stands in tests/laws/parallel_plan/."""

from __future__ import annotations

import pytest


@pytest.mark.law("mesh.refuses_other_worlds")
def test_other_worlds_are_refused(observe):
    """A product that isn't the world."""
    worlds = [{"world_size": 8, "dp": 2, "tp": 2, "pp": 1, "cp": 1, "ep": 1}]
    seen = observe("worlds_refused", transport="none", worlds=worlds)
    assert seen.facts(0)["outcomes"] == ["ValueError"], "build_mesh took a world of another size"
