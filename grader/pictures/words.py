"""An event in the words that a student knows, and the student's own line where it happened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from grader.records import Event, TensorSpec

PLACE = re.compile(r"\b([\w-]+\.py):(\d+)")
LONGEST_LINE = 160
NUM_PLACES = 6  # shown beside a message


def describe(event: Event) -> str:
    """`send float32[24] to rank 1 (collectives.py:67)`."""
    text = event.op or event.kind
    text += f"({event.reduction})" if event.reduction else ""
    text += f" {TensorSpec(event.dtype, event.shape)}" if event.dtype else ""
    if event.op == "send" and event.peer >= 0:
        text += f" to rank {event.peer}"
    elif event.op == "recv":
        text += f" from rank {event.peer}" if event.peer >= 0 else " from any rank"
    text += f" in phase {event.phase}" if event.phase else ""
    return text + (f" ({event.at})" if event.at else "")


@dataclass(slots=True)
class Sources:
    """Lines of what was graded, where that is a folder of files; "" for anything else."""

    folder: Path
    _files: dict[str, list[str]] = field(default_factory=dict)

    def line(self, place: str) -> str:
        """The source at `file.py:67`."""
        found = PLACE.search(place)
        if found is None:
            return ""
        name, number = found.group(1), int(found.group(2))
        if name not in self._files:
            path = self.folder / name
            self._files[name] = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        lines = self._files[name]
        return lines[number - 1].strip()[:LONGEST_LINE] if 0 < number <= len(lines) else ""

    def lines_in(self, text: str) -> list[tuple[str, str]]:
        """The first places that `text` names, each once, with its line."""
        places = dict.fromkeys(f"{name}:{number}" for name, number in PLACE.findall(text))
        return [(place, line) for place in list(places)[:NUM_PLACES] if (line := self.line(place))]
