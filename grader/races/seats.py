"""One process of a race as the judge holds it: what it says, checked, and when it may run at all."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from grader import frames
from grader.records import Json, KiB, MiB

HEADER_LIMIT_BYTES = 2 * MiB  # the keeper's errors are the longest
LOG_KEPT_BYTES = 8 * KiB


class Fallen(Exception):
    """A process of a race has ended, hung, or said what no worker of ours says; the text completes its name."""


class Word(msgspec.Struct):
    """What a racer or the keeper may say. Unknown fields are ignored."""

    op: str = ""
    id: int = -1
    say: str = ""
    testified_s: float | None = None
    slots: int = 0
    memory: list[Any] = []
    errors: list[tuple[int, str, tuple[float | None, float | None], tuple[float | None, float | None]]] = []
    bytes_per_s: float = 0.0
    flops_per_s: float = 0.0
    moved_bytes: float = 0.0
    flops: float = 0.0
    link_bytes_per_s: float = 0.0
    sent_bytes: float = 0.0
    begun: bool = False
    raised: dict[str, Any] | None = None


class Seat:
    """A process that waits for a word of the judge's, or works on one."""

    def __init__(self, pid: int, line: socket.socket, log: int, opening: tuple[Json, list[frames.Bytes]]) -> None:
        self.pid, self.log = pid, b""
        self._line, self._log_fd, self._opening, self._asked = line, log, opening, -1
        line.setblocking(True)

    def tell(self) -> None:
        """Tell it what it is; `hear(begun=True)` returns once it is set up."""
        frames.send(self._line, *self._opening)

    def fds(self) -> list[int]:
        """What becomes readable when it speaks or writes to its log."""
        return [self._line.fileno(), *([self._log_fd] if self._log_fd >= 0 else [])]

    def has_spoken(self, ready: Sequence[int]) -> bool:
        """Whether there is something to hear, of `fds` that are ready; its log is read on the way."""
        if self._log_fd in ready:
            self._read_log()
        return self._line.fileno() in ready

    def answer(self, word: Json) -> None:
        """Answer what it has asked: that is how it is told what to do next. A racer may not read: then it hears nothing."""
        body = json.dumps(word).encode()
        with contextlib.suppress(OSError):
            self._line.sendall(b"".join(frames.pack({"id": self._asked}, [body])))

    def hear(self, say: str, deadline_s: float, *, begun: bool = False) -> Word:
        """The next word of that sort; raises Fallen for an end, an exception, or silence."""
        until = time.monotonic() + deadline_s
        while True:
            word = self._word(until)
            if word.raised is not None:
                raise Fallen(f"raised {word.raised.get('type')}: {word.raised.get('message')}")
            if begun and word.begun:
                return word
            if word.op == "race":
                self._take_turn(word)
                if word.say == say and not begun:
                    return word

    def _take_turn(self, word: Word) -> None:
        """Questions are numbered as they are asked: one with an old number was never asked by our side of the process."""
        if word.id <= self._asked:
            raise Fallen("spoke, or ended, out of turn")
        self._asked = word.id

    def require_silence(self) -> None:
        """Raises Fallen if it has spoken though it was not asked: a "done" that is there before "go" would end its window at once."""
        if select.select([self._line], [], [], 0)[0]:
            raise Fallen("spoke, or ended, out of turn")

    def freeze(self) -> None:
        """Let it do nothing, on the host at least, until it is its turn."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        try:
            os.kill(self.pid, which)
        except ProcessLookupError:
            raise Fallen("has ended") from None

    def _word(self, until: float) -> Word:
        header_bytes, body_bytes = frames.HEAD.unpack(self._exactly(frames.HEAD.size, until))
        if header_bytes > HEADER_LIMIT_BYTES or body_bytes:
            raise Fallen(f"announced a frame of {header_bytes} + {body_bytes} bytes")
        try:
            return msgspec.json.decode(self._exactly(header_bytes, until), type=Word)
        except (msgspec.DecodeError, RecursionError) as unfit:
            raise Fallen(f"said what no racer says: {unfit}") from None

    def _exactly(self, num_bytes: int, until: float) -> bytes:
        parts, missing = [], num_bytes
        while missing:
            ready, _, _ = select.select(self.fds(), [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise Fallen("did not answer in time")
            if self.has_spoken(ready):
                try:
                    part = self._line.recv(min(missing, 2**16))
                except OSError:
                    part = b""
                if not part:
                    raise Fallen("has ended")
                parts.append(part)
                missing -= len(part)
        return b"".join(parts)

    def _read_log(self) -> None:
        part = os.read(self._log_fd, 2**16)
        self.log = (self.log + part)[-LOG_KEPT_BYTES:]
        if not part:
            self._log_fd = -1  # closed; the descriptor stays its owner's
