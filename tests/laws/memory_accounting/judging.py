"""How a figure is compared: with the accounts, and with the bytes that a real step held; the item that explains a difference is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.numerics import Hints, describe
from grader.records import GiB, Message
from tests.laws.memory_accounting.ledger import Ledger
from tests.laws.memory_accounting.models import PLAIN, Array, Sizes, drawn

EXACT = 0.0
STATES_PER_CENT, ACTIVATIONS_PER_CENT = 2.0, 5.0
REAL_STEP = "counted in a real step on this machine"
GB_FOR_GIB = {"GiB / GB": GiB / 1e9}
ROUNDINGS = 1e-12  # a formula in fp64: a few roundings, in any order
TO_THE_BYTE = 1e-9
MAX_EXPLANATIONS = 4  # items of equal size can't be told apart
NEGLECTED = ("the norms' means and deviations", "cosines and sines")


def assert_figures(
    counted: Array,
    expected: Sequence[float],
    *,
    what: Sequence[str],
    per_cent: float = EXACT,
    ledgers: Sequence[Ledger] = (),
    mistakes: Sequence[Ledger] = (),
    factors: dict[str, float] | None = None,
    kinds: Sequence[dict[str, Any]] = (),
    source: str = "",
    note: str = "",
    suggestion: str = "",
) -> None:
    """Every figure is within `per_cent` of what is expected of it; the first that isn't is told, with what explains all that aren't.

    what      names each figure, with its arguments
    ledgers   what each expected figure is the sum of: an item that is lacking or counted twice is recognised
    mistakes  by how much each figure is off under misreadings that have a name (mistakes.py)
    kinds     each figure's arguments that may tell wrong ones from right ones
    source    where what is expected comes from
    note      what the caller knows of the difference
    """
    right = np.asarray(expected, np.float64)
    allowed = per_cent / 100 * np.abs(right) + ROUNDINGS * np.abs(right)
    # Where much is allowed, describe would find items and factors that only nearly explain a difference.
    hints = Hints() if ledgers and per_cent else Hints(parts=_columns(ledgers), factors=({} if per_cent else GB_FOR_GIB) | (factors or {}))
    difference = describe(counted, right, allowed, hints)
    if difference is None:
        return
    wrong = ~(np.abs(counted - right) <= allowed)
    first = int(np.flatnonzero(wrong)[0])
    off = f", {100 * (counted[first] / right[first] - 1):+.3g} %" if right[first] else ""
    explained = _overflow(counted) or _explanation(counted, wrong, ledgers, mistakes)
    loosely = "" if ledgers and per_cent else difference.diagnosis
    diagnosis = explained or loosely or _nearest_item(counted - right, ledgers, wrong, per_cent)
    raise LawBroken(
        Message(
            seen=f"{what[first]} gives {counted[first]:.15g}{off}; {int(wrong.sum())} of {wrong.size} figures are off.",
            allowed=f"Expected: {right[first]:.15g}{f' within {per_cent:g} %' if per_cent else ''}{f', {source}' if source else ''}.",
            diagnosis=" ".join(part for part in (diagnosis, _common(kinds, wrong), note) if part),
            suggestion=suggestion or difference.suggestion,
        )
    )


# --- what explains a difference --------------------------------------------------------------------------------------
def _columns(ledgers: Sequence[Ledger]) -> dict[str, Array]:
    """Each item over all figures."""
    names = list(dict.fromkeys(name for ledger in ledgers for name in ledger))
    return {name: np.asarray([ledger.get(name, 0.0) for ledger in ledgers], np.float64) for name in names}


def _overflow(counted: Array) -> str:
    return "A figure is negative. Is something multiplied in 32 bits, which end at 2 147 483 647?" if np.any(counted < 0) else ""


def _explanation(counted: Array, wrong: Array, ledgers: Sequence[Ledger], mistakes: Sequence[Ledger]) -> str:
    """The misreadings and items that explain all figures to the byte, or else all wrong ones; several where they come to the same."""
    if not ledgers:
        return ""
    items = _columns(ledgers)
    total = np.sum(list(items.values()), axis=0)
    # Who neglects what the handout neglects is as exact as who doesn't.
    bases = (total, total - np.sum([np.zeros_like(total), *(items[name] for name in NEGLECTED if name in items)], axis=0))
    off = _columns(mistakes) | {f"lacks {name}": -size for name, size in items.items()}
    off |= {f"counts {name} twice": size for name, size in items.items()}
    for asked in (np.ones_like(wrong), wrong):
        for base in bases:
            for name, ratio in (("GiB / GB", GiB / 1e9), ("GB / GiB", 1e9 / GiB)):
                if np.allclose(counted[asked], base[asked] * ratio, rtol=TO_THE_BYTE, atol=0):
                    return f"Every wrong value is the expected one times {ratio:.4g} = {name}."
            found = [name for name, size in off.items() if np.allclose(counted[asked], (base + size)[asked], rtol=TO_THE_BYTE, atol=0)]
            if found:
                return f"Every wrong value {', or '.join(found[:MAX_EXPLANATIONS])}."
    return ""


def _common(kinds: Sequence[dict[str, Any]], wrong: Array) -> str:
    """What all wrong figures have in common, and not all figures."""
    shared = set.intersection(*(set(kind.items()) for kind, is_off in zip(kinds, wrong, strict=True) if is_off)) if kinds else set()
    telling = sorted(pair for pair in shared if not all(pair in kind.items() for kind in kinds))
    return f"All that are wrong have {' and '.join(f'{name}={value!r}' for name, value in telling)}." if telling else ""


def _nearest_item(error: Array, ledgers: Sequence[Ledger], wrong: Array, per_cent: float) -> str:
    """Where nothing explains all figures: the item whose size is about as much as the worst figure is off."""
    if not ledgers:
        return ""
    worst = int(np.argmax(np.where(wrong, np.abs(error), -1.0)))
    items = sorted(ledgers[worst].items(), key=lambda item: abs(abs(error[worst]) - item[1]))
    name, size = items[0]
    tolerance = max(per_cent, 1.0) / 100 * sum(ledgers[worst].values())
    if abs(abs(error[worst]) - size) > min(tolerance, size / 10):
        return f"The worst is off by {error[worst]:+.6g}, which no single item explains."
    return f"The worst is off by {error[worst]:+.6g}; {name} take about as much ({size:.6g})."


# --- other judgements ------------------------------------------------------------------------------------------------
def assert_nothing_built(seen: Any, function: str) -> None:
    """The figures were computed without a module: an answer before anything is allocated (section 1, rule 2)."""
    built = seen.facts(0)["built"]
    if built:
        raise LawBroken(
            Message(
                seen=f"{function} builds a {built[0]}.",
                allowed="Expected: it counts, from the config alone, and builds nothing.",
                diagnosis=f"A {built[0]} was built while the figure was asked for.",
                suggestion="A formula in the config's fields answers for a trillion parameters too. saved_bytes is for you, to look with.",
            )
        )


def assert_between(got: float, least: float, most: float, *, what: str, suggestion: str) -> None:
    """A figure lies where two others say."""
    if least <= got <= most:
        return
    allowed = f"{least:g}" if least == most else f"{least:g} to {most:g}"
    diagnosis = f"That is {'more' if got > most else 'less'} than is right."
    raise LawBroken(Message(seen=f"{what} gives {got:g}.", allowed=f"Expected: {allowed}.", diagnosis=diagnosis, suggestion=suggestion))


def assert_refused(observe: Any, function: str, refused: list[tuple[list[Any], Sequence[str]]], *, names: str, **case: Any) -> None:
    """Each list of arguments raises ValueError, and the message has the names that exist, which stand beside it."""
    arguments = [given for given, _ in refused]
    seen = observe("refusals", transport="none", inputs=drawn([Sizes()]), function=function, arguments=arguments, options=[PLAIN], **case)
    for (given, existing), (outcome, message) in zip(refused, seen.facts(0)["outcomes"], strict=True):
        missing = [name for name in existing if name not in message]
        if outcome == "ValueError" and not missing:
            continue
        told = "returns as if nothing were wrong" if outcome == "nothing" else f"raises {outcome}"
        told += f" without naming {', '.join(missing)}" if outcome == "ValueError" else ""
        raise LawBroken(
            Message(
                seen=f"{function} with {', '.join(map(repr, given))} {told}.",
                allowed=f"Expected: ValueError, with the {names} that exist.",
                diagnosis="An unknown name is not refused with ValueError."
                if outcome != "ValueError"
                else "The message does not say what exists.",
                suggestion="Whoever mistypes a name should hear it at once, and not read a number.",
            )
        )
