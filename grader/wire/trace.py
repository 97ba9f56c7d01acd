"""A rank's trace while it grows, and the events that it becomes when the run has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from grader.records import Event
from grader.wire.calls import MESSAGES, Call
from grader.wire.words import EventFields, Malformed, MarkWord

MOST_WORDS = 200_000  # a rank that says more is talking for ever


class Trace:
    """One rank's events in program order. An event's operation is kept beside it: its number is known only at the end."""

    def __init__(self, rank: int) -> None:
        self.rank, self.phase = rank, ""
        self.entries: list[tuple[Event, Call | None]] = []
        self.num_calls = 0
        self._num_turns = 0
        self._futures: dict[int, Event] = {}  # by the call's id: asked for, and not waited for
        self._num_words = 0

    def count_word(self) -> None:
        self._num_words += 1
        if self._num_words > MOST_WORDS:
            raise Malformed(f"has sent the judge more than {MOST_WORDS} words: it seems to loop for ever")

    def issue(self, call: Call) -> None:
        """A communication call begins; it gets its number here."""
        call.number, call.phase = self.num_calls, self.phase
        self.num_calls += 1
        spec = (call.ins or call.outs or (None,))[0]
        event = Event(
            self.rank, "issue", self.phase, call.number, call.op, num_bytes=call.num_bytes, dtype=spec.dtype if spec else "",
            shape=spec.shape if spec else (), group=call.group.ranks, peer=call.peer, tag=call.word.tag,
            reduction=call.word.reduction.lower(), at=call.word.at, facts=_facts(call),
        )  # fmt: skip
        self.entries.append((event, call))

    def wait(self, call: Call, how: str, at: str) -> None:
        event = Event(self.rank, "wait", self.phase, call.number, call.op, group=call.group.ranks, at=at, facts={"how": how})
        self.entries.append((event, call))
        if how == "future":
            self._futures[call.id] = event

    def wait_for_future(self, call_id: int, at: str) -> None:
        """Somebody waits for what an answered call's future gives."""
        event = self._futures.pop(call_id, None)
        if event is not None:
            self.entries.append((replace(event, phase=self.phase, at=at, facts={"how": "wait"}), None))

    def store(self, call: Call) -> None:
        """A word with the rendezvous store: no communication call, but bytes may hide in it."""
        self.entries.append((Event(self.rank, "store", self.phase, op=call.op, num_bytes=len(call.body), at=call.word.at), None))

    def gate(self, call: Call) -> None:
        self.entries.append((Event(self.rank, "gate", self.phase, name=call.word.name, at=call.word.at), None))

    def mark(self, word: MarkWord) -> None:
        """A probe's word; a phase only changes what the following events carry."""
        if word.mark == "phase":
            self._turn_to(word)
            return
        if word.cost_s < 0 or word.cost_s != word.cost_s:
            raise Malformed(f"declares arithmetic of {word.cost_s} s")
        self.entries.append((Event(self.rank, word.mark, self.phase, name=word.name, cost_s=word.cost_s, facts=word.facts), None))

    def _turn_to(self, word: MarkWord) -> None:
        """Into a phase or out of it. The probe numbers its turns, so that a word of somebody else's puts its next one out of place."""
        if word.turn != self._num_turns or bool(word.name) == bool(self.phase):
            raise Malformed(f"turns to phase {word.name!r} from {self.phase!r}, which its probe doesn't: a phase mark is forged")
        self._num_turns += 1
        self.phase = word.name

    def recorded(self, said: EventFields) -> Event:
        """The recorder's word on gloo or NCCL becomes an event as it stands."""
        event = Event(
            self.rank, said.kind, self.phase if said.phase is None else said.phase, said.call, said.op, num_bytes=said.num_bytes,
            dtype=said.dtype, shape=tuple(said.shape), group=tuple(said.group), peer=said.peer, tag=said.tag,
            reduction=said.reduction.lower(), at=said.at, facts=said.facts,
        )  # fmt: skip
        if said.kind != "done":
            self.entries.append((event, None))
        return event


def _facts(call: Call) -> dict[str, Any]:
    """What an event has no field for; only what is out of the ordinary."""
    facts: dict[str, Any] = {}
    if len(call.ins) > 1:
        facts["shapes"] = [[spec.dtype, list(spec.shape)] for spec in call.ins[:64]]
    if call.split:
        facts["split"] = call.split
    if call.root >= 0:
        facts["root"] = call.group.ranks[call.root]
    if call.word.batch >= 0:
        facts["batch"] = call.word.batch
    if call.word.strided:
        facts["strided"] = True
    if call.word.subgroup:
        facts["group"] = call.group.name
    return facts


def assemble(traces: Sequence[Trace]) -> tuple[Event, ...]:
    """All ranks' events, each matched operation under one number.

    Numbers follow the first appearance, rank by rank, so that they don't depend on whose frame came first.
    """
    keys = _keys_of_recorded(traces)
    numbers: dict[Hashable, int] = {}
    events = []
    for trace in traces:
        for event, call in trace.entries:
            key: Hashable = keys.get((trace.rank, event.call))
            if call is not None and call.operation is not None and call.operation.is_done:
                key = id(call.operation)
            events.append(event if key is None else replace(event, match=numbers.setdefault(key, len(numbers))))
    return tuple(events)


def recorded_operations(traces: Sequence[Trace]) -> list[list[Event]]:
    """The recorded calls that met, in rank order: same place among the group's collectives, or among the pair's messages of a tag."""
    by_key, needed = _recorded_calls(traces)
    return [calls for key, calls in by_key.items() if len(calls) == needed[key]]


def _keys_of_recorded(traces: Sequence[Trace]) -> dict[tuple[int, int], Hashable]:
    """(rank, call) -> what its operation is known by, where no broker matched it."""
    by_key, needed = _recorded_calls(traces)
    return {(call.rank, call.call): key for key, calls in by_key.items() if len(calls) == needed[key] for call in calls}


def _recorded_calls(traces: Sequence[Trace]) -> tuple[dict[Hashable, list[Event]], dict[Hashable, int]]:
    places: defaultdict[Hashable, int] = defaultdict(int)
    by_key: defaultdict[Hashable, list[Event]] = defaultdict(list)
    needed: dict[Hashable, int] = {}
    for trace in traces:
        for event, call in trace.entries:
            if call is not None or event.kind != "issue":
                continue
            group: Hashable = (event.group, event.facts.get("group"))
            is_message = event.op in MESSAGES
            ends = (trace.rank, event.peer) if event.op == "send" else (event.peer, trace.rank)
            stream: Hashable = (*ends, event.tag, group) if is_message else group
            side: Hashable = (stream, trace.rank, event.op if is_message else "")
            key = (stream, places[side])
            places[side] += 1
            by_key[key].append(event)
            needed[key] = 2 if is_message else len(event.group)
    return by_key, needed
