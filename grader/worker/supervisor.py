"""The supervisor: one process per observation. Forks the ranks, reports how they end, leaves nothing behind.

It never reads what a rank wrote. Its line to the judge ("control") carries JSON lines: out {"pids": [...]}, {"exit": [rank, status]},
{"swept": true, "loopback_bytes": n or null}; in {"stack": rank}, {"end": true}. The end of that line is the end of the ranks.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from pathlib import Path
from typing import NoReturn

from grader.frames import Words
from grader.records import Json, MiB
from grader.worker import kernel, namespaces, walls
from grader.worker.walls import NONE, Plan

FDS_PER_RANK = 3  # line, log, stack
DISK_BYTES_LIMIT, DISK_EVERY_S = 512 * MiB, 0.1  # of an observation's folder; one file has a limit of its own


class Gone(BaseException):
    """The zygote died: no time for anything but tidying up."""


def main(order: Json, fds: list[int], folder: Path, plan: Plan) -> NoReturn:
    """Run one observation's ranks to their end, then exit."""
    try:
        plan = plan if order["walls"] else NONE
        parent = os.getppid()
        os.setsid()
        kernel.adopt_orphans()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, _gone)
        kernel.die_with_parent(parent, by=signal.SIGTERM)
        control = socket.socket(fileno=fds[0])
        try:
            supervise(control, order, fds[1:], folder, plan)
        except (Gone, OSError, EOFError):
            pass  # nobody is left to report to
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            kernel.sweep()
            kernel.remove(folder)
        has_counter = plan.level == "A" and order["has_loopback"]
        Words(control).say({"swept": True, "loopback_bytes": namespaces.loopback_bytes() if has_counter else None})
    finally:
        os._exit(0)


def supervise(control: socket.socket, order: Json, fds: list[int], folder: Path, plan: Plan) -> None:
    """Fork the ranks and report their ends until all are gone or the judge has enough."""
    live = fork_ranks(order, fds, folder, [control.fileno()], plan)
    judge = Words(control)
    judge.say({"pids": list(live.values())})
    pidfds = {os.pidfd_open(pid): rank for rank, pid in live.items()}
    while True:  # also with no rank left: the judge ends an observation, not the ranks
        ready, _, _ = select.select([control.fileno(), *pidfds], [], [], DISK_EVERY_S if live else None)
        if not ready and num_bytes_in(folder) > DISK_BYTES_LIMIT:
            for pid in live.values():
                os.kill(pid, signal.SIGKILL)
        for fd in ready:
            if fd == control.fileno():
                for word in judge.hear():
                    if "end" in word:
                        return
                    if word["stack"] in live:
                        os.kill(live[word["stack"]], signal.SIGUSR1)
            else:
                rank = pidfds.pop(fd)
                os.close(fd)
                status = os.waitstatus_to_exitcode(os.waitpid(live.pop(rank), 0)[1])
                judge.say({"exit": [rank, status]})


def fork_ranks(order: Json, fds: list[int], folder: Path, others: list[int], plan: Plan) -> dict[int, int]:
    """-> {rank: pid}. Each rank gets a session and a folder of its own, and only its own descriptors."""
    from grader.worker import rank as shim

    me, pids = walls.enclose(plan, has_loopback=order["has_loopback"]), {}
    for rank in order["ranks"]:
        private = folder / f"rank{rank}"
        private.mkdir(parents=True)
        walls.give_away(plan, private)
        line, log, stack = fds[:FDS_PER_RANK]
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            kernel.die_with_parent(me)
            for fd in [*others, *fds[FDS_PER_RANK:]]:
                os.close(fd)
            shim.main(line, log, stack, private, plan)
        pids[rank] = pid
        for fd in (line, log, stack):
            os.close(fd)
        fds = fds[FDS_PER_RANK:]
    return pids


def num_bytes_in(folder: Path) -> int:
    """What the files under `folder` take on the disk."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it has just been removed
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
    return total


def _gone(*_: object) -> NoReturn:
    raise Gone
