"""A progress bar while cases are judged; silent where nobody is watching."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grader.records import CaseVerdict
from grader.report.page import Page


class LiveProgress:
    """Shows how many cases are judged, how many failed, and which law is in hand. A context manager; gone without a trace at its end."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._bar = Progress(
            TextColumn("{task.fields[law]}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}", markup=False, style="red"),
            TimeElapsedColumn(),
            console=page.console,
            transient=True,
            redirect_stdout=False,  # pytest has them already
            redirect_stderr=False,
            disable=not page.console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, law="starting", failed="")
        self._num_failed = 0

    def __enter__(self) -> LiveProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def started(self, num_cases: int) -> None:
        """Collection is over and `num_cases` are going to be judged; once for each pass of the judge."""
        self._num_failed = 0
        self._bar.update(self._task, total=num_cases, completed=0, failed="")

    def judging(self, law: str) -> None:
        """A case of `law` begins; narrow pages see the end of its name."""
        room = max(12, self._page.width // 2)
        self._bar.update(self._task, law=law if len(law) <= room else law.rpartition(".")[2][:room])

    def judged(self, verdict: CaseVerdict) -> None:
        """A case has its verdict."""
        self._num_failed += verdict.outcome not in ("passed", "not_judged")
        self._bar.update(self._task, advance=1, failed=f"{self._num_failed} failed" if self._num_failed else "")
