"""f, g and their relatives: values against numpy in fp64, and what each pass carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, assert_equal, sum_bound
from tests.laws.groups import group_of, groups_of
from tests.laws.sentences import broken
from tests.laws.tensor_parallel.carrying import all_reduced, judge_carried, judge_clean

Array = np.ndarray[Any, Any]
PAIRS = {
    "whole": ["copy_to_tensor_parallel", "reduce_from_tensor_parallel"],
    "last": ["scatter_to_tensor_parallel", "gather_from_tensor_parallel"],
    "sequence": ["all_gather_sequence", "reduce_scatter_sequence"],
}
ALL = [name for pair in PAIRS.values() for name in pair]
SHRINKS = ("scatter_to_tensor_parallel", "reduce_scatter_sequence")
GROWS = ("gather_from_tensor_parallel", "all_gather_sequence")


def draw(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    """Normal numbers."""
    return rng.standard_normal(shape).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def swapped(array: Array, layout: str) -> Array:
    """What the submission gets of this memory, and the other way round."""
    return array.swapaxes(0, -1) if layout == "transposed" else array


def run_functions(
    observe: Any, world_size: int, part: tuple[int, ...], *, dtype: str = "float32", layout: str = "plain", dim: int | None = None,
    names: Sequence[str] = ALL, groups: list[list[int]] | None = None, **case: Any,
) -> Any:  # fmt: skip
    """All functions in one run. part: the shape of a rank's part; the whole has N times as much along the dim that is cut."""
    n = len(groups[0]) if groups else world_size
    shapes = {}
    for name in names:
        axis = (1 if dim is None else dim) if name.endswith("sequence") else len(part) - 1
        whole = tuple(extent * n if d == axis else extent for d, extent in enumerate(part))
        shapes[name] = (whole if name in SHRINKS else part, whole if name in GROWS else part)

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {}
        for name, (x, y) in shapes.items():
            for prefix, shape in (("x", x), ("gradient", y)):
                memory = swapped(np.zeros(shape), layout).shape
                drawn[f"{prefix}/{name}"] = [draw(rng, dtype, memory) for _ in range(world_size)]
        return drawn

    returns: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (x, y) in shapes.items():
        returns |= {f"{prefix}/{name}": (dtype, x) for prefix in ("dx", "x after")}
        returns |= {f"{prefix}/{name}": (dtype, y) for prefix in ("y", "gradient after")}
    words = {key: value for key, value in {"dim": dim, "groups": groups}.items() if value is not None}
    words |= {} if layout == "plain" else {"layout": layout}
    return observe("functions", world_size=world_size, inputs=inputs, returns=returns, names=list(names), **words, **case)


def part_of(array: Array, axis: int, place: int, n: int) -> Array:
    """The place-th of n parts along an axis."""
    return np.split(array, n, axis)[place]


def piece_of(whole: Array, place: int, n: int, like: Array) -> Array:
    """The place-th of n pieces of the memory, in the shape of `like` if it has as many numbers."""
    piece = np.split(whole.reshape(-1), n)[place]
    return piece.reshape(like.shape) if piece.size == like.size else piece


def expected(name: str, arrays: list[Array], place: int, axis: int, *, backward: bool) -> Array:
    """What a function makes of all members' x, or of all members' gradients."""
    n = len(arrays)
    total = np.sum(arrays, axis=0)
    match (name, backward):
        case ("copy_to_tensor_parallel", False) | ("reduce_from_tensor_parallel", True):
            return arrays[place]
        case ("copy_to_tensor_parallel", True) | ("reduce_from_tensor_parallel", False):
            return np.asarray(total)
        case ("scatter_to_tensor_parallel", False) | ("gather_from_tensor_parallel", True):
            return part_of(arrays[place], axis, place, n)
        case ("all_gather_sequence", True) | ("reduce_scatter_sequence", False):
            return part_of(total, axis, place, n)
        case _:
            return np.concatenate(arrays, axis)


def judge_values(seen: Any, names: Sequence[str] = ALL) -> None:
    """Every rank's outputs and gradients."""
    case = seen.request.parameters
    layout = case.get("layout", "plain")
    for name in names:
        spec = seen.request.return_of(f"y/{name}", 0)
        axis = case.get("dim", 1) if name.endswith("sequence") else len(spec.shape) - 1
        for what, prefix, backward in (("the output", "x", False), ("the gradient of the input", "gradient", True)):
            for members in groups_of(seen):
                arrays = [swapped(seen.input(f"{prefix}/{name}", rank), layout).astype(np.float64) for rank in members]
                for place, rank in enumerate(members):
                    judge_one(seen, name, what, arrays, place, rank, axis, backward=backward, dtype=spec.dtype)


def judge_one(
    seen: Any, name: str, what: str, arrays: list[Array], place: int, rank: int, axis: int, *, backward: bool, dtype: str
) -> None:  # fmt: skip
    """One function, one pass, one rank."""
    right = expected(name, arrays, place, axis, backward=backward)
    magnitude = expected(name, [np.abs(array) for array in arrays], place, axis, backward=backward)
    # What is only moved stays bit by bit, and a sum that was expected is off by N-1 roundings in any order.
    is_sum = expected(name, [np.ones_like(a) for a in arrays], place, axis, backward=backward).max(initial=1) > 1
    allowed = sum_bound(dtype, len(arrays), magnitude) if is_sum else 0.0
    others = {"the sum over the ranks": np.sum(arrays, axis=0), "this rank's own, as it was": arrays[place]}
    prefix = "gradient" if backward else "x"
    everyone = [
        swapped(seen.input(f"{prefix}/{name}", each), seen.request.parameters.get("layout", "plain")) for each in range(seen.world_size)
    ]
    others["the sum over all ranks, not over its group"] = np.sum(everyone, axis=0, dtype=np.float64)
    others["the parts of all ranks joined"] = np.concatenate(arrays, axis)
    if arrays[place].shape[axis] % len(arrays) == 0:
        others["this rank's part of its own"] = part_of(arrays[place], axis, place, len(arrays))
        others["this rank's part of the sum"] = part_of(np.sum(arrays, axis=0), axis, place, len(arrays))
        others["a piece of the sum as it lies in memory, not along the dim"] = piece_of(np.sum(arrays, axis=0), place, len(arrays), right)
        for other in range(len(arrays)):
            if other != place:
                others[f"the part of the group's rank {other}, where rank {place}'s belongs"] = part_of(
                    arrays[place], axis, other, len(arrays)
                )
        others["every N-th number of its own, not a stretch of them"] = np.moveaxis(
            np.moveaxis(arrays[place], axis, 0)[place :: len(arrays)], 0, axis
        )
    joined = np.concatenate(arrays, 0)
    others["the parts one behind the other in memory, not along the dim"] = (
        joined.reshape(right.shape) if joined.size == right.size else joined
    )
    if right.shape[axis] == arrays[place].shape[axis] * len(arrays):
        alone = np.concatenate([array * (i == place) for i, array in enumerate(arrays)], axis)
        others["this rank's part in its place, and zeros where the others' belong"] = alone
    fitting = {words: value for words, value in others.items() if value.shape == right.shape and not np.array_equal(value, right)}
    got = seen.rank(rank)[f"{'dx' if backward else 'y'}/{name}"]
    suggestion = "all_gather_sequence and reduce_scatter_sequence are each other's backward, along the dim given."
    hints = Hints(world_size=len(arrays), others=fitting, suggestion=suggestion if name.endswith("sequence") else "")
    assert_close(got, right, allowed=allowed, what=f"{name}: {what} on rank {rank}", hints=hints)


def judge_untouched(seen: Any, names: Sequence[str] = ALL) -> None:
    """Inputs and incoming gradients after both passes."""
    layout = seen.request.parameters.get("layout", "plain")
    for name in names:
        for prefix, what in (("x", "the input"), ("gradient", "the incoming gradient")):
            for rank in range(seen.world_size):
                before = swapped(seen.input(f"{prefix}/{name}", rank), layout)
                after, words = seen.rank(rank)[f"{prefix} after/{name}"], f"{name}: {what} of rank {rank} afterwards"
                suggestion = f"{what.capitalize()} is written to: an all_reduce works in place, so give it a copy."
                assert_equal(after, before, what=words, hints=Hints(suggestion=suggestion))


def judge_volume(seen: Any, names: Sequence[str] = ALL) -> None:
    """Section 3's table."""
    n = len(group_of(seen, 0))
    if n == 1:
        raise CourseError("a group of one says nothing about volume")
    for name in names:
        specs = [seen.request.return_of(f"{prefix}/{name}", 0) for prefix in ("y", "dx")]
        whole = max(spec.num_bytes for spec in specs)
        both = all_reduced(whole, n)
        forward, backward = {
            "copy_to_tensor_parallel": (0.0, both),
            "reduce_from_tensor_parallel": (both, 0.0),
            "scatter_to_tensor_parallel": (0.0, both / 2),
            "gather_from_tensor_parallel": (both / 2, 0.0),
        }.get(name, (both / 2, both / 2))
        for phase, allowed in (("forward", forward), ("backward", backward)):
            why = f"of a tensor of {whole} bytes in all" if allowed else "for every rank has what it needs"
            judge_carried(seen, f"{name} {phase}", least=allowed, most=allowed, why=why)


def judge_traffic(seen: Any, names: Sequence[str] = ALL) -> None:
    """Dtype, contiguity and group of what travels."""
    dtype = seen.request.return_of(f"y/{names[0]}", 0).dtype
    judge_clean(seen, [f"{name} {phase}" for name in names for phase in ("forward", "backward")], dtype)


# --- nested calls ----------------------------------------------------------------------------------------------------
def run_nested(observe: Any, world_size: int, name: str, **case: Any) -> Any:
    """Two calls of a sequence function along other dims, before the backward of either."""
    part = [2 * world_size, 2 * world_size, 2]  # a wrong dim can be cut, too, and gives a wrong gradient
    whole = [[extent * (world_size if d == dim else 1) for d, extent in enumerate(part)] for dim in (0, 1)]

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {}
        for dim in (0, 1):
            x, y = (whole[dim], part) if name in SHRINKS else (part, whole[dim])
            drawn[f"x{dim}"] = [draw(rng, "float32", x) for _ in range(world_size)]
            drawn[f"gradient{dim}"] = [draw(rng, "float32", y) for _ in range(world_size)]
        return drawn

    returns = {f"dx{dim}": ("float32", tuple(whole[dim] if name in SHRINKS else part)) for dim in (0, 1)}
    return observe("nested", world_size=world_size, inputs=inputs, returns=returns, name=name, **case)


def judge_nested(seen: Any) -> None:
    """The gradient of each call is that of its own dim."""
    name, n = seen.request.parameters["name"], seen.world_size
    for dim in (0, 1):
        gradients = [seen.input(f"gradient{dim}", rank).astype(np.float64) for rank in range(n)]
        sizes = [np.abs(gradient) for gradient in gradients]
        for rank in range(n):
            right = expected(name, gradients, rank, dim, backward=True)
            allowed = sum_bound("float32", n, expected(name, sizes, rank, dim, backward=True))
            hints = Hints(world_size=n, suggestion="What a backward needs to know of its forward belongs in ctx: calls may nest.")
            what = f"{name}: the gradient of the input of a call along dim {dim}, with another call before its backward, on rank {rank}"
            assert_close(seen.rank(rank)[f"dx{dim}"], right, allowed=allowed, what=what, hints=hints)


# --- refusals --------------------------------------------------------------------------------------------------------
def run_refusals(observe: Any, world_size: int, cases: list[dict[str, Any]], **case: Any) -> Any:
    """Calls that must be refused: {"what": a function or layer, "shape": of x, or in and out}."""
    return observe("refusals", world_size=world_size, returns={}, cases=cases, **case)


def judge_refusals(seen: Any, *, sends: bool = False) -> None:
    """Each call of each rank ended with a ValueError that names both numbers; sends: what came before it may have sent something."""
    if seen.fault and seen.fault.kind != "raised":
        raise broken(f"Instead of a ValueError: {seen.fault.sentence}", "Expected: a ValueError on every rank.",
                     "What cannot be cut into equal parts is not refused with a ValueError, and the ranks go on.",
                     "Check before anything is sent.", "\n".join(seen.fault.lines))  # fmt: skip
    for rank in range(seen.world_size):
        for case, (kind, message) in zip(seen.request.parameters["cases"], seen.facts(rank)["raised"], strict=True):
            numbers = [str(case["extent"]), str(seen.world_size)]
            words = f"{case['what']} of {case['extent']} on {seen.world_size} ranks"
            suggestion = "Check before anything is sent, and say in the message what N does not divide, and N."
            if kind != "ValueError":
                got = f"{kind}: {message}" if kind else "no error"
                raise broken(f"{words}: rank {rank} got {got}.", "Expected: a ValueError.",
                             "What cannot be cut into equal parts is not refused with a ValueError.", suggestion)  # fmt: skip
            if not all(number in message for number in [case.get("name", numbers[0]), *numbers]):
                raise broken(f"{words}: the ValueError says {message!r}.", f"Expected: a message with {' and '.join(numbers)}.",
                             "The ValueError does not name both numbers.", suggestion)  # fmt: skip
        if not sends and any(seen.wire.calls(rank, phase="refusal")):
            raise broken(f"rank {rank} calls a collective before it refuses.", "Expected: nothing is sent.",
                         "Something is sent before the ValueError.", "Check first.")  # fmt: skip
