"""Measure one run of the milestone: a process for each rank, started anew for every run, so that its peak of memory is its own."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import datetime
import itertools
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from lm.gpt import GPT
from lm.pieces import data_parallel, loss_scaler, recompute_blocks
from lm.runlog import Run, run_from
from lm.training import make_optimizer, names_of_matrices, peak_memory_bytes, set_precision, train_step

LEARNING_RATE, WEIGHT_DECAY = 1e-4, 0.1
NUM_COLLECTIVES = 10  # timed all-reduces
FASTEST_FIRST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True)
class Order:
    """What the processes of one run are told."""

    run: Run
    device_kind: str  # cpu or cuda
    num_threads: int  # of a rank on a CPU
    warmup: int  # untimed steps, two at least: compilation is in the first
    steps: int  # timed steps
    vocab_size: int  # tokens are drawn below it, whatever the model's vocabulary is padded to
    prefers_cudnn: bool = False  # for fused attention
    patience_s: float = math.inf  # fewer steps where these many take longer; two are timed in any case


def measured(order: Order, folder: Path, program: Path) -> Run:
    """Start the ranks, wait, and return the run with what was measured; RuntimeError with the reason if a rank failed."""
    logs = [f"rank{rank}.log" for rank in range(order.run.world_size)]
    told, answer, store, *said = (folder / f"{order.run.name}.{kind}" for kind in ("order.json", "run.json", "store", *logs))
    for path in (answer, store):
        path.unlink(missing_ok=True)
    told.write_text(json.dumps(dataclasses.asdict(order)), encoding="utf-8")
    with contextlib.ExitStack() as stack:
        ranks = []
        for rank, path in enumerate(said):
            words = stack.enter_context(path.open("w"))  # a file: a pipe that nobody reads would stop a talkative rank
            command = [sys.executable, str(program), "--rank-of", str(told)]
            ranks.append(subprocess.Popen(command, stdout=words, stderr=words, env=os.environ | {"RANK": str(rank)}))
            stack.callback(ranks[-1].kill)
        statuses = ended(ranks)
    if not answer.exists():
        last_lines = [lines[-1] for path in said if (lines := path.read_text(errors="replace").strip().splitlines())]
        raise RuntimeError(last_lines[0][:500] if last_lines else f"the ranks ended with status {statuses} and said nothing")
    run = run_from(json.loads(answer.read_text(encoding="utf-8")))
    for path in (told, answer, store, *said):
        path.unlink(missing_ok=True)
    return run


def ended(ranks: list[subprocess.Popen[bytes]]) -> list[int]:
    """Wait until all have ended, or one has failed: the others may wait for it in a collective for ever. Return the status of each."""
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            for rank in ranks:
                rank.kill()
        time.sleep(0.05)
    return [rank.wait() for rank in ranks]


def be_a_rank(told: Path) -> None:
    """Do what `measured` started this process for; rank 0 writes what was measured."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nobody would read what an orphan measures
    fields = json.loads(told.read_text(encoding="utf-8"))
    order = Order(**(fields | {"run": run_from(fields["run"])}))
    rank, world_size = int(os.environ["RANK"]), order.run.world_size
    device = torch.device("cuda", rank) if order.device_kind == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(order.num_threads)
    if world_size > 1:
        store = told.with_name(f"{order.run.name}.store")
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world_size)
    run = measure(order, device, rank)
    if rank == 0:
        partial = told.with_name(f"{order.run.name}.partial")
        partial.write_text(json.dumps(dataclasses.asdict(run)), encoding="utf-8")
        os.replace(partial, told.with_name(f"{order.run.name}.run.json"))
    if world_size > 1:
        dist.destroy_process_group()


def measure(order: Order, device: torch.device, rank: int) -> Run:
    """Train a fresh model for a few steps as the run says; return the run with what was seen."""
    run = order.run
    set_precision(run.precision, device)
    torch.manual_seed(0)  # equal weights on every rank and in every run
    with device:
        model = GPT(run.config)
    recompute_blocks(model, run.recompute)
    trainee = parallel(model, run)
    optimizer = make_optimizer(dict(model.named_parameters()), names_of_matrices(model), LEARNING_RATE, WEIGHT_DECAY)
    scaler = loss_scaler(run.precision)
    batch = run.micro_batch * run.num_micro_batches
    generator = torch.Generator().manual_seed(1 + rank)  # the same batch in every run: losses can be compared
    tokens = torch.randint(order.vocab_size, (batch, run.sequence + 1), generator=generator).to(device)
    tokens_BT, targets_BT = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    losses: list[Tensor] = []

    def step() -> None:
        options = {"precision": run.precision, "num_micro_batches": run.num_micro_batches, "scaler": scaler}
        losses.append(train_step(trainee, optimizer, tokens_BT, targets_BT, **options)[0])

    with attention_kernels(order, device):
        step()
        with counted_all_reduces() as sent:
            usual_s = timed_s(step, 1, device)[0]
        usual_s = agreed_s(usual_s, device)
        num_patient = order.patience_s / usual_s  # the same on every rank: their steps wait for each other
        timed_s(step, int(min(order.warmup - 2, num_patient)), device)
        if run.world_size > 1:
            dist.barrier()
        step_s = timed_s(step, int(max(2, min(order.steps, num_patient))), device)
    message_bytes = {"ddp": sum(sent), "torch_ddp": sum(p.numel() * p.element_size() for p in model.parameters())}.get(run.data_parallel, 0)
    peak_bytes = torch.tensor(peak_memory_bytes(device), device=device)
    collective: dict[str, Any] = {}
    if run.world_size > 1:
        dist.all_reduce(peak_bytes, dist.ReduceOp.MAX)
        latency_s = timed_all_reduce_s(4, device) / (2 * (run.world_size - 1))
        collective = {"all_reduce_bytes": message_bytes, "link_latency_s": latency_s}
        if message_bytes:
            collective["all_reduce_s"] = timed_all_reduce_s(message_bytes, device)
    seen = {"step_s": tuple(step_s), "peak_bytes": int(peak_bytes), "losses": tuple(loss.item() for loss in losses)}
    return dataclasses.replace(run, **seen, **collective)


def agreed_s(duration_s: float, device: torch.device) -> float:
    """Return the longest of all ranks' durations."""
    longest = torch.tensor(duration_s, device=device)
    if dist.is_initialized():
        dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


def parallel(model: GPT, run: Run) -> Any:
    """Return what is trained: the model, compiled and wrapped as the run says."""
    if run.compiled and run.data_parallel == "torch_fsdp2":
        for block in model.blocks:  # each block gathers its weights before its own graph begins
            block.compile()
    elif run.compiled and run.data_parallel != "torch_ddp":
        model.compile()
    trainee = data_parallel(model, run.data_parallel, None)  # None: all ranks are replicas
    if run.compiled and run.data_parallel == "torch_ddp":
        trainee.compile()  # outside: then the compiler cuts its graph where torch's buckets end
    return trainee


def attention_kernels(order: Order, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Let torch take the first of FASTEST_FIRST that fits, where that is wanted; its own choice elsewhere."""
    wanted = order.prefers_cudnn and device.type == "cuda" and order.run.config.attention == "sdpa"
    return sdpa_kernel(FASTEST_FIRST, set_priority=True) if wanted else contextlib.nullcontext()


@contextlib.contextmanager
def counted_all_reduces() -> Iterator[list[int]]:
    """Yield a list of the bytes handed to torch.distributed.all_reduce inside, call by call. Torch's own DDP goes through another door."""
    sent: list[int] = []
    call = dist.all_reduce

    def counted(tensor: Tensor, *given: Any, **named: Any) -> Any:
        sent.append(tensor.numel() * tensor.element_size())
        return call(tensor, *given, **named)

    dist.all_reduce = counted  # type: ignore[assignment]
    try:
        yield sent
    finally:
        dist.all_reduce = call


def timed_s(action: Callable[[], object], repeats: int, device: torch.device) -> list[float]:
    """Return the duration of each call; on a GPU by events, so that the host is never waited for in between."""
    if device.type == "cpu":
        marks = [time.perf_counter()]
        for _ in range(repeats):
            action()
            marks.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(marks)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        action()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(events)]


def timed_all_reduce_s(message_bytes: int, device: torch.device) -> float:
    """Return the median duration of an all-reduce of so many bytes, when nothing else runs."""
    message = torch.zeros(max(1, message_bytes // 4), device=device)
    timed_s(lambda: dist.all_reduce(message), 3, device)
    return statistics.median(timed_s(lambda: dist.all_reduce(message), NUM_COLLECTIVES, device))


def machine(device: torch.device) -> dict[str, str | None]:
    """Say where and with what is measured."""
    try:
        from triton import __version__ as triton_version
    except ImportError:
        triton_version = None
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine(),
        "driver": driver_version() if on_gpu else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": triton_version,
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, None without one."""
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        return None
