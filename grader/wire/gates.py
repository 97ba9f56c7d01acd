"""Overlap by necessity. Backward goes on past a gate only with secret numbers, which the judge hands out when the gradients behind the
gate have arrived; and, if he holds, no reduction is answered before every rank has come to its last gate.

The secret is added to the signal. A factor could be divided out afterwards, so that a program which computes all gradients first could
still pass; an addend runs through all further layers. A program that repeats the whole backward after each gate does pass: at that price.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes
import numpy as np

from grader.records import Gates, Request, Tensor
from grader.wire.arithmetic import array_of
from grader.wire.calls import REDUCING, Call
from grader.wire.policy import Policy

if TYPE_CHECKING:
    from grader.wire.arithmetic import Array
    from grader.wire.matching import Operation

LARGEST_SECRET = 512  # whole numbers of this size, their sums, and their products with others like them are exact in float32
SLACK_ROUNDINGS = 8  # of a gradient on its way: a few additions, a product, a division by the number of ranks


class Sent(NamedTuple):
    """What one call of a rank put in."""

    dtype: str
    values: Array  # flat, float64
    num_ranks: int  # of its group


def policy_of(request: Request) -> Policy:
    """The plain wire, or the gates that the request declares."""
    if request.gates is None:
        return Policy()
    return (MessageGateKeeper if request.gates.messages else GateKeeper)(request, request.gates)


def secret_at(request: Request, gates: Gates, rank: int, place: int) -> Array:
    """The secret of one rank at one gate: whole numbers in the signal's shape and dtype, the same whenever the request is."""
    signal = request.input_of(gates.signal, rank)
    drawn = np.random.default_rng([gates.seed, rank, place]).integers(-LARGEST_SECRET, LARGEST_SECRET + 1, signal.shape)
    return drawn.astype(array_of(b"", signal.dtype).dtype)


class GateKeeper(Policy):
    """Knows every gradient that a rank can compute, as far as the gates have let it."""

    def __init__(self, request: Request, gates: Gates) -> None:
        self._request, self._gates = request, gates
        self._place_of = {gate.name: place for place, gate in enumerate(gates.places)}
        self._sent: defaultdict[int, list[Sent]] = defaultdict(list)
        self._num_reached: defaultdict[int, int] = defaultdict(int)  # gates that a rank has come to

    def on_issue(self, call: Call) -> None:
        """Keep what a reduction of the phase puts in."""
        if self._is_gated(call) and len({spec.dtype for spec in call.ins}) == 1:
            values = array_of(call.body, call.ins[0].dtype).astype(np.float64)
            self._sent[call.rank].append(Sent(call.ins[0].dtype, values, len(call.group.ranks)))

    def may_complete(self, operation: Operation) -> bool:
        if not self._gates.hold or not any(self._is_gated(call) for call in operation.calls.values()):
            return True
        return all(self._num_reached[rank] == len(self._gates.places) for rank in range(self._request.world_size))

    def gate(self, call: Call) -> Array | None:
        place = self._place_of.get(call.word.name)
        if place is None or self._wants_another_tensor(call):
            return None
        self._num_reached[call.rank] = max(self._num_reached[call.rank], place + 1)
        return None if self._missing(call.rank, place) else secret_at(self._request, self._gates, call.rank, place)

    def why_held(self, call: Call) -> str:
        if call.op != "gate":
            return "is answered only when every rank's backward has come to its last gate; whoever waits before that waits for ever"
        place = self._place_of.get(call.word.name)
        if place is None or self._wants_another_tensor(call):
            return "no gate of this request is: the probe and the test disagree"
        calls = self._sent[call.rank]
        seen = f"in {len(calls)} reductions it has not sent that of {', '.join(self._missing(call.rank, place))}"
        return f"opens when the gradients behind it have been sent; {seen if calls else 'in this backward it has sent none'}"

    # --- what should have arrived
    def _is_gated(self, call: Call) -> bool:
        return call.op in REDUCING and call.phase == self._gates.phase and all("float" in spec.dtype for spec in call.ins)

    def _wants_another_tensor(self, call: Call) -> bool:
        return call.outs[0] != self._request.input_of(self._gates.signal, call.rank).spec

    def _missing(self, rank: int, place: int) -> list[str]:
        return [name for name in self._gates.places[place].after if not self._has_sent(rank, place, name)]

    def _has_sent(self, rank: int, place: int, name: str) -> bool:
        """Is the gradient, or its share of the mean, somewhere in what this rank has put into one call?"""
        factor = self._request.input_of(name, rank)
        gradient, magnitude = self._gradient(rank, place, factor)
        allowed = SLACK_ROUNDINGS * float(ml_dtypes.finfo(array_of(b"", factor.dtype).dtype).eps) * magnitude
        return any(
            _holds(sent.values, gradient / share, allowed / share)
            for sent in self._sent[rank]
            if sent.dtype == factor.dtype
            for share in (1, sent.num_ranks)
        )

    def _gradient(self, rank: int, place: int, factor: Tensor) -> tuple[Array, Array]:
        """-> (gradient, sum of the magnitudes in it), flat float64, with the secrets of the gates before `place` in it."""
        signal = _wide(self._request.input_of(self._gates.signal, rank))
        terms = [signal, *(secret_at(self._request, self._gates, rank, before).astype(np.float64) for before in range(place))]
        flow, weight = np.sum(terms, axis=0), np.sum(np.abs(terms), axis=0)
        wide = _wide(factor)
        return (wide * flow).reshape(-1), (np.abs(wide) * weight).reshape(-1)


class MessageGateKeeper(GateKeeper):
    """Gates between messages: the n-th opens when so many bytes are on their way, and, if he holds, none of these arrives before it."""

    def __init__(self, request: Request, gates: Gates) -> None:
        super().__init__(request, gates)
        self._sent_bytes: defaultdict[int, int] = defaultdict(int)
        self._place: dict[tuple[int, int], int] = {}  # (rank, call) -> the gate that the message helps to open

    def on_issue(self, call: Call) -> None:
        """Count what a send of the phase brings on its way."""
        if self._is_gated(call):
            before = self._sent_bytes[call.rank]
            self._place[call.rank, call.id] = sum(gate.sent_bytes <= before for gate in self._gates.places)
            self._sent_bytes[call.rank] = before + call.num_bytes

    def may_complete(self, operation: Operation) -> bool:
        place = self._place_of_message(operation)
        if not self._gates.hold or place is None or place == len(self._gates.places):
            return True
        return all(self._num_reached[call.rank] > place for call in operation.calls.values())

    def why_held(self, call: Call) -> str:
        if call.op == "gate":
            place = self._place_of.get(call.word.name)
            if place is None or self._wants_another_tensor(call):
                return super().why_held(call)
            wanted, sent = self._gates.places[place].sent_bytes, self._sent_bytes[call.rank]
            return f"opens when {wanted} bytes ({self._gates.messages}) have been sent in {self._gates.phase}; this rank has sent {sent}"
        place = None if call.operation is None else self._place_of_message(call.operation)
        gate = self._gates.places[place].name if place is not None and place < len(self._gates.places) else "the last"
        return f"is answered only when both ranks have come to the gate {gate!r}; whoever waits before that waits for ever"

    def _is_gated(self, call: Call) -> bool:
        return call.op == "send" and call.phase == self._gates.phase and call.ins[0].dtype == self._gates.messages

    def _place_of_message(self, operation: Operation) -> int | None:
        send = operation.calls.get(0) if operation.is_message else None
        return None if send is None else self._place.get((send.rank, send.id))

    def _missing(self, rank: int, place: int) -> list[str]:
        return [] if self._sent_bytes[rank] >= self._gates.places[place].sent_bytes else ["messages"]


def _wide(tensor: Tensor) -> Array:
    return array_of(tensor.data, tensor.dtype).astype(np.float64).reshape(tensor.shape)


def _holds(values: Array, wanted: Array, allowed: Array) -> bool:
    """Whether `wanted` stands somewhere in `values` as one stretch."""
    num_places = len(values) - len(wanted) + 1
    if not len(wanted) or num_places < 1:
        return not len(wanted)
    starts = np.flatnonzero(np.abs(values[:num_places] - wanted[0]) <= allowed[0])
    return any(bool(np.all(np.abs(values[start : start + len(wanted)] - wanted) <= allowed)) for start in starts)
