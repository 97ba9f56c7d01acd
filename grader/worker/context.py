"""`at`: the door through which a probe gets what it needs and says what it saw."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from grader.records import Json

if TYPE_CHECKING:
    import torch

    from grader.worker.line import Line
    from grader.worker.triton_interpreter import Watch


class Context:
    """One rank's view of one observation.

    inputs      this rank's own tensors, writable
    device      where those tensors are: the CPU, or on the GPU profile this rank's GPU
    submission  the student's module; of an assignment with several files, a namespace of modules by file stem
    """

    def __init__(
        self,
        line: Line,
        *,
        seed: int,
        inputs: dict[str, torch.Tensor],
        submission: types.ModuleType | types.SimpleNamespace,
        device: torch.device,
    ) -> None:
        self.rank, self.world_size, self.seed = line.rank, line.world_size, seed
        self.inputs, self.submission, self.device = inputs, submission, device
        self.facts: dict[str, Json] = {}
        self._line = line
        self._num_watches = self._num_turns = 0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Traffic and waits inside are told apart by this name: a constructor's broadcast is not a wait during backward."""
        turn = self._num_turns  # kept here: a word of somebody else's in between would put the second one out of place
        self._num_turns += 2
        self._line.post({"mark": "phase", "name": name, "turn": turn})
        try:
            yield
        finally:
            self._line.post({"mark": "phase", "name": "", "turn": turn + 1})

    def mark(self, name: str, **facts: Json) -> None:
        """A named moment in this rank's trace."""
        self._line.post({"mark": "mark", "name": name, "facts": facts})

    def compute(self, cost_s: float, name: str = "") -> None:
        """Declare arithmetic of `cost_s` virtual seconds."""
        self._line.post({"mark": "compute", "cost_s": cost_s, "name": name})

    def join(self) -> None:
        """In virtual time, wait for everything this rank has in flight."""
        self._line.post({"mark": "join"})

    def gate(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """The judge's secret numbers for this place, of `like`'s shape and dtype. Sleeps until he hands them out (`records.Gates`)."""
        import torch

        body = self._line.ask("gate", name=name, dtype=str(like.dtype).removeprefix("torch."), shape=list(like.shape))
        return torch.frombuffer(bytearray(body), dtype=like.dtype).view(like.shape)

    def report(self, **facts: Json) -> None:
        """Numbers beside the tensors. They come from the process that ran the submission: testimony."""
        self.facts |= facts

    # --- Triton without a GPU; these testify as well -------------------------------------------------------------------
    def watch_kernels(self, **tensors: torch.Tensor) -> AbstractContextManager[Watch]:
        """Flavour "interpreter": count bytes, find races and shuffle programs of the kernels launched inside; `watch.facts()` afterwards.

        `tensors` are called by these names in the facts; two watches of one observation draw different orders.
        """
        from grader.worker import triton_interpreter

        self._num_watches += 1
        return triton_interpreter.watch(self.seed + self._num_watches, tensors)

    def broken_bfloat16(self) -> list[str]:
        """Flavour "interpreter": which bfloat16 operations the interpreter gets wrong in spite of its repair; empty: none."""
        from grader.worker import triton_numbers

        if self.device.type == "cuda":
            return []  # the chip's own
        return triton_numbers.broken_bfloat16()

    def compile_kernels(self, capability: int) -> AbstractContextManager[list[Json]]:
        """Flavour "compiler": launches inside compile for that compute capability (90: Hopper); yields a list of facts, one per launch."""
        from grader.worker import triton_compiler

        return triton_compiler.compiling(capability)
