"""Works carried out by a Slurm cluster: arrays of jobs through submitit. The machines share the folder of the batch, and no database.

A job grades a few works, each in a process that can be killed, and leaves three things of each in the folder: observations, the report,
a word on how it ended; every one of them by a rename. This process collects them, and is the only one that writes rows. Whether a job still
lives is squeue's to say, since not every cluster keeps accounts; where it died, its own first words, for a dead one is asked nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
from submitit.helpers import Checkpointable

from grader.batch.local import NUM_ATTEMPTS, LocalCrew, this_node
from grader.batch.work import LEFT, Ended, Job, Work, known
from grader.errors import UsageError
from grader.report.files import PRIVATE, write_bytes
from grader.store import STORE_NAME, Store

LOGS = "slurm"  # in the folder of a batch
MOST_PER_JOB = 8  # works: importing torch once for eight is a twentieth of their time, and a job that dies loses little
NODE = ".node"  # ending of what a job leaves as it begins
POLL_S = 1.0
MINUTES_TO_START = 10  # of a job's time limit


class Started(Protocol):
    """A job as submitit knows it."""

    job_id: str

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    def cancel(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class SlurmCrew:
    """Arrays of at most `num_jobs` jobs at a time.

    settings  what sbatch is told beside: {"partition": "gpu", "gres": "gpu:1", "mem": "8G"}
    cluster   "slurm", or "local": submitit's own processes in its place
    """

    job: Job
    num_jobs: int
    limit_s: float
    settings: dict[str, str] = field(default_factory=dict)
    cluster: str = "slurm"

    def carry_out(self, works: Iterable[Work]) -> Generator[Ended]:
        """How each work ended, as it becomes known. Closing the generator cancels the jobs."""
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise UsageError("There is no Slurm here: sbatch is not on the PATH. Use --executor local, or a machine that may submit jobs.")
        out, waiting = Path(self.job.out), {work.key: work for work in works}
        (out / LEFT).mkdir(exist_ok=True)
        started: list[Started] = []
        failed_on: dict[str, set[str]] = defaultdict(set)  # nodes, by the key of the work that failed there
        has_failed = False
        try:
            self._cancel(started)  # those of a process that was killed
            for place in (out / LEFT).glob(f"*{NODE}"):
                place.unlink()
            with closing(Store(out / STORE_NAME, forgets=False)) as store:
                for attempt in range(1, NUM_ATTEMPTS + 1):
                    failed: list[Ended] = []
                    started = self._begin(waiting.values(), failed_on)
                    for ended in self._collect(started, set(waiting), store):
                        ended = replace(ended, attempts=attempt)
                        has_failed |= ended.state == "machine"
                        if ended.state == "machine" and not ended.is_course and attempt < NUM_ATTEMPTS:
                            failed.append(ended)
                        else:
                            yield ended
                    for ended in failed:
                        failed_on[ended.key] |= {ended.host} - {""}
                    waiting = {ended.key: waiting[ended.key] for ended in failed}
            if not has_failed:
                shutil.rmtree(out / LOGS, ignore_errors=True)
        finally:
            self._cancel(started)

    def _begin(self, works: Iterable[Work], failed_on: Mapping[str, set[str]]) -> list[Started]:
        """An array for all works that failed on the same nodes before; for those that failed nowhere, too."""
        alike: dict[frozenset[str], list[Work]] = defaultdict(list)
        for work in works:
            alike[frozenset(failed_on.get(work.key, ()))].append(work)
        num_jobs = max(1, self.num_jobs // max(1, len(alike)))
        return [job for nodes, those in alike.items() for job in self._submit(those, nodes, num_jobs)]

    def _submit(self, works: Sequence[Work], failed_on: Collection[str], num_jobs: int) -> list[Started]:
        """An array of jobs; not on the nodes where these works failed before, if the cluster has others."""
        num_each = min(MOST_PER_JOB, -(-len(works) // num_jobs))
        job = replace(self.job, shares_store=False)
        chunks = [Chunk(job, tuple(works[first : first + num_each]), self.limit_s) for first in range(0, len(works), num_each)]
        minutes = MINUTES_TO_START + num_each * self.limit_s / 60
        nodes = ",".join(filter(None, [self.settings.get("exclude"), *sorted(failed_on)]))
        executor = self._executor(minutes, num_jobs, self.settings | ({"exclude": nodes} if nodes else {}))
        try:
            return list(executor.submit_array(chunks))
        except Exception as refused:  # submitit has no error of its own for what sbatch says
            if failed_on:
                return self._submit(works, (), num_jobs)
            raise UsageError(f"Slurm takes no such job: {str(refused).strip().splitlines()[-1]}") from refused

    def _executor(self, minutes: float, num_jobs: int, settings: dict[str, str]) -> Any:
        import submitit

        logs = Path(self.job.out) / LOGS
        if self.cluster == "local":
            executor: Any = submitit.LocalExecutor(logs)
            executor.update_parameters(timeout_min=minutes)
            return executor
        executor = submitit.SlurmExecutor(logs)
        told = {"cpus-per-task": "1", "requeue": True, **settings}
        executor.update_parameters(
            job_name=self._name(), time=int(minutes), array_parallelism=num_jobs, stderr_to_stdout=True, additional_parameters=told
        )
        return executor

    def _collect(self, started: list[Started], keys: set[str], store: Store) -> Generator[Ended]:
        """How each of `keys` ended, from the words that jobs leave, until all have spoken or no job is left that could."""
        folder = Path(self.job.out) / LEFT
        is_over = not started
        while True:
            for place in sorted(folder.glob("*.sqlite")):
                store.absorb(place)
                place.unlink()
            for place in sorted(folder.glob("*.json")):
                ended = msgspec.json.decode(place.read_bytes(), type=Ended)
                place.unlink()
                _begun_on(folder, ended.key)
                if ended.key in keys:
                    keys.discard(ended.key)
                    yield ended
            if not keys or is_over:
                break
            is_over = not self._any_alive(started)  # and then one more look: the last word may have come meanwhile
            time.sleep(POLL_S)
        for key in keys:
            node = _begun_on(folder, key)
            where = f" on {node}" if node else ""
            sentence = f"the job that was to grade it{where} has ended without a word; see {folder.with_name(LOGS)}"
            yield Ended(key, "machine", sentence, host=node)

    def _any_alive(self, started: list[Started]) -> bool:
        if self.cluster == "local":
            return not all(job.done() for job in started)
        asked = _run("squeue", "--noheader", "--me", f"--name={self._name()}", "--format=%i")
        if asked.returncode:
            return True  # the controller may be restarting; it answers again, or somebody ends this process
        return bool(asked.stdout.strip())

    def _cancel(self, started: list[Started]) -> None:
        for job in started if self.cluster == "local" else ():
            job.cancel()
        if self.cluster == "slurm":
            _run("scancel", "--me", f"--name={self._name()}")

    def _name(self) -> str:
        """The jobs of this batch, whoever began them."""
        return f"grader-{hashlib.sha256(self.job.out.encode()).hexdigest()[:12]}"


class Chunk(Checkpointable):
    """What one job does. Requeued, by Slurm or because its time is up, it goes on with what has no report yet."""

    def __init__(self, job: Job, works: tuple[Work, ...], limit_s: float) -> None:
        self.job, self.works, self.limit_s = job, works, limit_s

    def __call__(self) -> None:
        """Grade the works one after the other, and leave a word on each."""
        out = Path(self.job.out)
        crew = LocalCrew(self.job, 1, self.limit_s, num_attempts=1)  # another try is for another job, elsewhere if possible
        for work in self.works:  # should this job die, so that the next is sent elsewhere
            write_bytes(out / LEFT / f"{work.key}{NODE}", this_node().encode(), PRIVATE)
        todo = []
        for work in self.works:
            ended = known(out, work.key)
            if ended is None:
                todo.append(work)
            else:
                leave(out, ended)
        for ended in crew.carry_out(todo):
            leave(out, ended)


def leave(out: Path, ended: Ended) -> None:
    """A word on how a work ended, for the process that writes rows."""
    write_bytes(out / LEFT / f"{ended.key}.json", msgspec.json.encode(ended), PRIVATE)


def _begun_on(folder: Path, key: str) -> str:
    """The node on which the work's job began, which is then forgotten; "" if none has."""
    try:
        node = (place := folder / f"{key}{NODE}").read_text("utf-8")
        place.unlink()
    except FileNotFoundError:
        return ""
    return node


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
