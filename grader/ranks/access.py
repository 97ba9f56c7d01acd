"""The judge's own part of the walls: folders that ranks may go through, memory that they may not read, and which processes live."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

from grader.levels import GROUP

_PR_SET_DUMPABLE = 4


def let_ranks_in(folder: Path, *, reading: bool = False) -> None:
    """Where the judge is root, ranks are users of their own: they may go through `folder`; `reading`: their group may read all in it.

    Where root may not give files away, ranks stay its user, and the label says so.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        if not reading:
            folder.chmod(folder.stat().st_mode | 0o011)
            return
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, -1, GROUP)
            path.chmod(0o750 if path.is_dir() else 0o640)


def be_unreadable() -> None:
    """No process of the same user may open this one's memory, environment or descriptors, or trace it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def lives(pid: int) -> bool:
    """Whether there is a process of that number, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
