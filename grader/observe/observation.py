"""What a test gets back: tensors by rank, traffic, virtual time. Using what isn't there raises the submission's blame."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from grader.errors import CourseError, NotOnThisProfile, SubmissionError
from grader.observe.tensors import Array, to_array
from grader.records import Event, Fault, Json, Message, Outcome, Request
from grader.wire.gates import secret_at
from grader.wire.testimony import is_consequence
from grader.wire.virtual_time import Timeline, evaluate


class Traffic:
    """What the ranks put on the network. On the judge's wire: witnessed; on gloo: the recorder's testimony."""

    def __init__(self, events: tuple[Event, ...], world_size: int) -> None:
        self._issued = [[e for e in events if e.rank == rank and e.kind == "issue"] for rank in range(world_size)]

    def calls(self, rank: int, phase: str | None = None) -> list[Event]:
        """The communication calls of one rank, in its program order."""
        return [event for event in self._issued[rank] if phase is None or event.phase == phase]

    def sent_bytes(self, rank: int, phase: str | None = None) -> int:
        """Bytes that this rank put into its calls."""
        return sum(event.num_bytes for event in self.calls(rank, phase))

    def sent_elements(self, rank: int, phase: str | None = None) -> int:
        """Elements that this rank put into its sends."""
        return sum(math.prod(event.shape) for event in self.calls(rank, phase) if event.op == "send")

    def num_messages(self, rank: int, phase: str | None = None) -> int:
        """How many sends this rank made."""
        return sum(event.op == "send" for event in self.calls(rank, phase))

    def peers(self, rank: int, phase: str | None = None) -> set[int]:
        """Global ranks that this rank sent to."""
        return {event.peer for event in self.calls(rank, phase) if event.op == "send"}

    def operations(self, rank: int, phase: str | None = None) -> set[str]:
        """The names of the operations that this rank called."""
        return {event.op for event in self.calls(rank, phase)}

    def order(self, rank: int, phase: str | None = None) -> list[str]:
        """The names of the operations that this rank called, in order."""
        return [event.op for event in self.calls(rank, phase)]


class Observation:
    """One run of one probe, live or stored."""

    def __init__(
        self, request: Request, outcome: Outcome, *, key: str, how_to: Callable[[], Message], told_facts: Callable[[], None] = lambda: None
    ) -> None:
        """`told_facts` is called whenever facts are read."""
        self.request, self.key, self.fault, self.findings = request, key, outcome.fault, outcome.findings
        self._outcome, self._how_to = outcome, how_to
        self._told_facts = told_facts

    @property
    def world_size(self) -> int:
        return self.request.world_size

    @property
    def inputs(self) -> dict[str, Array | list[Array]]:
        """As they were given: one array for all ranks, or a list of one per rank."""
        return {name: to_array(each[0]) if len(each) == 1 else [to_array(t) for t in each] for name, each in self.request.inputs.items()}

    def input(self, name: str, rank: int) -> Array:
        """The input `name` as one rank got it."""
        return to_array(self.request.input_of(name, rank))

    def explain(self) -> str:
        """The fault's sentence and a line per rank; "" when the run ended well."""
        return "\n".join([self.fault.sentence, *self.fault.lines]) if self.fault else ""

    def require(self) -> Observation:
        """This observation, if every rank answered; otherwise SubmissionError."""
        if self.fault is not None:
            raise SubmissionError(self._message(self.fault), self.fault)
        return self

    def rank(self, rank: int) -> dict[str, Array]:
        """The tensors that `rank` gave back, of the shapes and dtypes that were declared."""
        outcome = self.require()._outcome.ranks[rank]
        return {name: to_array(tensor) for name, tensor in outcome.outputs.items()}

    def facts(self, rank: int) -> dict[str, Json]:
        """The numbers that `rank`'s probe reported (testimony)."""
        self._told_facts()
        return self.require()._outcome.ranks[rank].facts

    def events(
        self, rank: int | None = None, phase: str | None = None, kind: str | None = None, op: str | None = None
    ) -> tuple[Event, ...]:
        """The trace, filtered; also of a run that did not end well."""
        wanted = [("rank", rank), ("phase", phase), ("kind", kind), ("op", op)]
        return tuple(e for e in self._outcome.events if all(value is None or getattr(e, name) == value for name, value in wanted))

    @property
    def wire(self) -> Traffic:
        """What crossed the network, of a run that ended well."""
        return Traffic(self.require()._outcome.events, self.world_size)

    def virtual_time(self, latency_s: float = 1.0, bandwidth_bytes_per_s: float = math.inf, phase: str | None = None) -> Timeline:
        """The run on a network of that latency and bandwidth. Latency 1 and infinite bandwidth counts rounds."""
        if self.request.device:
            raise NotOnThisProfile("virtual time is the wire's")
        if self.request.network.transport != "wire":
            raise CourseError("virtual time needs transport='wire': on gloo nobody but the ranks saw who matched whom")
        return evaluate(self.require()._outcome.events, latency_s=latency_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s, phase=phase,
                        rendezvous=self.request.network.rendezvous)  # fmt: skip

    def gate_secrets(self, rank: int) -> list[Array]:
        """What the judge handed out to `rank` at its gates, in their order."""
        gates = self.request.gates
        if gates is None:
            raise CourseError("this request declares no gates")
        return [secret_at(self.request, gates, rank, place) for place in range(len(gates.places))]

    def _message(self, fault: Fault) -> Message:
        how_to = self._how_to()
        heard = [f"rank {r.rank}: {r.log.strip()}" for r in self._outcome.ranks if r.log.strip()]
        return Message(seen=fault.sentence, where="\n".join(fault.lines), suggestion=self._suggestion(fault), rerun=how_to.rerun,
                       debug=how_to.debug, output="\n".join(heard), kind="lost_peer" if is_consequence(fault) else fault.kind)  # fmt: skip

    def _suggestion(self, fault: Fault) -> str:
        """What to try: what is known of the way in which it ended, else of its kind."""
        to_itself = next((e for e in self._outcome.events if e.op in ("send", "recv") and e.peer == e.rank), None)
        if to_itself is not None and fault.kind in ("raised", "deadlock", "idle"):
            return f"Rank {to_itself.rank} has a {to_itself.op} with itself ({to_itself.at}): a rank's own part is copied, not sent."
        if fault.kind == "deadlock" and any(ENDED in line for line in fault.lines):
            return "A rank has ended while others wait: do all ranks make equally many steps, and is every message asked for that is sent?"
        if fault.sentence.startswith("shape mismatch") and all(MESSAGE.search(line) for line in fault.lines):
            return ANOTHER_PIECE
        if fault.kind == "cpu_limit" and "(wait of call " in fault.sentence:
            return WAITS_FOR_EVER
        return SUGGESTIONS.get(fault.kind, "")


ENDED = "has ended its probe"
MESSAGE = re.compile(r"^rank \d+ calls (send|recv) ")
ANOTHER_PIECE = (
    "The two ranks disagree on which piece travels here: write down which one the sender sends in this step, and for which one the "
    "receiver has made room. Their sizes differ only where the number of ranks does not divide the tensor."
)
WAITS_FOR_EVER = (
    "It stands in wait(): does what it waits for still come? A send whose work nobody keeps and waits for may never leave. "
    "If it is called again and again, a loop never ends."
)
SUGGESTIONS = {
    "deadlock": "Write down, rank by rank, which call waits for which; on this network a send ends only when its receive has come.",
    "mismatch": "Collectives are matched in the order of the calls: every rank of the group must make the same calls with the same shapes.",
    "cpu_limit": "A loop never ends; print its condition, or run the case under the debugger.",
    "silent": "Something sleeps or waits outside torch.distributed: a lock, a socket, a thread.",
    "memory": "The case leaves room for what the task allows and no more: which tensor is larger than it must be?",
    "changed_in_flight": "A tensor belongs to the network from the call until wait() returns.",
}
