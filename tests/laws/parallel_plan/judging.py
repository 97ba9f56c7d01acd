"""How a table of figures is compared: what is wrong, what all wrong cases have in common, and which misreading explains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from grader.errors import LawBroken
from grader.records import Message
from tests.laws.parallel_plan.cases import Array, Case, in_words, traits
from tests.laws.sentences import broken

RELATIVE = 1e-9  # formulas in fp64, added in any order
CANCELLED = 1e-13  # seconds: the last bits of up to a hundred that cancel, where the exact difference is none
Rows = Callable[[str], Array]  # a misreading ("" for none) -> what the figures would be


def assert_table(
    got: Array,
    expected: Array,
    *,
    function: str,
    names: Sequence[str],
    cases: Sequence[Case],
    slips: Mapping[str, Callable[[], Array]],
    suggestion: str,
    also: Sequence[str] = (),
    traits_of: Callable[[Case], dict[str, bool]] = traits,
    words: Callable[[Case], str] = in_words,
) -> None:
    """Every figure (a row for each case, a column for each name) is right; the first that isn't is told.

    slips   a sentence that completes "Every wrong figure is as if ..." -> the figures under that misreading
    also    for each case, words that tell it from others beside its settings
    """
    allowed = RELATIVE * np.abs(expected) + CANCELLED
    wrong = ~(np.abs(got - expected) <= allowed)
    if not wrong.any():
        return
    place, column = (int(index) for index in np.argwhere(wrong)[0])
    named = function if names[column] in ("bytes", "seconds") else f"{function}'s {names[column]}"
    beside = f" ({also[place]})" if also else ""
    where = f"with {words(cases[place])}{beside}"
    rows = np.flatnonzero(wrong.any(axis=1))
    told = [_as_if(got, expected, wrong, slips), _ratio(got, expected, wrong), _in_common(cases, set(rows.tolist()), traits_of)]
    columns = ", ".join(names[index] for index in np.flatnonzero(wrong.any(axis=0)))
    figures = f" ({columns})" if len(names) > 1 else ""
    raise LawBroken(
        Message(
            seen=f"{named} is {got[place, column]:.10g} {where}; {len(rows)} of {len(cases)} cases are off{figures}.",
            allowed=f"Expected: {expected[place, column]:.10g}.",
            diagnosis=" ".join(part for part in told if part) or "No misreading that is known explains it.",
            suggestion=suggestion,
        )
    )


def _as_if(got: Array, expected: Array, wrong: Array, slips: Mapping[str, Callable[[], Array]]) -> str:
    """The misreadings that explain every figure; where none does, those that explain every wrong one."""
    tables = {sentence: table() for sentence, table in slips.items()}
    differ = {sentence: table for sentence, table in tables.items() if table.shape == got.shape and not np.array_equal(table, expected)}
    for asked in (np.ones_like(wrong), wrong):
        found = [name for name, table in differ.items() if np.allclose(got[asked], table[asked], rtol=RELATIVE, atol=1e-300)]
        if found:
            return f"Every wrong figure is as if {', or '.join(found[:3])}."
    return ""


def _ratio(got: Array, expected: Array, wrong: Array) -> str:
    """A factor that all wrong figures have in common."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = got[wrong] / expected[wrong]
    if np.all(np.isfinite(ratios)) and np.ptp(ratios) <= RELATIVE * abs(ratios[0]):
        return f"Every wrong figure is {ratios[0]:.6g} times the expected one."
    return ""


def _in_common(cases: Sequence[Case], wrong: set[int], traits_of: Callable[[Case], dict[str, bool]]) -> str:
    """What all wrong cases are and not all others."""
    table = [traits_of(case) for case in cases]
    shared = [name for name in table[0] if all(table[place][name] for place in wrong)]
    telling = [name for name in shared if not all(row[name] for row in table)]
    exact = [name for name in telling if not any(row[name] for place, row in enumerate(table) if place not in wrong)]
    if exact:
        return f"Wrong are exactly the cases with {' and '.join(exact[:2])}."
    return f"All wrong cases have {', '.join(telling[:4])}." if telling else ""


def assert_nothing_borrowed(seen: Any, function: str) -> None:
    """The answer is the submission's own (section 1, rule 6)."""
    names = seen.facts(0)["borrowed"]
    if names:
        raise broken(
            f"{function} imports {names[0]}.",
            "Expected: torch, numpy, the standard library and lm.",
            "The answer comes from the judge's simulator.",
            "Plans are priced by the simulator; what is asked for is your own estimate.",
        )


def refused(seen: Any, function: str, told: Sequence[str], why: str) -> None:
    """Each call raised ValueError; `told` describes them."""
    for words, outcome in zip(told, seen.facts(0)["outcomes"], strict=True):
        if outcome != "ValueError":
            happened = "returns as if nothing were wrong" if outcome == "nothing" else f"raises {outcome}"
            raise broken(f"{function} with {words} {happened}.", "Expected: ValueError.", f"{words} is not refused with ValueError.", why)
