"""Public cases of the laws of `pipeline_parallel`. What each means: tests/laws/pipeline_parallel/."""

from __future__ import annotations

import pytest


@pytest.mark.law("gpipe.forwards_come_first")
def test_gpipe_does_all_forwards_first(observe):
    """All forwards, then all backwards, on every rank."""
    seen = observe("schedules", world_size=1, transport="none", function="gpipe", cases=[[2, 3]])
    for actions in seen.facts(0)["schedules"][0]:
        kinds = [kind for kind, _, _ in actions]
        assert kinds == sorted(kinds, reverse=True), "A backward stands before a forward."
