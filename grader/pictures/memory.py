"""Memory by kind: what a submission's formulas count beside what a real model held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader.observe.tensors import to_array
from grader.pictures.canvas import ROW, THIN, Picture, Scale, plain
from grader.records import Outcome, Request, Tensor

NAME_WIDTH = 245.0
KINDS = ("weights", "gradients", "masters", "moments")
STYLES = ("compute0", "compute1", "compute2", "compute3")


def draw_states(request: Request, outcome: Outcome) -> Picture | None:
    """The states of each model and recipe that the run counted and held."""
    names = [", ".join(map(str, recipe)) for recipe in request.parameters["recipes"]]
    return _drawn(outcome, names, KINDS, "after a step")


def draw_activations(request: Request, outcome: Outcome) -> Picture | None:
    """Activations of each model and way."""
    names = []
    for option, (dtype, recompute) in zip(request.parameters["options"], request.parameters["ways"], strict=True):
        names.append(f"{option['attention']}, {dtype}" + (f", {recompute}" if recompute != "none" else ""))
    return _drawn(outcome, names, ("activations",), "between forward and backward")


def draw_peaks(request: Request, outcome: Outcome) -> Picture | None:
    """What a checkpointed sequence held at most, beside the layers and the square root; in tensors of its input's size."""
    pairs = list(zip(request.parameters["shapes"], outcome.ranks[0].facts["held"], strict=True))
    scale = Scale(float(max(max(num_layers, held[1]) for (num_layers, _), held in pairs)), NAME_WIDTH)
    told = "; ".join(f"{held[1]:g} of {num_layers} layers in {num_segments} segments" for (num_layers, num_segments), held in pairs)
    caption = "Above what was held at most, below what all layers' inputs would be; in tensors of the input's size."
    picture = Picture(caption, f"Held at most: {told}.", columns=("sequence", "what", "tensors"), left=NAME_WIDTH)
    picture.legend = {"compute0": "held after forward", "compute1": "more at the peak", "waits": "every layer's input"}
    for (num_layers, num_segments), (after, most) in pairs:
        name = f"{num_layers} layers, {num_segments} segments"
        top = picture.group(name, ROW + THIN)
        picture.bar(scale(0), after * scale.unit, top, ROW, "compute0", plain(after), f"held after forward: {after:g}")
        more = most - after
        picture.bar(scale(after), more * scale.unit, top, ROW, "compute1", plain(more), f"more at the peak: {more:g}")
        picture.bar(scale(0), num_layers * scale.unit, top + ROW, THIN, "waits", "", f"every layer's input: {num_layers}")
        picture.rows += [(name, "held after forward", f"{after:g}"), (name, "at the peak", f"{most:g}"), (name, "layers", str(num_layers))]
    picture.ticks = scale.ticks()
    return picture.close()


def _drawn(outcome: Outcome, names: Sequence[str], kinds: Sequence[str], when: str) -> Picture | None:
    counted, held = (_rows(outcome.ranks[0].outputs[name], len(kinds)) for name in ("counted", "held"))
    if len(names) != len(counted) or len(counted) != len(held):
        return None
    scale = Scale(max(map(sum, counted + held)), NAME_WIDTH)
    apart = max(abs(sum(ours) - sum(theirs)) / sum(theirs) for ours, theirs in zip(counted, held, strict=True))
    summary = f"{len(names)} models; your formula is at most {apart:.1%} away from what was held {when}."
    picture = Picture("Bytes: above by your formula, below as held by a real model.", summary, columns=("model", "kind", "counted", "held"))
    picture.left = NAME_WIDTH
    picture.legend = dict(zip(STYLES, kinds, strict=False))
    for name, ours, theirs in zip(names, counted, held, strict=True):
        top = picture.group(name, ROW + THIN)
        for row, y, height, word in ((ours, top, ROW, "counted"), (theirs, top + ROW, THIN, "held")):
            so_far = 0.0
            for kind, style, num_bytes in zip(kinds, STYLES, row, strict=False):
                words = f"{kind} {word}: {num_bytes:,.0f} bytes"
                picture.bar(scale(so_far), num_bytes * scale.unit, y, height, style, kind if height == ROW else "", words)
                so_far += num_bytes
        picture.rows += [(name, kind, f"{a:,.0f}", f"{b:,.0f}") for kind, a, b in zip(kinds, ours, theirs, strict=True)]
    picture.ticks = scale.ticks()
    return picture.close()


def _rows(tensor: Tensor, width: int) -> list[list[float]]:
    """A matrix's rows of that width. ValueError for numbers that can't be drawn."""
    numbers = to_array(tensor).astype(np.float64).reshape(-1, width)
    if not numbers.size or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError("bytes are finite and not negative")
    return [list(map(float, row)) for row in numbers]
