"""Files whose import never ends. Each of a hundred runs would use up its whole limit to show it again: minutes for a student, and half an
hour of a class's machine for one who has handed in `while True: pass`. So a few are run, and the others are answered by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from grader.records import Fault, Outcome, RankOutcome

NUM_RUNS = 3  # what has only been slow is hardly slow three times
CLOCKS = frozenset({"cpu_limit", "silent"})  # faults of a rank that computes or waits for ever
NO_WORD, AT_IMPORT = "its start)", " in <module>"  # in such a fault's sentence, grader.wire.faults: no word since; what the rank is at


@dataclass(slots=True)
class Endless:
    """What is known of the submissions of one grading, by their hash. Whoever shares it among threads holds a lock."""

    _faults: dict[str, list[Fault]] = field(default_factory=dict)

    def note(self, submission: str, outcome: Outcome) -> None:
        """Remember a run in which a rank never came to the end of importing the submission."""
        fault = outcome.fault
        if fault is not None and fault.kind in CLOCKS and NO_WORD in fault.sentence and fault.sentence.endswith(AT_IMPORT):
            self._faults.setdefault(submission, []).append(fault)

    def answer(self, submission: str, world_size: int) -> Outcome | None:
        """What any run of the submission would show; None if that isn't known, and it has to be run."""
        faults = self._faults.get(submission, [])
        if len(faults) < NUM_RUNS:
            return None
        sentence = f"{faults[-1].sentence}; so it was in {len(faults)} runs, and no other was begun"
        ranks = tuple(RankOutcome(rank, False, None) for rank in range(world_size))
        return Outcome(ranks, (), replace(faults[-1], rank=-1, sentence=sentence))
