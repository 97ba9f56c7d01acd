"""`observe`, the port between tests and runs. A test can't tell whether its observation ran just now or was stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from grader.devices import facts
from grader.errors import CourseError, SubmissionError
from grader.observe.backlog import Backlog
from grader.observe.live import Runs
from grader.observe.observation import Observation
from grader.observe.profile import GpuProfile
from grader.observe.seeds import generator, secret_of, seed_of
from grader.observe.tensors import Inputs, Returns, pack_inputs, pack_returns
from grader.records import (
    NOT_STARTED,
    Assignment,
    Fault,
    Gates,
    Json,
    Limits,
    Message,
    Network,
    Request,
    Submission,
    Transport,
    canonical,
    digest,
)

MakeInputs = Callable[[np.random.Generator], Inputs]


@dataclass(slots=True)
class Observer:
    """Observations of one student's work: a submission per assignment, by its name."""

    runs: Runs
    assignments: Mapping[str, Assignment]
    submissions: Mapping[str, Submission]
    gpu: GpuProfile | None = None  # set: what is asked for is observed on GPUs,
    backlog: Backlog | None = None  # and run by this
    untouched: frozenset[str] = frozenset()  # assignments whose files are the starter's: nothing of them is run

    def key(self, submission: Submission, request: Request) -> str:
        """What decides an outcome; on GPUs these do too."""
        key = self.runs.key(submission, request)
        return digest(key, canonical(facts(self.gpu.gpus))) if self.gpu is not None else key

    def for_case(self, assignment: str, hidden: bool, case_id: str) -> Case:
        """The `observe` of one test with one set of parameters."""
        return Case(self, self.assignments[assignment], self.submissions[assignment], hidden, case_id)


class Case:
    """One test's window on the submission. Remembers which observations it looked at, how the latest ended, and the kind of case."""

    def __init__(self, observer: Observer, assignment: Assignment, submission: Submission, hidden: bool, case_id: str) -> None:
        self._observer, self._assignment, self._submission, self._hidden, self._id = observer, assignment, submission, hidden, case_id
        self.keys: list[str] = []
        self.kind = ""
        self.rests_on_facts = False  # the test has read what a process that ran the submission says of it
        self.fault: Fault | None = None

    def __call__(
        self,
        probe: str,
        *,
        world_size: int = 1,
        inputs: Inputs | MakeInputs | None = None,
        returns: Returns | None = None,
        transport: Transport = "wire",
        rendezvous: bool = True,
        late: bool = False,
        limits: Limits | None = None,
        flavour: str = "torch",
        gates: Gates | None = None,
        kind: str = "",
        host: str = "",
        shares_folder: bool = False,
        **parameters: Json,
    ) -> Observation:
        """Run `probe` beside the submission on `world_size` ranks, or read what such a run showed.

        inputs      name -> one array (every rank gets it) or a list of one per rank; or a function of a generator
        returns     name -> (dtype, shape), or a list of one per rank: what each rank must give back
        rendezvous  a send ends when its receive has come; False: sends are buffered
        late        results land when they are waited for
        gates       where the judge makes backward and the network wait for each other; its seed is drawn here
        kind        what a student may know of a hidden case
        host        why this says nothing on a GPU; the case then keeps its CPU verdict there
        shares_folder   the ranks may all write to ../shared, beside their own folders; else they share nothing but what they send
        parameters  handed to the probe as keywords
        """
        self.kind = kind or self.kind or f"{world_size} rank{'s' * (world_size != 1)}"
        self._require_files()
        require_allowed(self._assignment, self._submission)
        self._require_work()
        if gates is not None and transport != "wire":
            raise CourseError("gates need transport='wire': elsewhere the judge does not see what was sent")
        case = Request(
            assignment=self._assignment.name, probe=probe, parameters=_plain(parameters), world_size=world_size, inputs={}, returns={},
            network=Network(transport, rendezvous, late), limits=limits or Limits(), flavour=flavour, shares_folder=shares_folder,
        )  # fmt: skip
        request = replace(self._drawn(case, inputs or {}, gates), returns=pack_returns(returns or {}, world_size))
        gpu = self._observer.gpu
        return self._observed(request if gpu is None else gpu.on_gpu(self._assignment, request, host=host))

    def _drawn(self, case: Request, inputs: Inputs | MakeInputs, gates: Gates | None) -> Request:
        """The case with all that is drawn for it, each from a seed of its own."""
        secret, submission = secret_of(self._hidden), self._submission.hash
        given = inputs(generator(secret, submission, case.case())) if callable(inputs) else inputs
        if gates is not None:
            gates = replace(gates, seed=seed_of(secret, submission, case.case(), "gates"))
        seed = seed_of(secret, submission, case.case(), "probe")
        return replace(case, inputs=pack_inputs(given, case.world_size), seed=seed, gates=gates)

    def _observed(self, request: Request) -> Observation:
        """What a run of it shows, now or at another time."""
        observer, key = self._observer, self._observer.key(self._submission, request)
        self.keys.append(key)
        if observer.backlog is not None:
            outcome = observer.backlog.outcome(self._assignment, self._submission, request, key, self._test)
        else:
            outcome = observer.runs.outcome(self._assignment, self._submission, request, key)
        self.fault = outcome.fault
        return Observation(request, outcome, key=key, how_to=self.how_to, told_facts=self._note_facts)

    def _note_facts(self) -> None:
        self.rests_on_facts = True

    @property
    def _test(self) -> str:
        """The test that this is one case of."""
        return f"{self._assignment.name}, {'hidden' if self._hidden else 'public'}: {self._id.partition('[')[0]}"

    def how_to(self) -> Message:
        """How to run just this case, and how to step through it."""
        if self._hidden:
            return Message(seen="")
        name = self._id.split("::")[-1].split("[")[0]
        parameters = self._id[self._id.index("[") + 1 : -1] if "[" in self._id else ""
        only = f"{name} and {parameters}" if parameters.replace("-", "").replace("_", "").isalnum() else name
        return Message(
            seen="",
            rerun=f"make grade A={self._assignment.name} K='{only}'",
            debug=self._observer.runs.debug_command(self.keys[-1]) if self.keys else "",
        )

    def _require_files(self) -> None:
        missing = [name for name in self._assignment.files if name not in self._submission.files]
        if not missing:
            return
        # A file that was seen and could not be taken is told by what is wrong with it; only the others are looked for under another name.
        reasons = [note for note in self._submission.notes if note.startswith(tuple(missing)) and " is not in " not in note]
        seen = " ".join(reasons) or f"{', '.join(missing)} is not in {self._submission.origin}"
        suggestion = "" if reasons else "Is the file in the folder that is graded, under exactly this name?"
        raise SubmissionError(Message(seen=seen, suggestion=suggestion))

    def _require_work(self) -> None:
        if self._assignment.name in self._observer.untouched:
            files = " and ".join(self._assignment.files)
            raise SubmissionError(Message(seen=f"{files} is as it was given: nothing of it was run.", diagnosis=NOT_STARTED))


def require_allowed(assignment: Assignment, submission: Submission) -> None:
    """Raises SubmissionError if the files use what they may not: then none of them is run."""
    if not submission.hits:
        return
    lines = dict.fromkeys(f"{hit.file}:{hit.line} {hit.name} ({hit.rule})" for hit in submission.hits)
    first, *others = lines
    more = f", and {len(others)} more" if others else ""
    seen = f"{first.rpartition(' (')[0].replace(' ', ' uses ', 1)}{more}: {assignment.name} forbids it, so nothing of it was run."
    names = dict.fromkeys(hit.name for hit in submission.hits)
    reasons = dict.fromkeys(f"rule {hit.rule}: {hit.reason}" for hit in submission.hits)
    message = Message(
        seen=seen,
        where="; ".join(lines),
        diagnosis=" ".join(reasons),
        suggestion=f"Write it without {' and '.join(list(names)[:3])}{' and the others' * (len(names) > 3)}, then grade again.",
    )
    raise SubmissionError(message, Fault("forbidden", -1, seen, tuple(lines)))


def _plain(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters as JSON, so that a stored request equals a fresh one; CourseError for anything else."""
    try:
        plain: dict[str, Json] = json.loads(canonical(dict(parameters)))
    except (TypeError, ValueError) as unfit:
        raise CourseError(f"a probe's parameters must be JSON: {unfit}") from unfit
    return plain
