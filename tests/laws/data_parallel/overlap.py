"""Communication behind computation: enforced by gates, and seen in virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, unit_roundoff
from grader.records import ITEMSIZE, Gate, Gates, num_elements
from grader.wire.virtual_time import Span
from tests.laws.data_parallel.runs import Array
from tests.laws.data_parallel.values import wide
from tests.laws.sentences import broken

WIDTH = 6
ITEM_BYTES = ITEMSIZE["float32"]
MOST_ABOVE_THEORY = 0.01  # control messages take time, too
SIGNIFICANT = 1e-9


def whole_numbers(world_size: int, shapes: dict[str, tuple[int, ...]]) -> Any:
    """Inputs whose products and sums with each other are exact in float32."""
    return lambda rng: {name: [rng.integers(-9, 10, shape).astype(np.float32) for _ in range(world_size)] for name, shape in shapes.items()}


def stack_of(rows: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Layers with that many rows of WIDTH, and the signal that backward begins with."""
    return {f"layer_{number}": (count, WIDTH) for number, count in enumerate(rows)} | {"signal": (WIDTH,)}


# --- gates -----------------------------------------------------------------------------------------------------------
def gates_between(rows: Sequence[int], rows_per_bucket: int) -> list[tuple[str, list[str]]]:
    """(layer at whose output a gate stands, layers behind it since the last gate): one wherever a bucket, filled from the end, is full."""
    places, behind, filled = [], [], 0
    for number in reversed(range(1, len(rows))):
        behind.append(f"layer_{number}")
        filled += rows[number]
        if filled == rows_per_bucket:
            places.append((f"layer_{number - 1}", behind))
            behind, filled = [], 0
    return places


def run_gated(observe: Any, world_size: int, rows: Sequence[int], *, rows_per_bucket: int, hold: bool, **case: Any) -> Any:
    """A step whose backward finds a gate behind every bucket but the last. Buckets are full exactly where layers end."""
    shapes, places = stack_of(rows), gates_between(rows, rows_per_bucket)
    layers = [name for name in shapes if name != "signal"]
    gates = Gates("step", "signal", tuple(Gate(f"gate below {behind[-1]}", tuple(behind)) for _, behind in places), hold=hold)
    return observe(
        "gated",
        world_size=world_size,
        inputs=whole_numbers(world_size, shapes),
        returns={name: ("float32", shapes[name]) for name in layers},
        gates=gates,
        layers=layers,
        gates_at={layer: gate.name for (layer, _), gate in zip(places, gates.places, strict=True)},
        bucket_bytes=rows_per_bucket * WIDTH * ITEM_BYTES,
        **case,
    )


def judge_passage(seen: Any) -> None:
    """Every gate opened, and the gradients are the means of what each rank's backward had with the judge's numbers in it."""
    if seen.fault is not None and seen.fault.kind == "deadlock":
        is_held = seen.request.gates.hold
        raise broken(
            seen.fault.sentence,
            "Expected: backward comes to its end " + ("while no bucket is answered." if is_held else "with all buckets but the last sent."),
            "Backward waits for a bucket." if is_held else "A bucket has not left, or not with the right gradients, while backward runs.",
            "Start it with async_op=True, keep the work, and wait in finish_gradient_synchronization."
            if is_held
            else "Start a bucket's all_reduce in the hook that completes it; backward is not done then. "
            "Does one that is not complete yet stand before it?",
            where="\n".join(seen.fault.lines),
        )
    gate_after = {name: place for place, gate in enumerate(seen.request.gates.places) for name in gate.after}
    for name in seen.request.returns:
        parts = [gated_gradient(seen, rank, name, gate_after.get(name, len(seen.request.gates.places))) for rank in range(seen.world_size)]
        allowed = (seen.world_size + 1) * unit_roundoff("float32") * np.sum(np.abs(parts), axis=0) / seen.world_size
        for rank in range(seen.world_size):
            what = f"the gradient of {name} on rank {rank}, with the judge's numbers in it"
            hints = Hints(world_size=seen.world_size, untouched=parts[rank], suggestion="What was sent early is what must end in grad.")
            assert_close(seen.rank(rank)[name], np.mean(parts, axis=0), allowed=allowed, what=what, hints=hints)


def gated_gradient(seen: Any, rank: int, name: str, num_passed: int) -> Array:
    """One rank's own gradient of a layer: its input times the signal, to which the gates passed before have added."""
    secrets = [wide(secret) for secret in seen.gate_secrets(rank)[:num_passed]]
    return wide(seen.input(name, rank)) * np.sum([wide(seen.input("signal", rank)), *secrets], axis=0)


# --- virtual time ----------------------------------------------------------------------------------------------------
def run_timed(observe: Any, world_size: int, rows: Sequence[int], *, rows_per_bucket: int, **case: Any) -> Any:
    """Two steps of layers that cost 1 s forward and 2 s backward each; the second is looked at."""
    shapes = stack_of(rows)
    return observe(
        "timed",
        world_size=world_size,
        inputs=whole_numbers(world_size, shapes),
        layers=[name for name in shapes if name != "signal"],
        forward_s=1.0,
        backward_s=2.0,
        bucket_bytes=rows_per_bucket * WIDTH * ITEM_BYTES,
        num_steps=2,
        late=True,  # who waits in a way that nobody sees, waits for ever
        **case,
    )


def judge_step_time(seen: Any, *, bucket_s: float) -> None:
    """The step takes what perfect overlap gives, where a full bucket's all-reduce lasts `bucket_s`."""
    case, n = seen.request.parameters, seen.world_size
    bandwidth = 2 * (n - 1) / n * case["bucket_bytes"] / bucket_s
    timeline = seen.virtual_time(latency_s=0.0, bandwidth_bytes_per_s=bandwidth, phase="step")
    ideal = Ideal(case, [num_elements(seen.request.input_of(name, 0).shape) * ITEM_BYTES for name in case["layers"]], bucket_s)
    if ideal.end_s * (1 - SIGNIFICANT) <= timeline.end_s <= ideal.end_s * (1 + MOST_ABOVE_THEORY):
        return
    diagnosis = f"It takes {timeline.end_s / ideal.end_s:.3g} times as long as with perfect overlap."
    if math.isclose(timeline.end_s, ideal.flat_s, rel_tol=MOST_ABOVE_THEORY):
        diagnosis = "That is the time without any overlap: all computing, then all sending."
    if timeline.end_s < ideal.end_s * (1 - SIGNIFICANT):
        diagnosis = "Too short: not everything travels that should, or in smaller buckets than section 7 cuts."
    raise broken(
        f"With {bucket_s:g} seconds for a bucket's all-reduce, a step of {n} ranks takes {timeline.end_s:g} seconds.",
        f"Expected: {ideal.end_s:g} seconds; without overlap it would be {ideal.flat_s:g}.",
        diagnosis,
        "Which bucket could have left earlier? A bucket leaves when its last gradient is there and the one before has left.",
        where="\n".join(["rank 0, yours:", *drawn(timeline.lanes[0]), "perfect overlap:", *drawn(ideal.spans)]),
    )


class Ideal:
    """The step of a program that overlaps perfectly: each bucket leaves when its last layer's backward is done and the network is free."""

    def __init__(self, case: dict[str, Any], layer_bytes: Sequence[int], bucket_s: float) -> None:
        num_layers = len(layer_bytes)
        self.spans: list[Span] = []
        for number in range(num_layers):
            self.spans.append(Span(number * case["forward_s"], (number + 1) * case["forward_s"], "forward", True))
        now_s, free_s, filled_bytes = num_layers * case["forward_s"], 0.0, 0
        for number in reversed(range(num_layers)):
            self.spans.append(Span(now_s, now_s + case["backward_s"], "backward", True))
            now_s += case["backward_s"]
            filled_bytes += layer_bytes[number]
            if filled_bytes >= case["bucket_bytes"] or number == 0:
                start_s = max(now_s, free_s)
                free_s = start_s + bucket_s * filled_bytes / case["bucket_bytes"]
                self.spans.append(Span(start_s, free_s, "all_reduce", False))
                filled_bytes = 0
        self.end_s = max(now_s, free_s)
        self.flat_s = now_s + bucket_s * sum(layer_bytes) / case["bucket_bytes"]


def drawn(lane: Sequence[Span]) -> list[str]:
    """A rank's spans as two rows of letters, two letters a second: F and B compute, digits are the buckets on the network."""
    width = math.ceil(2 * max((span.end_s for span in lane), default=0))
    rows = {True: [" "] * width, False: [" "] * width}
    num_buckets = 0
    for span in sorted(lane, key=lambda span: span.start_s):
        letter = span.name[:1].upper() if span.is_compute else str(num_buckets % 10)
        num_buckets += not span.is_compute
        for half_second in range(round(2 * span.start_s), round(2 * span.end_s)):
            rows[span.is_compute][half_second] = letter
    return [f"  compute  {''.join(rows[True])}", f"  network  {''.join(rows[False])}"]
