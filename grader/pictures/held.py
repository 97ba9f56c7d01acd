"""Memory over a step: what was alive at each moment, by kind, beside what the handouts' formulas say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.observe.tensors import to_array
from grader.pictures.canvas import plain
from grader.pictures.columns import Columns, Moment, stack
from grader.records import Outcome, Request

MOST_RANKS = 16  # of more, an N-th can't be seen beside the whole
FLOAT_BYTES = 4
SECOND = "1 "  # how the moments of the second step begin; in the first the optimizer's state is still to come
SHARDED = {"compute0": "weights", "compute1": "gradients", "compute3": "AdamW's moments", "receives": "gathered weights and flat buffers"}
RECOMPUTED = {"compute0": "kept in forward", "compute1": "kept while a segment is recomputed"}
STATES = {"compute0": "weights", "compute1": "gradients", "compute2": "masters", "compute3": "moments", "receives": "activations"}
ALIVE = {  # which states the formula's are at each moment of a first step
    "before": (1, 0, 1, 0), "after forward": (1, 0, 1, 0), "after backward": (1, 1, 1, 0), "after step": (1, 1, 1, 1),
}  # fmt: skip
MOST_LAYERS = 16  # of the chain that is drawn


def draw_sharded(request: Request, outcome: Outcome) -> Columns | None:
    """The second step of one rank of a few."""
    case = request.parameters
    stage, num_ranks, num_layers = case["stage"], case["num_ranks"], case["num_layers"]
    if num_ranks > MOST_RANKS:
        return None
    seen = outcome.ranks[0].facts["kinds"]
    layer_bytes = FLOAT_BYTES * case["elements"]
    moments = []
    for name in (name.removeprefix(SECOND) for name in seen if name.startswith(SECOND)):
        derived = derived_bytes(stage, name, num_ranks, num_layers, layer_bytes, case.get("prefetch", 1))
        moments.append(Moment(name, tuple(map(int, seen[SECOND + name])), derived))
    whole = 4 * num_layers * layer_bytes
    most = max(moments, key=lambda moment: sum(moment.held))
    summary = (
        f"Rank {case['me']} of {num_ranks} held {plain(sum(most.held))} bytes at most (at the moment {most.name!r}), "
        f"{plain(sum(most.derived))} by the formula; without sharding weights, gradients and moments are {plain(whole)}."
    )
    caption = f"Bytes alive in the second step of {num_layers} equal layers: broad what was held, thin what sections 1 and 6 derive."
    return stack(caption, summary, SHARDED, moments, [(whole, "without sharding")])


def derived_bytes(stage: str, moment: str, num_ranks: int, num_layers: int, layer_bytes: int, prefetch: int) -> tuple[int, int, int, int]:
    """Weights, gradients, moments, and what is gathered or flat: the most that the handout of sharded_data_parallel allows (1 and 6).

    moment   "forward 2", "backward 2": as that layer's begins; or "after forward", "after backward", "after step", "after evaluation"
    """
    part, whole = num_layers * -(-layer_bytes // num_ranks), num_layers * layer_bytes
    way, _, which = moment.partition(" ")
    has_gradients = way == "backward" or moment in ("after backward", "after step")
    made = (num_layers - 1 - int(which)) / num_layers if way == "backward" else float(has_gradients)
    if stage == "zero1":
        return whole, round(made * whole), 2 * part, 0
    units = min(1 + prefetch, num_layers - int(which) if way == "forward" else int(which) + 1) if way in ("forward", "backward") else 0
    flat = int(made > 0 and way == "backward")  # of the unit before, on its way
    return part, round(made * part), 2 * part, (units + flat) * layer_bytes


def draw_course(request: Request, outcome: Outcome) -> Columns | None:
    """What autograd held after each change, of the longest chain that can be read."""
    pairs = zip(request.parameters["shapes"], outcome.ranks[0].facts["courses"], strict=True)
    readable = [(shape, course) for shape, course in pairs if shape[0] <= MOST_LAYERS and course]
    if not readable:
        return None
    (num_layers, num_segments), course = max(readable, key=lambda pair: pair[0][0])
    backward = next((number for number, (_, again) in enumerate(course) if again), len(course) - 1)
    names = {0: "forward", backward: "backward"}
    moments = [Moment(names.get(number, ""), tuple(map(float, held))) for number, held in enumerate(course)]
    allowed = num_segments + num_layers / num_segments
    summary = (
        f"{num_layers} layers in {num_segments} segments: {most_of(course):g} tensors at most, "
        f"{allowed:g} by s + L/s, and {num_layers} without recomputation."
    )
    caption = "What autograd had saved after each change, in tensors of the input's size; the steps are changes, and no times."
    return stack(caption, summary, RECOMPUTED, moments, [(allowed, "s + L/s"), (num_layers, "every layer's input")])


def draw_first_step(request: Request, outcome: Outcome) -> Columns | None:
    """The first step of the model whose recipe has the most kinds of states, beside the submission's formula."""
    counted = to_array(outcome.ranks[0].outputs["counted"]).astype(float)
    steps = outcome.ranks[0].facts["steps"]
    chosen = max(range(len(steps)), key=lambda number: (sum(map(bool, steps[number]["after step"])), sum(steps[number]["after step"])))
    if not np.isfinite(counted[chosen]).all() or (counted[chosen] < 0).any():
        return None
    moments = []
    for name, alive in ALIVE.items():
        derived = tuple(float(num_bytes) * is_alive for num_bytes, is_alive in zip(counted[chosen], alive, strict=True))
        moments.append(Moment(name, tuple(map(float, steps[chosen][name])), (*derived, 0.0)))
    ours, theirs = sum(counted[chosen]), sum(moments[-1].held)
    recipe = ", ".join(map(str, request.parameters["recipes"][chosen]))
    summary = f"{recipe}: after the step {plain(theirs)} bytes are held, {plain(ours)} by your formula."
    caption = (
        "Bytes alive in the first step of a real model: broad what was held, thin your formula for what is there by then. "
        "Activations, of four tokens here, are hardly seen, and have a formula of their own."
    )
    return stack(caption, summary, STATES, moments, [])


def most_of(course: Sequence[Sequence[float]]) -> float:
    """The highest of all columns."""
    return max(sum(held) for held in course)
