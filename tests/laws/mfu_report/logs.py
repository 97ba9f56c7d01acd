"""Logs as the judge draws them: a ladder that a machine could have climbed, and what is done to it so that none could have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.laws.memory_accounting.models import PLAIN, Array, Model, Sizes
from tests.laws.mfu_report.oracle import GRADIENT_BYTES, STATE_BYTES, Entry, Machine, at_speed, flops_per_token

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")  # in the probe's order, as all below
NUMBERS = ("sequence", "micro_batch", "num_micro_batches", "world_size", "peak_bytes", "all_reduce_bytes", "all_reduce_s", "link_latency_s")
NAMED = ("name", "base", "precision", "compiled", "recompute", "data_parallel")
OPTION_NAMES = tuple(PLAIN)

Log = tuple[list[Entry], Machine]
Tamper = Callable[[list[Entry], Machine], Log]

# name, base, what changes: a field, or what is drawn (padded: the vocabulary; larger and pieces: factors; ranks: how many and by what)
Step = tuple[str, str | None, dict[str, Any]]
LADDER: tuple[Step, ...] = (
    ("fp32", None, {}),
    ("tf32", "fp32", {"precision": "tf32"}),
    ("bf16", "tf32", {"precision": "bf16"}),
    ("fused", "bf16", {"attention": "sdpa"}),
    ("compiled", "fused", {"compiled": True}),
    ("padded", "compiled", {"padded": 128}),
    ("larger", "padded", {"larger": 4}),
    ("recomputed", "larger", {"recompute": "full"}),
    ("accumulated", "larger", {"pieces": 4}),
    ("ddp", "larger", {"ranks": 4, "data_parallel": "ddp"}),
    ("torch_ddp", "larger", {"ranks": 4, "data_parallel": "torch_ddp"}),
    ("fsdp2", "larger", {"ranks": 4, "data_parallel": "torch_fsdp2"}),
)
# Another order, other numbers of ranks, fp16, other names: nothing may depend on what a run is called.
OTHER_LADDER: tuple[Step, ...] = (
    ("a", None, {}),
    ("b", "a", {"larger": 3}),
    ("c", "b", {"compiled": True}),
    ("d", "c", {"precision": "fp16"}),
    ("e", "d", {"attention": "sdpa"}),
    ("f", "e", {"recompute": "selective"}),
    ("g", "e", {"ranks": 3, "data_parallel": "torch_ddp"}),
    ("h", "e", {"ranks": 5, "data_parallel": "torch_fsdp2"}),
    ("i", "e", {"ranks": 3, "data_parallel": "ddp"}),
    ("j", "e", {"pieces": 3}),
)
# By how much each change makes tokens/s grow: a range, per rank.
GAINS = {"precision": (1.1, 1.7), "attention": (1.2, 1.5), "compiled": (1.2, 1.5), "padded": (1.0, 1.05), "larger": (1.0, 1.15)}
LOSSES = {"recompute": (0.7, 0.8), "pieces": (0.85, 0.98), "ranks": (0.85, 0.98)}


def climbed(rng: np.random.Generator, ladder: Sequence[Step]) -> Log:
    """A ladder that a machine could have climbed, all sizes and speeds drawn."""
    fp32 = rng.uniform(50e12, 80e12)
    peaks = {"fp32": fp32, "tf32": 7 * fp32, "bf16": 14 * fp32, "fp16": 14 * fp32}
    sizes = Sizes().draw(rng)
    model = Model(*sizes, **PLAIN)
    pieces = int(np.prod([change.get("pieces", 1) for _, _, change in ladder]))
    first = Entry(
        ladder[0][0], None, model, "fp32", False, "none", "none", model.max_tokens, pieces * int(rng.integers(1, 4)), 1, 1, 0, 0, None, 0.0,
        (1.0, 1.0, 1.0), tuple(rng.uniform(2, 6, 4)),
    )  # fmt: skip
    flops = flops_per_token(model, first.sequence, causal=False, recompute="none")
    entries = [with_times(at_speed(first, rng.uniform(0.2, 0.35) * fp32 / flops), rng)]
    for name, base_name, change in ladder[1:]:
        base = next(entry for entry in entries if entry.name == base_name)
        entries.append(changed(base, name, change, rng))
    slowest_floor_s = min(float(np.median(entry.step_s)) for entry in entries) / rng.uniform(8, 20)
    gradient_bytes = max(GRADIENT_BYTES * entry.num_parameters for entry in entries)
    machine = Machine(peaks, 28 * fp32, 0, gradient_bytes / slowest_floor_s)
    entries = [with_bytes(entry, machine, rng) for entry in entries]
    return entries, replace(machine, memory_bytes=40 * max(entry.peak_bytes for entry in entries))


def changed(base: Entry, name: str, change: dict[str, Any], rng: np.random.Generator) -> Entry:
    """The run `name`: its base with one change, so much faster or slower as such a change makes it."""
    fields = {key: value for key, value in change.items() if key in ("precision", "compiled", "recompute", "data_parallel")}
    entry = replace(base, name=name, base=base.name, **fields)
    model = base.model
    if "attention" in change:
        entry = replace(entry, model=replace(model, attention=change["attention"]))
    if "padded" in change:
        entry = replace(entry, model=replace(model, vocab_size=-(-model.vocab_size // change["padded"]) * change["padded"]))
    if "larger" in change:
        entry = replace(entry, micro_batch=base.micro_batch * change["larger"])
    if "pieces" in change:
        entry = replace(entry, micro_batch=base.micro_batch // change["pieces"], num_micro_batches=change["pieces"])
    if "ranks" in change:
        entry = replace(entry, world_size=change["ranks"])
    (kind,) = [key for key in change if key in GAINS | LOSSES]
    gain = rng.uniform(*(GAINS | LOSSES)[kind]) * entry.world_size / base.world_size
    return with_times(at_speed(entry, base.tokens_per_s * gain), rng)


def with_times(entry: Entry, rng: np.random.Generator) -> Entry:
    """Five steps around the median, and other losses."""
    middle_s = float(np.median(entry.step_s))
    spread = np.asarray([1.0, *rng.uniform(0.97, 0.999, 2), *rng.uniform(1.001, 1.4, 2)])
    return replace(entry, step_s=tuple((middle_s * rng.permutation(spread)).tolist()), losses=tuple(rng.uniform(2, 6, 4).tolist()))


def with_bytes(entry: Entry, machine: Machine, rng: np.random.Generator) -> Entry:
    """Memory, and what travels."""
    entry = replace(entry, peak_bytes=int(STATE_BYTES * entry.num_parameters * rng.uniform(1.5, 3)))
    if entry.world_size == 1:
        return entry
    entry = replace(entry, link_latency_s=rng.uniform(5e-6, 2e-5))
    if entry.data_parallel == "torch_fsdp2":
        return entry
    message_bytes = GRADIENT_BYTES * entry.num_parameters
    return replace(entry, all_reduce_bytes=message_bytes, all_reduce_s=message_bytes / machine.link_bytes_per_s * rng.uniform(2.1, 3))


# --- to the probe and back -------------------------------------------------------------------------------------------
def encoded(log: Log) -> dict[str, Array]:
    """The arrays that a probe reads; steps are filled up by their last, where a run has fewer than another."""
    entries, machine = log
    most = max(1, *(len(entry.step_s) for entry in entries))
    steps = [[*entry.step_s, *[1.0] * (most - len(entry.step_s))] for entry in entries]
    numbers = [[-1.0 if getattr(entry, name) is None else float(getattr(entry, name)) for name in NUMBERS] for entry in entries]
    return {
        "sizes": np.asarray([entry.model.sizes() for entry in entries], np.int64),
        "numbers": np.asarray(numbers, np.float64),
        "steps": np.asarray(steps, np.float64),
        "losses": np.asarray([entry.losses for entry in entries], np.float64),
        "peaks": np.asarray([machine.peaks.get(name, 0.0) for name in PRECISIONS], np.float64),
        "machine": np.asarray([machine.sparse_flops_per_s, machine.memory_bytes, 0.0, machine.link_bytes_per_s], np.float64),
    }


def named(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What of the runs is a name or a switch: the same for every draw."""
    return [
        {name: getattr(entry, name) for name in NAMED}
        | {"options": {name: getattr(entry.model, name) for name in OPTION_NAMES}, "num_steps": len(entry.step_s)}
        for entry in entries
    ]


def decoded(seen: Any) -> Log:
    """The log that an observation was given."""
    sizes, numbers, steps, losses = (seen.input(name, 0).tolist() for name in ("sizes", "numbers", "steps", "losses"))
    entries = []
    for row, figures, times, curve, given in zip(sizes, numbers, steps, losses, seen.request.parameters["runs"], strict=True):
        fields = {name: figure if name.endswith("_s") else int(figure) for name, figure in zip(NUMBERS, figures, strict=True)}
        fields["all_reduce_s"] = None if fields["all_reduce_s"] < 0 else fields["all_reduce_s"]
        chosen = {name: given[name] for name in NAMED}
        model = Model(*row, **given["options"])
        entries.append(Entry(model=model, step_s=tuple(times[: given["num_steps"]]), losses=tuple(curve), **chosen, **fields))
    sparse, memory_bytes, _, link = seen.input("machine", 0).tolist()
    peaks = {name: peak for name, peak in zip(PRECISIONS, seen.input("peaks", 0).tolist(), strict=True) if peak}
    return entries, Machine(peaks, sparse, int(memory_bytes), link)


def drawn(ladder: Sequence[Step], tamper: Tamper | None = None) -> dict[str, Any]:
    """What `observe` needs for a log: how its arrays are drawn, and its names, which no draw changes."""

    def log_of(rng: np.random.Generator) -> Log:
        log = climbed(rng, ladder)
        return tamper(*log) if tamper else log

    return {"inputs": lambda rng: encoded(log_of(rng)), "runs": named(log_of(np.random.default_rng(0))[0])}
