"""The laws of memory, arithmetic, network and step: each function is asked for many cases by lot and held against the handout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.laws.parallel_plan.cases import ALL, Array, Case, Draw, cases_of, in_words, inputs_of, records_of, traits
from tests.laws.parallel_plan.judging import assert_nothing_borrowed, assert_table
from tests.laws.parallel_plan.oracle import Figures
from tests.laws.parallel_plan.steps import STEP_SLIPS, Truth

STAGES = ["number", *(f"{what} of the {which}" for which in ("1st", "2nd", "3rd") for what in ("layers", "embedding", "head", "in flight"))]
MEMORY = ("weights", "gradients", "optimizer", "activations", "logits")
LAYER = ("forward_s", "backward_s", "attention_s", "attention_backward_s")
PASSES = ("forward_compute_s", "forward_waits_s", "backward_compute_s", "backward_waits_s")
STEP = ("compute_s", "exposed_communication_s", "bubble_s", "memory_bytes")
RIGHT = Truth()

Formula = Callable[[Truth, Case], Figures]


# --- what each function is -------------------------------------------------------------------------------------------
def _stages(truth: Truth, case: Case) -> Figures:
    model, _, plan = records_of(case)
    kinds = truth.stages(model, plan)
    flat = [float(figure) for stage in kinds for figure in stage]
    return [float(len(kinds)), *flat, *[0.0] * (len(STAGES) - 1 - len(flat))]


FORMULAS: dict[str, tuple[Sequence[str], Formula]] = {
    "stages": (STAGES, _stages),
    "rank_parameters": (
        ("shared parameters", "experts' parameters"),
        lambda truth, case: truth.rank_parameters(*records_of(case)[::2], case["numbers"]),
    ),
    "layer_activation_bytes": (("bytes",), lambda truth, case: truth.kept(*records_of(case)[::2])),
    "stage_memory": (MEMORY, lambda truth, case: truth.memory(*records_of(case)[::2], case["numbers"])),
    "estimate_memory": (MEMORY, lambda truth, case: truth.fullest(*records_of(case)[::2])),
    "product_s": (("seconds",), lambda truth, case: truth.product(records_of(case)[1], *case["numbers"])),
    "layer_seconds": (LAYER, lambda truth, case: truth.layer(*records_of(case))),
    "head_seconds": (("seconds",), lambda truth, case: truth.head(*records_of(case))),
    "optimizer_seconds": (("seconds",), lambda truth, case: truth.optimizer(*records_of(case)[1:], *case["numbers"])),
    "gather_s": (("seconds",), lambda truth, case: truth.gather(records_of(case)[1], *case["numbers"])),
    "all_to_all_s": (("seconds",), lambda truth, case: truth.exchange(records_of(case)[1], *case["numbers"])),
    "message_s": (("seconds",), lambda truth, case: truth.message(records_of(case)[1], *case["numbers"])),
    "layer_waits_s": (("forward", "backward"), lambda truth, case: truth.waits(*records_of(case))),
    "layer_shards_s": (("weights", "gradients"), lambda truth, case: truth.shards(*records_of(case))),
    "exposed_s": (("seconds",), lambda truth, case: truth.exposed(*case["numbers"])),
    "stage_seconds": (PASSES, lambda truth, case: truth.stage(*records_of(case), case["numbers"])),
    "once_s": (("seconds",), lambda truth, case: truth.once(*records_of(case), case["numbers"][:4], case["numbers"][4:])),
    "estimate_step": (STEP, lambda truth, case: truth.step(*records_of(case))),
}

SUGGESTIONS = {
    "stages": "Section 3, layers and in flight: draw a pipeline of 3 stages with 5 layers and 2 micro-batches.",
    "rank_parameters": "Which tables are on this stage, are the two the same matrix, and what do tp and ep cut?",
    "layer_activation_bytes": "Per token 2 (5C + qkv_size + rotated + k widened F) + 4H, times b T / c, over t.",
    "stage_memory": "Go through section 3's table term by term: which axes cut it, and over how many replicas does ZeRO?",
    "estimate_memory": "Compute stage_memory of each stage and take the one with the largest total_bytes.",
    "product_s": "The longer of FLOPs over flops_per_s and bytes over memory_bytes_per_s.",
    "layer_seconds": "Write the shapes of each product on one rank beside the code: section 4.",
    "head_seconds": "A product N x C x V/t, and 18 bytes for each of N V / t logits.",
    "optimizer_seconds": "24 bytes of states, gradient_bytes, and 2 of weight.",
    "gather_s": "near, far, then the cheaper of two levels and one ring: section 5. num_bytes is the whole.",
    "all_to_all_s": "How much stays in the node, how much leaves it, and which of the two takes longer?",
    "message_s": "Is the rank that is `distance` further in the same node?",
    "layer_waits_s": "Section 5: how many gathers, of how many bytes, in which group; and what does attention hide?",
    "layer_shards_s": "Who holds the same weights, and how far apart are they? Section 5, for shared parameters and for experts.",
    "exposed_s": "max(L compute + traffic, compute + L traffic) - L compute.",
    "stage_seconds": "Take forward and backward apart, then compute and wait: section 5, stage_seconds.",
    "once_s": "Four things, each with its condition: section 5, once_s.",
    "estimate_step": "M times the busiest stage; the others once, over the chunks; the optimizer; once_s.",
}


# --- numbers beside the records --------------------------------------------------------------------------------------
Beside = Callable[[np.random.Generator, Case], list[float]]


def a_stage(rng: np.random.Generator, case: Case) -> list[float]:
    """Any stage that there can be."""
    if case["plan"]["pp"] == 1:
        return [case["model"]["num_layers"], 1, 1, 1]
    kind = int(rng.integers(3))
    return [int(rng.integers(1, 12)), int(kind == 0), int(kind == 2), round(float(rng.uniform(1, 9)), 3)]


def a_stage_and_its_seconds(rng: np.random.Generator, case: Case) -> list[float]:
    """A stage, and seconds of its passes that hide more or less."""
    model, cluster, plan = records_of(case)
    traffic_s = max(RIGHT.shards(model, cluster, plan)[1], 1e-6)
    stage = a_stage(rng, case)
    return [*stage, *(float(traffic_s * stage[0] * rng.uniform(0.05, 2.0)) for _ in range(4))]


def a_product(rng: np.random.Generator, case: Case) -> list[float]:
    """Rows, inner, columns: thin ones wait for their bytes."""
    return [int(rng.integers(1, 200)), int(rng.integers(64, 6000)), int(rng.integers(64, 6000) if rng.integers(2) else rng.integers(1, 40))]


def a_count(rng: np.random.Generator, case: Case) -> list[float]:
    """A number of parameters."""
    return [float(rng.integers(10**5, 10**9))]


def a_group(rng: np.random.Generator, case: Case) -> list[float]:
    """Size, distance, bytes: within a node or over several, small messages or large ones."""
    per_node = case["cluster"]["gpus_per_node"] = (4, 8, 8, 6)[int(rng.integers(4))]
    inner = int(rng.choice([1, 1, 2, 2, 4, per_node, 2 * per_node]))
    return [int(rng.choice([1, 2, 3, 4, 8, 12, 24, 64])), inner, float(np.exp(rng.uniform(np.log(1e3), np.log(1e9))))]


def a_way(rng: np.random.Generator, case: Case) -> list[float]:
    """Distance and bytes: also a rank that is exactly a node away."""
    per_node = case["cluster"]["gpus_per_node"] = int(rng.choice([2, 4, 8]))
    return [int(rng.choice([1, per_node - 1, per_node, per_node + 1, 3 * per_node])), float(rng.integers(10**3, 10**8))]


def a_race(rng: np.random.Generator, case: Case) -> list[float]:
    """Layers, their arithmetic and their traffic: either may be longer."""
    return [int(rng.integers(1, 20)), float(rng.uniform(0.001, 1)), float(rng.choice([0.0, rng.uniform(0.001, 1), rng.uniform(0.001, 1)]))]


BESIDE: dict[str, Beside] = {
    "rank_parameters": a_stage, "stage_memory": a_stage, "stage_seconds": a_stage, "once_s": a_stage_and_its_seconds,
    "product_s": a_product,
    "optimizer_seconds": a_count, "gather_s": a_group, "all_to_all_s": a_group, "message_s": a_way, "exposed_s": a_race,
}  # fmt: skip
WORDS: dict[str, Callable[[Case], str]] = {
    "product_s": lambda case: "{} rows, {} inner, {} columns".format(*case["numbers"]),
    "optimizer_seconds": lambda case: f"{case['numbers'][0]:g} parameters",
    "gather_s": lambda case: _group_in_words(case),
    "all_to_all_s": lambda case: _group_in_words(case),
    "message_s": lambda case: "{1:g} bytes over a distance of {0}, ".format(*case["numbers"]) + _nodes(case),
    "exposed_s": lambda case: "{} layers, {:.4g} s of arithmetic and {:.4g} s of traffic each".format(*case["numbers"]),
}


def _group_in_words(case: Case) -> str:
    size, inner, num_bytes = case["numbers"]
    return f"{size} ranks that are {inner} apart, {num_bytes:.4g} bytes, {_nodes(case)}"


def _nodes(case: Case) -> str:
    return f"{case['cluster']['gpus_per_node']} GPUs per node"


def _group_traits(case: Case) -> dict[str, bool]:
    size, inner, _ = case["numbers"]
    near = min(size, max(1, case["cluster"]["gpus_per_node"] // inner))
    return {
        "one rank": size == 1,
        "a group in one node": near >= size > 1,
        "several nodes": near < size,
        "one member in each node": near == 1 < size,
        "several members in each of several nodes": 1 < near < size,
        "members that are no neighbours": inner > 1,
    }


# --- judging ---------------------------------------------------------------------------------------------------------
def _with(beside: Beside, draw: Draw) -> Draw:
    def drawn(rng: np.random.Generator) -> Case:
        case = draw(rng)
        return case | {"numbers": beside(rng, case)}

    return drawn


def judge(observe: Any, function: str, draws: Sequence[Draw] = ALL, columns: Sequence[str] = (), **case: Any) -> None:
    """The function's figures are the handout's for every case; columns: of a record, these fields only."""
    names, formula = FORMULAS[function]
    asked = [_with(BESIDE[function], draw) for draw in draws] if function in BESIDE else list(draws)
    returns = {"counted": ("float64", (len(draws), len(names)))}
    seen = observe("figures", transport="none", inputs=inputs_of(asked), returns=returns, function=function, size=len(names), **case)
    assert_nothing_borrowed(seen, function)
    cases = cases_of(seen)
    kept = [names.index(name) for name in columns or names]

    def table(slip: str = "") -> Array:
        truth = Truth(slip)
        return np.asarray([formula(truth, each) for each in cases], np.float64)[:, kept]

    expected = table()
    slips = {sentence: (lambda slip=slip: table(slip)) for slip, sentence in STEP_SLIPS.items()}
    described = {} if function not in WORDS else {"words": WORDS[function]}
    is_group = function in ("gather_s", "all_to_all_s")
    assert_table(
        seen.rank(0)["counted"][:, kept],
        expected,
        function=function,
        names=[names[place] for place in kept],
        cases=cases,
        slips=slips,
        suggestion=SUGGESTIONS[function],
        also=[_stage_in_words(each) for each in cases] if BESIDE.get(function) in (a_stage, a_stage_and_its_seconds) else (),
        traits_of=_group_traits if is_group else traits,
        **{"words": in_words, **described},
    )


def _stage_in_words(case: Case) -> str:
    layers, embedding, head, _ = case["numbers"][:4]
    places = {(1, 1): "the only stage", (1, 0): "the first stage", (0, 1): "the last stage", (0, 0): "a stage between"}
    return f"{places[int(embedding), int(head)]}, of {layers:g} layers"
