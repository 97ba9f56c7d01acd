"""One observation's processes, as the judge holds them: a line, a log and a stack dump per rank, and the supervisor's word."""

from __future__ import annotations

import os
import select
import socket
import time
from dataclasses import dataclass, field

from grader.errors import MachineError
from grader.frames import Bytes, Words
from grader.records import Json, KiB

FORK_DEADLINE_S = 30.0
STACK_DEADLINE_S = 0.2
SWEEP_DEADLINE_S = 10.0


class Pipes:
    """The descriptors of one rank: our ends, and the ends that travel to it."""

    def __init__(self) -> None:
        self.line, self._its_line = socket.socketpair()
        self.log, self._its_log = os.pipe()
        self.stack = os.memfd_create("stack")

    def handed(self) -> tuple[int, int, int]:
        """In the order that the supervisor expects."""
        return self._its_line.fileno(), self._its_log, self.stack

    def close_handed(self) -> None:
        """Close our copies of what the rank now has."""
        self._its_line.close()
        os.close(self._its_log)

    def close(self) -> None:
        """Close our own ends."""
        self.line.close()
        os.close(self.log)
        os.close(self.stack)


@dataclass(slots=True)
class Started:
    """One rank that runs."""

    rank: int
    pid: int
    pipes: Pipes
    opening: tuple[Json, list[Bytes]] = field(repr=False)


class Launch:
    """Ranks that run, until `end`. What the broker needs of the process side: `fileno`, `exits`, `stack`."""

    def __init__(self, control: socket.socket, pipes: dict[int, Pipes], openings: dict[int, tuple[Json, list[Bytes]]]) -> None:
        self._control, self._words, self._pipes = control, Words(control), pipes
        self._exits: list[tuple[int, int]] = []
        self._swept = False
        self.loopback_bytes: int | None = None  # what the ranks' own network has carried, once it has ended; None: they have none
        try:
            pids = self._pids(len(pipes))
        except MachineError:
            self.end()
            raise
        self.started = [Started(rank, pid, pipes[rank], openings[rank]) for rank, pid in zip(pipes, pids, strict=True)]

    def fileno(self) -> int:
        """Readable when the supervisor has news."""
        return self._control.fileno()

    def exits(self) -> list[tuple[int, int]]:
        """(rank, exit status or -signal) of the ranks that ended since the last call; never blocks."""
        while select.select([self._control], [], [], 0)[0]:
            self._hear()
        news, self._exits = self._exits, []
        return news

    def stack(self, rank: int) -> str:
        """Where a live rank is: faulthandler's text of all its threads; "" if it doesn't say within STACK_DEADLINE_S."""
        fd = self._pipes[rank].stack
        before = os.fstat(fd).st_size
        try:
            self._words.say({"stack": rank})
        except OSError:
            return ""
        until, seen = time.monotonic() + STACK_DEADLINE_S, before
        while time.monotonic() < until:
            time.sleep(0.005)
            size = os.fstat(fd).st_size
            if size > before and size == seen:  # it has stopped growing
                break
            seen = size
        return os.pread(fd, 64 * KiB, before).decode(errors="replace")

    def end(self) -> None:
        """Kill what is left, wait until the supervisor has swept, close everything."""
        try:
            self._words.say({"end": True})
            while not self._swept and select.select([self._control], [], [], SWEEP_DEADLINE_S)[0]:
                self._hear()
        except (OSError, MachineError):
            pass  # it is gone: the zygote sweeps after it
        self._control.close()
        for pipe in self._pipes.values():
            pipe.close()

    def _pids(self, count: int) -> list[int]:
        if not select.select([self._control], [], [], FORK_DEADLINE_S)[0]:
            seen = f"the machine did not fork {count} ranks within {FORK_DEADLINE_S:.0f} s"
            raise MachineError(f"{seen}: is it short of memory or processes? Fewer --jobs need less")
        words = self._hear()
        pids: list[int] = words[0]["pids"]
        return pids

    def _hear(self) -> list[Json]:
        try:
            words = self._words.hear()
        except (EOFError, OSError) as gone:
            raise MachineError("the process that watches the ranks was killed") from gone
        self._exits += [tuple(word["exit"]) for word in words if "exit" in word]
        for word in words:
            if "swept" in word:
                self._swept, self.loopback_bytes = True, word["loopback_bytes"]
        return words
