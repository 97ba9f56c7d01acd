"""A rank's output, read while it runs so that it never blocks: its head and its tail are kept."""

from __future__ import annotations

import os
from collections import deque

CHUNK_BYTES = 64 * 1024


class Log:
    """What came through the pipe `descriptor` (-1: no pipe), at most `limit_bytes` of the head and as much of the tail."""

    def __init__(self, descriptor: int, limit_bytes: int) -> None:
        self.descriptor = descriptor
        self._limit_bytes = limit_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = self._lost_bytes = 0
        if descriptor >= 0:
            os.set_blocking(descriptor, False)

    def read(self, most_chunks: int = 16) -> bool:
        """Take what is there. False when all writers have closed the pipe, or there is none."""
        for _ in range(most_chunks):
            try:
                chunk = os.read(self.descriptor, CHUNK_BYTES) if self.descriptor >= 0 else b""
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            self._keep(chunk)
        return True

    def _keep(self, chunk: bytes) -> None:
        room = max(0, self._limit_bytes - len(self._head))
        self._head += chunk[:room]
        rest = chunk[room:]
        if not rest:
            return
        self._tail.append(rest)
        self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._limit_bytes:
            gone = len(self._tail.popleft())
            self._tail_bytes -= gone
            self._lost_bytes += gone

    def text(self) -> str:
        """Head and tail, with a word on what is missing between them."""
        tail = b"".join(self._tail)
        lost_bytes = self._lost_bytes + max(0, len(tail) - self._limit_bytes)
        tail = tail[-self._limit_bytes :] if self._limit_bytes else b""
        middle = f"\n... {lost_bytes} bytes left out ...\n" if lost_bytes else ""
        return self._head.decode(errors="replace") + middle + tail.decode(errors="replace")
