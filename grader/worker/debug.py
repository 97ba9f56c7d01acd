"""One rank of a stored observation in the foreground: your terminal, your debugger, no limits, nothing judged.

python -m grader.worker.debug FD FLAVOUR
"""

from __future__ import annotations

import bdb
import faulthandler
import os
import socket
import sys
import traceback
from pathlib import Path
from types import TracebackType

from grader.worker import rank
from grader.worker.line import LINE_IS_CLOSED
from grader.worker.zygote import preload

OURS = os.path.join(str(Path(__file__).parents[1]), "")
RUN_IS_OVER = "The run is over: another rank has ended it, as the lines that begin with --- say. What you waited for can't come any more."


def main(fd: int, flavour: str) -> int:
    """Become the rank at this end of a line; exceptions pass through, so that `python -m pdb` and IDEs see them."""
    preload(flavour)
    rank.prepare()
    faulthandler.enable()
    sys.excepthook = tell
    return rank.take_part(socket.socket(fileno=fd), guarded=False)


def tell(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
    """An exception as Python prints it, without the grader's own frames; a sentence where the debugger was left or the run has ended."""
    if isinstance(raised, bdb.BdbQuit):
        print("You have left the debugger, and the run with it.", file=sys.stderr)
    elif _has_lost_its_line(raised):
        while raised.__context__ is not None and _has_lost_its_line(raised.__context__):
            raised = raised.__context__  # the first of them: on their way out, phases report through the same line
        yours = [frame for frame in _without_ours(traceback.extract_tb(raised.__traceback__)) if "site-packages" not in frame.filename]
        places = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in yours]
        print(f"{RUN_IS_OVER} You were at {places[-1] if places else 'the end of your probe'}.", file=sys.stderr)
    else:
        told = traceback.TracebackException(kind, raised, trace)
        for each in _chain(told):
            each.stack = _without_ours(each.stack)
        print("".join(told.format()), end="", file=sys.stderr)


def _has_lost_its_line(raised: BaseException) -> bool:
    return isinstance(raised, BrokenPipeError) or LINE_IS_CLOSED in str(raised)


def _without_ours(stack: traceback.StackSummary) -> traceback.StackSummary:
    is_ours = [frame.filename.startswith((OURS, "<frozen")) for frame in stack]
    return traceback.StackSummary.from_list([frame for frame, ours in zip(stack, is_ours, strict=True) if not ours])


def _chain(told: traceback.TracebackException) -> list[traceback.TracebackException]:
    """The exception with all that it came from."""
    causes = [cause for cause in (told.__cause__, told.__context__) if cause is not None]
    return [told, *(each for cause in causes for each in _chain(cause))]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
