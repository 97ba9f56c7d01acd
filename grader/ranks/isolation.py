"""What the walls around ranks were seen to deny, in words: the label that is printed and stored with the marks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from grader.levels import LAYERS, LEVELS, NEEDED, is_enough, layers_of, level_of

WORDS = {
    "reads": "list the course's folder", "reads_code": "read the grader's code", "writes": "write outside of its folder",
    "environment": "read the judge's environment", "memory": "read the judge's memory", "descriptors": "reach the judge's descriptors",
    "signal": "signal the judge", "trace": "trace the judge", "socket": "open a socket", "memfd": "hide memory in a memfd",
    "segment": "make a shared segment", "mode": "change the modes of files", "limits": "raise its limits",
    "capabilities": "use capabilities",
}  # fmt: skip
NOT_RUN = "isolation: no rank was run"
ON_GPUS = "; ranks on GPUs have limits only"


def label(seen: Sequence[Mapping[str, Any]]) -> str:
    """One label for the processes of a grading, each of which has told what its canary was denied: the worst of them counts.

    Such as "isolation C: Landlock 7, seccomp, no capabilities, limits"; at level D what a canary could do is named.
    """
    walled = [each for each in seen if each.get("flavour") != "cuda"]
    on_gpus = ON_GPUS if len(walled) < len(seen) else ""
    if not walled:
        return f"isolation D: formative, not isolated{on_gpus}" if on_gpus else NOT_RUN
    attempts = [attempt for attempts in LAYERS.values() for attempt in attempts]
    worst = {
        "landlock": min(each["landlock"] for each in walled),
        "denied": {attempt: all(each["denied"].get(attempt) for each in walled) for attempt in attempts},
    }
    level, held = level_of(worst), layers_of(worst)
    if level == "D":
        able = sorted(name for layer in NEEDED["C"] for name in LAYERS[layer] if not worst["denied"][name])
        could = "do anything that its user may" if len(able) == len(WORDS) else " and ".join(WORDS[name] for name in able)
        return f"isolation D: formative, not isolated; {f'a rank could {could}' if able else 'no Landlock'}{on_gpus}"
    layers = [f"{layer} {worst['landlock']}" if layer == "Landlock" else layer for layer in held]
    counted = "; loopback counted" if level == "A" else ""
    return f"isolation {level}: {', '.join(layers)}{counted}{on_gpus}"


def level_in(label: str) -> str:
    """The letter of a label such as "isolation B: ..."; of one that has none it is D."""
    match = re.match(rf"isolation ([{LEVELS}])\b", label)
    return match[1] if match else LEVELS[-1]


def why_formative(label: str, needed: str) -> str:
    """Why points that were earned behind the walls of `label` are no marks where these need level `needed`; "" if they are."""
    seen = LEVELS[-1] if label.endswith(ON_GPUS) else level_in(label)
    if label == NOT_RUN or is_enough(seen, needed):
        return ""
    return f"Formative: marks need isolation {needed}, and {seen} was witnessed. `grader doctor` says what is missing."
