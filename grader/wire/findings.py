"""Warnings that fail nothing by themselves: what works here and may hang or be refused with NCCL. A pure function of the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from grader.records import Event, TensorSpec

MOST_FINDINGS = 20


def findings_of(events: Sequence[Event]) -> tuple[str, ...]:
    """Unbatched messages whose orders don't mirror each other, and tensors that aren't contiguous; each once."""
    found = dict.fromkeys([*_unmirrored(events), *_strided(events)])
    return tuple(found)[:MOST_FINDINGS]


def _strided(events: Sequence[Event]) -> list[str]:
    return [
        f"{event.op} gets a {TensorSpec(event.dtype, event.shape)} that isn't contiguous{_at(event)}: "
        "NCCL refuses it, gloo may take other elements"
        for event in events
        if event.kind == "issue" and event.facts.get("strided")
    ]


def _unmirrored(events: Sequence[Event]) -> list[str]:
    """NCCL runs a pair's unbatched messages in the order of the calls: the k-th of one side must be the opposite of the other's k-th."""
    sides: defaultdict[tuple[Hashable, int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event.kind == "issue" and event.op in ("send", "recv") and event.peer >= 0:
            sides[(event.group, event.facts.get("group")), event.rank, event.peer].append(event)
    found = []
    for (group, rank, peer), own in sides.items():
        if rank < peer:
            for a, b in zip(own, sides.get((group, peer, rank), []), strict=False):
                if a.op == b.op and "batch" not in a.facts and "batch" not in b.facts:
                    both = f"rank {rank} calls {a.op}{_at(a)} while rank {peer} calls {b.op}{_at(b)}"
                    found.append(f"with NCCL this may hang: {both}; use batch_isend_irecv")
                    break
    return found


def _at(event: Event) -> str:
    return f" ({event.at})" if event.at else ""
