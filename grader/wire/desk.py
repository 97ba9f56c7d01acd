"""What is done with each word of a rank: operations are matched and answered, marks traced, answers kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod

from grader.frames import BODY_LIMIT_BYTES, Bytes
from grader.records import MANY_LOOKS, Fault, Frame, Json, Raised, Request, Tensor, TensorSpec
from grader.wire.arithmetic import pieces
from grader.wire.calls import STORE, STORE_BYTES_LIMIT, STORE_WORD_BYTES, STORE_WRITES, Call
from grader.wire.channel import Purse
from grader.wire.faults import fault_of_answer, fault_of_raise
from grader.wire.matching import Matching, Operation
from grader.wire.policy import Policy
from grader.wire.seat import Seat
from grader.wire.store import Store
from grader.wire.words import (
    AnswerWord,
    BegunWord,
    EventWord,
    Malformed,
    MarkWord,
    PollWord,
    RaisedWord,
    WaitWord,
    Word,
    specs_of,
)  # fmt: skip


class Desk:
    """Takes words in, gives answers out. Raises Malformed for a word that makes no sense; the broker blames its rank."""

    def __init__(self, request: Request, seats: Sequence[Seat], policy: Policy, purse: Purse) -> None:
        self.request, self.seats, self.policy, self.purse = request, seats, policy, purse
        self.matching, self.store = Matching(), Store()
        self.falls: list[Fault] = []  # in the order in which they happened
        self.changed_in_flight: Fault | None = None
        self._at_gates: list[Call] = []
        self._held_operations: list[Operation] = []
        self._is_stirred = False

    def take(self, seat: Seat, word: Word | Call, body: bytearray) -> None:
        """Act on one frame of a rank."""
        seat.trace.count_word()
        if not seat.is_live:
            return
        self._is_stirred = True
        self._act(word, seat, body)

    def fell(self, seat: Seat, fault: Fault) -> None:
        """A rank is lost; only its first fault counts."""
        if seat.fall is None:
            seat.fall = fault
            self.falls.append(fault)
        seat.leave()

    # --- words
    @singledispatchmethod
    def _act(self, word: object, seat: Seat, body: bytearray) -> None:
        raise Malformed(f"says a word that nobody reads ({type(word).__name__})")

    @_act.register
    def _(self, call: Call, seat: Seat, body: bytearray) -> None:
        if call.id <= seat.last_id:
            raise Malformed(f"numbers its call {call.id} after {seat.last_id}")
        seat.last_id = call.id
        seat.hear(call)
        call.body = body
        seat.calls[call.id] = call
        if call.op in STORE:
            seat.waits[call.id] = call
            seat.trace.store(call)
            self._count_stored(call, seat)
            for answered, value in self.store.enter(call):
                self._answer(answered, {}, value)
            self.purse.give_back(len(body))
        elif call.op == "gate":
            seat.waits[call.id] = call
            seat.trace.gate(call)
            self._at_gates.append(call)
        else:
            self._communicate(call, seat)

    @_act.register
    def _(self, word: WaitWord, seat: Seat, body: bytearray) -> None:
        call = seat.calls.get(word.wait)
        if call is None:  # long answered; but who has asked for a future waits for it later
            seat.trace.wait_for_future(word.wait, word.at)
            return
        seat.hear(call)
        seat.trace.wait(call, word.how, word.at)
        call.awaited_at = word.at if word.at != call.word.at else ""
        if word.changed and self.changed_in_flight is None:
            at = f" ({word.at})" + ", somewhere between these two" * bool(call.awaited_at and call.word.at) if word.at else ""
            sentence = f"rank {seat.rank} changed the tensor of {call} before it had waited for it{at}: what travels is undefined"
            self.changed_in_flight = Fault("changed_in_flight", seat.rank, sentence)
        if not call.is_answered:
            seat.waits[call.id] = call
        if word.how != "future" or word.by_engine or not self.request.network.late:  # late: a callback that nobody waits for isn't called
            call.is_awaited = True
            self._hand_over(call, seat)

    @_act.register
    def _(self, word: PollWord, seat: Seat, body: bytearray) -> None:
        call = seat.calls.get(word.poll)  # no sign of life: a loop that polls for ever must run into its CPU limit
        if call is not None:
            call.num_polls = max(call.num_polls, word.times)
            if self.request.network.late and call.num_polls >= MANY_LOOKS and not call.is_awaited:
                seat.trace.wait(call, "poll", call.word.at)  # what comes late comes to nobody who hasn't waited
                call.is_awaited = True
            if self._is_wanted(call):
                self._hand_over(call, seat)

    @_act.register
    def _(self, word: MarkWord, seat: Seat, body: bytearray) -> None:
        seat.hear(f"{word.mark} {word.name!r}")
        seat.trace.mark(word)

    @_act.register
    def _(self, word: EventWord, seat: Seat, body: bytearray) -> None:
        event = seat.trace.recorded(word.event)
        seat.hear(f"{event.kind} of call {event.call}")
        if event.kind == "issue":
            seat.open_calls[event.call] = event
        elif event.kind == "wait":
            seat.awaited.add(event.call)
        else:
            seat.open_calls.pop(event.call, None)
            seat.awaited.discard(event.call)

    @_act.register
    def _(self, word: BegunWord, seat: Seat, body: bytearray) -> None:
        seat.hear("the start of its probe")

    @_act.register
    def _(self, word: RaisedWord, seat: Seat, body: bytearray) -> None:
        said = word.raised
        frames = tuple(Frame(frame.file, frame.line, frame.function, frame.source) for frame in said.frames)
        seat.hear("its exception")
        seat.raised = Raised(said.type, said.message, frames)
        self.fell(seat, fault_of_raise(seat.rank, seat.raised, self.request.limits))

    @_act.register
    def _(self, word: AnswerWord, seat: Seat, body: bytearray) -> None:
        specs = [TensorSpec(dtype, tuple(shape)) for _, dtype, shape in word.answer]
        seat.hear("its answer")
        for (name, dtype, shape), piece in zip(word.answer, pieces(body, specs), strict=True):
            seat.outputs[name] = Tensor(dtype, tuple(shape), bytes(piece))
        seat.facts = word.facts
        seat.has_answered = True
        seat.leave()

    def check_answer(self, seat: Seat, word: AnswerWord, body_bytes: int) -> None:
        """Before its body is read: an answer holds what was asked for, no more and no less."""
        specs = dict(zip([name for name, _, _ in word.answer], specs_of([(dtype, shape) for _, dtype, shape in word.answer]), strict=True))
        asked = {name: self.request.return_of(name, seat.rank) for name in self.request.returns}
        for name in [*asked, *specs]:
            got, want = specs.get(name), asked.get(name)
            if got != want:
                self.fell(seat, fault_of_answer(seat.rank, name, got, want))
                raise Malformed(fault_of_answer(seat.rank, name, got, want).sentence)
        total = sum(spec.num_bytes for spec in specs.values())
        if body_bytes != total or total > BODY_LIMIT_BYTES or len(specs) != len(word.answer):
            raise Malformed(f"answers with {body_bytes} bytes; its tensors need {total}")

    def _count_stored(self, call: Call, seat: Seat) -> None:
        """Over gloo and NCCL the ranks find each other in the store; on the wire it could only carry what no law would see."""
        if self.request.network.transport == "wire" and call.op in {*STORE_WRITES, "store_add"}:
            seat.stored_bytes += len(call.body) + STORE_WORD_BYTES
            if seat.stored_bytes > STORE_BYTES_LIMIT:
                raise Malformed(f"passes values through the rendezvous store ({call}): between ranks they travel by sends and collectives")

    # --- operations
    def _communicate(self, call: Call, seat: Seat) -> None:
        seat.trace.issue(call)
        self.policy.on_issue(call)
        operation = self.matching.enter(call)
        if operation is not None:
            self._complete(operation)
        elif call.op == "send" and not self.request.network.rendezvous:
            self._answer(call, {}, b"")

    def _complete(self, operation: Operation) -> None:
        if not self.policy.may_complete(operation):
            self._held_operations.append(operation)
            return
        for call, header, body in operation.perform():
            self.purse.give_back(call.num_bytes)
            if not call.is_answered:
                self._answer(call, header, body)

    def reconsider(self) -> None:
        """Gates and held operations, after somebody has said something."""
        if not self._is_stirred:
            return
        self._is_stirred = False
        waiting, self._at_gates = self._at_gates, []
        for call in waiting:
            secret = self.policy.gate(call)
            if secret is None:
                self._at_gates.append(call)
            else:
                self._answer(call, {}, secret.tobytes())
        held, self._held_operations = self._held_operations, []
        for operation in held:
            self._complete(operation)

    def _answer(self, call: Call, header: dict[str, Json], body: Bytes) -> None:
        seat = self.seats[call.rank]
        call.is_answered = True
        seat.waits.pop(call.id, None)
        seat.held[call.id] = ({"id": call.id, **header}, body)
        if self._is_wanted(call) or call.op in STORE or call.op == "gate":
            self._hand_over(call, seat)

    def _is_wanted(self, call: Call) -> bool:
        return call.is_awaited or not self.request.network.late

    def _hand_over(self, call: Call, seat: Seat) -> None:
        """Send an answer that is ready, and forget a call that is both answered and waited for."""
        if call.id in seat.held:
            header, body = seat.held.pop(call.id)
            seat.channel.write(header, body)
        if call.is_answered and (call.is_awaited or call.op in STORE or call.op == "gate"):
            seat.calls.pop(call.id, None)
