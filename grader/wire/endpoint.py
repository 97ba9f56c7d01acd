"""What the broker needs of the process side: one endpoint per rank, and the supervisor's word on them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grader.frames import Bytes
from grader.records import Json


@dataclass(slots=True)
class Endpoint:
    """One rank as the judge holds it. The broker makes `line` and `log` non-blocking and closes neither."""

    rank: int
    pid: int
    line: socket.socket
    log: int  # read end of the pipe that is the rank's stdout and stderr; -1: none, it has the terminal
    opening: tuple[Json, Sequence[Bytes]]  # the first frame the rank gets: its inputs


class Supervision(Protocol):
    """The launcher's side of a run."""

    def fileno(self) -> int:
        """A descriptor that is readable when `exits` has news."""
        ...

    def exits(self) -> list[tuple[int, int]]:
        """(rank, exit status or -signal) of the ranks that have gone since the last call. Never blocks; MachineError if it can't know."""
        ...

    def stack(self, rank: int) -> str:
        """faulthandler's text of a live rank, all threads; "" if it doesn't answer within 0.2 s."""
        ...
