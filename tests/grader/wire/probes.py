"""The probe of the wire's own tests: it calls one function of the submission and hands back what that gives."""

from __future__ import annotations

from typing import Any


def call(at: Any, function: str, **arguments: Any) -> Any:
    """What `function(rank, world_size, **arguments)` gives; a function that takes `at` gets the probe's whole door."""
    target = getattr(at.submission, function)
    if getattr(target, "takes_at", False):
        return target(at, **arguments)
    return target(at.rank, at.world_size, **arguments)
