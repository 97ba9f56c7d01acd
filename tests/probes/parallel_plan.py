"""What runs beside a submission to `parallel_plan`: it asks for groups, figures, plans and settings. Facts only, no expected values.

Models, clusters and plans come as dicts of the records' fields. Figures go back as one row of numbers for each case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch


# --- records ---------------------------------------------------------------------------------------------------------
def records(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The model, the cluster and the plan of a case; None for what it has not."""
    from lm.planning import Cluster, Model, Plan

    kinds = {"model": Model, "cluster": Cluster, "plan": Plan}
    return tuple(kind(**case[name]) if name in case else None for name, kind in kinds.items())  # type: ignore[return-value]


def number(value: Any, what: str) -> float:
    """`value`, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {type(value).__name__}; expected a number")
    return float(value)


def row(values: Any, what: str, size: int) -> list[float]:
    """A number, or several, as a row."""
    given = list(values) if isinstance(values, (tuple, list)) else [values]
    if len(given) != size:
        raise ValueError(f"{what} returned {len(given)} numbers; expected {size}")
    return [number(value, what) for value in given]


# --- mesh ------------------------------------------------------------------------------------------------------------
def mesh(at: Any, *, worlds: list[dict[str, int]], keys: list[str]) -> None:
    """build_mesh of each world: for each key its groups, as lists."""
    built = []
    for world in worlds:
        groups = at.submission.parallel_plan.build_mesh(**world).groups
        built.append({key: [[int(rank) for rank in group] for group in groups[key]] if key in groups else None for key in keys})
    at.report(built=json.dumps(built))


# --- figures ---------------------------------------------------------------------------------------------------------
FIGURES: dict[str, tuple[str, Callable[..., Any], int]] = {}


def outcome(call: Callable[[], Any]) -> str:
    """The type of what the call raises; "nothing" where it returns."""
    try:
        call()
    except NotImplementedError:
        raise
    except Exception as raised:
        return "ValueError" if isinstance(raised, ValueError) else type(raised).__name__
    return "nothing"


def worlds_refused(at: Any, *, worlds: list[dict[str, int]]) -> None:
    """What build_mesh does with each world."""
    at.report(outcomes=[outcome(lambda world=world: at.submission.parallel_plan.build_mesh(**world)) for world in worlds])


def column(values: list[Any]) -> torch.Tensor:
    """Figures as float64."""
    return torch.tensor(values, dtype=torch.float64)
