"""Poorer machines than this one, made of it: what `POORER` names is given up, then a command runs.

python -m tests.soak.poorer ordinary_user_without_namespaces make exploits      (as root; Python must lie where other users reach it)
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ORDINARY = 4711  # a user with no name and no rights
IN_A_CONTAINER = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)  # the capabilities that Docker leaves to root: CAP_CHOWN, ...
MASKED, READ_ONLY = ("/proc/kcore", "/proc/keys", "/proc/timer_list"), ("/proc/sys", "/proc/irq", "/proc/bus")  # some of those it hides
_NEWUSER = 0x10000000
_NEWNS, _BIND, _REMOUNT, _RDONLY, _PRIVATE = 0x20000, 0x1000, 0x20, 1, 0x44000
_LIBC = ctypes.CDLL(None, use_errno=True)


def nothing() -> None:
    """Stay who one is."""


def give_up_capabilities(but: tuple[int, ...] = ()) -> None:
    """Root by name only, as in `capsh --drop=all`, or with those that are left."""
    kept = sum(1 << capability for capability in but)
    for capability in range(64):
        if capability not in but:
            _LIBC.prctl(24, capability, 0, 0, 0)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(kept, kept, 0)
    assert _LIBC.capset(header, sets) == 0


def be_roots_in_a_container() -> None:
    """What Docker leaves to root, if one has it."""
    if os.geteuid() == 0:
        give_up_capabilities(IN_A_CONTAINER)


def be_ordinary() -> None:
    """Somebody without rights, if one may still choose."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)


def forbid_namespaces() -> None:
    """As sysctl user.max_user_namespaces=0 does, and a container's filter: no call that would make one succeeds."""
    from grader.worker import seccomp

    unshare = seccomp.CALLS["unshare"][0 if os.uname().machine == "x86_64" else 1]
    lines = [(0x20, 0, 0, 0), (0x15, 0, 1, unshare), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    assert seccomp.install(b"".join(struct.pack("=HBBI", *line) for line in lines))


def make_namespaces_worthless() -> None:
    """As AppArmor does on Ubuntu from 24.04 on: a user namespace can be made, and nothing in it that takes a capability."""
    from grader.worker import seccomp

    unshare = seccomp.CALLS["unshare"][0 if os.uname().machine == "x86_64" else 1]
    allowed, refused = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)
    lines = [(0x20, 0, 0, 0), (0x15, 0, 3, unshare), (0x20, 0, 0, 16), (0x15, 1, 0, _NEWUSER), refused, allowed]
    assert seccomp.install(b"".join(struct.pack("=HBBI", *line) for line in lines))


def mask_proc() -> None:
    """Hide parts of /proc as containers do: whoever has a user namespace of his own may then mount no other. Needs root."""
    if os.geteuid() != 0 or _LIBC.unshare(_NEWNS) != 0:
        return
    flags = {"/": _PRIVATE} | dict.fromkeys((*MASKED, *READ_ONLY), _BIND)
    for path, flag in flags.items():
        source = b"/dev/null" if path in MASKED else os.fsencode(path)
        assert not os.path.exists(path) or _LIBC.mount(source, os.fsencode(path), None, ctypes.c_ulong(flag), None) == 0, path
    for path in READ_ONLY:
        assert _LIBC.mount(None, os.fsencode(path), None, ctypes.c_ulong(_REMOUNT | _BIND | _RDONLY), None) == 0, path


def in_turn(*steps: Callable[[], None]) -> Callable[[], None]:
    """All of them."""

    def all_of_them() -> None:
        for step in steps:
            step()

    return all_of_them


POORER = {
    # name: (what is given up, the best level that can then be reached)
    "as_it_is": (nothing, "A"),
    "root_without_namespaces": (forbid_namespaces, "B"),
    "root_in_a_container": (in_turn(mask_proc, be_roots_in_a_container, forbid_namespaces), "B"),
    "root_without_capabilities": (give_up_capabilities, "A"),
    "root_without_capabilities_or_namespaces": (in_turn(give_up_capabilities, forbid_namespaces), "C"),
    "root_where_proc_is_masked": (in_turn(mask_proc, be_roots_in_a_container), "B"),
    "ordinary_user": (be_ordinary, "A"),
    "ordinary_user_without_namespaces": (in_turn(be_ordinary, forbid_namespaces), "C"),
    "ordinary_user_whose_namespaces_give_nothing": (in_turn(be_ordinary, make_namespaces_worthless), "C"),
    "ordinary_user_where_proc_is_masked": (in_turn(mask_proc, be_ordinary), "A"),
}


def main() -> None:
    """Become poorer, and be the command."""
    _, name, *command = sys.argv
    folder = tempfile.mkdtemp(prefix="poorer-")
    Path(folder).chmod(0o777)
    POORER[name][0]()
    os.execvpe(command[0], command, os.environ | {"HOME": folder, "TMPDIR": folder})


if __name__ == "__main__":
    main()
