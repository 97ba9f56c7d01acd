"""The zygote: a clean process that has imported torch and run nothing, from which every observation's processes are forked.

    python -m grader.worker.zygote FD FLAVOUR LEVEL NEEDED...

LEVEL is the strongest that is wanted, NEEDED are folders that ranks must reach. FD is one end of a socketpair; the judge holds the
other. Said on it: what the walls deny, then "ready". A message on it is one observation: a JSON frame with the descriptors
[control, line 0, log 0, stack 0, line 1, ...]. The end of that socket is the end of the judge: everything is killed, the session's
folder is removed. The zygote is a subreaper, so that a process whose supervisor was killed is killed here.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import gc
import importlib
import itertools
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

from grader.frames import Words
from grader.records import Json
from grader.worker import canary, kernel, limits
from grader.worker.walls import Plan

NUM_FDS_LIMIT = 253  # SCM_RIGHTS carries no more in one message
ORDER_LIMIT_BYTES = 64 * 1024

# What a rank would import late, at 0.2-2 s in every fork: the first TorchDispatchMode alone brings some 900 modules.
TORCH = (
    "torch", "numpy", "numpy.ctypeslib", "torch.distributed", "torch.nn", "torch.optim", "torch.autograd.graph",
    "torch._dynamo", "torch._subclasses.fake_tensor", "torch.utils._python_dispatch", "torch.utils.flop_counter",
    "torch.utils.checkpoint", "torch.distributed._functional_collectives", "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel", "torch.distributed.pipelining", "torch.distributed.optim",
    "torch.distributed.checkpoint", "torch.nn.parallel",
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "torch.profiler._cupti_monitor",
)  # fmt: skip
PRELOAD = {
    "torch": TORCH,
    "interpreter": (
        "torch", "numpy", "numpy.ctypeslib", "numpy.ma", "torch.distributed", "torch.autograd.graph", "triton", "triton.language",
        "triton.compiler.code_generator", "triton.experimental.gluon", "triton.language.extra.libdevice",
        "torch.fx.experimental.symbolic_shapes",  # the first autograd.Function's backward brings it, and sympy with it: 30 MB and 0.5 s
        "grader.worker.triton_interpreter",
    ),
    "cuda": (*TORCH, "triton", "triton.language", "triton.compiler.compiler"),
    "compiler": ("torch", "torch.distributed", "triton", "triton.language", "grader.worker.triton_compiler"),
}  # fmt: skip
INTERPRETED = {"interpreter": "1"}  # Triton decides when it is imported whether kernels are interpreted


def main(fd: int, flavour: str, at_most: str, needed: list[Path]) -> None:
    """Say what the walls deny, import, say "ready", serve until the judge is gone."""
    judge = os.getppid()
    kernel.be_unreadable()
    line = socket.socket(fileno=fd)
    plan = raise_walls(line, judge, flavour, at_most, needed)
    kernel.die_with_parent(judge)  # while importing there is nothing to tidy up
    preload(flavour)
    importlib.import_module("grader.worker.rank").prepare()
    kernel.adopt_orphans()
    kernel.outlive_parent()
    session = Path(tempfile.mkdtemp(prefix=f"grader-{judge}-"))
    Words(line).say({"ready": True, "session": str(session), "pid": os.getpid()})
    gc.collect()
    gc.freeze()  # children then copy fewer pages
    kernel.gather_into_huge_pages()
    try:
        serve(line, session, plan)
    finally:
        kernel.sweep()
        kernel.remove(session)


def raise_walls(line: socket.socket, judge: int, flavour: str, at_most: str, needed: list[Path]) -> Plan:
    """The plan of every rank's walls, and the word on what a canary in them was denied. Before anything is imported: it takes no second."""
    room = Path(tempfile.mkdtemp(prefix=f"grader-{judge}-"))
    try:
        (private := room / "run" / "canary").mkdir(parents=True)
        plan, seen = canary.choose(private, judge, flavour, at_most, needed)
    finally:
        kernel.remove(room)
    Words(line).say({"walls": seen})
    return plan if plan.has_own_user or plan.level == "D" else dataclasses.replace(plan, num_tasks=limits.num_tasks_of(os.getuid()))


def preload(flavour: str) -> None:
    """Import what ranks use. Some of these have another name, or none, in other versions of torch: what is missing is not missed."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()  # or importing dynamo makes a folder there, which nobody would remove
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # or a module that asks for a GPU wakes CUDA, and no fork could use it
    os.environ["TRITON_INTERPRET"] = INTERPRETED.get(flavour, "0")
    for module in PRELOAD[flavour]:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    if flavour == "interpreter":
        importlib.import_module("grader.worker.triton_interpreter").install()


def serve(line: socket.socket, session: Path, plan: Plan) -> None:
    """Fork one supervisor per message; reap them; kill what they failed to."""
    from grader.worker import supervisor

    supervisors: dict[int, Path] = {}  # pid -> the folder of its run
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a rank that is asked for its stack before it can tell must not die of it
    for number in itertools.count():
        while True:
            ready, _, _ = select.select([line.fileno(), wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                reap(supervisors)
            if line.fileno() in ready:
                break
        order, fds = receive_order(line)
        if order is None:
            break
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for fd in (wake, waker, line.detach()):
                os.close(fd)
            supervisor.main(order, fds, session / f"run-{number}", plan)  # never returns
        supervisors[pid] = session / f"run-{number}"
        for fd in fds:
            os.close(fd)
    wait_for(supervisors, deadline_s=3.0)


def receive_order(line: socket.socket) -> tuple[Json, list[int]]:
    """One observation's order and descriptors; (None, []) when the judge is gone."""
    size = array.array("i").itemsize * NUM_FDS_LIMIT
    message, ancillary, _, _ = line.recvmsg(ORDER_LIMIT_BYTES, socket.CMSG_LEN(size))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return (json.loads(message) if message else None), list(fds)


def reap(supervisors: dict[int, Path]) -> None:
    """Forget the supervisors that have ended; tidy up after one that was killed before it could."""
    for pid in list(supervisors):
        if os.waitpid(pid, os.WNOHANG)[0]:
            folder = supervisors.pop(pid)
            kernel.sweep(spare=frozenset(supervisors))
            kernel.remove(folder)


def wait_for(supervisors: dict[int, Path], deadline_s: float) -> None:
    """Let the supervisors notice the judge's end and tidy up; what is left is swept by the caller."""
    until = time.monotonic() + deadline_s
    while supervisors and time.monotonic() < until:
        reap(supervisors)
        time.sleep(0.01)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], [Path(each) for each in sys.argv[4:]])
