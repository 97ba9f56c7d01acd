"""Which files a rank may reach: an allow-list that the kernel keeps, and that a process lays on itself without any privilege.

A domain of its own also means that no process outside of it can be traced, nor its memory, environment or descriptors be read through
/proc; from ABI 6 on that it can't be signalled either.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
_VERSION, _PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REFER, TRUNCATE, IOCTL = 1, 2, 4, 8, 1 << 13, 1 << 14, 1 << 15
ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # by ABI; from 5 on IOCTL too
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
READING = EXECUTE | READ_FILE | READ_DIR
BIND_AND_CONNECT, ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3  # of TCP, from ABI 4 on; from ABI 6 on


def abi() -> int:
    """The kernel's version of it; 0: none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION))) if sys.platform == "linux" else 0


def restrict(reading: Iterable[Path], writing: Iterable[Path], devices: Iterable[Path], *, speaks_tcp: bool) -> bool:
    """From here on this thread, and whatever it starts, reaches these and nothing else; False: the kernel refused.

    reading  files and folders with all that is in them; writing  likewise, also to write; devices  to read and write
    """
    version = abi()
    if not version:
        return False
    every = ALL_RIGHTS.get(version, ALL_RIGHTS[4] | IOCTL)
    network = BIND_AND_CONNECT if version >= 4 and not speaks_tcp else 0
    scope = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", every, network, scope)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    try:
        for paths, rights in ((reading, READING), (writing, every), (devices, READ_FILE | WRITE_FILE | IOCTL)):
            for path in paths:
                _allow(ruleset, path, rights & every)
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return int(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0)) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """What isn't there is not reached."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = rights if os.path.isdir(f"/proc/self/fd/{handle}") else rights & OF_FILES
        _LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)
