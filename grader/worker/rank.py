"""What one rank does after the fork: limits, then the submission, then one probe, then raw facts over the line.

No reference, no seed of an input, no test and no expected value is in this process.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import importlib.util
import linecache
import os
import signal
import socket
import sys
import tempfile
import types
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from grader.frames import receive
from grader.records import ITEMSIZE, Json, num_elements
from grader.worker import kernel, limits, walls
from grader.worker.context import Context
from grader.worker.walls import NONE, Plan

if TYPE_CHECKING:
    import torch

    from grader.worker.line import Line

EXIT_RAISED = 1


def prepare() -> None:
    """In the zygote: import what every rank uses. No tensor operation, no thread."""
    for module in ("line", "process_group", "store", "recorder", "device"):
        importlib.import_module(f"grader.worker.{module}")


def main(line_fd: int, log_fd: int, stack_fd: int, private: Path, plan: Plan) -> NoReturn:
    """Be one rank from fork to exit; 0 when the probe's answer was sent, 1 when something was raised."""
    status = EXIT_RAISED
    try:
        kernel.be_readable()  # to the judge, who looks at where it sleeps; no other rank may
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(log_fd, stream)
        os.close(log_fd)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1, file=stack_fd, all_threads=True)
        move_into(private)
        sys.breakpointhook = lambda *_, **__: None  # beside a rank that is being debugged this one has no terminal, and goes on
        status = take_part(socket.socket(fileno=line_fd), plan)
    finally:
        with contextlib.suppress(BaseException):  # a submission may have closed or replaced them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def move_into(private: Path) -> None:
    """A home, a temporary folder and a working folder that nobody shares."""
    os.chdir(private)
    caches = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TORCH_EXTENSIONS_DIR": "extensions"}
    os.environ.update({name: str(private / folder) for name, folder in caches.items()})
    os.environ.update(HOME=str(private), TMPDIR=str(private))
    tempfile.tempdir = None  # the zygote's, if something in it has asked already
    sys.dont_write_bytecode = True


def take_part(line_socket: socket.socket, plan: Plan = NONE, *, guarded: bool = True) -> int:
    """Answer one observation over the line. `guarded` is off when somebody debugs this rank: exceptions then pass through."""
    from grader.worker import device
    from grader.worker.line import Line

    order, body = receive(line_socket)
    if guarded:
        limits.set_at_start(on_gpu=order.get("device") == "cuda", has_capped_memory=order["extra_bytes"] is not None)
        walls.raise_around(order, Path.cwd(), plan)
    line = Line(line_socket, order["rank"], order["world_size"], order["submission"])
    try:
        at, probe, imported_bytes = set_up(line, order, body)
        line.post({"begun": True})
        extra_bytes = order["extra_bytes"] if guarded else None
        with device.capped(at.device, extra_bytes, imported_bytes), new_tensors(at.device, order):
            outputs = probe(at, **order["parameters"]) or {}
        outputs = {name: tensor.detach().cpu() for name, tensor in outputs.items()}
        if order.get("device") and order["transport"] != "none" and "race" not in order:
            meet(line, "probes that have returned")  # NCCL may still read the memory of a rank whose own part is done
        answer(line, at, outputs)
        return 0
    except BaseException as raised:
        told = {"type": type(raised).__name__, "message": str(raised)[:2000], "frames": frames_of(raised, order["submission"])}
        with contextlib.suppress(OSError):  # the judge may have ended the run
            line.post({"raised": told})
        if not guarded:
            raise
        return EXIT_RAISED


def set_up(line: Line, order: Json, body: bytearray) -> tuple[Context, Any, int]:
    """-> `at` and the probe, with the process group up and the submission imported; and the bytes that its import took."""
    import torch

    from grader.worker.device import enter, held_bytes

    torch.set_num_threads(1)
    rank, world_size = order["rank"], order["world_size"]
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world_size),
                      MASTER_ADDR="judge", MASTER_PORT="1")  # fmt: skip
    if order["debug"]:
        sys.breakpointhook = lambda *_, **__: _say_how_to_debug(order["debug"])
    device = enter(order)
    inputs = {name: tensor.to(device) for name, tensor in tensors_of(order["inputs"], body).items()}
    if "race" in order:
        join_crew(order, device)
    else:
        join_group(line, order["transport"])
    if order["extra_bytes"] is not None:
        import_libraries(Path(order["submission"]), order["files"], order["given"])
    before_bytes = held_bytes(device)
    submission = import_submission(Path(order["submission"]), order["files"], order["given"])
    imported_bytes = held_bytes(device) - before_bytes
    probes = import_file(Path(order["probes"]), "probes")
    at = Context(line, seed=order["seed"], inputs=inputs, submission=submission, device=device)
    return at, in_a_race(getattr(probes, order["probe"]), order, line), imported_bytes


def in_a_race(probe: Any, order: Json, line: Line) -> Any:
    """The probe itself; of a race's rank, what takes turns with it or keeps its memory."""
    if "race" not in order:
        return probe
    from grader.worker import keeper, race

    return keeper.keeping(probe, line) if order["race"] == "keeper" else race.taking_turns(probe, line)


def new_tensors(device: torch.device, order: Json) -> AbstractContextManager[None]:
    """Where the probe's new tensors go. A race has nothing between torch and who is timed: its entrants name the device."""
    from grader.worker.device import new_tensors_on

    return contextlib.nullcontext() if "race" in order else new_tensors_on(device, order["submission"])


def join_group(line: Line, transport: str) -> None:
    """Bring up torch's default process group over the given transport; the student's own init_process_group lands there too."""
    import torch.distributed as dist

    if transport == "none":
        return
    if transport == "wire":
        from grader.worker import process_group

        process_group.install(line)
    else:
        from grader.worker import recorder

        recorder.install(line, is_device=transport == "nccl")
    from grader.worker.store import JudgeStore

    # On GPUs as torch does it unasked: NCCL for their tensors, and gloo for what a submission counts on the host.
    backend = "cpu:gloo,cuda:nccl" if transport == "nccl" else "gloo"
    dist.init_process_group(backend, store=JudgeStore(line), rank=line.rank, world_size=line.world_size)
    if transport != "wire":
        meet(line, "ranks that have joined")  # gloo connects pair by pair: one that is done and gone would fail who is still at it


def join_crew(order: Json, device: torch.device) -> None:
    """A race of several ranks: torch's own group over a file that its crew alone is told of, with nothing of ours in between.

    The judge's store answers when he listens; while one crew races, he listens to its words and to nothing else.
    """
    import torch.distributed as dist

    from grader.worker.lanes import SHARED

    if order["world_size"] == 1:
        return
    SHARED.mkdir(exist_ok=True)
    backend, bound = ("cpu:gloo,cuda:nccl", {"device_id": device}) if device.type == "cuda" else ("gloo", {})
    store = dist.FileStore(str((SHARED / f"{order['race']}-store").resolve()), order["world_size"])
    dist.init_process_group(backend, store=store, rank=order["rank"], world_size=order["world_size"], **bound)


def meet(line: Line, what: str) -> None:
    """Return when every rank has come here."""
    key = f"grader: {what}"
    if int(bytes(line.ask("store_add", key=key, amount=1))) == line.world_size:
        line.ask("store_set", b"1", key=f"{key}, all")
    line.ask("store_wait", keys=[f"{key}, all"])


def import_submission(folder: Path, files: list[str], given: str) -> types.ModuleType | types.SimpleNamespace:
    """Import the submission's files; they may import each other, and `lm` from the grader's own copy."""
    sys.path[:0] = [str(folder), given]
    modules = {Path(name).stem: import_file(folder / name, Path(name).stem) for name in files}
    return next(iter(modules.values())) if len(modules) == 1 else types.SimpleNamespace(**modules)


def import_libraries(folder: Path, files: list[str], given: str) -> None:
    """Import what the submission imports beside its own files, so that a library's memory isn't taken for its own: networkx has 12 MiB."""
    own = {Path(name).stem for name in files}
    sys.path.insert(0, given)
    for name in files:
        with contextlib.suppress(OSError, SyntaxError, ValueError):  # told where the file itself is imported
            for node in ast.walk(ast.parse((folder / name).read_bytes())):
                wanted = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    wanted = [node.module]
                for module in wanted:
                    if module.partition(".")[0] not in own:
                        with contextlib.suppress(Exception):  # a library that isn't there is told there as well
                            importlib.import_module(module)
    sys.path.remove(given)


def import_file(path: Path, name: str) -> types.ModuleType:
    """Import one file under a name, whatever else has that name."""
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def tensors_of(specs: list[Json], body: bytearray) -> dict[str, torch.Tensor]:
    """[[name, dtype, shape], ...] and their bytes -> tensors that own their memory."""
    import torch

    view, start, tensors = memoryview(body), 0, {}
    for name, dtype, shape in specs:
        num_bytes = ITEMSIZE[dtype] * num_elements(shape)
        flat = torch.empty(num_bytes, dtype=torch.uint8)
        if num_bytes:
            flat.copy_(torch.frombuffer(view[start : start + num_bytes], dtype=torch.uint8))
        tensors[name] = flat.view(getattr(torch, dtype)).reshape(shape)
        start += num_bytes
    return tensors


def answer(line: Line, at: Context, outputs: dict[str, torch.Tensor]) -> None:
    """Send the probe's tensors as raw bytes; the judge knows beforehand what shapes and dtypes it takes."""
    import torch

    specs, parts = [], []
    for name, tensor in outputs.items():
        flat = tensor.contiguous()
        if flat.numel() == 1:  # of a single element any stride counts as contiguous, but not for a view of another dtype
            flat = flat.clone(memory_format=torch.contiguous_format)
        specs.append([name, str(flat.dtype).removeprefix("torch."), list(flat.shape)])
        parts.append(memoryview(flat.reshape(-1).view(torch.uint8).numpy()) if flat.numel() else b"")
    line.post({"answer": specs, "facts": at.facts}, parts)


def frames_of(raised: BaseException, folder: str) -> list[Json]:
    """The submission's lines of a traceback, outermost first: [file, line, function, source]."""
    frames = []
    trace = raised.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(folder):
            source = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            frames.append([os.path.basename(code.co_filename), trace.tb_lineno, code.co_qualname, source])
        trace = trace.tb_next
    return frames


def _say_how_to_debug(command: str) -> NoReturn:
    frame = sys._getframe(2)
    raise RuntimeError(
        f"breakpoint() at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: a graded rank has no terminal; run `{command}`"
    )
