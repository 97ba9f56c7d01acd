"""What a rank may use, set by the rank on itself before the submission is imported; a hard limit can't be raised again."""

from __future__ import annotations

import contextlib
import os
import resource

from grader.records import GiB, KiB, MiB

FILE_BYTES_LIMIT = 64 * MiB
CAPPED_FILE_BYTES_LIMIT = 256 * KiB  # where memory is limited: the judge's own file for stacks, which a rank holds open, is not a store
NUM_OPEN_FILES_LIMIT = 256
MEMORY_BYTES_LIMIT = 32 * GiB  # of addresses, some of which cases only reserve; beyond what the process holds when it is forked
IMPORT_BYTES = 3 * MiB  # what importing a submission may take for code and constants: twice what the largest reference takes
NUM_TASKS_LIMIT = 1024  # processes and threads of one user beyond those that he has anyway; a rank has ten or so
ON_GPU = 16  # times: the driver opens a device file for each context, and NCCL maps files of shared memory


def set_at_start(*, on_gpu: bool = False, has_capped_memory: bool = False) -> None:
    """No core files, no disk filled, no descriptor flood, no memory that the machine doesn't have."""
    times = ON_GPU if on_gpu else 1
    keeps_in_files = not has_capped_memory or on_gpu  # a GPU's memory is counted by its allocator, and compiled kernels lie in files
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_BYTES_LIMIT * times if keeps_in_files else CAPPED_FILE_BYTES_LIMIT),
        (resource.RLIMIT_NOFILE, NUM_OPEN_FILES_LIMIT * times),
    ):
        _, hard = resource.getrlimit(what)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))
    if not on_gpu:  # CUDA reserves addresses for all the memory that there is
        cap_memory(MEMORY_BYTES_LIMIT)


def cap_memory(extra_bytes: int) -> None:
    """Let this process's private data grow by `extra_bytes` and no further; an allocation beyond it fails with MemoryError.

    Below 0 it may not grow before it has shrunk by so much.

    RLIMIT_DATA counts private writable memory (brk and anonymous mappings), which is where tensors live; needs no privilege.
    """
    limit = max(0, data_bytes() + extra_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def cap_tasks(num_before: int) -> None:
    """Let this process's user have NUM_TASKS_LIMIT processes and threads besides `num_before`: they are numbered from one stock for all.

    The kernel counts by user, within a user namespace those of that namespace, and never root's (RLIMIT_NPROC).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = num_before + NUM_TASKS_LIMIT
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def num_tasks_of(user: int) -> int:
    """Processes and threads of that user, as far as /proc shows them."""
    found = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):  # it has just ended
            if entry.name.isdigit() and entry.stat().st_uid == user:
                found += len(os.listdir(f"/proc/{entry.name}/task"))
    return found


def data_bytes() -> int:
    """Private writable memory of this process as RLIMIT_DATA counts it."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmData line")
