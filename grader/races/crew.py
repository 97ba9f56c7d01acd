"""The ranks that race as one: told at the same moment, awake together, done when the last of them is. Most races have one rank."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from grader.races.seats import Fallen, Seat, Word
from grader.records import Json


class Crew:
    """All ranks of the peer, of its twin, of the submission, or all keepers, one beside each rank."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = tuple(seats)

    @property
    def pids(self) -> list[int]:
        """Of its processes, by rank."""
        return [seat.pid for seat in self._seats]

    @property
    def log(self) -> bytes:
        """What they wrote, rank after rank."""
        return b"".join(seat.log for seat in self._seats)

    def open(self, deadline_s: float) -> None:
        """Tell each what it is, return once all are set up: they may have to meet each other for that."""
        for seat in self._seats:
            seat.tell()
        self._all(lambda seat, left_s: seat.hear("", left_s, begun=True), deadline_s)

    def answer(self, *words: Json) -> None:
        """Answer all ranks by one word, or each by its own."""
        for rank, seat in enumerate(self._seats):
            seat.answer(words[rank % len(words)])

    def hear(self, say: str, deadline_s: float) -> list[Word]:
        """The next word of that sort from each; raises Fallen for an end, an exception, or silence of any."""
        return self._all(lambda seat, left_s: seat.hear(say, left_s), deadline_s)

    def require_silence(self) -> None:
        """Raises Fallen if any has spoken though it was not asked."""
        for seat in self._seats:
            seat.require_silence()

    def freeze(self) -> None:
        """Let all do nothing until it is their turn."""
        for seat in self._seats:
            seat.freeze()

    def thaw(self) -> None:
        """Let all go on."""
        for seat in self._seats:
            seat.thaw()

    def _all(self, heard: Callable[[Seat, float], Word], deadline_s: float) -> list[Word]:
        """Each one's word. Whoever speaks first is heard first: a rank that has raised leaves the others waiting for it."""
        until, words = time.monotonic() + deadline_s, dict[int, Word]()
        while len(words) < len(self._seats):
            waiting = {rank: seat for rank, seat in enumerate(self._seats) if rank not in words}
            ready, _, _ = select.select([fd for seat in waiting.values() for fd in seat.fds()], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise Fallen(self._named(min(waiting), "did not answer in time"))
            for rank, seat in waiting.items():
                if seat.has_spoken(ready):
                    try:
                        words[rank] = heard(seat, max(0.0, until - time.monotonic()))
                    except Fallen as fallen:
                        raise Fallen(self._named(rank, str(fallen))) from None
        return [words[rank] for rank in sorted(words)]

    def _named(self, rank: int, sentence: str) -> str:
        return sentence if len(self._seats) == 1 else f"(rank {rank}) {sentence}"
