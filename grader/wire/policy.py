"""What a judge may decide about operations while they happen: watch them, hold them back, hand out secrets at gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.wire.calls import Call

if TYPE_CHECKING:
    from grader.wire.arithmetic import Array
    from grader.wire.matching import Operation


class Policy:
    """The plain wire: nothing is held. Subclass it to enforce an order, e.g. that a gradient left before backward went on.

    Every hook is asked again whenever a rank has said something, so an answer may change from "not yet" to "now".
    """

    def on_issue(self, call: Call) -> None:
        """A call has arrived whole; `call.body` holds its bytes now and not later."""

    def may_complete(self, operation: Operation) -> bool:
        """Whether a complete operation may be answered yet."""
        return True

    def gate(self, call: Call) -> Array | None:
        """What a rank gets at a gate (`call.word.name`, one tensor `call.outs[0]`), or None: not yet."""
        return None

    def why_held(self, call: Call) -> str:
        """Completes "rank 0 waits in ..., which ": why the judge has not answered this call."""
        return "the judge answers only after other ranks have done more"
