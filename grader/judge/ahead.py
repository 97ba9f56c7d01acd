"""Look ahead: while one case is judged, what later cases ask for is observed already, from the last case backwards.

Nothing is judged here. A case is run as far as the first look into an observation, by which time its requests lie in the store; there
the judge finds them when he comes to that case. So a second core has work, and no verdict can depend on it: a test can't tell a stored
observation from a fresh one, and whatever goes wrong here goes wrong again, and is told, where the case is judged.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import pytest

from grader.judge.cases import Case
from grader.judge.ports import Observe, Observer


class _Enough(BaseException):
    """The case wants to look into an observation: from here on it would be judging."""


class _Unopened:
    """An observation that was made and that nobody may look into."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _Enough


class _Ahead:
    """`observe` for a case that is only looked ahead at."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    def __call__(self, probe: str, *nothing: Any, **request: Any) -> _Unopened:
        self._observe(probe, *nothing, **request)
        return _Unopened()


class Scout:
    """Runs cases from the last one backwards, until it meets the judge."""

    def __init__(self, items: Sequence[pytest.Item], cases: dict[str, Case], observer: Observer, settled_laws: Collection[str]) -> None:
        self._ahead = [item for item in items if isinstance(item, pytest.Function)][1:]  # the judge is at the first one already
        self._turn = threading.Lock()  # the judge's thread takes cases from the front, this one from the back
        self._cases, self._observer, self._settled_laws = cases, observer, settled_laws
        self._thread = threading.Thread(target=self._look, name="scout", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def reached(self, item: pytest.Item) -> None:
        """The judge is at `item` now: nothing up to there is looked at any more."""
        with self._turn:
            if item in self._ahead:
                del self._ahead[: self._ahead.index(item) + 1]

    def stop(self, *, waits: bool = True) -> None:
        """Look at no further case. `waits`: return when the one under way has ended; else it ends with the processes that it observes."""
        with self._turn:
            self._ahead.clear()
        if waits and self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        while (item := self._next()) is not None:
            self._look_at(item)

    def _next(self) -> pytest.Function | None:
        with self._turn:
            return self._ahead.pop() if self._ahead else None

    def _look_at(self, item: pytest.Function) -> None:
        case = self._cases[item.nodeid]
        parameters = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        wanted = set(item.fixturenames) - {"request"}
        if case.law.id in self._settled_laws or not wanted <= {"observe", *parameters}:
            return
        if "observe" in wanted:
            parameters["observe"] = _Ahead(self._observer.for_case(case.assignment, case.hidden, case.name))
        with contextlib.suppress(BaseException):  # the judge will meet it too, and has a word for it
            item.obj(**parameters)
