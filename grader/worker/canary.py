"""The canary: a process in a rank's walls tries what they must deny, before any submission runs. What it saw denied is the label.

Also how the plan is chosen: the strongest one in which a canary lived, and saw everything denied that the plan's level is named for.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import json
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from grader.levels import is_enough, level_of
from grader.records import Json
from grader.worker import kernel, landlock, limits, namespaces, walls
from grader.worker.walls import GRADER, NONE, Plan

_CHOWN, _SETGID, _SETUID, _SYS_ADMIN = 0, 6, 7, 21  # capabilities
_PTRACE_SEIZE = 0x4206
_LIBC = ctypes.CDLL(None, use_errno=True)


def choose(private: Path, judge: int, flavour: str, at_most: str, needed: Sequence[Path]) -> tuple[Plan, Json]:
    """The strongest plan of level `at_most` or below that the machine carries, and what its canary saw: {"landlock", "denied", ...}.

    needed  what ranks must be able to go through, whoever they are

    The process has one thread; it may be in a user namespace afterwards.
    """
    if sys.platform != "linux" or at_most == NONE.level:
        return NONE, {"landlock": 0, "denied": {}, "refused": {}}
    refused: dict[str, str] = {}
    for plan in plans(at_most):
        seen = witnessed(plan, private, judge, flavour, needed)
        if not seen["trouble"] and is_enough(level_of(seen), plan.level):
            walls.leave(plan)
            return plan, seen | {"refused": refused}
        refused.setdefault(plan.level, seen["trouble"] or "something was not denied")
    least = Plan("C")  # whichever of its layers the machine has
    return least, witnessed(least, private, judge, flavour, needed) | {"refused": refused}


def plans(at_most: str) -> Iterator[Plan]:
    """What is worth a try, the strongest first."""
    held = capabilities()
    is_admin = bool(held >> _SYS_ADMIN & 1)
    may_change_user = all(held >> each & 1 for each in (_CHOWN, _SETGID, _SETUID))
    offered = [Plan("A", has_own_user=True)] if is_admin and may_change_user else []
    offered += [Plan("A", makes_user_namespace=not is_admin), *([Plan("B", has_own_user=True)] if may_change_user else []), Plan("C")]
    yield from (plan for plan in offered if is_enough(at_most, plan.level))


def capabilities(which: str = "CapEff") -> int:
    """The set of that name of this process, a bit for each."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{which}:")), 16)


def witnessed(plan: Plan, private: Path, judge: int, flavour: str, needed: Sequence[Path] = ()) -> Json:
    """What a process in that plan's walls was denied, or the trouble with building them."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            told = _be_supervisor(plan, private, judge, flavour, needed, write)
        except Exception as trouble:
            told = {"trouble": f"{type(trouble).__name__}: {trouble}"}
        if told:
            os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as telling:
        answer = telling.read()
    os.waitpid(pid, 0)
    blank = {"landlock": landlock.abi(), "denied": {}, "trouble": "" if answer else "a canary said nothing"}
    return blank | (json.loads(answer) if answer else {})


def _be_supervisor(plan: Plan, private: Path, judge: int, flavour: str, needed: Sequence[Path], write: int) -> Json:
    """In the child: what a supervisor does, and one rank, which writes what it saw."""
    outside = _whereabouts()
    kernel.adopt_orphans()
    walls.leave(plan)
    walls.give_away(plan, private)
    walls.enclose(plan, has_loopback=True)
    if os.fork() == 0:
        try:
            order = {"submission": private, "probes": private, "given": private, "transport": "wire", "flavour": flavour, "extra_bytes": 0}
            if needed:
                order |= {"probes": needed[0] / "any", "given": needed[0], "submission": needed[-1]}
            walls.raise_around(order, private, plan)
            closed = [str(path) for path in needed if not os.access(path, os.X_OK)]
            trouble = f"{closed[0]} is closed to other users" if closed else ""
            os.write(write, json.dumps({"denied": _denied(private, judge, outside), "trouble": trouble}).encode())
        except Exception as refused:
            os.write(write, json.dumps({"trouble": f"{type(refused).__name__}: {refused}"}).encode())
        finally:
            os._exit(0)
    while kernel.children():
        os.waitpid(kernel.children()[-1], 0)  # the rank; then the first of its namespace, which waits for the end
        kernel.sweep()
    return None


# --- what it tries ---------------------------------------------------------------------------------------------------
def _denied(private: Path, judge: int, outside: dict[str, int]) -> dict[str, bool]:
    """Each thing that must not be possible, and whether it was refused."""
    tries: dict[str, Callable[[], object]] = {
        "reads": lambda: os.listdir(GRADER.parent), "reads_code": lambda: open(GRADER / "cli.py").close(),
        "writes": lambda: open(private.parent / "canary", "w").close(),
        "environment": lambda: Path(f"/proc/{judge}/environ").read_bytes(), "memory": lambda: open(f"/proc/{judge}/mem", "rb").close(),
        "descriptors": lambda: os.readlink(f"/proc/{judge}/fd/0"), "signal": lambda: os.kill(judge, 0),
        "trace": lambda: _called(_LIBC.ptrace(_PTRACE_SEIZE, judge, None, None)), "socket": lambda: socket.socket().close(),
        "memfd": lambda: os.close(os.memfd_create("canary")), "segment": lambda: _called(_LIBC.shmget(0, 4096, 0o1600)),
        "limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, resource.RLIM_INFINITY)),
        "mode": lambda: os.chmod(private, 0o700), "threads": _start_one_too_many,
        "paths": lambda: os.stat(GRADER / "cli.py"), "processes": _see_strangers, "capabilities": _have_capabilities,
    }  # fmt: skip
    tries |= {what: functools.partial(_share, what, outside) for what in outside}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return {name: _is_refused(attempt) for name, attempt in tries.items()}


def _whereabouts() -> dict[str, int]:
    """Who this process is, and in which namespaces."""
    return namespaces.inodes() | {"user": os.getuid()}


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError):
        return True
    return False


def _start_one_too_many() -> None:
    """Start a thread where the user may have none: what the kernel counts it refuses, and root's it doesn't count."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    if not 0 <= most <= limits.NUM_TASKS_LIMIT:
        return
    resource.setrlimit(resource.RLIMIT_NPROC, (0, most))
    try:
        _thread.start_new_thread(int, ())
    except RuntimeError as refused:
        raise PermissionError from refused


def _see_strangers() -> None:
    """Find a process that is neither this one nor the first of its namespace."""
    if {name for name in os.listdir("/proc") if name.isdigit()} <= {"1", str(os.getpid())}:
        raise ProcessLookupError


def _share(what: str, outside: dict[str, int]) -> None:
    """Be in the judge's namespace of that kind, or its user."""
    if _whereabouts()[what] != outside[what]:
        raise PermissionError


def _have_capabilities() -> None:
    """Hold any, or be able to get any."""
    if not any(map(capabilities, ("CapInh", "CapPrm", "CapEff", "CapAmb"))):  # CapBnd gives none to who may gain no privileges
        raise PermissionError


def _called(returned: int) -> None:
    if returned < 0:
        raise OSError(ctypes.get_errno(), "refused")
