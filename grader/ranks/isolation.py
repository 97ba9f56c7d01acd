"""What the walls around ranks were seen to deny, in words: the label that is printed and stored with the marks."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LAYERS = {
    "Landlock": ("reads", "reads_code", "writes", "environment", "memory", "descriptors"),
    "seccomp": ("signal", "trace", "socket", "memfd", "segment", "mode"),
    "limits": ("limits",),
}
WORDS = {
    "reads": "list the course's folder", "reads_code": "read the grader's code", "writes": "write outside of its folder",
    "environment": "read the judge's environment", "memory": "read the judge's memory", "descriptors": "reach the judge's descriptors",
    "signal": "signal the judge", "trace": "trace the judge", "socket": "open a socket", "memfd": "hide memory in a memfd",
    "segment": "make a shared segment", "mode": "change the modes of files", "limits": "raise its limits",
}  # fmt: skip
NOT_RUN = "isolation: no rank was run"
_PR_SET_DUMPABLE = 4


def label(seen: Sequence[Mapping[str, Any]]) -> str:
    """One label for the processes of a grading, each of which has told what its canary was denied: the worst of them counts.

    Such as "isolation C: Landlock 7, seccomp, no capabilities, limits"; what a layer's canary could do is named, and its level is D.
    """
    walled = [each for each in seen if each.get("flavour") != "cuda"]
    on_gpus = "; ranks on GPUs have limits only" if len(walled) < len(seen) else ""
    if not walled:
        return f"isolation D: formative, not isolated{on_gpus}" if on_gpus else NOT_RUN
    able = sorted({name for each in walled for names in LAYERS.values() for name in names if not each["denied"].get(name)})
    if able:
        could = "do anything that its user may" if len(able) == len(WORDS) else " and ".join(WORDS[name] for name in able)
        return f"isolation D: formative, not isolated; a rank could {could}{on_gpus}"
    return f"isolation C: Landlock {walled[0]['landlock']}, seccomp, no capabilities, limits{on_gpus}"


def be_unreadable() -> None:
    """No process of the same user may open this one's memory, environment or descriptors, or trace it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
