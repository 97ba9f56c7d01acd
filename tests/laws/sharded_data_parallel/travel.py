"""What must travel: 2Ψ, 2Ψ, 3Ψ, in the right dtypes, at the right time, through the right group."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from grader.records import ITEMSIZE, Event, num_elements
from tests.laws.groups import members_of
from tests.laws.sentences import broken

SIGNIFICANT = 1e-9
MOST_ABOVE_THEORY = 0.01
CONTROL_BYTES = 16  # of integers for each parameter in a phase: a map of the used ones
REDUCING, GATHERING = ("all_reduce", "reduce_scatter", "reduce"), ("all_gather", "broadcast")


def is_control(dtype: str) -> bool:
    """Whether tensors of this dtype can be neither weights nor gradients."""
    return dtype in ("bool", "uint8") or dtype.startswith("int")


def bytes_of(event: Event) -> int:
    """Bytes of the tensors of one call on one rank."""
    shapes = event.facts.get("shapes") or [[event.dtype, event.shape]]
    return sum(ITEMSIZE[dtype] * num_elements(tuple(shape)) for dtype, shape in shapes)


def carried(event: Event) -> float:
    """Bytes that a rank of a ring would send for this call."""
    n = len(event.group)
    match event.op:
        case "all_reduce":
            return 2 * (n - 1) / n * bytes_of(event)
        case "reduce_scatter" | "broadcast" | "reduce":
            return (n - 1) / n * bytes_of(event)
        case "all_gather":
            return float((n - 1) * bytes_of(event))
        case "send":
            return float(bytes_of(event))
    return 0.0


def volumes(seen: Any, rank: int, phases: list[str]) -> tuple[float, float, float]:
    """-> (bytes that reductions carry, that gathers carry, that messages carry)."""
    total: Counter[str] = Counter()
    for phase in phases:
        for event in seen.wire.calls(rank, phase=phase):
            if not is_control(event.dtype):
                total["reduce" if event.op in REDUCING else "gather" if event.op in GATHERING else "send"] += carried(event)
    return total["reduce"], total["gather"], total["send"]


def judge_control(seen: Any, rank: int, phases: list[str], num_parameters: int) -> None:
    """Integers are few: weights and gradients that travel as bytes would be counted by nobody."""
    for phase in phases:
        num_bytes = sum(bytes_of(event) for event in seen.wire.calls(rank, phase=phase) if is_control(event.dtype) and event.op != "recv")
        if num_bytes > CONTROL_BYTES * num_parameters:
            raise broken(
                f"{phase}: rank {rank} hands {num_bytes} bytes of integers to the network, for {num_parameters} parameters.",
                f"Allowed: {CONTROL_BYTES} bytes for each parameter.",
                "More than a map of the used parameters travels beside weights and gradients.",
                "Send weights and gradients in their own dtype; every rank can find out sizes by itself.",
            )


def judge_volume(
    seen: Any,
    phases: list[str],
    sizes: list[int],
    *,
    gathers: tuple[float, float],
    reductions: float,
    itemsize: int = 8,
    what: str = "a step",
    padded: int = 3,
) -> None:
    """Each member reduces `sizes` (elements of the parameters) so many times, and gathers them between so many times and so many."""
    n = len(members_of(seen))
    psi = (n - 1) / n * itemsize * sum(sizes)
    padding = (n - 1) * itemsize * len(sizes)  # of each parameter at most N elements, each time that it travels
    for rank in members_of(seen):
        judge_control(seen, rank, phases, len(sizes))
        reduced, gathered, sent = volumes(seen, rank, phases)
        low, high = psi * (reductions + gathers[0]), psi * (reductions + gathers[1]) + padding * padded
        parts_fit = reduced <= psi * reductions + padding * padded + 1e-6 and gathered <= psi * gathers[1] + padding * padded + 1e-6
        if low - 1e-6 <= reduced + gathered + sent <= high + 1e-6 and parts_fit:
            continue
        unit = psi or 1.0
        diagnosis = f"Reductions carry {reduced / unit:.3g} and gathers {gathered / unit:.3g} times (N-1)/N · Ψ"
        if reduced > psi * reductions + padding * padded:
            diagnosis += ": gradients are reduced too often, or by an all-reduce where a reduce-scatter belongs"
        elif reduced + gathered + sent < low:
            diagnosis += ": too little, something that must travel doesn't"
        elif gathered > psi * gathers[1] + padding * padded:
            diagnosis += ": weights are gathered more often than needed, or more of them, or in a wider dtype"
        wanted = f"{gathers[0]:g}" if gathers[0] == gathers[1] else f"{gathers[0]:g} to {gathers[1]:g}"
        raise broken(
            f"{what}: rank {rank} of {n}: {reduced + gathered + sent:g} bytes carried, {reduced:g} by reductions, {gathered:g} by gathers.",
            f"Expected: reductions {reductions:g} times and gathers {wanted} times (N-1)/N · Ψ = {psi:g} bytes, and a little padding.",
            diagnosis + ".",
            "A reduce_scatter carries one volume, an all_reduce two. What is sent that nobody needs, and what twice?",
        )


def judge_group(seen: Any) -> None:
    """Members speak through the group that was given, others not at all."""
    members = tuple(members_of(seen))
    for rank in range(seen.world_size):
        calls = [event for event in seen.wire.calls(rank) if event.phase]
        wrong = [event for event in calls if rank not in members or event.group != members]
        if wrong:
            where = f" ({wrong[0].at})" if wrong[0].at else ""
            raise broken(
                f"rank {rank}: {wrong[0].op} of {wrong[0].dtype}{list(wrong[0].shape)} through the group of {list(wrong[0].group)}{where}.",
                f"Expected: the group that was given, of ranks {list(members)}.",
                "A call goes through another group than the one given.",
                "Is `group` handed to every collective?",
            )


def judge_silence(seen: Any, phase: str, ranks: list[int]) -> None:
    """No tensor of floats is handed to the network in `phase`."""
    for rank in ranks:
        # Judged before anything else: what the run did afterwards may have failed for the same reason.
        calls = [event for event in seen.events(rank=rank, phase=phase, kind="issue") if event.op != "barrier"]
        if calls:
            where = f" ({calls[0].at})" if calls[0].at else ""
            raise broken(
                f"{phase}: rank {rank} calls {calls[0].op} of {calls[0].dtype}{list(calls[0].shape)}{where}.",
                "Expected: nothing is sent; every rank writes what it has, and waits by barrier() only.",
                "Something is gathered, or told to other ranks, that each has or can find out by itself.",
                "Write this rank's shards; who reads them can put them together.",
            )
    seen.require()


def judge_one_number(seen: Any, phase: str = "clip") -> None:
    """Every member hands at most 8 bytes to the network, in one call, and does hand something."""
    for rank in members_of(seen):
        calls = seen.wire.calls(rank, phase=phase)
        num_bytes = sum(map(bytes_of, calls))
        if len(calls) == 1 and 0 < num_bytes <= 8:
            continue
        raise broken(
            f"{phase}: rank {rank} hands {num_bytes} bytes to the network, in {len(calls)} calls.",
            "Expected: one number, in one call.",
            "Without any exchange the norm is each rank's own." if not calls else "More than one number travels for a norm.",
            "Sum the squares of all tensors first, then all-reduce the sum.",
        )


def judge_dtypes(seen: Any, phase: str, *, gathers: str, reductions: str) -> None:
    """Weights travel in one dtype and gradients in another."""
    for rank in members_of(seen):
        calls = seen.wire.calls(rank, phase=phase)
        for ops, expected, what in ((GATHERING, gathers, "weights"), (REDUCING, reductions, "gradients")):
            found = {event.dtype for event in calls if event.op in ops and event.num_bytes}
            if found != {expected}:
                raise broken(
                    f"{phase}: rank {rank}, {what} travel in {', '.join(sorted(found)) or 'no collective at all'}.",
                    f"Expected: {what} travel in {expected}.",
                    f"The dtype of {what} on the network is not the configured one.",
                    "Weights are cast to the compute dtype before the gather, gradients to the reduce dtype before the reduce-scatter.",
                )


def judge_departures(seen: Any, *, layer_bytes: int, bucket_bytes: int) -> None:
    """As layer k's backward begins, every bucket that is complete by then has left."""
    num_layers = seen.request.parameters["num_layers"]
    per_bucket = bucket_bytes // layer_bytes
    for rank in range(seen.world_size):
        left = 0
        for event in seen.events(rank=rank, phase="step"):
            if event.kind == "issue" and event.op in REDUCING:
                left += bytes_of(event)
            if event.kind == "mark" and event.name.startswith("backward "):
                done = num_layers - 1 - int(event.name.split()[1])
                needed = done // per_bucket * bucket_bytes
                if left < needed:
                    raise broken(
                        f"rank {rank}: as the backward of layer {event.name.split()[1]} begins, {left} bytes of gradients have left.",
                        f"Expected: {needed} at least; {done} of {num_layers} layers are complete, and a bucket has {per_bucket}.",
                        "Buckets wait for the end of backward, or are not filled from the last parameter on.",
                        "Launch a bucket's reduction from the hook that sees its last gradient.",
                    )
    judge_no_more(seen, whole_bytes=num_layers * layer_bytes)


def judge_no_more(seen: Any, *, whole_bytes: int) -> None:
    """All that two steps carry is 2Ψ each, and the weights once before: who sends twice, early and right, has not overlapped."""
    n, num_layers = seen.world_size, seen.request.parameters["num_layers"]
    most = 5 * (n - 1) / n * whole_bytes + 4 * n * num_layers * (CONTROL_BYTES + ITEMSIZE["float32"])
    for rank in range(n):
        total = sum(carried(event) for event in seen.wire.calls(rank))
        if total > most:
            raise broken(
                f"rank {rank} of {n}: in two steps {total:g} bytes are carried.",
                f"Allowed: {most:g}; each step reduces the gradients and gathers the weights once.",
                "More travels than gradients and weights.",
                "What leaves while backward runs must be the gradients themselves. Is anything sent twice?",
            )


def judge_overlap(seen: Any, *, gather_s: float, layer_bytes: int) -> None:
    """A step of compute-bound layers shows three transfers at most: the first gather, backward's first, and the last reduction."""
    case, n = seen.request.parameters, seen.world_size
    bandwidth = (n - 1) / n * layer_bytes / gather_s
    took_s = seen.virtual_time(latency_s=0.0, bandwidth_bytes_per_s=bandwidth, phase="step").end_s
    layers, arithmetic_s = case["num_layers"], case["num_layers"] * (case["forward_s"] + case["backward_s"])
    shown = 3 if case.get("reshard_after_forward", True) else 2
    most_s = (arithmetic_s + shown * gather_s) * (1 + MOST_ABOVE_THEORY)
    serial_s = arithmetic_s + (2 * layers * (shown - 1) / 2 + layers) * gather_s
    if arithmetic_s + 2 * gather_s - SIGNIFICANT <= took_s <= most_s:
        judge_prefetch_depth(seen, unit_bytes=(n - 1) / n * layer_bytes)
        return
    diagnosis = f"It takes {took_s / (arithmetic_s + shown * gather_s):.3g} times as long as with perfect overlap."
    if math.isclose(took_s, serial_s, rel_tol=0.02):
        diagnosis = "That is the time without any overlap: every transfer is waited for before anything is computed."
    if took_s < arithmetic_s + 2 * gather_s:
        diagnosis = "Too short: not everything travels, or not everything is waited for."
    raise broken(
        f"With {gather_s:g} seconds for a unit's gather or reduction, a step of {layers} units on {n} ranks takes {took_s:g} seconds.",
        f"Expected: {arithmetic_s + shown * gather_s:g} seconds; without overlap it would be {serial_s:g}.",
        diagnosis,
        "Does prefetch begin the next gather before this unit's arithmetic, both ways? A reduction is waited for when the next begins.",
    )


def judge_prefetch_depth(seen: Any, *, unit_bytes: float) -> None:
    """As unit k begins, the gathers of the next `prefetch` units have been started."""
    case = seen.request.parameters
    layers, prefetch = case["num_layers"], case["prefetch"]
    for rank in range(seen.world_size):
        gathered = 0.0
        for event in seen.events(rank=rank, phase="step"):
            if event.kind == "issue" and event.op in GATHERING:
                gathered += carried(event)
            if event.kind != "mark":
                continue
            way, number = event.name.split()[0], int(event.name.split()[1])
            if way == "backward" and not case.get("reshard_after_forward", True):
                continue
            units = min(number + 1 + prefetch, layers) if way == "forward" else layers + min(layers - number + prefetch, layers)
            if gathered < units * unit_bytes * (1 - SIGNIFICANT):
                raise broken(
                    f"rank {rank}, prefetch={prefetch}: as the {event.name} begins, {gathered / unit_bytes:.3g} units' gathers have begun.",
                    f"Expected: {units} of them in this step.",
                    "Fewer units are on their way than prefetch says.",
                    "Start the gathers of the next `prefetch` units before this unit's arithmetic.",
                )
