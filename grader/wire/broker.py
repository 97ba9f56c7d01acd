"""The judge's event loop: reads the ranks' words, logs and exits, answers their operations, and ends with an `Outcome`.

It never forks, kills, touches the disk, or lets a rank's words raise an exception: what makes no sense is that rank's fault.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence

from grader.records import Fault, Outcome, RankOutcome, Request
from grader.wire.calls import Call, read_call
from grader.wire.channel import Channel, Purse
from grader.wire.desk import Desk
from grader.wire.endpoint import Endpoint, Supervision
from grader.wire.faults import fault_of_exit
from grader.wire.findings import findings_of
from grader.wire.gates import policy_of
from grader.wire.policy import Policy
from grader.wire.seat import Seat
from grader.wire.trace import assemble
from grader.wire.umpire import Umpire
from grader.wire.words import AnswerWord, Malformed, OperationWord, Word, read_word

TICK_S = 0.02  # how often ranks that say nothing are looked at
EXIT_GRACE_S = 0.5  # between a rank's last word, or the end of its line, and its exit status
LOOK_EVERY_S = 0.25  # while others talk without a pause


class Broker:
    """One run. `run` may be called once."""

    def __init__(self, request: Request, endpoints: Sequence[Endpoint], supervision: Supervision, *, policy: Policy | None = None) -> None:
        """`endpoints` in rank order; an opening's "submission" is the folder whose lines are named in verdicts."""
        self._request, self._supervision = request, supervision
        self.purse = Purse()
        self._seats: list[Seat] = []
        self._selector = selectors.DefaultSelector()
        for endpoint in endpoints:
            self._take_seat(endpoint)
        self._desk = Desk(request, self._seats, policy or policy_of(request), self.purse)
        folders = {opening.get("submission", "") for opening, _ in (endpoint.opening for endpoint in endpoints)}
        self._folder = folders.pop() if len(folders) == 1 else ""
        self._umpire = Umpire(request, self._seats, self._desk, supervision, self._folder)
        self._selector.register(supervision, selectors.EVENT_READ, self._hear_exits)
        self._openings = {endpoint.rank: endpoint.opening for endpoint in endpoints}

    def _take_seat(self, endpoint: Endpoint) -> None:
        rank, world_size = endpoint.rank, self._request.world_size

        def admit(header: bytearray, body_bytes: int) -> Word | Call:
            word = read_word(header)
            if isinstance(word, OperationWord):
                return read_call(rank, world_size, word, body_bytes)
            if isinstance(word, AnswerWord):
                self._desk.check_answer(self._seats[rank], word, body_bytes)
            elif body_bytes:
                raise Malformed(f"sends {body_bytes} bytes with a word that carries none")
            return word

        seat = Seat(endpoint, Channel(endpoint.line, admit, self.purse), self._request.limits.log_bytes)
        self._seats.append(seat)
        self._selector.register(endpoint.line, selectors.EVENT_READ, lambda: self._hear(seat))
        if endpoint.log >= 0:
            self._selector.register(endpoint.log, selectors.EVENT_READ, lambda: self._hear_log(seat))

    # --- the loop
    def run(self) -> Outcome:
        """Serve the ranks until all have ended or one verdict is certain. MachineError if the supervisor died."""
        began_s = time.monotonic()
        for seat in self._seats:
            header, parts = self._openings.pop(seat.rank)
            seat.channel.write_parts(header, tuple(parts))
        look_at_s = began_s
        while not self._is_over():
            self._await_writable()
            news = self._selector.select(0)
            talkative = [seat for seat in self._seats if seat.channel.has_more]
            if not news and not talkative:
                self._umpire.settle(lambda: bool(self._selector.select(0)))
                if self._is_over():
                    break
                news = self._selector.select(TICK_S)
            for key, _ in news:
                act: Callable[[], None] = key.data
                act()
            for seat in talkative:
                self._hear(seat)
            now_s = time.monotonic()
            if not news or now_s > look_at_s:
                self._umpire.look()
                self._collect_the_gone()
                look_at_s = now_s + LOOK_EVERY_S
        return self._outcome(time.monotonic() - began_s)

    def _is_over(self) -> bool:
        has_verdict = self._umpire.verdict is not None
        leaving = [seat for seat in self._seats if (seat.raised or seat.has_answered if has_verdict else True)]
        return all(not seat.is_live and (seat.exit_status is not None or self._is_late(seat)) for seat in leaving)

    def _is_late(self, seat: Seat) -> bool:
        """It should have been gone for so long that its exit status is not waited for."""
        return seat.left_s is not None and time.monotonic() - seat.left_s > EXIT_GRACE_S

    def _await_writable(self) -> None:
        for seat in self._seats:
            channel = seat.channel
            if channel.is_sending != seat.is_writable_awaited and not channel.is_closed:
                seat.is_writable_awaited = channel.is_sending
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.is_sending else 0)
                self._selector.modify(channel.line, events, self._selector.get_key(channel.line).data)

    # --- one rank has something to say
    def _hear(self, seat: Seat) -> bool:
        """Take in what has arrived; whether that was anything."""
        has_spoken = False
        seat.channel.flush()
        try:
            for word, body in seat.channel.read():
                has_spoken = True
                self._desk.take(seat, word, body)
        except Malformed as error:
            self._desk.fell(seat, Fault("malformed", seat.rank, f"rank {seat.rank} {error}"))
            self._close(seat)
        if seat.channel.is_closed:
            self._close(seat)
        return has_spoken

    def _close(self, seat: Seat) -> None:
        """Nothing more is read from it."""
        if seat.channel.line in self._selector.get_map():
            self._selector.unregister(seat.channel.line)
        seat.channel.is_closed = True
        seat.leave()
        if seat.exit_status is not None:
            self._account_for(seat)

    def _hear_log(self, seat: Seat) -> None:
        if not seat.log.read():
            self._selector.unregister(seat.log.descriptor)

    def _hear_exits(self) -> None:
        for rank, status in self._supervision.exits():
            seat = self._seats[rank]
            while not seat.channel.is_closed and self._hear(seat):
                pass  # what it said before it went; a child of its may hold the line open, so that no end is seen
            seat.exit_status = status
            if not seat.channel.is_closed:
                self._close(seat)
            self._account_for(seat)

    def _collect_the_gone(self) -> None:
        """A rank whose line has ended and whose exit nobody reports has closed its line itself."""
        for seat in self._seats:
            if not seat.is_live and self._is_late(seat):
                self._account_for(seat)

    def _account_for(self, seat: Seat) -> None:
        if not seat.has_answered and seat.fall is None:
            self._desk.fell(seat, fault_of_exit(seat, self._folder))

    # --- the end
    def _outcome(self, wall_s: float) -> Outcome:
        self._desk.reconsider()  # what was held when the last rank spoke has met all the same
        events = assemble([seat.trace for seat in self._seats])
        for seat in self._seats:
            seat.log.read(most_chunks=1024)
            seat.look()
        self._selector.close()
        ranks = tuple(
            RankOutcome(
                rank=seat.rank, answered=seat.has_answered, exit_status=seat.exit_status, outputs=seat.outputs, facts=seat.facts,
                raised=seat.raised, log=seat.log.text(), cpu_s=seat.cpu_s,
            )
            for seat in self._seats
        )  # fmt: skip
        return Outcome(ranks, events, self._umpire.final_fault(), findings_of(events), wall_s)
