"""How records travel between the judge and a rank: 12 bytes (header length, body length), a JSON header, raw tensor bytes.

Both ends read this file. Nothing here can run anything: JSON and bytes, each with a limit.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence

from grader.records import GiB, Json, MiB

HEAD = struct.Struct("<IQ")
HEADER_LIMIT_BYTES = 4 * MiB
BODY_LIMIT_BYTES = 2 * GiB

Bytes = bytes | bytearray | memoryview


def pack(header: Json, parts: Sequence[Bytes] = ()) -> list[Bytes]:
    """A frame as a list of buffers for `sendmsg`; bodies are not copied."""
    head = json.dumps(header, separators=(",", ":")).encode()
    return [
        HEAD.pack(len(head), sum(memoryview(part).nbytes for part in parts)) + head,
        *(part for part in parts if memoryview(part).nbytes),
    ]


def send(line: socket.socket, header: Json, parts: Sequence[Bytes] = ()) -> None:
    """Write one frame to a blocking socket."""
    buffers = pack(header, parts)
    sent = line.sendmsg(buffers)
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        if sent >= view.nbytes:
            sent -= view.nbytes
            continue
        line.sendall(view[sent:])
        sent = 0


def receive(line: socket.socket) -> tuple[Json, bytearray]:
    """Read one frame from a blocking socket; EOFError when the other end is gone."""
    header_bytes, body_bytes = HEAD.unpack(exactly(line, HEAD.size))
    header = json.loads(exactly(line, header_bytes))
    return header, exactly(line, body_bytes) if body_bytes else bytearray()


def exactly(line: socket.socket, num_bytes: int) -> bytearray:
    """Read `num_bytes` from a blocking socket; EOFError when it ends before."""
    buffer = bytearray(num_bytes)
    view, got = memoryview(buffer), 0
    while got < num_bytes:
        count = line.recv_into(view[got:])
        if not count:
            raise EOFError("the line was closed")
        got += count
    return buffer


class Words:
    """Short JSON lines over a socket: the process side's small talk (pids, exits), where a body never travels."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._rest = b""

    def say(self, word: Json) -> None:
        """Send one word; OSError when the other end is gone."""
        self._line.sendall(json.dumps(word).encode() + b"\n")

    def hear(self) -> list[Json]:
        """Everything that one read brings, complete words only; EOFError when the other end is gone."""
        chunk = self._line.recv(1 << 16)
        if not chunk:
            raise EOFError("the line was closed")
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]
