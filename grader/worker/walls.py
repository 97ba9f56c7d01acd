"""The walls around a rank: what it lays on itself after the fork and before anything of a submission is imported.

    C  Landlock (files, other processes), seccomp (system calls), no capabilities, limits: needs no privilege
    D  limits and a process of its own, where the kernel knows none of these (or a debugger is at work)

A canary in the same walls tries what they must deny, and what it has seen denied is the label; nothing else is.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import resource
import socket
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from grader.records import Json
from grader.worker import landlock, seccomp

GRADER = Path(__file__).parents[1]
SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/opt", "/proc", "/sys",
          *(f"/etc/{name}" for name in ("hosts", "nsswitch.conf", "resolv.conf", "host.conf", "gai.conf", "ld.so.cache", "ld.so.conf",
                                        "ld.so.conf.d", "localtime", "timezone", "mime.types", "alternatives",
                                        "passwd", "group")))  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
MAKES_PROCESSES = frozenset({"compiler"})  # flavours: Triton's compiler starts ptxas
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL, _NUM_CAPABILITIES = 24, 47, 4, 64
_CAPABILITIES_V3 = 0x20080522
_PTRACE_SEIZE = 0x4206
_LIBC = ctypes.CDLL(None, use_errno=True)


@functools.cache
def libraries() -> list[Path]:
    """Where Python, its packages and the grader's half in the rank are; never the folder of the course itself."""
    prefixes = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()]
    folders = {Path(each).resolve() for each in [*prefixes, *(path for path in sys.path if path)]}
    course = GRADER.parent
    kept = {folder for folder in folders if folder != course and folder not in course.parents}
    return [*sorted(kept), *(GRADER / name for name in ("__init__.py", "records.py", "frames.py", "worker", "__pycache__"))]


def raise_around(order: Json, private: Path) -> None:
    """Lay the walls on this process. It has one thread; what it may still reach is what this order needs."""
    if order.get("device") == "cuda" or not order.get("walls", True):
        return
    submission, probes, given = (Path(order[name]) for name in ("submission", "probes", "given"))
    drop_capabilities()
    writing = [private]
    if order.get("shares_folder"):
        writing.append(shared := private.parent / "shared")
        shared.mkdir(exist_ok=True)
    speaks_tcp = order["transport"] == "gloo"
    landlock.restrict(
        [*libraries(), *map(Path, SYSTEM), submission, given, probes, probes.parent / "__pycache__"], writing,
        map(Path, DEVICES), speaks_tcp=speaks_tcp,
    )  # fmt: skip
    if seccomp.is_known_here():
        seccomp.install(seccomp.own_filter(
            families=seccomp.INTERNET if speaks_tcp else (), makes_processes=order.get("flavour") in MAKES_PROCESSES,
            has_capped_memory=order.get("extra_bytes") is not None,
        ))  # fmt: skip


def drop_capabilities() -> None:
    """Root without its capabilities, and no way to get them back."""
    if sys.platform != "linux":
        return
    _LIBC.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(_NUM_CAPABILITIES):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header, nothing = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), (ctypes.c_uint32 * 6)()
    _LIBC.capset(header, nothing)


# --- the canary ------------------------------------------------------------------------------------------------------
def witnessed(private: Path, judge: int, flavour: str) -> Json:
    """What a process in these walls was denied, layer by layer: tried in a child, before any submission runs."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            here = dict.fromkeys(("submission", "probes", "given"), private)
            raise_around({**here, "transport": "wire", "flavour": flavour, "extra_bytes": 0}, private)
            os.write(write, json.dumps(_denied(private, judge)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        answer = told.read()
    os.waitpid(pid, 0)
    denied = json.loads(answer) if answer else {}
    return {"landlock": landlock.abi(), "denied": denied}


def _denied(private: Path, judge: int) -> dict[str, bool]:
    """Each thing that must not be possible, and whether it was refused."""
    tries: dict[str, Callable[[], object]] = {
        "reads": lambda: os.listdir(GRADER.parent), "reads_code": lambda: open(GRADER / "cli.py").close(),
        "writes": lambda: open(private.parent / "canary", "w").close(),
        "environment": lambda: Path(f"/proc/{judge}/environ").read_bytes(), "memory": lambda: open(f"/proc/{judge}/mem", "rb").close(),
        "descriptors": lambda: os.readlink(f"/proc/{judge}/fd/0"), "signal": lambda: os.kill(judge, 0),
        "trace": lambda: _called(_LIBC.ptrace(_PTRACE_SEIZE, judge, None, None)), "socket": lambda: socket.socket().close(),
        "memfd": lambda: os.close(os.memfd_create("canary")), "segment": lambda: _called(_LIBC.shmget(0, 4096, 0o1600)),
        "limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, resource.RLIM_INFINITY)),
        "mode": lambda: os.chmod(private, 0o700),
    }  # fmt: skip
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return {name: _is_refused(attempt) for name, attempt in tries.items()}


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError):
        return True
    return False


def _called(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
