"""The roofline with a submission's kernels on it: intensity by the bytes that were counted, beside that of moving each tensor once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from grader.pictures.canvas import plain
from grader.records import ITEMSIZE, Outcome, Request, num_elements
from grader.simulator.clusters import GPUS

GPU = "H100 SXM 80GB"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 1000.0, 360.0, 90.0, 20.0, 40.0, 40.0
LEAST_INTENSITY, MOST_INTENSITY = 0.1, 10_000.0  # operations per byte at the picture's sides
NUM_DECADES = 5  # of FLOP/s, below the peak
INPUT = {"rms_norm": "x", "bias_gelu": "x", "cross_entropy": "logits"}
# Operations on each element of that input, read off the handout's formulas; a function such as exp or tanh counts as one.
OPERATIONS = {
    ("rms_norm", "forward"): 4,  # square, sum, times r, times weight
    ("rms_norm", "backward"): 9,  # g and x̂ (2), mean of their product (2), dx (3), dweight (2)
    ("bias_gelu", "forward"): 10,  # u (1), z (5), gelu (4)
    ("bias_gelu", "backward"): 20,  # u and z (6), the sigmoid (3), 2z' (4), gelu' (5), dx and dbias (2)
    ("cross_entropy", "forward"): 4,  # maximum, difference, exp, sum
    ("cross_entropy", "backward"): 4,  # difference, exp, minus the target's 1, times a factor
}
# Tensors of that input's size that must be moved, whatever is fused: what comes in and what goes out.
NUM_TENSORS = {
    ("rms_norm", "forward"): 2, ("rms_norm", "backward"): 3, ("bias_gelu", "forward"): 2, ("bias_gelu", "backward"): 3,
    ("cross_entropy", "forward"): 1, ("cross_entropy", "backward"): 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """Work at its intensity, under the roof."""

    x: float
    y: float
    is_yours: bool
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Roof:
    """What the template draws."""

    caption: str
    summary: str
    roof: str  # a path
    ridge: tuple[float, str]
    points: tuple[Point, ...]
    across: tuple[tuple[float, str], ...]  # ticks of the intensity
    up: tuple[tuple[float, str], ...]  # ticks of FLOP/s
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM


def draw(request: Request, outcome: Outcome) -> Roof | None:
    """Both passes of one watched operation; None where nothing was counted."""
    function, gpu = request.parameters["function"], GPUS[GPU]
    whole = request.input_of(INPUT[function], 0).spec
    points, rows, told = [], [], []
    for direction in ("forward", "backward"):
        flops = OPERATIONS[function, direction] * num_elements(whole.shape)
        moved = _moved(outcome.ranks[0].facts[direction])
        if not moved:
            return None
        for num_bytes, is_yours in ((NUM_TENSORS[function, direction] * whole.num_bytes, False), (moved, True)):
            who = "yours" if is_yours else "each tensor once"
            intensity = flops / num_bytes
            reached = min(gpu.peak_flops_per_s, intensity * gpu.memory_bytes_per_s)
            row = (direction, who, f"{num_bytes:,}", f"{intensity:.3g}", f"{reached / gpu.peak_flops_per_s:.2%}")
            words = "{}, {}: {} bytes, {} operations per byte, {} of the peak".format(*row)
            points.append(Point(_x(intensity), _y(reached, gpu.peak_flops_per_s), is_yours, direction if is_yours else "", words))
            rows.append(row)
        told.append(f"{direction} {flops / moved:.3g} operations per byte")
    ridge = gpu.peak_flops_per_s / gpu.memory_bytes_per_s
    corner = f"{_x(ridge):.1f} {_y(gpu.peak_flops_per_s, gpu.peak_flops_per_s):.1f}"
    foot = f"{_x(LEAST_INTENSITY):.1f} {_y(LEAST_INTENSITY * gpu.memory_bytes_per_s, gpu.peak_flops_per_s):.1f}"
    eager = 1 / (2 * ITEMSIZE[whole.dtype])
    caption = (
        f"Under the roofs of one {GPU} (16-bit peak). An operation that is a kernel of its own has {eager:.3g} operations per byte: it "
        "reads and writes a number. Full: what your kernels moved; hollow: each tensor once."
    )
    summary = f"{function}: {', '.join(told)}; the ridge is at {ridge:.0f}, so memory is the roof above both."
    return Roof(caption, summary, f"M{foot}L{corner}H{WIDTH - RIGHT}", (_x(ridge), f"ridge: {ridge:.0f}"), tuple(points), _across(),
                _up(gpu.peak_flops_per_s), ("pass", "way", "bytes", "operations per byte", "of the peak"), tuple(rows))  # fmt: skip


def _moved(launches: list[Any]) -> int:
    """Bytes loaded and stored by all launches of a pass."""
    return sum(int(num_bytes) for launch in launches for deed in ("loaded", "stored") for num_bytes in launch[f"{deed}_bytes"].values())


def _x(intensity: float) -> float:
    share = math.log(intensity / LEAST_INTENSITY) / math.log(MOST_INTENSITY / LEAST_INTENSITY)
    return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _y(flops_per_s: float, peak: float) -> float:
    share = 1 + math.log10(flops_per_s / peak) / NUM_DECADES
    return HEIGHT - BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - BOTTOM - TOP)


def _across() -> tuple[tuple[float, str], ...]:
    exponents = range(math.ceil(math.log10(LEAST_INTENSITY)), math.floor(math.log10(MOST_INTENSITY)) + 1)
    return tuple((_x(10.0**power), plain(10.0**power)) for power in exponents)


def _up(peak: float) -> tuple[tuple[float, str], ...]:
    highest = math.floor(math.log10(peak))
    powers = [10.0**power for power in range(highest - NUM_DECADES + 1, highest + 1)]
    return tuple((_y(power, peak), f"{plain(power / 1e12)} TFLOP/s") for power in powers)
