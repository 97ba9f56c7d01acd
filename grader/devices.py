"""The cores of this machine, and its GPUs as the judge sees them: through nvidia-smi, never through CUDA; who uses them, what is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.errors import MachineError
from grader.records import MiB

QUERY_DEADLINE_S = 60.0  # the driver of an idle GPU may have to wake up first
VISIBLE = "CUDA_VISIBLE_DEVICES"
FIELDS = ("index", "uuid", "name", "driver_version", "memory.total", "memory.used")
LOCK_FOLDER = "grader-gpu"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, as nvidia-smi tells."""

    index: int
    uuid: str
    name: str
    driver: str
    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A process that has a context on a GPU."""

    pid: int
    gpu: str  # uuid
    used: str  # in nvidia-smi's words
    is_ours: bool  # it runs as this user, and from this grader's worker

    def __str__(self) -> str:
        return f"process {self.pid} holds {self.used} on {self.gpu}"


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def found() -> tuple[Gpu, ...]:
    """The GPUs that this process may use, in CUDA's order; () without nvidia-smi or a driver that answers."""
    rows = _query(f"--query-gpu={','.join(FIELDS)}")
    gpus = [
        Gpu(int(index), uuid, name, driver, _mib(total), _mib(used))
        for index, uuid, name, driver, total, used in (row for row in rows if len(row) == len(FIELDS))
    ]
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return tuple(gpus)
    named = [word.strip() for word in visible.split(",") if word.strip()]
    chosen = [next((gpu for gpu in gpus if word == str(gpu.index) or gpu.uuid.startswith(word)), None) for word in named]
    return tuple(gpu for gpu in chosen if gpu is not None)


def facts(gpus: tuple[Gpu, ...]) -> dict[str, str]:
    """What a report says of them."""
    if not gpus:
        return {}
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    return {"gpus": f"{len(gpus)} × {names}", "gpu_driver": gpus[0].driver, "gpu_memory_bytes": str(min(gpu.total_bytes for gpu in gpus))}


def clocks(gpu: Gpu) -> dict[str, str]:
    """What the device runs at just now: MHz, degrees Celsius, watts; {} where nvidia-smi doesn't say."""
    fields = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
    rows = _query(f"--query-gpu={','.join(fields)}", f"--id={gpu.uuid}")
    return dict(zip(("sm_mhz", "memory_mhz", "celsius", "watts"), rows[0], strict=True)) if rows and len(rows[0]) == len(fields) else {}


def tenants() -> tuple[Tenant, ...]:
    """Every process on a GPU. In a container nvidia-smi may show none, or numbers of another namespace: then `is_ours` is False."""
    rows = (row for row in _query("--query-compute-apps=pid,gpu_uuid,used_memory") if len(row) == 3 and row[0].isdigit())
    return tuple(Tenant(int(pid), uuid, f"{used} MiB" if used.isdigit() else "memory", _is_ours(int(pid))) for pid, uuid, used in rows)


def left_behind(before: tuple[Tenant, ...]) -> tuple[str, ...]:
    """A sentence for each process of ours that is on a GPU now and was not `before`."""
    known = {tenant.pid for tenant in before}
    return tuple(f"Left on a GPU: {tenant}." for tenant in tenants() if tenant.pid not in known and tenant.is_ours)


@contextlib.contextmanager
def held(told: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
    """This machine's GPUs for one grading at a time, root's and users' alike; `told` hears whom we wait for."""
    descriptor = _lock_file()
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told("Another grading uses this machine's GPUs; waiting until it is done.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_file() -> int:
    """A descriptor of the file that is locked. Only flock is used, so read-only is enough, and root's file serves everybody."""
    folder = Path(tempfile.gettempdir()) / LOCK_FOLDER
    path = folder / "lock"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(0o755 if os.geteuid() == 0 else 0o777)
        if not path.exists():
            with contextlib.suppress(FileExistsError, PermissionError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_NOFOLLOW, 0o444))
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as refused:
        raise MachineError(f"{path}, the lock on this machine's GPUs, can't be opened: {refused.strerror}") from refused
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MachineError(f"{path}, the lock on this machine's GPUs, is no file")
    return descriptor


def _is_ours(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid() and b"grader.worker" in command
    except OSError:
        return False


def _query(*query: str) -> list[list[str]]:
    """Rows of nvidia-smi's answer; none if it isn't there or says no."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        answer = subprocess.run(
            [program, *query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=QUERY_DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def _mib(text: str) -> int:
    return int(text) * MiB if text.isdigit() else 0
