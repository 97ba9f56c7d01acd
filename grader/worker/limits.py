"""What a rank may use, set by the rank on itself before the submission is imported; a hard limit can't be raised again."""

from __future__ import annotations

import resource

from grader.records import GiB, MiB

FILE_BYTES_LIMIT = 64 * MiB
NUM_OPEN_FILES_LIMIT = 256
MEMORY_BYTES_LIMIT = 32 * GiB  # of addresses, some of which cases only reserve; beyond what the process holds when it is forked
ON_GPU = 16  # times: the driver opens a device file for each context, and NCCL maps files of shared memory


def set_at_start(*, on_gpu: bool = False) -> None:
    """No core files, no disk filled, no descriptor flood, no memory that the machine doesn't have."""
    times = ON_GPU if on_gpu else 1
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_BYTES_LIMIT * times),
        (resource.RLIMIT_NOFILE, NUM_OPEN_FILES_LIMIT * times),
    ):
        _, hard = resource.getrlimit(what)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (limit, limit))
    if not on_gpu:  # CUDA reserves addresses for all the memory that there is
        cap_memory(MEMORY_BYTES_LIMIT)


def cap_memory(extra_bytes: int) -> None:
    """Let this process's private data grow by `extra_bytes` and no further; an allocation beyond it fails with MemoryError.

    RLIMIT_DATA counts private writable memory (brk and anonymous mappings), which is where tensors live; needs no privilege.
    """
    limit = data_bytes() + extra_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def data_bytes() -> int:
    """Private writable memory of this process as RLIMIT_DATA counts it."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmData line")
