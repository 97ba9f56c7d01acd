"""What the kernel says about a rank, read from outside: CPU spent, and whether all of its threads sleep for ever."""

from __future__ import annotations

import os
import platform
import time

# System call -> index of the argument that bounds the sleep; None: nothing does. Linux numbers per machine.
ENDLESS_SLEEPS: dict[str, dict[int, int | None]] = {
    # futex, recvfrom, recvmsg, read, ppoll, poll, epoll_wait, epoll_pwait
    "x86_64": {202: 3, 45: None, 47: None, 0: None, 271: 2, 7: 2, 232: 3, 281: 3},
    # futex, recvfrom, recvmsg, read, ppoll, epoll_pwait
    "aarch64": {98: 3, 207: None, 212: None, 63: None, 73: 2, 22: 3},
}
NO_BOUND = {0, 2**32 - 1, 2**64 - 1}  # a null pointer, or -1 ms as an int or a long


def cpu_seconds(pid: int) -> float:
    """CPU seconds that all threads of `pid` have used, by its own clock (ns resolution, running threads included); 0.0 when it's gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the clock that clock_getcpuclockid(3) names
    except OSError:
        return 0.0


def is_asleep_for_ever(pid: int) -> bool | None:
    """True: every thread sleeps in a call that nothing but another process can end. False: one runs, or has a timer.

    None: the kernel doesn't tell (another system, no permission). If the CPU clock stands still over the scan, no thread ran between
    two looks, so the looks are one snapshot.
    """
    before = cpu_seconds(pid)
    try:
        sleeps = all(_sleeps_for_ever(f"/proc/{pid}/task/{thread}/syscall") for thread in os.listdir(f"/proc/{pid}/task"))
    except (OSError, IndexError, ValueError):
        return None
    return sleeps and cpu_seconds(pid) == before


def _sleeps_for_ever(path: str) -> bool:
    with open(path) as file:
        words = file.read().split()
    if words[0] == "running":
        return False
    bounds = ENDLESS_SLEEPS.get(platform.machine(), {})
    number = int(words[0])
    if number not in bounds:
        return False
    bound = bounds[number]
    return bound is None or int(words[1 + bound], 16) in NO_BOUND
