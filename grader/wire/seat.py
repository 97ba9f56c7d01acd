"""All that the judge knows of one rank while it runs."""

from __future__ import annotations

import signal
import time

from grader.frames import Bytes
from grader.records import Event, Fault, Json, Raised, Tensor
from grader.wire.calls import Call
from grader.wire.channel import Channel
from grader.wire.endpoint import Endpoint
from grader.wire.kernel import cpu_seconds
from grader.wire.log import Log
from grader.wire.trace import Trace
from grader.wire.words import Word

DEPARTURES = {"cpu_limit": "computes without end", "silent": "has gone silent", "malformed": "was cut off", "memory": "ran out of memory"}


class Seat:
    """One rank's place at the judge's table."""

    def __init__(self, endpoint: Endpoint, channel: Channel[Word | Call], log_bytes: int) -> None:
        self.rank, self.pid = endpoint.rank, endpoint.pid
        self.channel, self.log, self.trace = channel, Log(endpoint.log, log_bytes), Trace(endpoint.rank)
        # what it waits for
        self.calls: dict[int, Call] = {}  # unanswered or not yet waited for, by id
        self.waits: dict[int, Call] = {}  # announced and unanswered
        self.held: dict[int, tuple[dict[str, Json], Bytes]] = {}  # late delivery: answers that nobody has waited for
        self.open_calls: dict[int, Event] = {}  # gloo: issued and not done, by number
        self.awaited: set[int] = set()  # gloo: numbers of open calls that are waited for
        self.last_id = -1
        self.stored_bytes = 0  # what it has put into the rendezvous store
        # signs of life
        self.heard_s = time.monotonic()
        self.cpu_at_word_s = self.cpu_s = cpu_seconds(self.pid)
        self.last_word: object = "its start"  # spelled out only when a message needs it
        self.is_writable_awaited = False
        # how it left
        self.is_live = True  # it may still act on the others
        self.left_s: float | None = None  # since when it has not
        self.has_answered = False
        self.exit_status: int | None = None
        self.fall: Fault | None = None
        self.raised: Raised | None = None
        self.outputs: dict[str, Tensor] = {}
        self.facts: dict[str, Json] = {}

    def hear(self, word: object) -> None:
        """A sign of life: its CPU and silence count from here."""
        self.heard_s, self.last_word = time.monotonic(), word
        self.cpu_at_word_s = self.cpu_s = cpu_seconds(self.pid) or self.cpu_s

    def look(self) -> float:
        """CPU seconds since its last word."""
        self.cpu_s = cpu_seconds(self.pid) or self.cpu_s
        return self.cpu_s - self.cpu_at_word_s

    def leave(self) -> None:
        """It acts on nobody any more."""
        self.is_live = False
        self.left_s = self.left_s or time.monotonic()
        self.waits.clear()

    @property
    def departure(self) -> str:
        """Completes "rank 1 ..." for a rank that others wait for and that will not come."""
        if self.raised is not None:
            return f"has raised {self.raised.type}"
        if self.fall is not None:
            return DEPARTURES.get(self.fall.kind) or describe_exit(self.exit_status)
        return "has ended its probe" if self.has_answered else "has left"


def describe_exit(status: int | None) -> str:
    """Completes "rank 1 ..." for an exit status (negative: the signal that killed it)."""
    if status is None:
        return "has closed its line to the judge"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"has exited with status {status}"
