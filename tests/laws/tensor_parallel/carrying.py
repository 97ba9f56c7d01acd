"""What travels, in ring-equivalent bytes, and how a broken law about it is said."""

from __future__ import annotations

import math
from typing import Any

from grader.records import ITEMSIZE, Event
from tests.laws.groups import group_of
from tests.laws.sentences import broken


def carried(event: Event) -> float:
    """Bytes that a rank of a ring would send for this call."""
    n = len(event.group)
    match event.op:
        case "all_reduce":
            return 2 * (n - 1) / n * event.num_bytes
        case "reduce_scatter":
            return (n - 1) / n * event.num_bytes
        case "all_gather":
            return float((n - 1) * event.num_bytes)
        case "barrier":
            return 0.0
    raise broken(
        f"rank {event.rank} calls {event.op}{f' ({event.at})' if event.at else ''} in {event.phase}.",
        "Allowed: all_reduce, reduce_scatter and all_gather.",
        f"{event.op} is none of the operations that tensor parallelism needs.",
        "Section 3's table has one operation for each pass, and the bytes that it may carry.",
    )


def all_reduced(num_bytes: float, n: int) -> float:
    """What an all-reduce of a tensor of `num_bytes` carries among n ranks; half of it is a gather's or a reduce-scatter's."""
    return 2 * (n - 1) / n * num_bytes


def calls_in(seen: Any, rank: int, phase: str) -> tuple[float, str]:
    """-> (bytes carried by the calls of one rank in one phase, the calls in words)."""
    calls = seen.wire.calls(rank, phase=phase)
    words = [f"{call.op} {call.dtype}{list(call.shape)}{f' ({call.at})' if call.at else ''}" for call in calls]
    return sum(carried(call) for call in calls), ", ".join(words) or "nothing is called"


def judge_carried(seen: Any, phase: str, *, least: float, most: float, why: str, suggestion: str = "") -> None:
    """Every rank's calls in `phase` carry `least` to `most` bytes; why: what these bytes are."""
    for rank in range(seen.world_size):
        got, words = calls_in(seen, rank, phase)
        if least - 1e-6 <= got <= most + 1e-6:
            continue
        bound = most if got > most else least
        allowed = f"{most:g}" if math.isclose(least, most) else f"{least:g} to {most:g}"
        ratio = f"That is {got / bound:.4g} times the bytes" if bound else "Nothing should travel here"
        raise broken(
            f"{phase}: rank {rank} of {seen.world_size} has {got:g} bytes carried: {words}.",
            f"Expected: {allowed} bytes, {why}.",
            f"{ratio}: {'too little to do what was asked' if got < least else 'more travels than is needed'}.",
            suggestion or "Which collective does the table of section 3 name for this pass, and of which tensor?",
        )


def judge_clean(seen: Any, phases: list[str], dtype: str) -> None:
    """What travels in these phases has this dtype, is contiguous, and goes through the group given."""
    for phase in phases:
        for event in seen.events(phase=phase, kind="issue"):
            where, members = f" ({event.at})" if event.at else "", tuple(group_of(seen, event.rank))
            if event.facts.get("strided"):
                raise broken(
                    f"{phase}: rank {event.rank} hands {event.op} a tensor that isn't contiguous{where}.",
                    "Expected: contiguous tensors only.",
                    "A tensor that isn't contiguous goes to the network: NCCL refuses it.",
                    "Take x.contiguous(), and move the dim that is joined or cut to the front while it travels.",
                )
            if event.num_bytes and event.dtype != dtype:
                raise broken(
                    f"{phase}: rank {event.rank} hands {event.op} a {event.dtype} tensor{where}.",
                    f"Expected: {dtype}, the dtype of what went in ({ITEMSIZE[dtype]} bytes a number).",
                    "What travels has another dtype than the tensor.",
                    "Is something converted before it travels?",
                )
            if event.group != members:
                raise broken(
                    f"{phase}: rank {event.rank} calls {event.op} in the group of ranks {list(event.group)}{where}.",
                    f"Expected: the group that was given, of ranks {list(members)}.",
                    "A call goes through another group than the one given.",
                    "Is `group` handed to every call, get_rank and get_world_size included?",
                )
