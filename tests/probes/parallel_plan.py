"""What runs beside a submission to `parallel_plan`: it asks for groups, figures, plans and settings. Facts only, no expected values.

Models, clusters and plans come as dicts of the records' fields. Figures go back as a row of numbers for each case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch


# --- cases -----------------------------------------------------------------------------------------------------------
def cases_of(at: Any) -> list[dict[str, Any]]:
    """The cases, which come as JSON in an array of bytes."""
    return json.loads(bytes(at.inputs["cases"].tolist()).decode())  # type: ignore[no-any-return]


def model_of(case: dict[str, Any]) -> Any:
    """The case's model."""
    from lm.planning import Model

    return Model(**case["model"])


def cluster_of(case: dict[str, Any]) -> Any:
    """The case's cluster."""
    from lm.planning import Cluster

    return Cluster(**case["cluster"])


def plan_of(case: dict[str, Any]) -> Any:
    """The case's plan."""
    from lm.planning import Plan

    return Plan(**case["plan"])


def everything(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Model, cluster and plan."""
    return model_of(case), cluster_of(case), plan_of(case)


def stage_of(at: Any, row: list[float]) -> Any:
    """A stage from its four numbers."""
    layers, embedding, head, in_flight = row
    return at.submission.parallel_plan.Stage(int(layers), bool(embedding), bool(head), in_flight)


# --- figures ---------------------------------------------------------------------------------------------------------
STAGE = ("num_layers", "has_embedding", "has_head", "num_in_flight")
MEMORY = ("weights", "gradients", "optimizer", "activations", "logits")
LAYER = ("forward_s", "backward_s", "attention_s", "attention_backward_s")
PASSES = ("forward_compute_s", "forward_waits_s", "backward_compute_s", "backward_waits_s")
STEP = ("compute_s", "exposed_communication_s", "bubble_s", "memory_bytes")


def borrowed() -> list[str]:
    """Modules of the judge's that this process has imported, beyond what it runs on."""
    return sorted(name for name in sys.modules if name.startswith(("grader.simulator", "grader.schedules", "tests.")))


def number(value: Any, what: str) -> float:
    """`value`, if it is a number."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {type(value).__name__}; expected a number")
    return float(value)


def numbers(value: Any, what: str, size: int) -> list[float]:
    """A number, or a tuple of several, as a row."""
    given = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(given) != size:
        raise ValueError(f"{what} returned {len(given)} values; expected {size}")
    return [number(each, what) for each in given]


def fields(value: Any, names: tuple[str, ...]) -> list[float]:
    """Some attributes of a record."""
    return [number(getattr(value, name), f"{type(value).__name__}.{name}") for name in names]


def figures(at: Any, *, function: str, size: int) -> dict[str, torch.Tensor]:
    """What the function returns for each case: a row of numbers."""
    counted = torch.tensor([figures_of(at, function, case, size) for case in cases_of(at)], dtype=torch.float64)
    at.report(borrowed=borrowed())
    return {"counted": counted}


def figures_of(at: Any, function: str, case: dict[str, Any], size: int) -> list[float]:
    """One case's row."""
    planning, step = at.submission.parallel_plan, at.submission.plan_step
    call = getattr(planning, function, None) or getattr(step, function)
    given = case.get("numbers", [])
    if function == "stages":
        kinds = call(model_of(case), plan_of(case))
        padded = [figure for stage in kinds for figure in fields(stage, STAGE)]
        return [float(len(kinds)), *padded, *[0.0] * (size - 1 - len(padded))][:size]
    if function == "rank_parameters":
        return numbers(call(model_of(case), plan_of(case), stage_of(at, given)), function, size)
    if function == "layer_activation_bytes":
        return numbers(call(model_of(case), plan_of(case)), function, size)
    if function == "stage_memory":
        return fields(call(model_of(case), plan_of(case), stage_of(at, given)), MEMORY)
    if function == "estimate_memory":
        return fields(call(*everything(case)), MEMORY)
    if function == "layer_seconds":
        return fields(call(*everything(case)), LAYER)
    if function == "stage_seconds":
        return fields(call(*everything(case), stage_of(at, given)), PASSES)
    if function == "once_s":
        return numbers(call(*everything(case), stage_of(at, given[:4]), step.StageSeconds(*given[4:])), function, size)
    if function == "estimate_step":
        return fields(call(*everything(case)), STEP)
    if function == "exposed_s":
        return numbers(call(int(given[0]), *given[1:]), function, size)
    if function == "optimizer_seconds":
        return numbers(call(cluster_of(case), plan_of(case), given[0]), function, size)
    if function in ("gather_s", "all_to_all_s"):
        return numbers(call(cluster_of(case), int(given[0]), int(given[1]), given[2]), function, size)
    if function == "message_s":
        return numbers(call(cluster_of(case), int(given[0]), given[1]), function, size)
    if function == "product_s":
        return numbers(call(cluster_of(case), *given), function, size)
    return numbers(call(*everything(case)), function, size)


# --- mesh ------------------------------------------------------------------------------------------------------------
def mesh(at: Any, *, keys: list[str]) -> None:
    """build_mesh of each world: for each key its groups, as lists; None for a key that isn't there."""
    built = []
    for world in cases_of(at):
        groups = at.submission.parallel_plan.build_mesh(**world).groups
        built.append({key: [[int(rank) for rank in group] for group in groups[key]] if key in groups else None for key in keys})
    at.report(built=built)


# --- search ----------------------------------------------------------------------------------------------------------
def rules(at: Any) -> None:
    """broken_rules of each case, sorted."""
    at.report(rules=[sorted(map(str, at.submission.plan_search.broken_rules(*everything(case)))) for case in cases_of(at)])


def candidates(at: Any) -> None:
    """candidate_plans of each case: every plan's fields as one string."""
    found = []
    for case in cases_of(at):
        plans = at.submission.plan_search.candidate_plans(model_of(case), cluster_of(case))
        found.append([json.dumps(asdict(plan), sort_keys=True) for plan in plans])
    at.report(found=found)


def choice(at: Any) -> None:
    """choose_plan of each case, or what it raises."""
    chosen = []
    for case in cases_of(at):
        try:
            chosen.append({"plan": asdict(at.submission.plan_search.choose_plan(model_of(case), cluster_of(case)))})
        except at.submission.plan_search.NoPlan as refusal:
            chosen.append({"refusal": [str(refusal.constraint), refusal.needed_bytes]})
    at.report(chosen=chosen, borrowed=borrowed())


def reasons(at: Any) -> None:
    """binding_constraints of each case's plan."""
    search = at.submission.plan_search
    found = [search.binding_constraints(*everything(case)) for case in cases_of(at)]
    at.report(reasons=[{str(axis): str(reason) for axis, reason in each.items()} for each in found])


# --- settings --------------------------------------------------------------------------------------------------------
def settings(at: Any, *, function: str, precision: str) -> None:
    """The settings of each case's plan, through JSON."""
    call = getattr(at.submission.plan_settings, function)
    at.report(settings=[json.loads(json.dumps(call(plan_of(case), precision=precision))) for case in cases_of(at)])


# --- refusals --------------------------------------------------------------------------------------------------------
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
    at.report(outcomes=[outcome(partial(at.submission.parallel_plan.build_mesh, **world)) for world in worlds])


def settings_refused(at: Any, *, calls: list[list[str]]) -> None:
    """What a function of [name, precision] does with the plan of the case in the same place."""
    module = at.submission.plan_settings
    asked = zip(calls, cases_of(at), strict=True)
    at.report(outcomes=[outcome(partial(getattr(module, name), plan_of(case), precision=precision)) for (name, precision), case in asked])
