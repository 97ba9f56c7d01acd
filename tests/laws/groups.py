"""Which ranks work together in a run, as its request says."""

from __future__ import annotations

from typing import Any


def groups_of(seen: Any, name: str = "groups") -> list[list[int]]:
    """The groups that work side by side, by their global ranks."""
    return seen.request.parameters.get(name) or [list(range(seen.world_size))]


def group_of(seen: Any, rank: int, name: str = "groups") -> list[int]:
    """The group to which a rank belongs."""
    return next(members for members in groups_of(seen, name) if rank in members)


def members_of(seen: Any) -> list[int]:
    """The global ranks that take part, where one group does."""
    return seen.request.parameters.get("members") or list(range(seen.world_size))
