"""Levels of isolation: what walls must be seen to deny, layer by layer, before a run may be called by a level's letter.

    A  namespaces beside all that C has: root, or a user who may make user namespaces
    B  a user of its own for each run beside all that C has: root in a container that may make none
    C  Landlock, seccomp, no capabilities, limits: an ordinary user
    D  a process of its own and limits: formative, not isolated
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEVELS = "ABCD"  # the strongest first
GROUP = 61184  # of ranks whose judge is root, and the first of their users: the range that systemd keeps for users made on demand
NUM_USERS = 4336

# A layer -> what a canary tries, and must see refused.
LAYERS = {
    "namespaces": ("processes", "paths", "network", "segments", "host"),
    "a user of its own": ("user",),
    "Landlock": ("reads", "reads_code", "writes", "environment", "memory", "descriptors"),
    "seccomp": ("signal", "trace", "socket", "memfd", "segment", "mode"),
    "no capabilities": ("capabilities",),
    "limits": ("limits",),
    "threads counted": ("threads",),  # of no level: nobody counts root's, where root has no other user to be
}
_PLAIN = ("Landlock", "seccomp", "no capabilities", "limits")
NEEDED = {"A": ("namespaces", *_PLAIN), "B": ("a user of its own", *_PLAIN), "C": _PLAIN, "D": ()}


def layers_of(seen: Mapping[str, Any]) -> tuple[str, ...]:
    """The layers that denied all they must, of what a canary saw: {"landlock": ABI, "denied": {attempt: bool}}."""
    denied = seen["denied"]
    held = [layer for layer, attempts in LAYERS.items() if all(denied.get(attempt) for attempt in attempts)]
    return tuple(layer for layer in held if layer != "Landlock" or seen.get("landlock"))  # other walls may refuse the same


def level_of(seen: Mapping[str, Any]) -> str:
    """The strongest level all of whose layers held."""
    held = layers_of(seen)
    return next(level for level in LEVELS if set(NEEDED[level]) <= set(held))


def is_enough(level: str, needed: str) -> bool:
    """Whether `level` is as strong as `needed`."""
    return LEVELS.index(level) <= LEVELS.index(needed)
