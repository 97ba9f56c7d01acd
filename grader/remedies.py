"""What would lift the level of isolation that a machine gives: told by what its canary met, and by what its kernel says of itself."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

PROC = Path("/proc")
IN_GENERAL = {
    "A": "Namespaces need root with CAP_SYS_ADMIN, or user namespaces: user.max_user_namespaces above 0; on Ubuntu 24.04 and later "
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile with `userns,` for this Python; on old Debian "
    "kernel.unprivileged_userns_clone=1. In a container: one with its own /proc unmasked and unshare and mount allowed (docker run "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined).",
    "B": "A user for each run needs root with CAP_CHOWN, CAP_SETUID and CAP_SETGID (a container's default), in a course's folder and a run "
    "folder that other users may go through (chmod o+x).",
    "C": "Walls need Linux 5.13 or newer with Landlock (its name is in /sys/kernel/security/lsm; 6.12 also keeps signals out) and seccomp, "
    "on x86_64 or aarch64; in a container, one whose own filter allows both. Until then grade only submissions that you trust.",
}
APPARMOR = (
    "AppArmor lets a user namespace be made and gives nothing in it (kernel.apparmor_restrict_unprivileged_userns is 1, as Ubuntu has it "
    "from 24.04 on). Allow it to this Python: write `abi <abi/4.0>, profile grader {python} flags=(unconfined) {{ userns, }}` into "
    "/etc/apparmor.d/grader and load it with `sudo apparmor_parser -r /etc/apparmor.d/grader`; whatever else runs on this Python may then "
    "make them too. Or allow it to all: `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`."
)
SWITCHES = (
    # a setting of the kernel, the value that forbids, and what to do
    ("kernel/apparmor_restrict_unprivileged_userns", "1", APPARMOR),
    ("user/max_user_namespaces", "0", "No user namespace is allowed here: `sudo sysctl -w user.max_user_namespaces=10000`."),
    ("kernel/unprivileged_userns_clone", "0", "Only root may make user namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1`."),
)
MASKED = (
    "Parts of this /proc are hidden, as in a container, and then no other may be mounted: start the container with --security-opt "
    "systempaths=unconfined, or grade outside of it."
)
FILTERED = (
    "A filter of system calls, such as a container's, refuses namespaces: start the container with --security-opt seccomp=unconfined "
    "--security-opt systempaths=unconfined, or grade outside of it."
)
UNMAPPED = "Root without capabilities can't have a user namespace of its own (it needs CAP_SETFCAP): grade as an ordinary user."


def remedy(level: str, refused: str) -> str:
    """What brings `level` to a machine whose canary met `refused` on the way there: what is known of this machine, else all there is."""
    if level != "A":
        return IN_GENERAL[level]
    found = [advice for setting, forbids, advice in SWITCHES if _said_by(PROC / "sys" / setting) == forbids]
    if re.search(r"/proc'?$", refused):
        found.append(MASKED)
    elif re.search(r"/uid_map'?$", refused) and os.geteuid() == 0:
        found.append(UNMAPPED)
    elif "unshare" in refused and not found and re.search(r"^Seccomp:\s+2$", _said_by(PROC / "self" / "status"), re.MULTILINE):
        found.append(FILTERED)
    return " ".join(found).format(python=os.path.realpath(sys.executable)) if found else IN_GENERAL[level]


def _said_by(path: Path) -> str:
    with contextlib.suppress(OSError):  # this kernel has no such setting
        return path.read_text(encoding="ascii").strip()
    return ""
