"""In how many rounds a run gets along: the longest chain of messages that had to wait for each other.

Not the wire's virtual time, in which a rank sends one message at a time: here a ring that uses both directions at once takes no more rounds
than one that uses one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any


def num_rounds(seen: Any, phase: str) -> int:
    """How long `phase` takes if every message takes 1, whatever its size, and only messages from one rank to the same other one queue."""
    happened = [event for event in seen.require().events(phase=phase) if event.kind in ("issue", "wait")]
    programs = [[event for event in happened if event.rank == rank] for rank in range(seen.world_size)]
    issues = {(event.rank, event.call): event for event in happened if event.kind == "issue"}
    network = _Network(issues, seen.request.network.rendezvous)
    position = [0] * seen.world_size
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            while position[rank] < len(program) and network.does(program[position[rank]]):
                position[rank], moved = position[rank] + 1, True
    return max(network.now.values(), default=0)


class _Network:
    """Ranks' clocks, and when each message has landed. Unmatched calls cost nothing."""

    def __init__(self, issues: dict[tuple[int, int], Any], rendezvous: bool) -> None:
        self.now: dict[int, int] = defaultdict(int)
        self._issues, self._rendezvous = issues, rendezvous
        self._begun: dict[int, dict[str, int]] = defaultdict(dict)  # match -> "send" or "recv" -> when that side came to it
        self._landed: dict[int, int] = {}
        self._link_is_free: dict[tuple[int, int], int] = defaultdict(int)

    def does(self, event: Any) -> bool:
        """Carry out one event of a rank; False if it has to wait for a message that isn't on its way yet."""
        issue = self._issues.get((event.rank, event.call))
        if issue is None or issue.match < 0:
            return True
        if event.kind == "issue":
            self._begin(issue)
            return True
        if issue.op == "send" and not self._rendezvous:
            return True  # buffered: the sender is free at once, and the message still takes its time
        if issue.match not in self._landed:
            return False
        self.now[event.rank] = max(self.now[event.rank], self._landed[issue.match])
        return True

    def _begin(self, issue: Any) -> None:
        sides = self._begun[issue.match]
        sides[issue.op] = self.now[issue.rank]
        if len(sides) < 2:
            return
        link = (issue.rank, issue.peer) if issue.op == "send" else (issue.peer, issue.rank)
        self._landed[issue.match] = self._link_is_free[link] = 1 + max(self._link_is_free[link], *sides.values())
