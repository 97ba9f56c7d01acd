"""When everything happens: a rank begins its next action as soon as it is free and what the action needs has arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from grader.schedules.actions import Action, Schedule, needs, num_stages_of

Seconds = int | float | Fraction
Costs = Mapping[str, Sequence[Seconds]]  # costs[kind][stage]


class Deadlock(ValueError):
    """A schedule that can't come to its end; its text says who waits for whom."""

    def __init__(self, stuck: dict[int, Action], sentences: Sequence[str]) -> None:
        super().__init__(" ".join(sentences))
        self.stuck, self.sentences = stuck, tuple(sentences)


@dataclass(frozen=True, slots=True)
class Span:
    """One action on its rank."""

    start_s: Seconds
    end_s: Seconds
    action: Action


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each rank did what, from 0 to the end of the last action."""

    lanes: tuple[tuple[Span, ...], ...]

    @property
    def end_s(self) -> Seconds:
        """The time of the step."""
        return max((lane[-1].end_s for lane in self.lanes if lane), default=0)

    def idle_s(self, rank: int) -> Seconds:
        """Time in which `rank` computes nothing."""
        return self.end_s - sum(span.end_s - span.start_s for span in self.lanes[rank])

    @property
    def bubble_fraction(self) -> Seconds:
        """Idle time of all ranks over their total time; 0 where nothing takes any."""
        total_s = self.end_s * len(self.lanes)
        idle_s = sum(self.idle_s(rank) for rank in range(len(self.lanes)))
        if not total_s:
            return 0
        return idle_s / total_s if isinstance(total_s, float) else Fraction(idle_s) / Fraction(total_s)


def equal_costs(num_stages: int, **seconds: Seconds) -> dict[str, list[Seconds]]:
    """The same cost on every stage: equal_costs(4, F=1, B=2)."""
    return {kind: [cost_s] * num_stages for kind, cost_s in seconds.items()}


def simulate(schedule: Schedule, costs: Costs, *, num_stages: int | None = None) -> Timeline:
    """Play `schedule`; what goes from a rank to another takes no time.

    num_stages: of the whole pipeline, if the schedule doesn't name the highest. Deadlock if it can't come to its end.
    """
    play = _Play(schedule, costs, num_stages_of(schedule) if num_stages is None else num_stages)
    while any(play.advance(rank) for rank in range(len(schedule))):
        pass
    play.require_end()
    return Timeline(tuple(map(tuple, play.lanes)))


class _Play:
    """How far each rank has come."""

    def __init__(self, schedule: Schedule, costs: Costs, num_stages: int) -> None:
        self._schedule, self._costs, self._num_stages = schedule, costs, num_stages
        self._ends_s: dict[Action, Seconds] = {}
        self.lanes: list[list[Span]] = [[] for _ in schedule]

    def advance(self, rank: int) -> bool:
        """Do on `rank` what can be done; whether there was anything."""
        lane, actions = self.lanes[rank], self._schedule[rank]
        before = len(lane)
        while len(lane) < len(actions) and not self._missing(actions[len(lane)]):
            action = actions[len(lane)]
            start_s: Seconds = max([lane[-1].end_s if lane else 0, *self._arrivals(action)])
            end_s = start_s + self._costs[action.kind][action.stage]
            lane.append(Span(start_s, end_s, action))
            self._ends_s.setdefault(action, end_s)
        return len(lane) > before

    def _missing(self, action: Action) -> list[Action]:
        """The first way of each need that nobody has met yet."""
        return [ways[0] for ways in needs(action, self._num_stages) if not any(way in self._ends_s for way in ways)]

    def _arrivals(self, action: Action) -> list[Seconds]:
        return [self._ends_s[way] for ways in needs(action, self._num_stages) for way in ways if way in self._ends_s]

    def require_end(self) -> None:
        """Raise Deadlock if a rank has something left: each rank's wait, and who should do what it waits for."""
        stuck = {r: actions[len(lane)] for r, (lane, actions) in enumerate(zip(self.lanes, self._schedule, strict=True))
                 if len(lane) < len(actions)}  # fmt: skip
        if stuck:
            raise Deadlock(stuck, [self._explain(rank, action) for rank, action in stuck.items()])

    def _explain(self, rank: int, action: Action) -> str:
        missing = self._missing(action)[0]
        ways = next(ways for ways in needs(action, self._num_stages) if ways[0] == missing)
        for maker, actions in enumerate(self._schedule):
            for way in ways:
                if way in actions[len(self.lanes[maker]) :]:
                    whose = "itself does later" if maker == rank else f"rank {maker} does later"
                    return f"Rank {rank} can't begin {action}: it waits for {way}, which {whose}."
        return f"Rank {rank} can't begin {action}: it waits for {missing}, which nobody does."
