"""Why calls that met don't belong together, in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from grader.records import TensorSpec, num_elements
from grader.wire.calls import Call, Group

Flat = tuple[tuple[str, int], ...]


def flat(specs: tuple[TensorSpec, ...]) -> Flat:
    """dtypes and element counts: what must agree; gloo and NCCL don't look at the shapes' form either."""
    return tuple((spec.dtype, num_elements(spec.shape)) for spec in specs)


def dtypes(specs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    """The dtypes alone."""
    return tuple(spec.dtype for spec in specs)


SAME_SIZE = frozenset({"all_reduce", "reduce", "broadcast", "reduce_scatter", "gather"})
AGREEMENTS: tuple[tuple[str, Callable[[Call], Hashable]], ...] = (
    ("operation", lambda call: call.op),
    ("root", lambda call: call.root),
    ("reduction", lambda call: call.word.reduction),
    ("dtype", lambda call: dtypes(call.ins) if call.op in SAME_SIZE or call.op == "all_gather" else ()),
    ("shape", lambda call: flat(call.ins) if call.op in SAME_SIZE else ()),
)


@dataclass(frozen=True, slots=True)
class Quarrel:
    """`what` two calls disagree on, e.g. "shape". `odd` is the call that stands alone, if one does."""

    what: str
    first: Call
    second: Call
    odd: Call | None
    detail: str = ""

    @property
    def sentence(self) -> str:
        calls = {call.rank: call for call in (self.first, self.second)}
        text = f"{self.what} mismatch: " + ", ".join(f"rank {rank} calls {calls[rank]}" for rank in sorted(calls))
        return text + (f"; {self.detail}" if self.detail else "")


def quarrel_of_collective(group: Group, calls: Mapping[int, Call]) -> Quarrel | None:
    """The first thing on which the members that have come disagree; None while they agree."""
    present = [calls[member] for member in sorted(calls)]
    for what, feature in AGREEMENTS:
        if len({feature(call) for call in present}) > 1:
            return _disagreement(what, present, feature)
    quarrel = _unequal_splits(calls)
    if quarrel is None and len(calls) == len(group.ranks):
        quarrel = _unequal_outputs(present)
    return quarrel


def quarrel_of_message(send: Call, receive: Call) -> Quarrel | None:
    """None if the receive's tensor fits what is sent."""
    (sent,), (wanted,) = flat(send.ins), flat(receive.outs)
    if sent == wanted:
        return None
    return Quarrel("dtype" if sent[0] != wanted[0] else "shape", send, receive, None)


def _disagreement(what: str, present: list[Call], feature: Callable[[Call], Hashable]) -> Quarrel:
    votes = Counter(feature(call) for call in present)
    most = max(votes.values())
    usual = next(call for call in present if votes[feature(call)] == most)
    other = next(call for call in present if feature(call) != feature(usual))
    strangers = [call for call in present if feature(call) != feature(usual)]
    return Quarrel(what, usual, other, other if len(strangers) == 1 and most > 1 else None)


def _unequal_splits(calls: Mapping[int, Call]) -> Quarrel | None:
    """all_to_all: what i sends to j must be what j expects from i."""
    exchanges = {member: call for member, call in calls.items() if call.op == "all_to_all"}
    pairs = sorted(((i, j) for i in exchanges for j in exchanges), key=lambda pair: pair[0] == pair[1])  # two ranks say more than one
    for i, j in pairs:
        a, b = exchanges[i], exchanges[j]
        if a.split[j] != b.word.expect[i]:
            detail = f"rank {a.rank} sends {a.split[j]} bytes to rank {b.rank}, which expects {b.word.expect[i]}"
            return Quarrel("split", a, b, None, detail)
    return None


def _unequal_outputs(present: list[Call]) -> Quarrel | None:
    """What a member makes room for must be what the members send it."""
    op, root = present[0].op, present[0].root
    for call in present:
        if op == "all_gather" or (op == "gather" and call.member == root):
            sent = [flat(other.ins)[tensor] for tensor in range(len(call.ins)) for other in present]
            room = list(flat(call.outs))
            if room != sent and not _is_one_tensor_for_all(room, sent):
                other = next((o for o, (want, have) in zip(present, zip(sent, room, strict=False), strict=False) if want != have), call)
                return Quarrel("output", call, other, None, f"rank {call.rank} makes room for {_spell(room)} and is sent {_spell(sent)}")
        if op == "scatter":
            sent, room = [flat(present[root].ins)[call.member]], list(flat(call.outs))
            if room != sent:
                detail = f"rank {call.rank} makes room for {_spell(room)} and is sent {_spell(sent)}"
                return Quarrel("shape", present[root], call, None, detail)
        if op == "reduce_scatter" and not _scatters_evenly(call):
            detail = f"its room for {_spell(list(flat(call.outs)))} isn't its share of {_spell(list(flat(call.ins)))}"
            return Quarrel("output", call, call, call, detail)
    return None


def _is_one_tensor_for_all(room: list[tuple[str, int]], sent: list[tuple[str, int]]) -> bool:
    """all_gather_into_tensor: one output for every input holds what all members send."""
    if not room or len(sent) % len(room):
        return False
    per_output = len(sent) // len(room)
    return all(
        have == (sent[index * per_output][0], sum(count for _, count in sent[index * per_output : (index + 1) * per_output]))
        for index, have in enumerate(room)
    )


def _scatters_evenly(call: Call) -> bool:
    num_members = len(call.group.ranks)
    ins, outs = flat(call.ins), flat(call.outs)
    if len(ins) == len(outs):
        return ins == tuple((dtype, count * num_members) for dtype, count in outs)
    return outs[0] == ins[call.member]


def _spell(specs: list[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {dtype}" for dtype, count in specs[:4]) + (" ..." if len(specs) > 4 else "")
