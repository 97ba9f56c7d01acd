"""Namespaces of a run's own: what other processes, files, networks and segments there are is then not refused to a rank; it isn't there.

Raw system calls: no program has to be installed, and nothing is left when the last process is gone, however it went.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from grader.worker import kernel

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE, _DETACH = 2, 4, 8, 0x1000, 0x4000, 0x40000, 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY, _ATTR_NOSUID = 442, -100, 0x8000, 1, 2
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
KINDS = {"network": "net", "segments": "ipc", "host": "uts"}  # what the canary compares, and its name in /proc/self/ns
HOST = "localhost"  # a rank's own name: gloo asks for its address, and no name server is there to be waited for
MOST_BYTES, MOST_FILES = 1 << 20, 4096  # of the file system that holds the view's folders and nothing else


def enter_user() -> None:
    """An ordinary user's way to the others: a user namespace, in which this process has all capabilities. It must have one thread.

    Users and groups keep their numbers. OSError where the machine allows none.
    """
    uid, gid = os.geteuid(), os.getegid()
    _unshare(_NEWUSER)
    kernel.be_readable()  # or the files below would belong to root; nothing of a submission runs yet
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _write(f"/proc/self/{name}", text)
    finally:
        kernel.be_unreadable()


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text)
    except OSError as refused:  # opening says where, writing does not
        raise OSError(refused.errno, refused.strerror, path) from None


def leave_machine() -> None:
    """A network, segments and a host name of one's own from here on: once for all runs. OSError where the machine allows it not."""
    _unshare(_NEWIPC | _NEWUTS)
    socket.sethostname(HOST)
    make_network()


def make_network() -> None:
    """A network in which there is a loopback and nothing else."""
    _unshare(_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def make_processes() -> int:
    """Processes of their own for those that are forked from here on.

    Returns the PID of the first of them: when it ends, the kernel kills the others. OSError where the machine allows it not.
    """
    _unshare(_NEWPID)
    pid = os.fork()
    return pid if pid else _be_first()


def _be_first() -> NoReturn:
    """Hold nothing, do nothing, and reap whoever is left an orphan."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which the first process of its kind ignores
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        kernel.die_with_parent(os.getppid())
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        while True:
            signal.pause()
    finally:
        os._exit(0)


def loopback_bytes() -> int:
    """What this process's network has carried over its loopback: every byte once, headers included."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def see_only(reading: Iterable[str], writing: Iterable[str], devices: Iterable[str], private: str) -> None:
    """From here on this process's files are those at these paths: a tree of its own, all but `writing` read-only, with a /proc of its own.

    What isn't there is left out. The process must have capabilities and one thread; `private` is its working folder afterwards.
    """
    _unshare(_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)  # or what is mounted here would be mounted everywhere
    own, root = os.open(private, os.O_PATH | os.O_CLOEXEC), private  # nothing that is asked for lies below it, but itself
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={MOST_BYTES},nr_inodes={MOST_FILES},mode=755")
    writing, devices = [*writing], [*devices]
    inside = "/proc/"
    for path in sorted({*reading, *writing, *devices} - {private, "/proc"}):
        if not path.startswith(inside) and os.path.exists(path):
            _show(path, root + path)
            inside = f"{path}/"  # sorted: what is shown along with it comes next
    _show(f"/proc/self/fd/{own}", root + private, below=0)  # or the new tree, which lies on it, would come along
    os.close(own)
    os.mkdir(f"{root}/proc")
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _set_attributes(root, add=_ATTR_RDONLY | _ATTR_NOSUID, recursive=True)
    for path in (private, *writing, *devices):
        if os.path.exists(root + path):
            _set_attributes(root + path, clear=_ATTR_RDONLY)
    os.chdir(root)
    _called(_LIBC.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _called(_LIBC.umount2(b".", _DETACH), "umount")  # the old tree, which lay over the new one
    os.chdir(private)


def inodes() -> dict[str, int]:
    """Which namespaces this process is in, by the canary's words."""
    return {what: os.stat(f"/proc/self/ns/{name}").st_ino for what, name in KINDS.items()} if sys.platform == "linux" else {}


def _show(source: str, place: str, below: int = _MS_REC) -> None:
    """Let what lies at `source` be seen at `place`, with all that is mounted `below` it."""
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))
    _mount(source, place, None, _MS_BIND | below)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _called(_LIBC.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]), target)


def _set_attributes(path: str, *, add: int = 0, clear: int = 0, recursive: bool = False) -> None:
    attributes = struct.pack("=QQQQ", add, clear, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _called(_LIBC.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes))), path)


def _unshare(flags: int) -> None:
    _called(_LIBC.unshare(flags), "unshare")


def _called(returned: int, what: str) -> None:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
