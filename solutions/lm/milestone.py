"""The climb: every run of the ladder is measured, and the log is written after each."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from lm.hardware import Hardware, hardware_here, measured_cpu
from lm.ladder import AFTERWARDS, LADDER, Plan, first_config, first_run, is_kept
from lm.measuring import Order, machine, measured
from lm.runlog import Log, Run, read_log, write_log

SMALL, LARGE, SLOW_FLOPS_PER_S = 256, 1024, 5e9
NUM_LOOKS = 3  # at a CPU's peak: others may be using it


class Milestone:
    """One climb: the plan, the machine, and the log as far as it goes."""

    def __init__(
        self, plan: Plan, device: torch.device, path: Path, say: Callable[[str], None], program: Path, only: Sequence[str] = ()
    ) -> None:
        self.only = only  # names of runs; none: all
        self.plan, self.device, self.path, self.say, self.program = plan, device, path, say, program
        self.prefers_cudnn = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
        self.log = self.found() or self.begun()
        self.start = time.perf_counter()
        self.num_left = 1 + len(LADDER) + len(AFTERWARDS)
        self.spent_s: list[float] = []

    def found(self) -> Log | None:
        """Return the log that is there, if it is of this plan on this machine; ValueError if it is of another one."""
        if not self.path.exists():
            return None
        log = read_log(self.path)
        same = {name: value for name, value in dataclasses.asdict(self.plan).items() if name != "budget_s"}
        here = {name: value for name, value in machine(self.device).items() if name != "date"}
        was = {name: value for name, value in log.machine.items() if name in here}
        if log.plan != same or was != here:
            raise ValueError(f"{self.path} is of another plan or machine: move it away, or name another folder by --out")
        self.say(f"{self.path} has {len(log.runs)} runs already; going on from there")
        return dataclasses.replace(log, skipped={})  # what was missing may be there by now

    def begun(self) -> Log:
        """Return a log without runs."""
        on_gpu = self.device.type == "cuda"
        memory_bytes = torch.cuda.get_device_properties(self.device).total_memory if on_gpu else 0
        plan = {name: value for name, value in dataclasses.asdict(self.plan).items() if name != "budget_s"}
        return Log(hardware_of(self.plan, self.device), memory_bytes, machine=machine(self.device) | self.kernel(), plan=plan)

    def kernel(self) -> dict[str, str | None]:
        """Say whose fused attention is measured."""
        return {"fused_attention": "cuDNN's, where it fits" if self.prefers_cudnn else "torch's own choice"}

    def climb(self) -> Log:
        """Measure what is not in the log yet, one run after the other; the log is written after each."""
        top = self.take("fp32", first_run(self.plan))
        for name, change in LADDER:
            taken = self.take(self.plan.sixteen if name == "sixteen" else name, top and change(top, self.plan, self.device), top)
            top = taken if taken and (top is None or is_kept(taken, top)) else top
        for name, base_name, change in AFTERWARDS:
            base = top if base_name == "top" else self.log.run(base_name)
            self.take(name, change(base, self.plan, self.device) if base else "what it changes was not measured", base)
        return self.log

    def take(self, name: str, run: Run | str | None, base: Run | None = None) -> Run | None:
        """Return the run called `name`, measured now or before; None, with the reason in the log, if it cannot be had."""
        self.num_left -= 1
        if done := self.log.run(name):
            return done
        if self.only and name not in self.only:
            return self.skip(name, "not asked for")
        if time.perf_counter() - self.start > self.plan.budget_s:
            run = f"{self.plan.budget_s:.0f} s were spent; the same command goes on from here"
        if run is None or isinstance(run, str):
            return self.skip(name, run or "what it changes was not measured")
        wanted = dataclasses.replace(run, name=name, base=base and base.name, **UNMEASURED)
        begun_s = time.perf_counter()
        try:
            done = self.measure(wanted)
        except RuntimeError as error:
            return self.skip(name, str(error))
        self.spent_s.append(time.perf_counter() - begun_s)
        self.log = dataclasses.replace(self.log, runs=(*self.log.runs, done))
        write_log(self.log, self.path)
        self.say(self.progress(done))
        return done

    def measure(self, run: Run) -> Run:
        """Have one run measured; where cuDNN's attention fails, once more without it, and from then on."""
        plan = self.plan
        order = Order(
            run,
            self.device.type,
            plan.num_threads,
            plan.warmup,
            plan.steps,
            first_config(plan.preset).vocab_size,
            self.prefers_cudnn,
            plan.patience_s,
        )
        try:
            return measured(order, self.path.parent, self.program)
        except RuntimeError as error:
            if not (self.prefers_cudnn and run.config.attention == "sdpa"):
                raise
            self.say(f"{run.name}: {error}; trying without cuDNN's attention")
            self.prefers_cudnn = False
            self.log = dataclasses.replace(self.log, machine=self.log.machine | self.kernel())
            return measured(dataclasses.replace(order, prefers_cudnn=False), self.path.parent, self.program)

    def skip(self, name: str, reason: str) -> None:
        """Say in the log why there is no such run."""
        self.log = dataclasses.replace(self.log, skipped=self.log.skipped | {name: reason})
        write_log(self.log, self.path)
        self.say(f"{name:26} skipped: {reason}")

    def progress(self, run: Run) -> str:
        """Return a line: what was measured, and how long the rest may take."""
        tokens = run.micro_batch * run.num_micro_batches * run.sequence * run.world_size
        left_s = self.num_left * sum(self.spent_s) / len(self.spent_s)
        minutes, seconds = divmod(round(left_s), 60)
        speed = f"{tokens / statistics.median(run.step_s):12,.0f} tokens/s"
        return f"{run.name:26} {speed} {run.peak_bytes / 2**30:8.2f} GiB   about {minutes}:{seconds:02} left"


UNMEASURED = {"step_s": (), "losses": (), "peak_bytes": 0, "all_reduce_bytes": 0, "all_reduce_s": None, "link_latency_s": 0.0}


def hardware_of(plan: Plan, device: torch.device) -> Hardware:
    """Return what one rank's device can do at most; ValueError for a GPU that isn't in the table."""
    if device.type == "cpu":
        return cpu_share(plan)
    hardware = hardware_here(device, "fp32")
    if hardware is None:
        raise ValueError(f"lm/hardware.py has no row for {torch.cuda.get_device_name(device)}: add one, with its source")
    return hardware


def size_for(precision: str) -> int:
    """Return the side of a product that shows a CPU's peak; a small one where a large one would take seconds."""
    quick = measured_cpu(precision, SMALL)
    return LARGE if quick.peak_flops_per_s[precision] > SLOW_FLOPS_PER_S else SMALL


def cpu_share(plan: Plan) -> Hardware:
    """Return a rank's share of this CPU: peaks by measured products, and as a link the memory through which ranks meet."""
    torch.set_num_threads(plan.num_threads)
    found = {name: [measured_cpu(name, size_for(name)) for _ in range(NUM_LOOKS)] for name in ("fp32", plan.sixteen)}
    peaks = {name: max(cpu.peak_flops_per_s[name] for cpu in looks) for name, looks in found.items()}
    # A 16-bit product may always be made in fp32: where that is faster, it is the peak.
    peaks[plan.sixteen] = max(peaks.values())
    whole = max(found["fp32"], key=lambda cpu: cpu.memory_bytes_per_s)
    # What one rank sends is read and written once at least.
    return dataclasses.replace(whole, peak_flops_per_s=peaks, link="memory of one machine", link_bytes_per_s=whole.memory_bytes_per_s / 2)
