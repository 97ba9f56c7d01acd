"""Ranks that are only bytes: what they say is written beforehand, and then they are gone."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from grader import frames
from grader.records import Limits, Outcome, Request
from grader.wire.broker import Broker
from grader.wire.endpoint import Endpoint
from grader.wire.policy import Policy
from tests.grader.wire.launch import request_for

SHORT = Limits(cpu_s=60.0, wall_s=60.0)


class Gone:
    """A supervisor whose ranks have all exited with status 0 by the time it is asked."""

    def __init__(self, world_size: int) -> None:
        self._read, self._write = os.pipe()
        os.write(self._write, b"x")
        self._exits = [(rank, 0) for rank in range(world_size)]

    def fileno(self) -> int:
        """Readable once."""
        return self._read

    def exits(self) -> list[tuple[int, int]]:
        """All ranks, the first time."""
        os.read(self._read, 1)
        exits, self._exits = self._exits, []
        return exits

    def stack(self, rank: int) -> str:
        """Nobody answers."""
        return ""

    def close(self) -> None:
        """Both ends of the pipe."""
        os.close(self._read)
        os.close(self._write)


def frame(header: Any, body: bytes = b"") -> bytes:
    """One frame as it travels."""
    return b"".join(bytes(part) for part in frames.pack(header, (body,)))


def lying_frame(header: bytes, body: bytes, header_bytes: int, body_bytes: int) -> bytes:
    """A frame whose lengths are whatever one says."""
    return frames.HEAD.pack(header_bytes, body_bytes) + header + body


def play(scripts: Sequence[bytes], request: Request | None = None, policy: Policy | None = None, purse_bytes: int | None = None) -> Outcome:
    """Let rank i say scripts[i] and leave; the broker's outcome. Whatever the broker answers is read and thrown away."""
    request = request or request_for(len(scripts), limits=SHORT)
    pairs = [socket.socketpair() for _ in scripts]
    threads = [threading.Thread(target=_speak, args=(theirs, script)) for (_, theirs), script in zip(pairs, scripts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(0.05)  # what doesn't fit into the socket is said while the broker listens
    gone = Gone(len(scripts))
    try:
        endpoints = [Endpoint(rank, os.getpid(), ours, -1, ({}, [])) for rank, (ours, _) in enumerate(pairs)]
        broker = Broker(request, endpoints, gone, policy=policy)
        if purse_bytes is not None:
            broker.purse.limit_bytes = purse_bytes
        return broker.run()
    finally:
        for pair in pairs:
            for end in pair:
                end.close()
        for thread in threads:
            thread.join()
        gone.close()


def _speak(line: socket.socket, script: bytes) -> None:
    try:
        line.sendall(script)
        line.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def operation(number: int, op: str, *, rank: int = 0, world_size: int = 2, **fields: Any) -> dict[str, Any]:
    """A well-formed header of a call with one tensor of four float32."""
    tensor = [["float32", [4]]]
    group = {"group": "0", "ranks": list(range(world_size)), "me": rank}
    return {"op": op, "id": number, **group, "ins": tensor, "outs": tensor} | fields
