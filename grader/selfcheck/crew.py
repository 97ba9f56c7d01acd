"""Who carries out the proof's gradings: this process one after the other, or several processes side by side."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from grader.selfcheck.findings import GradeOne

T = TypeVar("T")
OpenGrader = Callable[[Any], AbstractContextManager[GradeOne]]  # course -> the pipeline, for as long as it is needed

# In a process of `Several`: the pipeline that it has opened, and what closes it when the process ends.
_mine: list[GradeOne] = []
_opened = ExitStack()


class Crew(Protocol):
    """Carries tasks out. A task is handed the pipeline; it and what it returns can be pickled."""

    def each(self, tasks: Sequence[Callable[[GradeOne], T]]) -> Iterator[T]:
        """What the tasks return, in their order. What one raises is raised here, and the others are left."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """One task after the other, in this process."""

    grade_one: GradeOne

    def each(self, tasks: Sequence[Callable[[GradeOne], T]]) -> Iterator[T]:
        """Lazily: a task begins when the result of the one before has been taken."""
        return (task(self.grade_one) for task in tasks)


@dataclass(frozen=True, slots=True)
class Several:
    """`jobs` processes, each with a pipeline of its own (and so a torch of its own, imported once)."""

    open_grader: OpenGrader
    course: Any
    jobs: int

    def each(self, tasks: Sequence[Callable[[GradeOne], T]]) -> Iterator[T]:
        """All are begun as processes become free; results are given in the tasks' order."""
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.jobs, mp_context=spawn, initializer=_open, initargs=(self.open_grader, self.course))
        try:
            begun = [pool.submit(_carry_out, task) for task in tasks]
            for future in begun:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _open(open_grader: OpenGrader, course: Any) -> None:
    _mine.append(_opened.enter_context(open_grader(course)))
    multiprocessing.util.Finalize(None, _opened.close, exitpriority=1)  # a pool's process runs no atexit


def _carry_out(task: Callable[[GradeOne], T]) -> T:
    return task(_mine[0])
