"""The judge's end of one rank's line: whole frames out of a non-blocking socket, answers into it, memory counted."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from grader import frames
from grader.frames import Bytes
from grader.records import GiB, Json, KiB
from grader.wire.words import Malformed

AHEAD_BYTES = 16 * KiB  # one read brings many small frames; larger bodies go straight to where they stay
FRAMES_PER_TURN = 64  # so that one talkative rank doesn't keep the others waiting
Admitted = TypeVar("Admitted")
QUEUE_LIMIT_FRAMES = 100_000
HELD_LIMIT_BYTES = 4 * GiB


@dataclass(slots=True)
class Purse:
    """Bytes of the ranks' tensors that the judge may hold at a time, shared by all lines of a run."""

    limit_bytes: int = HELD_LIMIT_BYTES
    held_bytes: int = 0
    peak_bytes: int = 0

    def take(self, num_bytes: int) -> None:
        self.held_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        if self.held_bytes > self.limit_bytes:
            raise Malformed(f"makes the judge hold {self.held_bytes} bytes of tensors under way; {self.limit_bytes} are allowed")

    def give_back(self, num_bytes: int) -> None:
        self.held_bytes -= num_bytes


class Channel(Generic[Admitted]):
    """Frames of one rank. `admit(header, body_bytes)` judges each header before its body is read, and raises Malformed to refuse it."""

    def __init__(self, line: socket.socket, admit: Callable[[bytearray, int], Admitted], purse: Purse) -> None:
        line.setblocking(False)
        self.line, self.is_closed = line, False
        self._admit, self._purse = admit, purse
        self._queue: deque[memoryview] = deque()
        self._spare = memoryview(bytearray(AHEAD_BYTES))
        self._ahead = self._spare[:0]
        self._begin()

    def _begin(self) -> None:
        self._stage, self._buffer, self._got, self._body_bytes = "head", bytearray(frames.HEAD.size), 0, 0
        self._admitted: Admitted | None = None

    # --- reading
    def read(self) -> Iterator[tuple[Admitted, bytearray]]:
        """The frames that have arrived whole, at most `FRAMES_PER_TURN`. Sets `is_closed` at the line's end."""
        for _ in range(FRAMES_PER_TURN):
            if not self._fill():
                return
            body = self._buffer
            admitted = self._admitted
            self._begin()
            assert admitted is not None
            yield admitted, body

    @property
    def has_more(self) -> bool:
        """Bytes that were read ahead and not yet looked at: the socket won't call for them. Of a closed line nobody will look at any."""
        return bool(self._ahead) and not self.is_closed

    def _fill(self) -> bool:
        """Read on until a frame is whole (True) or nothing more is there (False)."""
        while True:
            while self._got < len(self._buffer):
                if not self._take():
                    return False
            if self._stage == "body":
                return True
            self._next_stage()

    def _take(self) -> bool:
        """Some bytes into the buffer: what was read ahead, a large body straight from the socket, or a new piece ahead."""
        wanted = len(self._buffer) - self._got
        if not self._ahead and wanted < AHEAD_BYTES:
            count = self._receive(self._spare)
            self._ahead = self._spare[:count]
        if self._ahead:
            piece = self._ahead[:wanted]
            self._buffer[self._got : self._got + len(piece)] = piece
            self._ahead = self._ahead[len(piece) :]
            self._got += len(piece)
            return True
        if wanted < AHEAD_BYTES:
            return False
        count = self._receive(memoryview(self._buffer)[self._got :])
        self._got += count
        return count > 0

    def _receive(self, into: memoryview) -> int:
        """Bytes received; 0 if there are none now, or at the line's end."""
        try:
            count = self.line.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            count = 0
        self.is_closed = not count
        return count

    def _next_stage(self) -> None:
        if self._stage == "head":
            header_bytes, self._body_bytes = frames.HEAD.unpack(self._buffer)
            if header_bytes > frames.HEADER_LIMIT_BYTES or self._body_bytes > frames.BODY_LIMIT_BYTES:
                raise Malformed(f"announces a frame of {header_bytes} + {self._body_bytes} bytes")
            self._stage, self._buffer = "header", bytearray(header_bytes)
        else:
            self._admitted = self._admit(self._buffer, self._body_bytes)
            self._purse.take(self._body_bytes)
            self._stage, self._buffer = "body", bytearray(self._body_bytes)
        self._got = 0

    # --- writing
    @property
    def is_sending(self) -> bool:
        """Something that was written has not reached the rank's side of the line yet."""
        return bool(self._queue)

    def write(self, header: Json, body: Bytes = b"") -> None:
        """Queue one frame and send what the line takes now. The body is not copied: it must not change any more."""
        self.write_parts(header, (body,))

    def write_parts(self, header: Json, parts: tuple[Bytes, ...]) -> None:
        if self.is_closed:
            return
        if len(self._queue) > QUEUE_LIMIT_FRAMES:
            raise Malformed("asks for ever and reads no answer")
        self._queue.extend(memoryview(part).cast("B") for part in frames.pack(header, parts))
        self.flush()

    def flush(self) -> None:
        """Send as much of the queue as the line takes. A rank that is gone takes nothing, and is noticed when it is read."""
        try:
            while self._queue:
                sent = self.line.sendmsg(list(self._queue)[:8])
                while self._queue and sent >= len(self._queue[0]):
                    sent -= len(self._queue.popleft())
                if sent:
                    self._queue[0] = self._queue[0][sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._queue.clear()
