"""What the milestone's log holds: one Run for each thing that was timed, and the machine that it was timed on. Facts only: every figure
of a report is derived from them.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from lm.gpt import GPT, GPTConfig
from lm.hardware import Hardware

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """One training run of a few steps. A rank's batch is num_micro_batches pieces of micro_batch sequences, taken one after the other."""

    name: str
    base: str | None  # the run that it is compared with: the same, but for one change; None: nothing came before it
    config: GPTConfig
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    compiled: bool
    recompute: Literal["none", "selective", "full"]
    sequence: int  # tokens
    micro_batch: int  # sequences of one rank in one piece
    num_micro_batches: int
    data_parallel: Literal["none", "ddp", "torch_ddp", "torch_fsdp2"]
    world_size: int
    step_s: tuple[float, ...]  # every timed step of rank 0; the untimed ones before them are not here
    peak_bytes: int  # the most that one rank held: tensors on a GPU, the whole process on a CPU
    losses: tuple[float, ...] = ()  # of every step, timed or not
    all_reduce_bytes: int = 0  # gradients that one rank hands to all_reduce in a step
    all_reduce_s: float | None = None  # what all-reducing so much takes when nothing else runs
    link_latency_s: float = 0.0  # of one message between two ranks, from an all-reduce of one number


@dataclass(frozen=True)
class Log:
    """All runs, in the order in which they were made, and the machine."""

    hardware: Hardware  # what it can do at most: by the table of lm/hardware.py, or measured on a CPU
    memory_bytes: int  # of one device, as the device says; 0: unknown
    runs: tuple[Run, ...] = ()
    machine: dict[str, str | None] = field(default_factory=dict)  # device, versions, date
    plan: dict[str, Any] = field(default_factory=dict)  # what was asked for: preset, sizes, steps
    skipped: dict[str, str] = field(default_factory=dict)  # run -> why it could not be had

    def run(self, name: str) -> Run | None:
        """Return the run called `name`, None if there is none."""
        return next((run for run in self.runs if run.name == name), None)


def num_parameters(config: GPTConfig) -> int:
    """Count the numbers that the model trains, without allocating any."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in GPT(config).parameters())


def write_log(log: Log, path: Path) -> None:
    """Write `log` as JSON; the file appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps({"format": FORMAT, **dataclasses.asdict(log)}, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read_log(path: Path) -> Log:
    """Return what write_log wrote; ValueError for anything else."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields.pop("format") != FORMAT:
            raise ValueError(f"this program reads format {FORMAT}")
        hardware = fields.pop("hardware")
        hardware["device_names"] = tuple(hardware["device_names"])
        return Log(hardware=Hardware(**hardware), runs=tuple(run_from(run) for run in fields.pop("runs")), **fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not a log of the milestone: {error}") from error


def run_from(fields: dict[str, Any]) -> Run:
    """Return the Run that dataclasses.asdict took apart."""
    lists = {name: tuple(fields[name]) for name in ("step_s", "losses")}
    return Run(**(fields | lists | {"config": GPTConfig(**fields["config"])}))
