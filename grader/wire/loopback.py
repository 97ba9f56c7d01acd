"""Gloo's traffic from outside: do the bytes that the ranks' own network has carried agree with the calls that the recorder told of?

A recorder runs beside the submission, so that a trace can be made up; the counter of a loopback is the kernel's. Bounds are generous, since
algorithms differ: what is caught is a trace of traffic that never was, and numbers that crossed without a call.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys

from grader.records import Event, Fault, KiB, Outcome, Request

MOST_TIMES = 4  # gloo's all_reduce carries 2 (n − 1) times what each rank puts in, its all_gather n − 1 times: both below 4 n
HANDSHAKES_BYTES, EACH_CALL_BYTES = 256 * KiB, 16 * KiB  # pairs that meet, groups that are made; headers and acknowledgements
_SIOCGIFFLAGS, _IFF_UP = 0x8913, 1


def fault_of_traffic(outcome: Outcome) -> Fault | None:
    """The trace's quarrel with what the network has carried; None without a counter, or for a run that ended otherwise."""
    carried_bytes = outcome.loopback_bytes
    if carried_bytes is None or outcome.fault is not None:
        return None
    waited = {(event.rank, event.call) for event in outcome.events if event.kind == "wait"}
    calls = [event for event in outcome.events if event.kind == "issue"]
    least_bytes = sum(_least(call) for call in calls if (call.rank, call.call) in waited)
    most_bytes = sum(MOST_TIMES * len(call.group) * call.num_bytes + EACH_CALL_BYTES for call in calls)
    most_bytes += HANDSHAKES_BYTES * len(outcome.ranks) ** 2
    carried = f"the ranks' network has carried {carried_bytes:,} bytes"
    if carried_bytes < least_bytes:
        return Fault("forged", -1, f"{carried}; the calls that they told of need {least_bytes:,} at least: some of them never were")
    if carried_bytes > most_bytes:
        return Fault("forged", -1, f"{carried}; the calls that they told of explain {most_bytes:,} at most: numbers crossed without")
    return None


def _least(call: Event) -> int:
    """Bytes that some rank must have sent because this rank put in what it did: all but its own n-th, whatever the algorithm."""
    size = len(call.group)
    return call.num_bytes * (size - 1) // size if size > 1 else 0


def is_without_network(request: Request, outcome: Outcome) -> bool:
    """Whether gloo's ranks fell before any line of the submission was reached, on a machine on which they can't reach each other."""
    fell = [rank.raised for rank in outcome.ranks if rank.raised is not None]
    is_gloos = request.network.transport == "gloo" and outcome.loopback_bytes is None
    return is_gloos and bool(fell) and not any(raised.frames for raised in fell) and not is_loopback_up()


def is_loopback_up() -> bool:
    """Whether processes of this machine reach each other by its loopback interface."""
    if sys.platform != "linux":
        return True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        except OSError:
            return False
    return bool(struct.unpack("16xh22x", answer)[0] & _IFF_UP)
