"""The walls around a rank, laid after the fork and before anything of a submission is imported. `grader.levels` names the levels.

The zygote begins with what all runs share (a network, segments, a host name), the supervisor goes on with what an observation's ranks share
(processes, a user who owns their folders). Each rank lays the rest on itself: the files that it sees, its user, no capabilities, Landlock
(files, other processes), seccomp (system calls). `canary` finds which plan the machine carries.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from grader.levels import GROUP, NUM_USERS
from grader.records import Json
from grader.worker import kernel, landlock, limits, namespaces, seccomp

GRADER = Path(__file__).parents[1]
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/opt", "/proc", "/sys",
          *(f"/etc/{name}" for name in ("hosts", "nsswitch.conf", "resolv.conf", "host.conf", "gai.conf", "ld.so.cache", "ld.so.conf",
                                        "ld.so.conf.d", "localtime", "timezone", "mime.types", "alternatives",
                                        "passwd", "group")))  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MAKES_PROCESSES = frozenset({"compiler"})  # flavours: Triton's compiler starts ptxas
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL, _NUM_CAPABILITIES = 24, 47, 4, 64
_CAPABILITIES_V3 = 0x20080522
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is laid around each rank of this zygote."""

    level: str
    has_own_user: bool = False  # each run is a user of its own
    makes_user_namespace: bool = False  # the others are made in one: the zygote's user is not root
    num_tasks: int = 0  # processes and threads that the ranks' user had before


NONE = Plan("D")


# --- the zygote's part -----------------------------------------------------------------------------------------------
def leave(plan: Plan) -> None:
    """What all runs of a zygote share. The process has one thread."""
    if plan.makes_user_namespace:
        namespaces.enter_user()
    if plan.level == "A":
        namespaces.leave_machine()


# --- the supervisor's part -------------------------------------------------------------------------------------------
def enclose(plan: Plan, *, has_loopback: bool) -> int:
    """Separate this process's next children from all others, if the plan says so; the PID that they see as their parent's."""
    if plan.level != "A":
        return os.getpid()
    if has_loopback:
        namespaces.make_network()  # whose counter begins at 0, and is this run's alone
    namespaces.make_processes()
    return 0  # it is not among theirs


def give_away(plan: Plan, private: Path) -> None:
    """Make a folder its rank's own; whoever owns it is who the rank will be."""
    if plan.has_own_user:
        for folder in (private.parent.parent, private.parent):
            folder.chmod(0o711)  # to be gone through, not to be listed
        os.chown(private, GROUP + os.getpid() % NUM_USERS, GROUP)


# --- the rank's part -------------------------------------------------------------------------------------------------
@functools.cache
def libraries() -> list[Path]:
    """Where Python, its packages and the grader's half in the rank are; never the folder of the course itself."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()]
    named = {Path(each).absolute() for each in [*prefixes, *(path for path in sys.path if path)]}
    folders = named | {folder.resolve() for folder in named}
    course = GRADER.parent
    kept = {folder for folder in folders if folder != course and folder not in course.parents}
    return [*sorted(kept), *(GRADER / name for name in ("__init__.py", "records.py", "frames.py", "levels.py", "worker", "__pycache__"))]


def raise_around(order: Json, private: Path, plan: Plan) -> None:
    """Lay the walls on this process. It has one thread; what it may still reach is what this order needs."""
    if order.get("device") == "cuda" or not order.get("walls", True) or plan.level == "D":
        return
    submission, probes, given = (Path(order[name]) for name in ("submission", "probes", "given"))
    writing = [private]
    has_capped_memory = order.get("extra_bytes") is not None
    if order.get("shares_folder"):
        writing.append(shared := private.parent / "shared")
        shared.mkdir(exist_ok=True)
        os.chown(shared, private.stat().st_uid, private.stat().st_gid)
    reading = [*libraries(), *map(Path, SYSTEM), submission, given, probes, probes.parent / "__pycache__"]
    if plan.level == "A":
        namespaces.see_only(map(str, reading), map(str, writing[1:]), DEVICES, str(private))
    drop_privileges(private.stat().st_uid if plan.has_own_user else None)
    limits.cap_tasks(plan.num_tasks)
    speaks_tcp = order["transport"] == "gloo"
    if has_capped_memory:  # what is in a file is kept in memory that a limit doesn't count
        reading, writing = [*reading, private], writing[1:]
    landlock.restrict(reading, writing, map(Path, DEVICES), speaks_tcp=speaks_tcp)
    if seccomp.is_known_here():
        seccomp.install(seccomp.own_filter(
            families=seccomp.INTERNET if speaks_tcp else (), makes_processes=order.get("flavour") in MAKES_PROCESSES,
            has_capped_memory=has_capped_memory,
        ))  # fmt: skip


def drop_privileges(user: int | None) -> None:
    """Be `user`, if there is one; have no capabilities, and no way to get them back."""
    if sys.platform != "linux":
        return
    _LIBC.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(_NUM_CAPABILITIES):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(GROUP, GROUP, GROUP)
        os.setresuid(user, user, user)
        kernel.be_readable()  # a new user's process is not, and has forgotten with whom it dies
        kernel.die_with_parent(os.getppid())
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), (ctypes.c_uint32 * 6)()
    _LIBC.capset(header, nothing)
