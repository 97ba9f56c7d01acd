"""What a training run cost and what it reached: FLOPs per token, utilisation, scaling, and a report that follows from its log alone.

Rates are per second, sizes in bytes. Configs are those of the given GPT; a `Run` is one entry of the log (`lm/runlog.py`).
"""

# T tokens of a sequence, C hidden size, H query heads, G key/value heads, D head dim, F mlp size, V vocabulary, L layers, N ranks
from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor

from lm.gpt import GPT, GPTConfig, sdpa_attention
from lm.hardware import Hardware
from lm.runlog import Log, Run, num_parameters

Recompute = Literal["none", "selective", "full"]
Bound = Literal["timing", "mfu", "memory", "volume", "link", "one_change", "speed_up"]

NOISE = 1.1  # two timings of the same thing may differ by so much
STATE_BYTES = 16  # per parameter under autocast: fp32 weight, gradient and two moments
GRADIENT_BYTES = 4  # per parameter, in fp32


# --- given: records --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Violation:
    """One bound that one run of a log breaks."""

    run: str
    bound: Bound
    sentence: str  # what was seen and what is possible; for people


@dataclass(frozen=True)
class Row:
    """One line of the report's table. None: the figure does not exist for this run."""

    name: str
    tokens_per_s: float
    mfu: float | None
    hfu: float | None
    peak_gib: float
    speed_up: float | None  # tokens/s over those of the base
    efficiency: float | None  # of several ranks, over the base alone
    sent_bytes: float | None  # of one rank in a step, by a ring
    predicted_s: float | None  # what the ring would take
    all_reduce_s: float | None  # what it took
    share: float | None  # all_reduce_s over the step


# --- task flops ------------------------------------------------------------------------------------------------------
def flops_per_token(config: GPTConfig, sequence: int, *, causal: bool, recompute: Recompute) -> float:
    """Return FLOPs per token of a forward and a backward pass on sequences of `sequence` tokens: matrix products only.

    causal: count only those pairs of a query and a key that may see each other; False: all of them, as dense attention computes.
    recompute: what backward makes a second time: nothing, each layer's attention, or each whole block. An unknown one is a ValueError.
    """
    raise NotImplementedError("mfu_report, task flops: see section 2 of the handout")


# --- task utilisation ------------------------------------------------------------------------------------------------
def tokens_per_s(run: Run) -> float:
    """Return tokens per second of all ranks together, by the median step."""
    raise NotImplementedError("mfu_report, task utilisation: see section 3 of the handout")


def mfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    """Return model FLOPs utilisation: the FLOPs that the model needs, over what all ranks' devices could do in that time at most.

    The peak is that of dense products in the run's precision; ValueError where `hardware` has none.
    """
    raise NotImplementedError("mfu_report, task utilisation: see section 3 of the handout")


def hfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    """Return hardware FLOPs utilisation: as mfu, but of all the FLOPs that were done, those of recomputation among them."""
    raise NotImplementedError("mfu_report, task utilisation: see section 3 of the handout")


def peak_flops_per_s(run: Run, hardware: Hardware) -> float:
    """Return the peak of one device for this run; ValueError where there is none. Never graded by itself."""
    raise NotImplementedError("mfu_report, task utilisation: see section 3 of the handout")


# --- task communication ----------------------------------------------------------------------------------------------
def ring_all_reduce_bytes(message_bytes: float, world_size: int) -> float:
    """Return the bytes that each rank sends when `message_bytes` are all-reduced around a ring of `world_size` ranks."""
    raise NotImplementedError("mfu_report, task communication: see section 4 of the handout")


def predicted_all_reduce_seconds(message_bytes: float, world_size: int, *, link_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Return what that takes by the α–β model: every hop costs `latency_s`, every byte 1 / link_bytes_per_s (one direction)."""
    raise NotImplementedError("mfu_report, task communication: see section 4 of the handout")


# --- task scaling ----------------------------------------------------------------------------------------------------
def scaling_efficiency(run: Run, alone: Run) -> float:
    """Return tokens/s per rank of `run` over those of `alone`, one rank that does the same work: weak scaling.

    ValueError if `alone` has more than one rank, or if the two differ in anything that the work depends on: model, sequence, precision,
    recomputation, compilation, micro-batch, number of micro-batches.
    """
    raise NotImplementedError("mfu_report, task scaling: see section 5 of the handout")


# --- task report -----------------------------------------------------------------------------------------------------
def settings_of(run: Run) -> dict[str, Any]:
    """Return what can be changed about a run, each setting under its name. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def changed_settings(run: Run, base: Run) -> list[str]:
    """Return the names of the settings in which two runs differ. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def is_timed(run: Run) -> bool:
    """Say whether a run has step times, positive and finite, and finite losses. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def largest_speed_up(run: Run, base: Run, change: str, hardware: Hardware) -> float | None:
    """Return what one change can give at most; None where only the peak limits it. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def check_log(log: Log) -> list[Violation]:
    """Return every bound that a run breaks, in any order; [] if the log is possible. The bounds: section 6 of the handout."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def check_run(run: Run, log: Log) -> list[Violation]:
    """Return the bounds that one run breaks. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def check_devices(run: Run, log: Log) -> list[Violation]:
    """Return the bounds of peak, memory and link that one run breaks. Never graded by itself."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


def summarise(log: Log) -> list[Row]:
    """Return a row for every run, in the log's order; every figure is derived from the log. MFU and HFU count attention in full."""
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")


# --- task report: raced, never graded --------------------------------------------------------------------------------
def tuned_step(gpt: GPT) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a forward and a backward of `gpt`, as fast as you can make them on its device.

    It takes tokens and targets (B, T), leaves all gradients in the parameters' `.grad` and returns the mean loss. `gpt` has float32
    weights, which stay, and dense attention; gradients may be as far from float32's as plain autocast's are, or twice that.
    """
    raise NotImplementedError("mfu_report, task report: see section 6 of the handout")
