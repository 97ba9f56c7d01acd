"""How a figure is compared: with the accounts, and with the bytes that a real step held; the item that explains a difference is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, describe
from grader.records import GiB, Message
from tests.laws.memory_accounting.ledger import Ledger
from tests.laws.memory_accounting.models import Array

EXACT = 0.0
STATES_PER_CENT, ACTIVATIONS_PER_CENT = 2.0, 5.0
REAL_STEP = "counted in a real step on this machine"
GB_FOR_GIB = {"GiB / GB": GiB / 1e9}


def assert_figures(
    counted: Array,
    expected: Sequence[float],
    *,
    what: Sequence[str],
    per_cent: float = EXACT,
    ledgers: Sequence[Ledger] = (),
    factors: dict[str, float] | None = None,
    source: str = "",
    suggestion: str = "",
) -> None:
    """Every figure is within `per_cent` of what is expected of it; the first that isn't is told, with what explains all that aren't.

    what     names each figure, with its arguments
    ledgers  what each expected figure is the sum of: an item that is lacking or counted twice is recognised
    source   where what is expected comes from
    """
    right = np.asarray(expected, np.float64)
    allowed = per_cent / 100 * np.abs(right) + 1e-12 * np.abs(right)  # a formula in fp64: a few roundings, in any order
    difference = describe(counted, right, allowed, Hints(parts=_parts(ledgers), factors=GB_FOR_GIB | (factors or {})))
    if difference is None:
        return
    wrong = ~(np.abs(counted - right) <= allowed)
    first = int(np.flatnonzero(wrong)[0])
    off = f", {100 * (counted[first] / right[first] - 1):+.3g} %" if right[first] else ""
    raise LawBroken(
        Message(
            seen=f"{what[first]} gives {counted[first]:.15g}{off}; {int(wrong.sum())} of {wrong.size} figures are off.",
            allowed=f"Expected: {right[first]:.15g}{f' within {per_cent:g} %' if per_cent else ''}{f', {source}' if source else ''}.",
            diagnosis=difference.diagnosis or _nearest_item(counted - right, ledgers, wrong, per_cent),
            suggestion=suggestion or difference.suggestion,
        )
    )


def _parts(ledgers: Sequence[Ledger]) -> dict[str, Array]:
    """Item by item over all figures, and pairs of items that often go together."""
    names = list(dict.fromkeys(name for ledger in ledgers for name in ledger))
    return {name: np.asarray([ledger.get(name, 0.0) for ledger in ledgers], np.float64) for name in names}


def _nearest_item(error: Array, ledgers: Sequence[Ledger], wrong: Array, per_cent: float) -> str:
    """Where no single item explains all figures: the items that differ in size from nothing by as much as the worst figure is off."""
    if not ledgers:
        return ""
    worst = int(np.argmax(np.where(wrong, np.abs(error), -1.0)))
    items = sorted(ledgers[worst].items(), key=lambda item: abs(abs(error[worst]) - item[1]))
    name, size = items[0]
    tolerance = max(per_cent, 1.0) / 100 * sum(ledgers[worst].values())
    if abs(abs(error[worst]) - size) > tolerance:
        return f"That is {error[worst]:+.6g}, which no single item explains."
    return f"That is {error[worst]:+.6g}; about as much as {name} ({size:.6g})."


def assert_between(got: float, least: float, most: float, *, what: str, suggestion: str) -> None:
    """A figure lies where two others say."""
    if least <= got <= most:
        return
    allowed = f"{least:g}" if least == most else f"{least:g} to {most:g}"
    diagnosis = f"That is {'more' if got > most else 'less'} than is right."
    raise LawBroken(Message(seen=f"{what} gives {got:g}.", allowed=f"Expected: {allowed}.", diagnosis=diagnosis, suggestion=suggestion))


def assert_refused(observe: Any, function: str, arguments: list[list[Any]], *, names: str, **case: Any) -> None:
    """Each list of arguments raises ValueError."""
    from tests.laws.memory_accounting.models import PLAIN, Sizes, drawn

    seen = observe("refusals", transport="none", inputs=drawn([Sizes()]), function=function, arguments=arguments, options=[PLAIN], **case)
    for given, outcome in zip(arguments, seen.facts(0)["outcomes"], strict=True):
        if outcome == "ValueError":
            continue
        told = "returns as if nothing were wrong" if outcome == "nothing" else f"raises {outcome}"
        raise LawBroken(
            Message(
                seen=f"{function} with {', '.join(map(repr, given))} {told}.",
                allowed=f"Expected: ValueError, with the {names} that exist.",
                diagnosis="An unknown name is not refused with ValueError.",
                suggestion="Whoever mistypes a name should hear it at once, and not read a number.",
            )
        )
