"""What the figures are, from the judge's own formulas: FLOPs item by item, and the bounds of section 6 one after the other.

That the items are those of the given model is held against FLOPs counted on it, in tests/grader/laws/test_flop_counts.py.
"""

# T tokens, C hidden size, H query heads, G key/value heads, D head dim, F MLP size, V vocabulary
from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.laws.memory_accounting.ledger import parameters
from tests.laws.memory_accounting.models import Model

NOISE, STATE_BYTES, GRADIENT_BYTES = 1.1, 16, 4  # section 6 of the handout
WIDTHS = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
FORWARD_AND_BACKWARD = 3  # backward makes two products for each of forward's


@dataclass(frozen=True)
class Entry:
    """One run of a log, without the given package: the judge's process imports no torch."""

    name: str
    base: str | None
    model: Model
    precision: str
    compiled: bool
    recompute: str
    data_parallel: str
    sequence: int
    micro_batch: int
    num_micro_batches: int
    world_size: int
    peak_bytes: int
    all_reduce_bytes: int
    all_reduce_s: float | None
    link_latency_s: float
    step_s: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def num_parameters(self) -> int:
        """As num_parameters of the given part counts."""
        return int(sum(parameters(self.model).values()))

    @property
    def tokens_per_s(self) -> float:
        """Of all ranks."""
        return self.micro_batch * self.num_micro_batches * self.sequence * self.world_size / float(np.median(self.step_s))


@dataclass(frozen=True)
class Machine:
    """What the hardware can do, by the judge."""

    peaks: dict[str, float] = field(default_factory=dict)
    sparse_flops_per_s: float = 0.0
    memory_bytes: int = 0
    link_bytes_per_s: float = 0.0


# --- FLOPs -----------------------------------------------------------------------------------------------------------
def forward_flops(model: Model, keys: float) -> dict[str, float]:
    """FLOPs per token of one forward pass, product by product; each query meets `keys` keys."""
    C, F, H, G, D, L = model.hidden_size, model.mlp_size, model.num_heads, model.num_kv_heads, model.head_dim, model.num_layers
    items = {
        "qkv": 2 * L * C * (H + 2 * G) * D,
        "the output projection": 2 * L * H * D * C,
        "the MLP's up": 2 * L * C * F,
        "the MLP's down": 2 * L * F * C,
        "scores": 2 * L * H * D * keys,
        "weighted values": 2 * L * H * D * keys,
        "the head": 2 * C * model.vocab_size,
    }
    return items | ({"the MLP's gate": 2 * L * C * F} if model.activation == "swiglu" else {})


ATTENTION = ("scores", "weighted values")


def keys_of(sequence: int, causal: bool) -> float:
    """Keys that a query meets on the mean: in the triangle the t-th token meets t."""
    return sum(range(1, sequence + 1)) / sequence if causal else sequence


def recomputed_flops(model: Model, keys: float, recompute: str) -> dict[str, float]:
    """What backward makes a second time."""
    items = forward_flops(model, keys)
    if recompute == "full":
        return {name: flops for name, flops in items.items() if name != "the head"}
    return {name: items[name] for name in ATTENTION} if recompute == "selective" else {}


def flops_per_token(model: Model, sequence: int, *, causal: bool, recompute: str) -> float:
    """Everything together."""
    keys = keys_of(sequence, causal)
    again = sum(recomputed_flops(model, keys, recompute).values())
    return FORWARD_AND_BACKWARD * sum(forward_flops(model, keys).values()) + again


def hardware_utilisation(entry: Entry, machine: Machine) -> float:
    """HFU by the causal count."""
    done = flops_per_token(entry.model, entry.sequence, causal=True, recompute=entry.recompute)
    return entry.tokens_per_s * done / (entry.world_size * machine.peaks[entry.precision])


# --- the bounds ------------------------------------------------------------------------------------------------------
def violations(entries: list[Entry], machine: Machine) -> dict[tuple[str, str], str]:
    """Every (run, bound) that is broken, and why."""
    found: dict[tuple[str, str], str] = {}
    for place, entry in enumerate(entries):
        if not is_timed(entry):
            found[entry.name, "timing"] = f"its step times are {list(entry.step_s)}, its losses {list(entry.losses)}"
            continue
        own = {
            "mfu": utilisation_broken(entry, machine),
            "memory": memory_broken(entry, machine),
            "volume": volume_broken(entry),
            "link": link_broken(entry, machine),
        }
        if entry.base is not None:
            base = next((each for each in entries[:place] if each.name == entry.base), None)
            own |= against_base(entry, base, machine)
        found |= {(entry.name, bound): why for bound, why in own.items() if why}
    return found


def is_timed(entry: Entry) -> bool:
    """There are times, and all is finite."""
    return len(entry.step_s) > 0 and all(math.isfinite(s) and s > 0 for s in entry.step_s) and all(map(math.isfinite, entry.losses))


def utilisation_broken(entry: Entry, machine: Machine) -> str:
    """Why `mfu` is broken."""
    if entry.precision not in machine.peaks or (utilisation := hardware_utilisation(entry, machine)) < 1:
        return ""
    return f"its HFU by the causal count is {utilisation:.3f}"


def memory_broken(entry: Entry, machine: Machine) -> str:
    """Why `memory` is broken."""
    states_bytes = STATE_BYTES * entry.num_parameters / (entry.world_size if entry.data_parallel == "torch_fsdp2" else 1)
    if entry.peak_bytes < states_bytes:
        return f"its peak of {entry.peak_bytes} bytes is less than the {states_bytes:.0f} bytes of a rank's states"
    if machine.memory_bytes and entry.peak_bytes > machine.memory_bytes:
        return f"its peak of {entry.peak_bytes} bytes is more than the {machine.memory_bytes} bytes of memory"
    return ""


def volume_broken(entry: Entry) -> str:
    """Why `volume` is broken."""
    if entry.world_size == 1:
        return f"one rank all-reduces {entry.all_reduce_bytes} bytes" if entry.all_reduce_bytes else ""
    gradient_bytes = GRADIENT_BYTES * entry.num_parameters
    if entry.data_parallel in ("ddp", "torch_ddp") and entry.all_reduce_bytes < gradient_bytes:
        return f"{entry.all_reduce_bytes} bytes are all-reduced, its gradients are {gradient_bytes}"
    return ""


def link_broken(entry: Entry, machine: Machine) -> str:
    """Why `link` is broken."""
    if entry.world_size == 1 or not entry.all_reduce_bytes or not machine.link_bytes_per_s:
        return ""
    floor_s = entry.all_reduce_bytes / machine.link_bytes_per_s
    for what, seen_s in (("its all-reduce", entry.all_reduce_s), ("its median step", float(np.median(entry.step_s)))):
        if seen_s is not None and seen_s < floor_s:
            return f"{what} takes {seen_s:.4g} s, the link at least {floor_s:.4g} s"
    return ""


def against_base(entry: Entry, base: Entry | None, machine: Machine) -> dict[str, str]:
    """Why `one_change` or `speed_up` is broken."""
    if base is None:
        return {"one_change": f"{entry.base!r} is no run before it"}
    changed = [name for name, value in settings(entry).items() if value != settings(base)[name]]
    if len(changed) != 1:
        return {"one_change": f"against {base.name!r} {', '.join(changed) or 'nothing'} changed"}
    limit = largest_gain(entry, base, changed[0], machine)
    if limit is None or not is_timed(base):
        return {}
    gain = entry.tokens_per_s / base.tokens_per_s
    return {"speed_up": f"{changed[0]} gives {gain:.3f}, and can give {limit:.3f}"} if gain > NOISE * limit else {}


def settings(entry: Entry) -> dict[str, Any]:
    """What can be changed about a run."""
    chosen = {name: getattr(entry, name) for name in ("precision", "compiled", "recompute", "sequence")}
    pairs = {"batch": (entry.micro_batch, entry.num_micro_batches), "ranks": (entry.data_parallel, entry.world_size)}
    return vars(entry.model) | chosen | pairs


def largest_gain(entry: Entry, base: Entry, change: str, machine: Machine) -> float | None:
    """What one change gives at most."""
    if change == "ranks":
        return entry.world_size / base.world_size
    if change == "batch":
        return max(1.0, entry.micro_batch * entry.num_micro_batches / (base.micro_batch * base.num_micro_batches))
    if change != "precision" or not {entry.precision, base.precision} <= set(machine.peaks):
        return None
    return max(machine.peaks[entry.precision] / machine.peaks[base.precision], WIDTHS[base.precision] / WIDTHS[entry.precision])


# --- changed logs ----------------------------------------------------------------------------------------------------
def at_speed(entry: Entry, tokens_per_s: float) -> Entry:
    """The run, so fast."""
    ratio = entry.tokens_per_s / tokens_per_s
    return replace(entry, step_s=tuple(step_s * ratio for step_s in entry.step_s))
