"""Which system calls a rank may make: a filter for the kernel, put together as bytes, without a library.

What computes and what speaks over the line passes; what reaches other processes, memory that nobody counts, networks or mounts is
refused with EPERM, so that an honest program meets an error that it understands.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

# name -> number on x86_64 and on aarch64; None: that machine has no such call
CALLS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "perf_event_open": (298, 241),
    "bpf": (321, 280), "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191), "semop": (65, 193),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "io_uring_setup": (425, 425), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "move_mount": (429, 429), "open_tree": (428, 428),
    "fsopen": (430, 430), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "migrate_pages": (256, 238), "move_pages": (279, 239), "quotactl": (179, 60), "acct": (163, 89),
    "swapon": (167, 224), "reboot": (169, 142), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setpriority": (141, 140), "ioprio_set": (251, 30), "clone": (56, 220), "clone3": (435, 435),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "prlimit64": (302, 261), "socket": (41, 198),
    "mmap": (9, 222), "fallocate": (285, 47), "pipe": (22, None), "pipe2": (293, 59), "socketpair": (53, 199),
}  # fmt: skip
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of CALLS, and what the kernel calls the architecture

WITH_ARGUMENTS = {"clone", "clone3", "fork", "vfork", "execve", "execveat", "kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
                  "prlimit64", "socket", "mmap", "fallocate", "pipe", "pipe2",
                  "socketpair"}  # fmt: skip
_THREAD, _NAMESPACES = 0x10000, 0x7E020080  # flags of clone: CLONE_THREAD; CLONE_NEWTIME and all that begin with CLONE_NEW
_SHARED, _GROWS_DOWN, _WRITE = 1, 0x100, 2  # mmap: memory that a limit on private memory doesn't count
INTERNET = (2, 10, 16)  # AF_INET, AF_INET6 and AF_NETLINK, all of which gloo needs


def is_known_here() -> bool:
    """Whether this machine's system calls are in the table."""
    return platform.system() == "Linux" and platform.machine() in MACHINES


def program(pid: int, *, families: Sequence[int] = (), makes_processes: bool = False, has_capped_memory: bool = False) -> bytes:
    """The filter for the process `pid`, which may open sockets of `families` and, perhaps, make other processes.

    has_capped_memory  no writable memory that is shared or grows like a stack, and no buffers of the kernel's: RLIMIT_DATA counts none
    """
    column, architecture = MACHINES[platform.machine()]
    number = {name: numbers[column] for name, numbers in CALLS.items()}
    lines = [_load(_ARCHITECTURE), *_unless(architecture, _KILL), _load(_NUMBER)]
    if platform.machine() == "x86_64":
        lines += [_line(_AT_LEAST, 0x40000000, 0, 1), _refuse()]  # the x32 calls have numbers of their own
    for name in CALLS.keys() - WITH_ARGUMENTS:
        lines += _when(number[name], [_refuse()])
    lines += _when(number["fallocate"], [_refuse(errno.EOPNOTSUPP)])  # a disk is filled no faster than it is written
    lines += _when(number["clone3"], [_refuse(errno.ENOSYS)])  # its flags lie in memory; libraries then take clone
    thread_only, no_namespace = _line(_ANY_BIT, _THREAD, 0, 1), _line(_ANY_BIT, _NAMESPACES, 1, 0)
    clone = [no_namespace if makes_processes else thread_only, _allow(), _refuse()]
    lines += _when(number["clone"], [_argument(0), *clone])
    for name in ("fork", "vfork", "execve", "execveat") if not makes_processes else ():
        lines += _when(number[name], [_refuse()])
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        lines += _when(number[name], [_argument(0), *_one_of((pid,))])
    lines += _when(number["prlimit64"], [_argument(0), *_one_of((0, pid))])
    lines += _when(number["socket"], [_argument(0), *_one_of(families)])
    if has_capped_memory:
        shared = [_argument(2), _line(_ANY_BIT, _WRITE, 0, 1), _refuse(), _allow()]
        grows = [_line(_ANY_BIT, _GROWS_DOWN, 0, 1), _refuse()]
        for name in ("pipe", "pipe2", "socketpair"):
            lines += _when(number[name], [_refuse()])
        lines += _when(number["mmap"], [_argument(3), *grows, _line(_ANY_BIT, _SHARED, 0, len(shared)), *shared, _allow()])
    return b"".join([*lines, _allow()])


def install(filter_bytes: bytes) -> bool:
    """From here on this thread, and whatever it starts, is bound by the filter; False: the kernel takes none."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    held = Program(len(filter_bytes) // 8, filter_bytes)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return int(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(held), 0, 0)) == 0


# --- the kernel's small machine: code, jump if true, jump if false, operand ------------------------------------------
def _line(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _load(offset: int) -> bytes:
    return _line(_LOAD, offset)


def _argument(index: int) -> bytes:
    return _load(_ARGUMENTS + 8 * index)  # its lower half: both machines are little-endian


def _allow() -> bytes:
    return _line(_RETURN, _ALLOW)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _line(_RETURN, _ERRNO | number)


def _unless(value: int, verdict: int) -> list[bytes]:
    return [_line(_EQUAL, value, 1, 0), _line(_RETURN, verdict)]


def _when(value: int | None, lines: list[bytes]) -> list[bytes]:
    """`lines`, all of whose ways end in a verdict, for the call of that number."""
    return [] if value is None else [_line(_EQUAL, value, 0, len(lines)), *lines]


def _one_of(values: Sequence[int]) -> list[bytes]:
    """Allowed if what was loaded is one of `values`."""
    return [*(part for value in values for part in (_line(_EQUAL, value, 0, 1), _allow())), _refuse()]


def own_filter(**options: bool | Sequence[int]) -> bytes:
    """The filter for the calling process."""
    return program(os.getpid(), **options)  # type: ignore[arg-type]
