"""What is done to a ladder, bound by bound: some runs just beyond it, some just within. `logs.LADDER` unless `other` is said."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.laws.mfu_report.bounds import Changes
from tests.laws.mfu_report.logs import Log
from tests.laws.mfu_report.oracle import GRADIENT_BYTES, NOISE, STATE_BYTES, Entry, Machine

SOME = 0.03  # so far beyond or within a bound
ROUNDING = 1e-9


def at_every_edge(entries: list[Entry], machine: Machine) -> Log:
    """As fast and as small as can be, in every way: possible all the same."""
    log = Changes(entries, machine)
    for entry in entries:
        share = entry.world_size if entry.data_parallel == "torch_fsdp2" else 1
        log.change(entry.name, peak_bytes=math.ceil(STATE_BYTES * entry.num_parameters / share))
        if entry.all_reduce_s is not None:
            # Rounding is not to decide: bytes / rate * rate may be less than bytes.
            log.change(entry.name, all_reduce_s=(1 + ROUNDING) * entry.all_reduce_bytes / machine.link_bytes_per_s)
    log.gain("larger", 1.0)
    for name in ("ddp", "torch_ddp", "fsdp2"):
        log.gain(name, 4 * (NOISE - SOME))
    for name in ("recomputed", "accumulated"):
        log.gain(name, NOISE - SOME)
    log.reach("compiled", 1 - SOME)
    log.machine = replace(machine, memory_bytes=max(entry.peak_bytes for entry in log.entries))
    return log.done()


def knows_nothing(entries: list[Entry], machine: Machine) -> Log:
    """A machine whose memory, link and bf16 peak are unknown: those bounds aren't asked about."""
    log = Changes(entries, replace(machine, memory_bytes=0, link_bytes_per_s=0.0, peaks={"fp32": machine.peaks["fp32"]}))
    log.change("ddp", all_reduce_s=1e-12)
    log.gain("bf16", 40.0)
    return log.done()


def too_good(entries: list[Entry], machine: Machine) -> Log:
    """Another GPU's peak would be needed."""
    log = Changes(entries, machine)
    log.reach("larger", 1.5)
    return log.done()


def timing(entries: list[Entry], machine: Machine) -> Log:
    """No steps, a negative one, one that isn't a number, an infinite loss; all of them also break memory and more."""
    log = Changes(entries, machine)
    log.change("tf32", step_s=())
    log.change("fused", step_s=(1.0, -1.0, 1.0))
    log.change("padded", step_s=(1.0, math.nan), peak_bytes=1)
    log.change("recomputed", losses=(5.0, math.inf, 4.0, 4.0), peak_bytes=1)
    return log.done()


def timing_of_other(entries: list[Entry], machine: Machine) -> Log:
    """A step of no time, an endless one, a loss that isn't a number, in runs that others are based on."""
    log = Changes(entries, machine)
    log.change("b", step_s=(0.0, 1.0, 1.0))
    log.change("e", step_s=(math.inf, 1.0))
    log.change("g", losses=(5.0, 4.0, 4.0, math.nan), all_reduce_bytes=0)
    log.change("h", peak_bytes=1)
    return log.done()


def utilisation(entries: list[Entry], machine: Machine) -> Log:
    """Above the peak outright; above it with recomputation only; under it by the causal count only; on several ranks."""
    log = Changes(entries, machine)
    log.reach("fp32", 1 + SOME)
    log.reach("larger", 1 - SOME)
    log.reach("recomputed", 1 + SOME)
    log.reach("ddp", 1 + SOME)
    log.reach("torch_ddp", 1 - SOME)
    return log.done()


def utilisation_of_other(entries: list[Entry], machine: Machine) -> Log:
    """One precision has no peak; selective recomputation; five ranks."""
    peaks = {name: peak for name, peak in machine.peaks.items() if name != "fp32"}
    log = Changes(entries, machine)
    log.reach("a", 3.0)
    log.reach("e", 1 - SOME)
    log.reach("f", 1 + SOME / 3)
    log.reach("h", 1 + SOME)
    log.machine = replace(machine, peaks=peaks)
    return log.done()


def memory(entries: list[Entry], machine: Machine) -> Log:
    """Less than the states, alone and on ranks that don't shard; a sharded rank's share; more than there is."""
    log = Changes(entries, machine)
    states_bytes = STATE_BYTES * log["larger"].num_parameters
    log.change("fused", peak_bytes=int(STATE_BYTES * log["fused"].num_parameters * (1 - SOME)))
    log.change("larger", peak_bytes=states_bytes)
    log.change("ddp", peak_bytes=int(states_bytes * (1 - SOME)))
    log.change("torch_ddp", peak_bytes=machine.memory_bytes)
    log.change("fsdp2", peak_bytes=math.ceil(states_bytes / 4))
    log.change("accumulated", peak_bytes=machine.memory_bytes + 1)
    return log.done()


def memory_of_other(entries: list[Entry], machine: Machine) -> Log:
    """Sharded, and less than a share; the memory isn't known, so nothing is too much."""
    log = Changes(entries, replace(machine, memory_bytes=0))
    states_bytes = STATE_BYTES * log["e"].num_parameters
    log.change("h", peak_bytes=int(states_bytes / 5 * (1 - SOME)))
    log.change("g", peak_bytes=int(states_bytes / 3))
    log.change("i", peak_bytes=states_bytes * 1000)
    log.change("a", peak_bytes=int(12 * log["a"].num_parameters))
    log.change("f", peak_bytes=int(STATE_BYTES * log["f"].num_parameters))
    return log.done()


def volume(entries: list[Entry], machine: Machine) -> Log:
    """Half of the gradients; all; some on one rank; none where weights are sharded."""
    log = Changes(entries, machine)
    gradient_bytes = GRADIENT_BYTES * log["ddp"].num_parameters
    log.change("ddp", all_reduce_bytes=gradient_bytes // 2)
    log.change("torch_ddp", all_reduce_bytes=gradient_bytes)
    log.change("accumulated", all_reduce_bytes=1)
    log.change("fsdp2", all_reduce_bytes=0)
    return log.done()


def volume_of_other(entries: list[Entry], machine: Machine) -> Log:
    """One number too few; a little more than the gradients; nothing at all of a sharded run that could all-reduce something."""
    log = Changes(entries, machine)
    gradient_bytes = GRADIENT_BYTES * log["g"].num_parameters
    log.change("g", all_reduce_bytes=gradient_bytes - 4)
    log.change("i", all_reduce_bytes=gradient_bytes + 4)
    log.change("h", all_reduce_bytes=4)
    log.change("b", all_reduce_bytes=gradient_bytes)
    return log.done()


def link(entries: list[Entry], machine: Machine) -> Log:
    """Faster than the link; slower than it and yet faster than a ring of four; on one rank, where nothing travels."""
    log = Changes(entries, machine)
    floor_s = log["ddp"].all_reduce_bytes / machine.link_bytes_per_s
    log.change("ddp", all_reduce_s=floor_s * (1 - SOME))
    log.change("torch_ddp", all_reduce_s=floor_s * (1 + SOME))
    log.change("accumulated", all_reduce_bytes=10**9, all_reduce_s=1e-9)
    return log.done()


def link_of_other(entries: list[Entry], machine: Machine) -> Log:
    """A step that is shorter than the all-reduce in it, which nobody measured; one step that is, and a median that is not.

    And an all-reduce that was measured and took no time, beside sharding.
    """
    log = Changes(entries, machine)
    floor_s = log["g"].all_reduce_bytes / machine.link_bytes_per_s
    log.change("g", all_reduce_s=None, step_s=(floor_s * (1 - SOME),) * 3)
    log.change("i", all_reduce_s=None, step_s=(floor_s / 2, floor_s * 1.5, floor_s * 2))
    log.change("h", all_reduce_bytes=log["g"].all_reduce_bytes, all_reduce_s=0.0, step_s=(2 * floor_s,) * 5)
    return log.done()


def one_change(entries: list[Entry], machine: Machine) -> Log:
    """Nothing changed; two things; a base that comes later; two pairs that are one setting each."""
    log = Changes(entries, machine)
    log.change("tf32", precision="fp32")
    log.change("compiled", recompute="full")
    log.change("padded", base="larger")
    log.change("recomputed", base="recomputed")
    log.change("torch_ddp", base="ddp", world_size=2)
    return log.done()


def one_change_of_other(entries: list[Entry], machine: Machine) -> Log:
    """A base that isn't there; a vocabulary beside the kernel; a sequence; ranks and batch at once; one field of the model.

    A base that is badly timed is one all the same.
    """
    log = Changes(entries, machine)
    log.change("b", base="nobody")
    log.change("c", compiled=False, sequence=log["c"].sequence - 1)
    log.change("e", model=replace(log["e"].model, vocab_size=log["e"].model.vocab_size + 1))
    log.change("g", model=log["e"].model, micro_batch=log["g"].micro_batch + 1)
    log.change("i", model=log["e"].model)
    log.change("h", model=replace(log["e"].model, tied=False))
    log.change("d", step_s=(-1.0,) * 5)
    return log.done()


def speed_up(entries: list[Entry], machine: Machine) -> Log:
    """Precision beyond the peaks' ratio; a batch beyond its growth; ranks beyond their number; and each just within."""
    log = Changes(entries, machine)
    log.gain("tf32", 7 * (NOISE + SOME))
    log.gain("bf16", 2 * (NOISE - SOME))
    log.gain("compiled", 50.0)
    log.gain("larger", 4 * (NOISE + SOME))
    log.gain("accumulated", NOISE + SOME)
    log.gain("ddp", 4 * (NOISE + SOME))
    log.gain("torch_ddp", 4 * (NOISE - SOME))
    log.gain("fsdp2", 4 * (NOISE - SOME))
    return log.done()


def speed_up_of_other(entries: list[Entry], machine: Machine) -> Log:
    """A peak hardly higher, so that the width of a number is what counts; three times the batch; fewer pieces at once.

    And a third of the batch, which costs nothing; twice the ranks, where the base has three; as many by another library; one rank; a
    precision back.
    """
    peaks = machine.peaks | {"fp16": 1.2 * machine.peaks["fp32"]}
    log = Changes(entries, replace(machine, peaks=peaks))
    log.entries += [
        replace(log["b"], name="smaller", base="b", micro_batch=log["b"].micro_batch // 3),
        replace(log["g"], name="within", base="g", world_size=2 * log["g"].world_size),
        replace(log["g"], name="beyond", base="g", world_size=2 * log["g"].world_size),
        replace(log["g"], name="swapped", base="g", data_parallel="ddp"),
        replace(log["g"], name="fewer", base="g", data_parallel="none", world_size=1),
        replace(log["e"], name="wider", base="e", precision="fp32"),
    ]
    log.gain("b", 3 * (NOISE - SOME))
    log.gain("d", 2 * (NOISE - SOME))
    log.gain("g", 3 * (NOISE + SOME))
    log.gain("h", 5 * (NOISE - SOME))
    log.gain("j", NOISE - SOME)
    log.gain("smaller", NOISE - SOME)
    log.gain("within", 2 * (NOISE - SOME))
    log.gain("beyond", 2 * (NOISE + SOME))
    log.gain("swapped", NOISE + SOME)
    log.gain("fewer", (NOISE + SOME) / 3)
    log.gain("wider", (NOISE + SOME) / 1.2)
    return log.done()


def speed_up_by_halves(entries: list[Entry], machine: Machine) -> Log:
    """Beyond the width where the peaks are hardly higher; a base that is badly timed; a peak that isn't known."""
    log = Changes(entries, replace(machine, peaks=machine.peaks | {"fp16": 1.2 * machine.peaks["fp32"]}))
    log.gain("d", 2 * (NOISE + SOME))
    log.gain("g", 30.0)
    log.change("a", step_s=(-1.0,) * 5)
    return log.done()


def bases_are_gone(entries: list[Entry], machine: Machine) -> Log:
    """Bases that aren't in the log, an all-reduce unmeasured, another that took no time, hardware that knows neither link nor fp16."""
    log = Changes(entries, replace(machine, link_bytes_per_s=0.0, peaks={"fp32": machine.peaks["fp32"]}))
    log.change("b", base="nobody")
    log.change("h", base="nobody")
    log.change("g", all_reduce_s=None)
    log.change("i", all_reduce_s=0.0)
    return log.done()
