"""The rank's end of the line to the judge: one socket, one reader thread, any number of threads that speak.

No torch in here: the recorder, the store and the probe's context use it as much as the process group does.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO

from grader import frames
from grader.frames import Bytes
from grader.records import Json

LINE_IS_CLOSED = "the judge has closed the line"
BUFFER_BYTES = 2**20  # what the kernel may hold of a large tensor, so that both ends can work at the same time


class Landing:
    """Where the judge's answer to one numbered frame lands."""

    def __init__(self) -> None:
        self.id = -1
        self.header: dict[str, Json] = {}
        self.body: Bytes = b""
        self.landed = threading.Event()

    def land(self, header: dict[str, Json], body: Bytes) -> None:
        """Called on the reader thread: keep the answer and wake whoever waits. Must never run code of the submission."""
        self.header, self.body = header, body
        self.landed.set()


class Line:
    """The connection of one rank. Every method may be called from any thread."""

    def __init__(self, sock: socket.socket, rank: int, world_size: int, submission_folder: str = "") -> None:
        """`sock` is connected and blocking, its opening frame already read; lines of `submission_folder` are the student's."""
        self.rank, self.world_size = rank, world_size
        self._folder = os.path.join(submission_folder, "") if submission_folder else ""
        self._sock = sock
        self._ids = itertools.count()
        self._speaking = threading.Lock()
        self._landings: dict[int, Landing] = {}
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        os.register_at_fork(after_in_child=sock.close)  # a forked child (a DataLoader's worker) must not speak for this rank
        threading.Thread(target=self._listen, daemon=True, name="judge's line").start()

    def post(self, header: dict[str, Json], parts: Sequence[Bytes] = (), landing: Landing | None = None) -> None:
        """Send one frame; with a `landing` it is numbered and will be answered there.

        The number is drawn and the frame sent under one lock: numbers are the order on the wire.
        """
        with self._speaking:
            if landing is not None:
                landing.id = header["id"] = next(self._ids)
                self._landings[landing.id] = landing
            frames.send(self._sock, header, parts)

    def ask(self, op: str, value: Bytes = b"", **fields: Json) -> Bytes:
        """Send an operation and sleep until the judge has answered it; the answer's body. RuntimeError if he refuses."""
        landing = Landing()
        self.post({"op": op, **fields, "at": self.student_line()}, [value] if value else (), landing)
        landing.landed.wait()
        if "error" in landing.header:
            raise RuntimeError(landing.header["error"])
        return landing.body

    def student_line(self) -> str:
        """Such as "collectives.py:41": the innermost frame of this thread inside the submission's folder; "" if there is none.

        A call from torch's own threads (DDP's reducer runs in the autograd engine) has no frame of the student's.
        """
        frame = sys._getframe(1)
        while frame is not None:
            path = frame.f_code.co_filename
            if self._folder and path.startswith(self._folder):
                return f"{os.path.basename(path)}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def _listen(self) -> None:
        stream = self._sock.makefile("rb")  # a small answer is one system call
        try:
            while True:
                head = stream.read(frames.HEAD.size)
                if len(head) < frames.HEAD.size:
                    raise EOFError(LINE_IS_CLOSED)
                header_bytes, body_bytes = frames.HEAD.unpack(head)
                header = json.loads(stream.read(header_bytes))
                try:
                    body = bytearray(body_bytes)
                except MemoryError:  # under a limit on memory: told to the caller, or this thread would end and everybody wait
                    header["error"] = f"MemoryError: there is no room for the {body_bytes} bytes that arrive"
                    body = _skip(stream, body_bytes)
                if body and stream.readinto(body) < body_bytes:
                    raise EOFError(LINE_IS_CLOSED)
                self._landings.pop(header["id"]).land(header, body)
        except (EOFError, OSError):
            for landing in list(self._landings.values()):
                landing.land({"error": LINE_IS_CLOSED}, b"")


def _skip(stream: BinaryIO, num_bytes: int) -> bytearray:
    """Read past a body that has no room, and return an empty one."""
    while num_bytes > 0:
        part = stream.read(min(num_bytes, 2**16))
        if not part:
            raise EOFError(LINE_IS_CLOSED)
        num_bytes -= len(part)
    return bytearray()
