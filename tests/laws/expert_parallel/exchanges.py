"""Rows that change ranks: nothing is computed, so everything is equal bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_equal
from tests.laws.expert_parallel.carrying import judge_clean, judge_rows, require
from tests.laws.expert_parallel.oracle import Array
from tests.laws.expert_parallel.routers import as_dtype
from tests.laws.groups import groups_of

Matrix = list[list[int]]  # [i][j]: rows of place i for place j


def run_exchange(
    observe: Any, world_size: int, sent: Sequence[Matrix], *, dims: tuple[int, ...] = (3,), dtype: str = "float32", layout: str = "plain",
    groups: list[list[int]] | None = None, **case: Any,
) -> Any:  # fmt: skip
    """all_to_all_rows for each matrix, and then their backwards; every rank's numbers are its own."""
    is_trained = not dtype.startswith("int")
    teams = groups or [list(range(world_size))]
    place_of = {rank: place for members in teams for place, rank in enumerate(members)}
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for call, matrix in enumerate(sent):
        shapes[f"x{call}"] = [(sum(matrix[place_of[rank]]), *dims) for rank in range(world_size)]
        shapes[f"y{call}"] = [(sum(row[place_of[rank]] for row in matrix), *dims) for rank in range(world_size)]

    def lying(shape: tuple[int, ...], *, is_gradient: bool) -> tuple[int, ...]:
        if layout == "expanded":
            return (1, *shape[1:]) if is_gradient else shape
        return (shape[1], shape[0], *shape[2:]) if layout == "transposed" else shape

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return as_dtype(rng.standard_normal(shape) * (1000 if dtype.startswith("int") else 1), dtype)

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {}
        for call in range(len(sent)):
            drawn[f"x{call}"] = [draw(rng, lying(shape, is_gradient=False)) for shape in shapes[f"x{call}"]]
            if is_trained:
                drawn[f"gradient{call}"] = [draw(rng, lying(shape, is_gradient=True)) for shape in shapes[f"y{call}"]]
        return drawn

    returns = {}
    for call in range(len(sent)):
        returns[f"y{call}"] = [(dtype, shape) for shape in shapes[f"y{call}"]]
        returns[f"x{call} after"] = [(dtype, lying(shape, is_gradient=False)) for shape in shapes[f"x{call}"]]
        if is_trained:
            returns[f"dx{call}"] = [(dtype, shape) for shape in shapes[f"x{call}"]]
            returns[f"gradient{call} after"] = [(dtype, lying(shape, is_gradient=True)) for shape in shapes[f"y{call}"]]
    words: dict[str, Any] = ({"groups": groups} if groups else {}) | ({} if layout == "plain" else {"layout": layout})
    words |= {} if is_trained else {"is_trained": False}
    return observe("exchange", world_size=world_size, inputs=inputs, returns=returns, sent=[list(m) for m in sent], **words, **case)


def as_given(seen: Any, name: str, rank: int, num_rows: int) -> Array:
    """An input as the function got it."""
    array, layout = seen.input(name, rank), seen.request.parameters.get("layout", "plain")
    if layout == "transposed":
        return array.swapaxes(0, 1)
    return np.broadcast_to(array, (num_rows, *array.shape[1:])) if layout == "expanded" and name.startswith("gradient") else array


def exchanged(parts: list[Array], matrix: Matrix, place: int) -> Array:
    """What the rank at `place` gets of all members' arrays; matrix[i][j]: rows of i for j."""
    pieces = [np.split(part, np.cumsum(row)[:-1]) for part, row in zip(parts, matrix, strict=True)]
    return np.concatenate([piece[place] for piece in pieces])


def judge_exchange(seen: Any, *, backward: bool) -> None:
    """Every call's rows, or their gradients."""
    if backward:
        diagnosis = "Forward or backward ends with an error, and so no gradient comes home."
        if (num_calls := len(seen.request.parameters["sent"])) > 1:
            diagnosis += f" All {num_calls} forwards come before the first backward: does each call keep splits of its own?"
        require(seen, "every row's gradient comes home", diagnosis)
    if len(groups_of(seen)) > 1:
        diagnosis = f"The groups are {groups_of(seen)}: is `group` handed to every call, also in backward?"
        require(seen, "the ranks of each group exchange their own rows", diagnosis)
    for call, matrix in enumerate(seen.request.parameters["sent"]):
        way = [list(row) for row in zip(*matrix, strict=True)] if backward else matrix
        for members in groups_of(seen):
            name = f"gradient{call}" if backward else f"x{call}"
            parts = [as_given(seen, name, rank, sum(way[place])) for place, rank in enumerate(members)]
            for place, rank in enumerate(members):
                right = exchanged(parts, way, place)
                turned = parts[place:] + parts[:place], way[place:] + way[:place]
                others = {
                    "the rank's own, as it was": parts[place],
                    "in the order of a ring, the rank's own first": exchanged(*turned, place),
                    "in the reverse order of the ranks": exchanged(parts[::-1], way[::-1], place),
                }
                others = {words: a for words, a in others.items() if a.shape == right.shape and not np.array_equal(a, right)}
                suggestion = "Output's splits come before the input's; rows arrive in the order of the ranks that sent them."
                if backward:
                    suggestion = "Backward is the same call with sent and received exchanged, those of this call, kept in ctx."
                what = f"all_to_all_rows, call {call}: {'the gradient of x' if backward else 'the rows'} on rank {rank}"
                hints = Hints(world_size=len(members), others=others, suggestion=suggestion)
                assert_equal(seen.rank(rank)[f"{'dx' if backward else 'y'}{call}"], right, what=what, hints=hints)


def judge_untouched(seen: Any) -> None:
    """x and the incoming gradient afterwards."""
    for rank in range(seen.world_size):
        for name in seen.request.inputs:
            what = f"all_to_all_rows: {'x' if name.startswith('x') else 'the incoming gradient'} of rank {rank} afterwards"
            hints = Hints(suggestion="It is written to: receive into memory of your own.")
            assert_equal(seen.rank(rank)[f"{name} after"], seen.input(name, rank), what=what, hints=hints)


def judge_volume(seen: Any) -> None:
    """One all-to-all in each pass, with the rows and nothing else."""
    for call, matrix in enumerate(seen.request.parameters["sent"]):
        for members in groups_of(seen):
            for place, rank in enumerate(members):
                spec = seen.request.return_of(f"x{call} after", rank)
                row_bytes = row_bytes_of(seen, call, rank)
                judge_rows(seen, f"forward {call}", rank, rows=[matrix[place]], row_bytes=row_bytes, dtype=spec.dtype)
                if seen.request.parameters.get("is_trained", True):
                    back = [row[place] for row in matrix]
                    judge_rows(seen, f"backward {call}", rank, rows=[back], row_bytes=row_bytes, dtype=spec.dtype)


def row_bytes_of(seen: Any, call: int, rank: int) -> int:
    """Bytes of one row."""
    spec = seen.request.return_of(f"y{call}", rank)
    one = type(spec)(spec.dtype, (1, *spec.shape[1:]))
    return int(one.num_bytes)


def judge_traffic(seen: Any) -> None:
    """Contiguity, and the group."""
    calls = range(len(seen.request.parameters["sent"]))
    judge_clean(seen, [f"{way} {call}" for way in ("forward", "backward") for call in calls])
