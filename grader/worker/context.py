"""`at`: the door through which a probe gets what it needs and says what it saw."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from grader.records import Json

if TYPE_CHECKING:
    import torch

    from grader.worker.line import Line


class Context:
    """One rank's view of one observation.

    inputs      this rank's own tensors, writable
    submission  the student's module; of an assignment with several files, a namespace of modules by file stem
    """

    def __init__(
        self, line: Line, *, seed: int, inputs: dict[str, torch.Tensor], submission: types.ModuleType | types.SimpleNamespace
    ) -> None:
        self.rank, self.world_size, self.seed = line.rank, line.world_size, seed
        self.inputs, self.submission = inputs, submission
        self.facts: dict[str, Json] = {}
        self._line = line

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Traffic and waits inside are told apart by this name: a constructor's broadcast is not a wait during backward."""
        self._line.post({"mark": "phase", "name": name})
        try:
            yield
        finally:
            self._line.post({"mark": "phase", "name": ""})

    def mark(self, name: str, **facts: Json) -> None:
        """A named moment in this rank's trace."""
        self._line.post({"mark": "mark", "name": name, "facts": facts})

    def compute(self, cost_s: float, name: str = "") -> None:
        """Declare arithmetic of `cost_s` virtual seconds."""
        self._line.post({"mark": "compute", "cost_s": cost_s, "name": name})

    def join(self) -> None:
        """In virtual time, wait for everything this rank has in flight."""
        self._line.post({"mark": "join"})

    def report(self, **facts: Json) -> None:
        """Numbers beside the tensors. They come from the process that ran the submission: testimony."""
        self.facts |= facts
