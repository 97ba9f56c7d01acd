"""A whole file in another style: numbers in a table per model, a bound per generator, settings as a flat dict, and rows filled by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
from lm.gpt import GPTConfig
from lm.hardware import Hardware
from lm.runlog import Log, Run, num_parameters

WIDTH = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True)
class Violation:
    run: str
    bound: str
    sentence: str


@dataclass(frozen=True)
class Row:
    name: str
    tokens_per_s: float
    mfu: float | None = None
    hfu: float | None = None
    peak_gib: float = 0.0
    speed_up: float | None = None
    efficiency: float | None = None
    sent_bytes: float | None = None
    predicted_s: float | None = None
    all_reduce_s: float | None = None
    share: float | None = None


def weights(config: GPTConfig) -> tuple[int, int]:
    """Weights of one block and of the head."""
    kv_width = config.num_kv_heads * config.head_dim
    mlp = (3 if config.activation == "swiglu" else 2) * config.mlp_size
    return config.hidden_size * (2 * config.hidden_size + 2 * kv_width + mlp), config.hidden_size * config.vocab_size


def flops_per_token(config: GPTConfig, sequence: int, *, causal: bool, recompute: str) -> float:
    times = {"none": (6, 12), "selective": (6, 16), "full": (8, 16)}.get(recompute)
    if times is None:
        raise ValueError(recompute)
    block, head = weights(config)
    for_a_weight, for_a_pair = times
    pairs = config.hidden_size * sequence * ((1 + 1 / sequence) / 2 if causal else 1)
    return config.num_layers * (for_a_weight * block + for_a_pair * pairs) + 6 * head


def step_s(run: Run) -> float:
    return float(np.median(run.step_s))


def rank_tokens_per_s(run: Run) -> float:
    return run.sequence * run.micro_batch * run.num_micro_batches / step_s(run)


def tokens_per_s(run: Run) -> float:
    return rank_tokens_per_s(run) * run.world_size


def utilisation(run: Run, hardware: Hardware, causal: bool, recompute: str) -> float:
    peak = hardware.peak_flops_per_s.get(run.precision)
    if peak is None:
        raise ValueError(f"no {run.precision} on {hardware.name}")
    # Tokens and peaks of all ranks: the number of ranks is in both and cancels.
    return rank_tokens_per_s(run) * flops_per_token(run.config, run.sequence, causal=causal, recompute=recompute) / peak


def mfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    return utilisation(run, hardware, causal, "none")


def hfu(run: Run, hardware: Hardware, *, causal: bool = False) -> float:
    return utilisation(run, hardware, causal, run.recompute)


def ring_all_reduce_bytes(message_bytes: float, world_size: int) -> float:
    return 2 * message_bytes - 2 * message_bytes / world_size


def predicted_all_reduce_seconds(message_bytes: float, world_size: int, *, link_bytes_per_s: float, latency_s: float = 0.0) -> float:
    return 2 * (world_size - 1) * (latency_s + message_bytes / (world_size * link_bytes_per_s))


def flat(run: Run) -> dict[str, Any]:
    settings = asdict(run.config) | {name: getattr(run, name) for name in ("precision", "compiled", "recompute", "sequence")}
    return settings | {"batch": (run.micro_batch, run.num_micro_batches), "ranks": (run.data_parallel, run.world_size)}


def changes(run: Run, base: Run) -> set[str]:
    one, other = flat(run), flat(base)
    return {name for name in one if one[name] != other[name]}


def scaling_efficiency(run: Run, alone: Run) -> float:
    if alone.world_size != 1 or changes(run, alone) - {"ranks"}:
        raise ValueError(f"{alone.name} is no base for {run.name}")
    return rank_tokens_per_s(run) / rank_tokens_per_s(alone)


def is_timed(run: Run) -> bool:
    return len(run.step_s) > 0 and min(run.step_s) > 0 and all(map(isfinite, (*run.step_s, *run.losses)))


def limit(run: Run, base: Run, change: str, peaks: dict[str, float]) -> float:
    if change == "ranks":
        return run.world_size / base.world_size
    if change == "batch":
        return max(1, run.micro_batch * run.num_micro_batches / base.micro_batch / base.num_micro_batches)
    if change == "precision" and run.precision in peaks and base.precision in peaks:
        return max(peaks[run.precision] / peaks[base.precision], WIDTH[base.precision] / WIDTH[run.precision])
    return inf


def broken_by(run: Run, log: Log, before: dict[str, Run]) -> Iterator[str]:
    if not is_timed(run):
        yield "timing"
        return
    peaks, link = log.hardware.peak_flops_per_s, log.hardware.link_bytes_per_s
    if run.precision in peaks and hfu(run, log.hardware, causal=True) >= 1:
        yield "mfu"
    numbers, sent = num_parameters(run.config), run.all_reduce_bytes
    states = 16 * numbers / (run.world_size if run.data_parallel == "torch_fsdp2" else 1)
    if not states <= run.peak_bytes <= (log.memory_bytes or inf):
        yield "memory"
    if run.world_size == 1:
        if sent:
            yield "volume"
    else:
        if run.data_parallel in ("ddp", "torch_ddp") and sent < 4 * numbers:
            yield "volume"
        if sent and link and sent / link > min(step_s(run), inf if run.all_reduce_s is None else run.all_reduce_s):
            yield "link"
    if run.base is None:
        return
    base = before.get(run.base)
    changed = changes(run, base) if base else set()
    if base is None or len(changed) != 1:
        yield "one_change"
    elif is_timed(base) and tokens_per_s(run) / tokens_per_s(base) > 1.1 * limit(run, base, changed.pop(), peaks):
        yield "speed_up"


def check_log(log: Log) -> list[Violation]:
    before: dict[str, Run] = {}
    violations = []
    for run in log.runs:
        violations += [Violation(run.name, bound, f"impossible: {bound}") for bound in broken_by(run, log, before)]
        before.setdefault(run.name, run)
    return violations


def row(run: Run, base: Run | None, hardware: Hardware) -> Row:
    figures: dict[str, Any] = {"peak_gib": run.peak_bytes / 1024 / 1024 / 1024}
    if run.precision in hardware.peak_flops_per_s:
        figures |= {"mfu": mfu(run, hardware), "hfu": hfu(run, hardware)}
    if base is not None:
        figures["speed_up"] = tokens_per_s(run) / tokens_per_s(base)
        if run.world_size > 1:
            figures["efficiency"] = scaling_efficiency(run, base)
    if run.all_reduce_bytes:
        message, ranks, link = run.all_reduce_bytes, run.world_size, hardware.link_bytes_per_s
        figures["sent_bytes"] = ring_all_reduce_bytes(message, ranks)
        if link:
            figures["predicted_s"] = predicted_all_reduce_seconds(message, ranks, link_bytes_per_s=link, latency_s=run.link_latency_s)
    if run.all_reduce_s is not None:
        figures |= {"all_reduce_s": run.all_reduce_s, "share": run.all_reduce_s / step_s(run)}
    return Row(run.name, tokens_per_s(run), **figures)


def summarise(log: Log) -> list[Row]:
    named = {run.name: run for run in reversed(log.runs)}
    return [row(run, named.get(run.base) if run.base else None, log.hardware) for run in log.runs]
