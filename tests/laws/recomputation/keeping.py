"""The judgements on what is kept and what is run again, and on sequences of layers. Oracles: counting, and the chain rule in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.records import Limits, MiB
from tests.laws.recomputation.accumulation import LARGE_REPEAT, PATTERN, advised, assert_scale_gradient, derivative_of_sines
from tests.laws.recomputation.checkpoints import MIXTURE, Array, B, C, D, H, Shapes, assert_all, doubles, drawn, judge_calls
from tests.laws.sentences import broken

# --- what is kept, what is run ---------------------------------------------------------------------------------------
PRODUCTS = {"mm.default": 2 * B * H}  # outputs of both, in numbers
OTHER_OPERATIONS = {"tanh.default": B * H, "max.dim": 2 * B, "sin.default": B}


def judge_kept(observe: Any, way: str, save: Sequence[str] | None = None, *, tokens: bool = False, **case: Any) -> None:
    """Between forward and backward: the arguments' own memory, the outputs of what `save` names, and nothing else; afterwards nothing.

    With `tokens` the only argument is integers, and what learns are the function's own parameters. (`constants` in the case:
    the arguments are floats that require no grad.)
    """

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        return drawn({"table": (9, C), "v": (C, D)})(rng) | {"rows": rng.integers(0, 9, B)} if tokens else drawn(MIXTURE)(rng)

    wanted = ({"save": list(save)} if save is not None else {}) | ({"tokens": True} if tokens else {})
    facts = observe("kept", transport="none", inputs=inputs, way=way, **wanted, **case).facts(0)
    allowed_bytes = 8 * sum((PRODUCTS | OTHER_OPERATIONS)[name] for name in save or [])
    arguments_bytes = 8 * (B if tokens else B * C + C * H)
    function = f"{way}{f' with save={list(save)}' if save is not None else ''}"
    if facts["others_bytes"] != allowed_bytes or facts["held_bytes"] < arguments_bytes:
        more = facts["others_bytes"] > allowed_bytes
        raise broken(
            f"Between forward and backward {function} keeps {facts['others_bytes']} bytes beside the arguments' own memory, "
            f"{facts['held_bytes']} in all.",
            f"Allowed: {allowed_bytes} beside the arguments' {arguments_bytes}, all by save_for_backward.",
            "More is kept than was asked for." if more else "What is kept is not saved by save_for_backward, or lost.",
            "Is it the inside, an output, or a copy of an argument?" if more else "Save the tensors themselves.",
        )
    if facts["num_alive"] and not save:
        raise broken(
            f"{facts['num_alive']} tensors of the function's inside are still alive after forward.",
            "Allowed: none.",
            "Tensors of the inside are kept alive.",
            "Something still refers to them: an attribute of ctx, a list, a graph.",
        )
    if facts["output_alive"]:
        raise broken(
            "The output is still alive although nobody outside has it any more.",
            "Allowed: its memory goes when those who use it let it go.",
            "The output is kept alive.",
            "Backward doesn't need the output of forward: it makes its own.",
        )
    if facts["held_after_bytes"] or facts["argument_alive"]:
        held = f"{facts['held_after_bytes']} bytes are" if facts["held_after_bytes"] else "an argument that the caller has let go is"
        raise broken(
            f"After backward {held} still held.",
            "Allowed: nothing.",
            "Backward doesn't free what was kept.",
            "What save_for_backward keeps goes with the graph; what ctx or a closure refers to stays as long as the output.",
        )


HANDED_OUT = "Does each operation get all outputs of its own first call, in the order of the calls, with autograd recording it?"


def run_counted(observe: Any, way: str, save: Sequence[str] | None = None, **case: Any) -> Any:
    """A step of the mixture, plain and this way, every operation counted."""
    wanted = {"save": list(save)} if save is not None else {}
    returns = doubles(y=(B,), dx=(B, C), dw=(C, H), dv=(H, H))
    seen = observe("counted", transport="none", inputs=drawn(MIXTURE), returns=returns, way=way, **wanted, **case)
    return advised(seen, "raised", HANDED_OUT) if save else seen


def judge_mixture(seen: Any) -> None:
    """(largest of tanh(x w) v in each row) · sin(sum of x) and its gradients."""
    x, w, v, dy = (seen.inputs[name] for name in ("x", "w", "v", "dy"))
    hidden, total = np.tanh(x @ w), x.sum(1)
    product = hidden @ v
    chosen = np.eye(H)[product.argmax(1)]
    d_product = chosen * (dy * np.sin(total))[:, None]
    inner = d_product @ v.T * (1 - hidden**2)
    along = (dy * product.max(1) * np.cos(total))[:, None]
    expected = {"y": product.max(1) * np.sin(total), "dx": inner @ w.T + along, "dw": x.T @ inner, "dv": hidden.T @ d_product}
    assert_all(seen, expected, suggestion=HANDED_OUT)


def judge_counts(seen: Any) -> None:
    """Beyond a plain step, everything in the forward ran once more but for what `save` names; the FLOPs say the same."""
    facts, save = seen.facts(0), seen.request.parameters.get("save", [])
    plain, ours = facts["plain"], facts["ours"]
    judge_calls(ours["calls"])
    for operation in (*PRODUCTS, *OTHER_OPERATIONS):
        name = f"aten.{operation}"
        again = ours["counts"].get(name, 0) - plain["counts"].get(name, 0)
        expected = 0 if operation in save else facts["forward"][name]
        if again != expected:
            raise broken(
                f"{name} runs {again} times beyond a plain step (its forward has {facts['forward'][name]}), with save={save}.",
                f"Expected: {expected}.",
                f"{name} {'runs again although it is saved' if again > expected else 'does not run again'}.",
                "What is in save is replayed, everything else is run, and gradients that nobody takes cost FLOPs too.",
            )
    forward_flops = 2 * B * C * H + 2 * B * H * H
    added, allowed = ours["flops"] - plain["flops"], 0 if "mm.default" in save else forward_flops
    if added != allowed:
        raise broken(
            f"The step has {added} FLOPs beyond a plain one.",
            f"Expected: {allowed}, of {forward_flops} in the forward.",
            f"The forward's FLOPs are added {added / forward_flops:.3g} times.",
            "Count how often the products run.",
        )


def run_large(observe: Any, probe: str, *, room_mib: int, **case: Any) -> Any:
    """`probe` on tensors of 4 MiB in a process that may grow by `room_mib` only."""

    def inputs(rng: np.random.Generator) -> dict[str, Array]:
        return {"x": rng.standard_normal(PATTERN).astype(np.float32), "scale": np.float32(rng.uniform(0.5, 1, ()))}

    return observe(
        probe,
        transport="none",
        inputs=inputs,
        returns={"scale.grad": ("float32", ())},
        repeat=LARGE_REPEAT,
        limits=Limits(extra_bytes=room_mib * MiB),
        **case,
    )


def judge_large(seen: Any, depth: int) -> None:
    """It came to an end, with the right gradient."""
    x, scale = seen.inputs["x"].astype(np.float64), float(seen.inputs["scale"])
    assert_scale_gradient(seen, float(np.mean(derivative_of_sines(x, scale, depth))))


# --- layers ----------------------------------------------------------------------------------------------------------
def run_sequence(observe: Any, num_layers: int, num_segments: int, **case: Any) -> Any:
    """checkpoint_sequential of layers tanh(h w_l)."""
    shapes: Shapes = {"x": (B, C), "w": (num_layers, C, C), "dy": (B, C)}
    returns = doubles(y=(B, C), dx=(B, C), dw=(num_layers, C, C))
    return observe("sequence", transport="none", inputs=drawn(shapes), returns=returns, num_segments=num_segments, **case)


def judge_sequence(seen: Any) -> None:
    """Output and gradients of tanh(... tanh(x w_0) ... w_L)."""
    hidden = [seen.inputs["x"]]
    for matrix in seen.inputs["w"]:
        hidden.append(np.tanh(hidden[-1] @ matrix))
    gradient, d_matrices = seen.inputs["dy"], []
    for matrix, before, after in zip(seen.inputs["w"][::-1], hidden[-2::-1], hidden[:0:-1], strict=True):
        inner = gradient * (1 - after**2)
        d_matrices.append(before.T @ inner)
        gradient = inner @ matrix.T
    assert_all(seen, {"y": hidden[-1], "dx": gradient, "dw": np.stack(d_matrices[::-1])})


def judge_segments(seen: Any) -> None:
    """The recomputation takes the segments from the last to the first, each in order: their lengths are as equal as can be."""
    facts, num_segments, num_layers = seen.facts(0), seen.request.parameters["num_segments"], len(seen.inputs["w"])
    again = facts["order"][facts["num_in_forward"] :]
    starts = [at for at in range(len(again)) if at == 0 or again[at] != again[at - 1] + 1]
    lengths = [b - a for a, b in zip(starts, [*starts[1:], len(again)], strict=True)][::-1]
    expected = [len(part) for part in np.array_split(np.zeros(num_layers), num_segments)]
    if lengths != expected:
        raise broken(
            f"{num_layers} layers in {num_segments} segments: the segments that are recomputed have {lengths} layers.",
            f"Expected: {expected}.",
            "The layers are cut into other segments.",
            "The longer ones come first: divmod(L, segments) gives the length, and how many have one layer more.",
        )


def judge_layer_runs(seen: Any) -> None:
    """Each layer runs once in forward, in order, and once in backward."""
    facts, num_layers = seen.facts(0), len(seen.inputs["w"])
    forward, again = facts["order"][: facts["num_in_forward"]], facts["order"][facts["num_in_forward"] :]
    if forward != list(range(num_layers)) or sorted(again) != list(range(num_layers)):
        raise broken(
            f"Of {num_layers} layers, {forward} run in forward and {again} in backward.",
            "Expected: each once in each, two times in all, those of the last segment too.",
            "Layers run too often or too seldom.",
            "Every segment is one checkpoint of its own.",
        )


def judge_peaks(observe: Any, num_layers: Sequence[int], **case: Any) -> None:
    """With s = √L segments of one tensor a layer, s are kept after forward, and at most s + L/s at any time."""
    shapes = [[count, math.isqrt(count)] for count in num_layers]
    seen = observe("peaks", transport="none", inputs=drawn({"x": (1000,)}), shapes=shapes, **case)
    for (count, segments), (after_forward, most) in zip(shapes, seen.facts(0)["held"], strict=True):
        limit = segments + count / segments + 1  # the one: an output that is on its way
        if after_forward > segments or most > limit or most < 2:
            raise broken(
                f"{count} layers in {segments} segments: {after_forward:g} units are kept after forward, {most:g} at most.",
                f"Allowed: {segments} units (the memory of one layer's input) after forward, {limit:g} at most.",
                f"{most / (2 * segments):.3g} times 2√L is held.",
                "Kept are the segments' inputs; in backward one segment's inside at a time.",
            )


def judge_impossible(observe: Any, num_layers: int, num_segments: Sequence[int], **case: Any) -> None:
    """These numbers of segments raise ValueError."""
    seen = observe("impossible_segments", transport="none", num_layers=num_layers, num_segments=list(num_segments), **case)
    for (count, way), outcome in zip(itertools.product(num_segments, ("", " under no_grad")), seen.facts(0)["outcomes"], strict=True):
        if outcome != "ValueError":
            told = "returns as if nothing were wrong" if outcome == "nothing" else f"raises {outcome}"
            raise broken(
                f"checkpoint_sequential of {num_layers} layers in {count} segments{way} {told}.",
                "Expected: ValueError.",
                "An impossible number of segments is not refused with ValueError.",
                "1 to L segments can be made.",
            )
