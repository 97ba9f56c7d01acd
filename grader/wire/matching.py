"""Which calls belong together: collectives by their place in each member's order, messages by sender, receiver, group and tag."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from grader.frames import Bytes
from grader.wire.arithmetic import Fold, perform
from grader.wire.calls import MESSAGES, REDUCING, Call, Group
from grader.wire.quarrel import Quarrel, quarrel_of_collective, quarrel_of_message


@dataclass(slots=True, eq=False)
class Operation:
    """Calls that belong together: all members' calls of a collective, or a send with its receive."""

    group: Group
    place: int  # how many collectives of this group came before; -1: a message
    calls: dict[int, Call] = field(default_factory=dict)  # by the members' place in the group; of a message: 0 the send, 1 the receive
    quarrel: Quarrel | None = None
    fold: Fold | None = None
    is_done: bool = False

    @property
    def op(self) -> str:
        return next(iter(self.calls.values())).op

    @property
    def is_message(self) -> bool:
        return self.place < 0

    @property
    def is_complete(self) -> bool:
        """Everybody who belongs to it has come, and they agree."""
        return self.quarrel is None and len(self.calls) == (2 if self.is_message else len(self.group.ranks))

    def missing(self) -> list[int]:
        """Global ranks of the members that have not come."""
        return [] if self.is_message else [rank for member, rank in enumerate(self.group.ranks) if member not in self.calls]

    def perform(self) -> list[tuple[Call, dict[str, int], Bytes]]:
        """(call, header, body) of every answer; lets go of the inputs."""
        if self.is_message:
            send, receive = self.calls[0], self.calls[1]
            answers = [(send, {}, b""), (receive, {"source": send.member}, send.body)]
        else:
            calls = [self.calls[member] for member in range(len(self.group.ranks))]
            answers = [(call, {}, body) for call, body in zip(calls, perform(self.op, calls, self.fold), strict=True)]
        for call in self.calls.values():
            call.body = b""
        self.fold, self.is_done = None, True
        return answers


class Matching:
    """All groups' meeting places."""

    def __init__(self) -> None:
        self.quarrels: list[Operation] = []
        self._places: Counter[tuple[Group, int]] = Counter()
        self._gathering: dict[tuple[Group, int], Operation] = {}
        self._sends: defaultdict[tuple[Group, int, int], list[Call]] = defaultdict(list)  # by group, receiver and tag
        self._receives: defaultdict[tuple[Group, int, int], list[Call]] = defaultdict(list)

    def enter(self, call: Call) -> Operation | None:
        """Take a call in; the operation that it completes, if it does. One that quarrels is kept in `quarrels` and never completes."""
        operation = self._enter_message(call) if call.op in MESSAGES else self._enter_collective(call)
        if operation is None:
            return None
        if operation.quarrel is not None and operation not in self.quarrels:
            self.quarrels.append(operation)
        return operation if operation.is_complete else None

    def _enter_collective(self, call: Call) -> Operation:
        place = self._places[call.group, call.rank]
        self._places[call.group, call.rank] += 1
        operation = self._gathering.setdefault((call.group, place), Operation(call.group, place))
        operation.calls[call.member] = call
        call.operation = operation
        operation.quarrel = quarrel_of_collective(call.group, operation.calls)
        if operation.quarrel is None and call.op in REDUCING:
            operation.fold = operation.fold or Fold(call.ins, call.word.reduction, len(call.group.ranks))
            operation.fold.add(call.member, call.body)
            call.body = b""
        if operation.is_complete:
            del self._gathering[call.group, place]
        return operation

    def _enter_message(self, call: Call) -> Operation | None:
        is_send = call.op == "send"
        here = (call.group, call.peer if is_send else call.rank, call.word.tag)
        waiting = (self._receives if is_send else self._sends)[here]
        other = next((other for other in waiting if _belong_together(call, other)), None)
        if other is None:
            (self._sends if is_send else self._receives)[here].append(call)
            return None
        waiting.remove(other)
        send, receive = (call, other) if is_send else (other, call)
        operation = Operation(call.group, -1, {0: send, 1: receive}, quarrel_of_message(send, receive))
        send.operation = receive.operation = operation
        return operation


def _belong_together(call: Call, other: Call) -> bool:
    send, receive = (call, other) if call.op == "send" else (other, call)
    return receive.peer in (-1, send.rank)
