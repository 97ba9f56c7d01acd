"""The frozen records that travel between the rooms of the grader. Standard library only: ranks and the judge both read this file."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Json = Any  # None | bool | int | float | str | list[Json] | dict[str, Json]; what a probe's parameters may be

KiB, MiB, GiB = 2**10, 2**20, 2**30
MANY_LOOKS = 10  # at one operation: they are a wait for it, where results land when they are waited for

Evidence = Literal["judged", "enforced", "witnessed", "testified"]
Transport = Literal["wire", "gloo", "nccl", "none"]
CaseOutcome = Literal["passed", "failed", "not_judged", "course_error", "machine_error"]
LawVerdict = Literal["passed", "failed", "not_judged", "error"]
ProfileName = Literal["cpu", "gpu"]

ITEMSIZE = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4,
    "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


def num_elements(shape: tuple[int, ...]) -> int:
    """Number of elements of a tensor of `shape`; 1 for a scalar."""
    product = 1
    for extent in shape:
        product *= extent
    return product


# --- tensors ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a tensor must look like: torch's dtype name and a shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return ITEMSIZE[self.dtype] * num_elements(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as raw little-endian bytes in row-major order, with nothing that could run."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, self.shape)


# --- a request: everything that decides what a run will show ---------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use before the judge ends it."""

    cpu_s: float = 4.0  # CPU seconds of one rank between two words to the judge
    wall_s: float = 8.0  # seconds a rank may sleep without a word while nothing else explains it
    idle_s: float = 3.0  # gloo: all ranks blocked with idle CPU clocks for this long is a hang; NCCL: pending calls and no word
    grace_s: float = 0.2  # after a first fault the other ranks may still fall, or come to a stop
    extra_bytes: int | None = None  # bytes of private memory beyond what the rank held when its probe began
    log_bytes: int = 16 * KiB  # kept of a rank's output: this much of its head and this much of its tail


@dataclass(frozen=True, slots=True)
class Network:
    """How the ranks' traffic travels."""

    transport: Transport = "wire"
    rendezvous: bool = True  # wire: a send ends when its receive has come; False: sends are buffered
    late: bool = False  # wire: results land when they are waited for, so that a forgotten wait is a wrong number


@dataclass(frozen=True, slots=True)
class Gate:
    """A place in a probe. It opens for a rank when that rank has sent the gradients of the parameters in `after`, or that many bytes."""

    name: str
    after: tuple[str, ...] = ()  # by the names of their inputs: such a parameter's gradient is the input times the signal so far
    sent_bytes: int = 0  # where messages count: the bytes of all that this rank has begun to send in the phase


@dataclass(frozen=True, slots=True)
class Gates:
    """What the wire makes depend on each other: backward on what has been sent, and with `hold` what was sent on backward.

    Backward begins with the input `signal` as its gradient. At each gate the judge adds secret numbers to it, so that no gradient
    behind the gate can be computed before the gate has opened.
    """

    phase: str  # what counts was sent in this phase
    signal: str
    places: tuple[Gate, ...]  # in the order in which backward comes to them
    hold: bool = False  # no reduction of the phase is answered before every rank has come to the last gate; messages: see `messages`
    # "": reductions count. A dtype: what counts are sends of it, and with `hold` one of them is answered only when its sender and its
    # receiver have come to the gate that it opens.
    messages: str = ""
    seed: int = 0  # of the secret numbers; no rank gets it


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One observation that a test asks for. Equal requests on equal submissions share one run."""

    assignment: str
    probe: str
    parameters: dict[str, Json]
    world_size: int
    inputs: dict[str, tuple[Tensor, ...]]  # one tensor for every rank, or a single one that all ranks get
    returns: dict[str, tuple[TensorSpec, ...]]  # likewise: what each rank must give back
    network: Network = Network()
    limits: Limits = Limits()
    flavour: str = "torch"  # which zygote: "torch" | "interpreter" | "compiler" | "cuda"
    device: str = ""  # where a rank's tensors live: "" the host | "cuda" a GPU of its own | "pretend" the host, played as a GPU
    seed: int = 0  # what the probe may use; no input's seed can be derived from it
    gates: Gates | None = None
    shares_folder: bool = False  # beside each rank's own folder there is one, `shared`, that all of them may write to

    def input_of(self, name: str, rank: int) -> Tensor:
        """The input `name` as `rank` gets it."""
        tensors = self.inputs[name]
        return tensors[rank] if len(tensors) > 1 else tensors[0]

    def return_of(self, name: str, rank: int) -> TensorSpec:
        """What `rank` must give back as `name`."""
        specs = self.returns[name]
        return specs[rank] if len(specs) > 1 else specs[0]

    def case(self) -> dict[str, Json]:
        """The case: probe and parameters, without inputs. Seeds are derived from it."""
        return {"assignment": self.assignment, "probe": self.probe, "parameters": self.parameters, "world_size": self.world_size,
                "network": asdict(self.network), "flavour": self.flavour}  # fmt: skip

    def header(self) -> dict[str, Json]:
        """The request as JSON, tensors by their SHA-256."""
        return self.case() | {
            "inputs": {name: [[t.dtype, list(t.shape), digest(t.data)] for t in tensors] for name, tensors in self.inputs.items()},
            "returns": {name: [[s.dtype, list(s.shape)] for s in specs] for name, specs in self.returns.items()},
            "limits": asdict(self.limits),
            "seed": self.seed,
            "gates": asdict(self.gates) if self.gates else None,
            "device": self.device,
            "shares_folder": self.shares_folder,
        }


def digest(*parts: bytes | str) -> str:
    """SHA-256 over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ; 32 hex digits."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:32]


def canonical(value: Json) -> str:
    """One spelling for equal JSON values: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# --- what a run showed -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the submission in a traceback."""

    file: str  # base name, e.g. collectives.py
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that left the probe."""

    type: str
    message: str
    frames: tuple[Frame, ...]  # the submission's lines only, outermost first


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a rank's trace, in that rank's program order.

    kind: "issue" a communication call begins; "wait" it is waited for (facts["how"] == "future": its future is asked for, which
    blocks nobody); "store" a word with the rendezvous store; "gate" a probe asks for the judge's secret;
    "compute" a probe declares arithmetic of `cost_s` virtual seconds; "join" a probe waits for all that is in flight;
    "mark" a probe's named moment.
    """

    rank: int
    kind: str
    phase: str = ""  # the probe's phase in which it happened
    call: int = -1  # number of the call on this rank; a "wait" carries the number of the call it waits for
    op: str = ""  # torch's own collective name: all_reduce, send, recv, ...
    match: int = -1  # number of the matched operation; the same on every rank that took part; -1: never matched
    num_bytes: int = 0  # bytes that this rank put in
    dtype: str = ""
    shape: tuple[int, ...] = ()
    group: tuple[int, ...] = ()  # global ranks
    peer: int = -1  # global rank of the other side of a send or recv; -1: any source
    tag: int = 0
    reduction: str = ""
    at: str = ""  # the submission's file:line
    name: str = ""  # of a mark
    cost_s: float = 0.0
    facts: dict[str, Json] = field(default_factory=dict)


BY_CLOCK = frozenset({"cpu_limit", "silent", "idle"})  # kinds of faults that a clock finds: each costs seconds, and may not come again


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a run did not end well: the submission's blame, in one sentence that names rank, call and line."""

    # raised | exited | crashed | deadlock | mismatch | cpu_limit | silent | memory | changed_in_flight | malformed | forbidden | forged
    kind: str
    rank: int  # the rank to look at first; -1: no single one
    sentence: str
    lines: tuple[str, ...] = ()  # one line per rank involved: who waits for what


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """How one rank's process ended and what it left."""

    rank: int
    answered: bool  # its probe returned and its answer arrived whole
    exit_status: int | None  # exit code, or -signal; None: ended by the judge
    outputs: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Json] = field(default_factory=dict)  # numbers a probe reports beside its tensors (testified)
    raised: Raised | None = None
    log: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run as stored: the judge reads nothing else."""

    ranks: tuple[RankOutcome, ...]
    events: tuple[Event, ...]  # grouped by rank, each rank's in program order
    fault: Fault | None
    findings: tuple[str, ...] = ()  # warnings that fail nothing by themselves (an order that NCCL may hang on)
    wall_s: float = 0.0
    loopback_bytes: int | None = None  # witnessed: what the ranks' own network has carried; None: they had none of their own


# --- a course --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Law:
    """One claim with points."""

    id: str  # <assignment>.<task>.<claim>
    claim: str  # the sentence a student reads
    points: int
    evidence: Evidence
    needs: tuple[str, ...] = ()  # laws whose failure makes this one not judged
    hints: tuple[str, ...] = ()  # of its own, told in place of its task's


@dataclass(frozen=True, slots=True)
class Task:
    """What a student writes, and the laws it must keep."""

    id: str  # <assignment>.<task>
    title: str
    laws: tuple[Law, ...]
    regions: tuple[str, ...]  # the solution's regions that this task fills
    stub: str  # what stands in the starter in place of each region
    hints: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        return sum(law.points for law in self.laws)


@dataclass(frozen=True, slots=True)
class Race:
    """A claim about speed: what a submission takes, beside what a peer takes on the same device. Its marks stand beside the points."""

    id: str  # <assignment>.<race>
    claim: str  # the sentence a student reads
    track: str  # what is run: a function of tests/races/<assignment>/
    against: str  # the peer, a function there
    marks: int  # 0: raced for the table alone
    none_at: float  # peer's time over the submission's at which no mark is earned
    full_at: float  # and at which all are; linear between
    why: str  # the argument for both
    needs: tuple[str, ...] = ()  # laws without which nothing is raced
    parameters: dict[str, Json] = field(default_factory=dict)
    pretended: dict[str, Json] = field(default_factory=dict)  # in their place where the host plays a GPU
    ranks: int = 1  # a racer is so many processes, with a GPU and a rank in its process group each
    environment: dict[str, str] = field(default_factory=dict)  # of all ranks: what NCCL is told, so that communication shows


@dataclass(frozen=True, slots=True)
class Rule:
    """Something an assignment forbids, found in the syntax tree."""

    id: str
    forbids: tuple[str, ...]  # dotted names
    reason: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment as its assignment.yaml says it."""

    name: str
    number: int
    title: str
    files: tuple[str, ...]
    tasks: tuple[Task, ...]
    forbidden: tuple[Rule, ...] = ()  # its own, and those of the whole course (grader/policy)
    flavours: tuple[str, ...] = ("torch",)  # the processes that its cases run in, begun ahead; others start when asked for
    host_only: str = ""  # why nothing of it runs on a device; "": it does
    records_hints: bool = False  # the run folder keeps a line for each hint that was told
    permitted: tuple[Rule, ...] = ()  # what is excepted from the rule of that id, and why
    isolation: str = "D"  # the weakest level at which its points are marks and not only a help
    races: tuple[Race, ...] = ()  # speed marks, apart from the points

    @property
    def points(self) -> int:
        return sum(task.points for task in self.tasks)

    def laws(self) -> tuple[Law, ...]:
        """Every law, in the order of the tasks."""
        return tuple(law for task in self.tasks for law in task.laws)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of a submission that uses what a rule forbids."""

    rule: str
    file: str
    line: int
    name: str  # dotted, such as torch.distributed.all_reduce
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Submission:
    """An intake's result: a private copy of the files that are graded."""

    folder: str  # where the copies lie
    origin: str  # what the user named
    files: dict[str, str]  # assignment file -> SHA-256 of its normalised text; a missing file is absent
    notes: tuple[str, ...] = ()  # what was left out and why, for the student
    hits: tuple[Hit, ...] = ()  # what it uses and may not: with any, nothing of it is run

    @property
    def hash(self) -> str:
        return digest(canonical(self.files))


# --- a verdict and a report ------------------------------------------------------------------------------------------
NOT_STARTED = "This task has not been started: its stub still stands in the file."  # the diagnosis by which reports fold such failures
SETTLED = "Not run: this law has already failed."  # seen of a case that could change nothing any more
NOT_SELECTED = "Not selected."  # seen of a case that -k or a choice of laws left out


USUAL_SUBMISSION = "starter"  # what make grades if nobody says otherwise


def make_grade(assignment: str, origin: str) -> str:
    """The command that grades `assignment` of the submission that the user called `origin`."""
    elsewhere = "" if origin == USUAL_SUBMISSION else f" SUBMISSION={shlex.quote(origin)}"
    return f"make grade A={assignment}{elsewhere}"


@dataclass(frozen=True, slots=True)
class Map:
    """Where a tensor differs, in a few cells."""

    words: str  # what rows and columns are
    rows: tuple[str, ...]  # a sign for each cell: "." nothing differs, "#" everything, "1" to "9" tenths of it; " " no element is there

    def __str__(self) -> str:
        return "\n".join([*self.rows, f"({self.words})"])


@dataclass(frozen=True, slots=True)
class Message:
    """What a student reads about one failed case; empty parts are not printed."""

    seen: str
    allowed: str = ""
    where: str = ""
    diagnosis: str = ""
    suggestion: str = ""
    rerun: str = ""
    debug: str = ""
    output: str = ""  # the ranks' own output, public cases only
    map: Map | None = None  # public cases only
    kind: str = ""  # that of the fault which ended the run; "lost_peer", "not_waited": nearer to the cause than any fault is


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One test with one set of parameters."""

    law: str
    id: str  # test name and parameters; of a hidden case: only its kind
    kind: str  # the kind of case in words: "world size 3, a size that 3 does not divide"
    hidden: bool
    outcome: CaseOutcome
    message: Message | None = None
    staff: str = ""  # the whole failure with inputs' hashes, seed and expected values; never in a student's report
    keys: tuple[str, ...] = ()  # the observations it looked at
    profile: ProfileName = "cpu"  # where it was judged
    wall_s: float = field(default=0.0, compare=False)  # until its verdict was there; next to nothing if its observations were stored


@dataclass(frozen=True, slots=True)
class LawMark:
    id: str
    claim: str
    verdict: LawVerdict
    evidence: Evidence
    earned: int
    possible: int
    message: Message | None
    cases: tuple[CaseVerdict, ...]
    judged_on: tuple[ProfileName, ...] = ()  # profiles of the cases that were judged


@dataclass(frozen=True, slots=True)
class TaskMark:
    id: str
    title: str
    earned: int
    possible: int
    laws: tuple[LawMark, ...]


@dataclass(frozen=True, slots=True)
class AssignmentMark:
    name: str
    title: str
    earned: int
    possible: int
    tasks: tuple[TaskMark, ...]

    def laws(self) -> tuple[LawMark, ...]:
        """Every law, in the order of the tasks."""
        return tuple(law for task in self.tasks for law in task.laws)


@dataclass(frozen=True, slots=True)
class Spent:
    """Where a grading's time went."""

    num_runs: int = 0  # observations that were made and not found in the store
    num_ranks: int = 0  # processes that these took
    ranks_cpu_s: float = 0.0  # what all of them computed, side by side or not
    importing_s: float = 0.0  # ranks were wanted, and torch was not imported yet
    judge_cpu_s: float = 0.0  # what the judge himself computed
    laws_s: dict[str, float] = field(default_factory=dict)  # wall time of a law's public cases, its runs included unless they were ahead

    def since(self, before: Spent) -> Spent:
        """What running cost beyond `before`."""
        return Spent(self.num_runs - before.num_runs, self.num_ranks - before.num_ranks, self.ranks_cpu_s - before.ranks_cpu_s,
                     self.importing_s - before.importing_s)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """The one record that every output is rendered from."""

    schema: str
    submission: str  # hash
    origin: str
    earned: int
    possible: int
    provisional: bool  # no hidden cases were run, or some law was not judged
    assignments: tuple[AssignmentMark, ...]
    notes: tuple[str, ...]
    environment: dict[str, str]
    isolation: str
    wall_s: float
    interrupted: bool = False  # Ctrl-C: what was judged is here, the rest is "not run"
    waits_for: tuple[ProfileName, ...] = ()  # profiles that were asked for and are still to be judged
    formative: str = ""  # why these points are a help and no marks: the walls were weaker than the course asks for
    spent: Spent | None = None

    def laws(self) -> tuple[LawMark, ...]:
        """Every law, in the course's order."""
        return tuple(law for assignment in self.assignments for law in assignment.laws())
