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
    # region solution flops_per_token
    if recompute not in ("none", "selective", "full"):
        raise ValueError(f"recompute is none, selective or full, not {recompute!r}")
    C, F, H, G, D = config.hidden_size, config.mlp_size, config.num_heads, config.num_kv_heads, config.head_dim

    # A weight meets a token in one multiplication and one addition: 2 FLOPs. Biases, norms and activations make no product.
    num_mlp_matrices = 3 if config.activation == "swiglu" else 2
    block_linear = 2 * (C * (H + 2 * G) * D + H * D * C + num_mlp_matrices * C * F)
    # The head multiplies whether it is tied or not. The embedding looks a row up: no product, no FLOPs.
    head = 2 * C * config.vocab_size

    # Scores and weighted values: two products per key and head, of D multiplications each. The number of key heads doesn't matter: each
    # query head meets all keys. Of T keys the t-th token sees t: (T + 1) / 2 on the mean.
    keys = (sequence + 1) / 2 if causal else sequence
    attention = 2 * 2 * H * D * keys

    # Backward needs the gradient of each factor of a product: two products of the same size for each product of forward.
    L = config.num_layers
    again = {"none": 0, "selective": L * attention, "full": L * (block_linear + attention)}[recompute]
    return 3 * (L * (block_linear + attention) + head) + again
    # endregion


# --- task utilisation ------------------------------------------------------------------------------------------------
def tokens_per_s(run: Run) -> float:
    """Return tokens per second of all ranks together, by the median step."""
    # region solution tokens_per_s
    tokens_per_step = run.micro_batch * run.num_micro_batches * run.sequence * run.world_size
    # The median: one step that the machine disturbed says nothing about the others.
    return tokens_per_step / statistics.median(run.step_s)
    # endregion


def mfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    """Return model FLOPs utilisation: the FLOPs that the model needs, over what all ranks' devices could do in that time at most.

    The peak is that of dense products in the run's precision; ValueError where `hardware` has none.
    """
    # region solution mfu
    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute="none")
    return tokens_per_s(run) * needed / (run.world_size * peak_flops_per_s(run, hardware))
    # endregion


def hfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    """Return hardware FLOPs utilisation: as mfu, but of all the FLOPs that were done, those of recomputation among them."""
    # region solution hfu
    done = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return tokens_per_s(run) * done / (run.world_size * peak_flops_per_s(run, hardware))
    # endregion


def peak_flops_per_s(run: Run, hardware: Hardware) -> float:
    """Return the peak of one device for this run; ValueError where there is none. Never graded by itself."""
    # region solution peak_flops_per_s
    # By the run's own precision: a bf16 run over the fp32 peak would be fifteen times as good as it is.
    if run.precision not in hardware.peak_flops_per_s:
        raise ValueError(f"{hardware.name} has no peak for {run.precision}, only for {', '.join(hardware.peak_flops_per_s)}")
    return hardware.peak_flops_per_s[run.precision]
    # endregion


# --- task communication ----------------------------------------------------------------------------------------------
def ring_all_reduce_bytes(message_bytes: float, world_size: int) -> float:
    """Return the bytes that each rank sends when `message_bytes` are all-reduced around a ring of `world_size` ranks."""
    # region solution ring_all_reduce_bytes
    # A reduce-scatter and an all-gather: each takes N - 1 hops, and each hop carries an N-th of the message.
    return 2 * (world_size - 1) / world_size * message_bytes
    # endregion


def predicted_all_reduce_seconds(message_bytes: float, world_size: int, *, link_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Return what that takes by the α–β model: every hop costs `latency_s`, every byte 1 / link_bytes_per_s (one direction)."""
    # region solution predicted_all_reduce_seconds
    num_hops = 2 * (world_size - 1)
    return num_hops * latency_s + ring_all_reduce_bytes(message_bytes, world_size) / link_bytes_per_s
    # endregion


# --- task scaling ----------------------------------------------------------------------------------------------------
def scaling_efficiency(run: Run, alone: Run) -> float:
    """Return tokens/s per rank of `run` over those of `alone`, one rank that does the same work: weak scaling.

    ValueError if `alone` has more than one rank, or if the two differ in anything that the work depends on: model, sequence, precision,
    recomputation, compilation, micro-batch, number of micro-batches.
    """
    # region solution scaling_efficiency
    if alone.world_size != 1:
        raise ValueError(f"{alone.name} ran on {alone.world_size} ranks; efficiency is measured against one")
    if different := [name for name in changed_settings(run, alone) if name != "ranks"]:
        raise ValueError(f"{run.name} and {alone.name} differ in {', '.join(different)}: that is not the same work")
    return tokens_per_s(run) / run.world_size / tokens_per_s(alone)
    # endregion


# --- task report -----------------------------------------------------------------------------------------------------
def settings_of(run: Run) -> dict[str, Any]:
    """Return what can be changed about a run, each setting under its name. Never graded by itself."""
    # region solution settings_of
    settings = {f"config.{field.name}": getattr(run.config, field.name) for field in fields(run.config)}
    for name in ("precision", "compiled", "recompute", "sequence"):
        settings[name] = getattr(run, name)
    # Two that are numbers in pairs: cutting a batch into pieces changes both, and so does going from one rank to several.
    settings["batch"] = (run.micro_batch, run.num_micro_batches)
    settings["ranks"] = (run.data_parallel, run.world_size)
    return settings
    # endregion


def changed_settings(run: Run, base: Run) -> list[str]:
    """Return the names of the settings in which two runs differ. Never graded by itself."""
    # region solution changed_settings
    before = settings_of(base)
    return [name for name, value in settings_of(run).items() if value != before[name]]
    # endregion


def is_timed(run: Run) -> bool:
    """Say whether a run has step times, positive and finite, and finite losses. Never graded by itself."""
    # region solution is_timed
    has_times = bool(run.step_s) and all(math.isfinite(step_s) and step_s > 0 for step_s in run.step_s)
    return has_times and all(math.isfinite(loss) for loss in run.losses)
    # endregion


def largest_speed_up(run: Run, base: Run, change: str, hardware: Hardware) -> float | None:
    """Return what one change can give at most; None where only the peak limits it. Never graded by itself."""
    # region solution largest_speed_up
    if change == "ranks":
        return run.world_size / base.world_size
    if change == "batch":
        # A larger batch spreads the costs that a step has whatever its size; a step can't get shorter by holding more.
        return max(1.0, run.micro_batch * run.num_micro_batches / (base.micro_batch * base.num_micro_batches))
    if change == "precision":
        peaks, width = hardware.peak_flops_per_s, {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
        if run.precision not in peaks or base.precision not in peaks:
            return None
        # What computes gets faster by the peaks, what moves memory by the width of a number; nothing by more than the larger.
        return max(peaks[run.precision] / peaks[base.precision], width[base.precision] / width[run.precision])
    return None
    # endregion


def check_log(log: Log) -> list[Violation]:
    """Return every bound that a run breaks, in any order; [] if the log is possible. The bounds: section 6 of the handout."""
    # region solution check_log
    return [violation for run in log.runs for violation in check_run(run, log)]
    # endregion


def check_run(run: Run, log: Log) -> list[Violation]:
    """Return the bounds that one run breaks. Never graded by itself."""
    # region solution check_run
    if not is_timed(run):
        # Nothing can be derived from such a run, so nothing else is said about it.
        return [Violation(run.name, "timing", "its step times must be positive and finite, at least one, and its losses finite")]
    found = check_devices(run, log)
    if run.base is None:
        return found
    earlier = log.runs[: log.runs.index(run)]
    base = next((each for each in earlier if each.name == run.base), None)
    changes = changed_settings(run, base) if base else []
    if base is None or len(changes) != 1:
        seen = f"{', '.join(changes) or 'nothing'} changed" if base else "there is no such run before it"
        return [*found, Violation(run.name, "one_change", f"against {run.base} exactly one thing changes; {seen}")]
    limit = largest_speed_up(run, base, changes[0], log.hardware) if is_timed(base) else None
    if limit is not None and (speed_up := tokens_per_s(run) / tokens_per_s(base)) > NOISE * limit:
        sentence = f"{changes[0]} made it {speed_up:.2f} times as fast as {base.name}; it can give {limit:.2f}"
        found.append(Violation(run.name, "speed_up", sentence))
    return found
    # endregion


def check_devices(run: Run, log: Log) -> list[Violation]:
    """Return the bounds of peak, memory and link that one run breaks. Never graded by itself."""
    # region solution check_devices
    found: list[Violation] = []

    def claim(is_possible: bool, bound: Bound, sentence: str) -> None:
        if not is_possible:
            found.append(Violation(run.name, bound, sentence))

    # By the causal count: a kernel may leave out what the mask hides, and then it did not do those FLOPs.
    if run.precision in log.hardware.peak_flops_per_s:
        utilisation = hfu(run, log.hardware, causal=True)
        claim(utilisation < 1, "mfu", f"it would use {utilisation:.0%} of the {run.precision} peak of {log.hardware.name}")

    # In the optimizer's step weights, gradients and moments are all there, on each rank that does not shard them.
    parameters = num_parameters(run.config)
    states_bytes = STATE_BYTES * parameters / (run.world_size if run.data_parallel == "torch_fsdp2" else 1)
    claim(run.peak_bytes >= states_bytes, "memory", f"a peak of {run.peak_bytes:.4g} bytes; the states alone take {states_bytes:.4g}")
    if log.memory_bytes:
        claim(run.peak_bytes <= log.memory_bytes, "memory", f"a peak of {run.peak_bytes:.4g} bytes; a device has {log.memory_bytes:.4g}")

    message_bytes, gradient_bytes = run.all_reduce_bytes, GRADIENT_BYTES * parameters
    if run.world_size == 1:
        claim(message_bytes == 0, "volume", f"one rank all-reduces {message_bytes:.4g} bytes with nobody")
        return found
    if run.data_parallel in ("ddp", "torch_ddp"):
        claim(message_bytes >= gradient_bytes, "volume", f"{message_bytes:.4g} bytes all-reduced of {gradient_bytes:.4g} in gradients")
    if message_bytes and log.hardware.link_bytes_per_s:
        # Not 2(N-1)/N of it: a switch that adds up on the way needs to be sent every byte only once.
        floor_s = message_bytes / log.hardware.link_bytes_per_s
        shortest_s = min(statistics.median(run.step_s), math.inf if run.all_reduce_s is None else run.all_reduce_s)
        claim(shortest_s >= floor_s, "link", f"{message_bytes:.4g} bytes in {shortest_s:.3g} s; the link takes {floor_s:.3g} s")
    return found
    # endregion


def summarise(log: Log) -> list[Row]:
    """Return a row for every run, in the log's order; every figure is derived from the log. MFU and HFU count attention in full."""
    # region solution summarise
    rows = []
    for run in log.runs:
        base = log.run(run.base) if run.base else None
        has_peak = run.precision in log.hardware.peak_flops_per_s
        sends, link_bytes_per_s = run.all_reduce_bytes > 0, log.hardware.link_bytes_per_s
        predicted_s = None
        if sends and link_bytes_per_s:
            link = {"link_bytes_per_s": link_bytes_per_s, "latency_s": run.link_latency_s}
            predicted_s = predicted_all_reduce_seconds(run.all_reduce_bytes, run.world_size, **link)
        rows.append(
            Row(
                name=run.name,
                tokens_per_s=tokens_per_s(run),
                mfu=mfu(run, log.hardware) if has_peak else None,
                hfu=hfu(run, log.hardware) if has_peak else None,
                peak_gib=run.peak_bytes / 2**30,
                speed_up=tokens_per_s(run) / tokens_per_s(base) if base else None,
                efficiency=scaling_efficiency(run, base) if base and run.world_size > 1 else None,
                sent_bytes=ring_all_reduce_bytes(run.all_reduce_bytes, run.world_size) if sends else None,
                predicted_s=predicted_s,
                all_reduce_s=run.all_reduce_s,
                share=None if run.all_reduce_s is None else run.all_reduce_s / statistics.median(run.step_s),
            )
        )
    return rows
    # endregion


# --- task report: raced, never graded --------------------------------------------------------------------------------
def tuned_step(gpt: GPT) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a forward and a backward of `gpt`, as fast as you can make them on its device.

    It takes tokens and targets (B, T), leaves all gradients in the parameters' `.grad` and returns the mean loss. `gpt` has float32
    weights, which stay, and dense attention; gradients may be as far from float32's as plain autocast's are, or twice that.
    """
    # region solution tuned_step
    device = next(gpt.parameters()).device
    on_gpu = device.type == "cuda"
    # Tensor cores; but before Ampere there is no bfloat16, and in float16 gradients of 1e-8 are zeros unless they are scaled up.
    is_narrow = on_gpu and torch.cuda.get_device_capability(device) < (8, 0)
    scale, sixteen = (2.0**16, torch.float16) if is_narrow else (1.0, torch.bfloat16)
    # Scores never reach memory.
    for block in gpt.blocks:
        block.attention.attend = sdpa_attention
    # What is left between products is fused. On the host it would need a C compiler, and is not raced.
    if on_gpu:
        gpt.compile(dynamic=False)

    def step(tokens_BT: Tensor, targets_BT: Tensor) -> Tensor:
        with torch.autocast(device.type, sixteen, enabled=on_gpu):
            loss = gpt(tokens_BT, targets_BT)
        (loss * scale).backward()
        if is_narrow:
            torch._foreach_div_([parameter.grad for parameter in gpt.parameters()], scale)
        return loss.detach()

    return step
    # endregion
