"""The gradient's norm over the whole model, and the scaling of all its parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, unit_roundoff
from tests.laws.groups import groups_of
from tests.laws.sentences import broken
from tests.laws.tensor_parallel.functions import Array, draw

Gradients = dict[str, tuple[str, tuple[int, ...]]]
CUT: Gradients = {"part": ("float32", (5, 4)), "other part": ("float32", (7,))}
WHOLE: Gradients = {"scale": ("float32", (6,)), "bias": ("float32", (3,))}
ROUNDINGS = 8  # squares, root, sum, quotient and product


def run_clip(
    observe: Any, world_size: int, *, max_norm: float, cut: Gradients | None = None, whole: Gradients | None = None,
    missing: tuple[str, ...] = (), groups: list[list[int]] | None = None, **case: Any,
) -> Any:  # fmt: skip
    """Gradients of parts, other ones on each rank, and of whole parameters, the same in a group."""
    cut, whole = CUT if cut is None else cut, WHOLE if whole is None else whole
    teams = groups or [list(range(world_size))]

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {name: [draw(rng, dtype, shape) for _ in range(world_size)] for name, (dtype, shape) in cut.items()}
        for name, (dtype, shape) in whole.items():
            of_team = [draw(rng, dtype, shape) for _ in teams]
            drawn[name] = [next(g for g, members in zip(of_team, teams, strict=True) if rank in members) for rank in range(world_size)]
        return drawn

    returns = {name: spec for name, spec in (cut | whole).items() if name not in missing}
    wide = "float64" if any(dtype == "float64" for dtype, _ in (cut | whole).values()) else "float32"
    words = {"groups": groups} if groups else {}
    return observe("clip", world_size=world_size, inputs=inputs, returns=returns | {"norm": (wide, ())}, max_norm=max_norm,
                   cut=list(cut), missing=list(missing), **words, **case)  # fmt: skip


def norm_of(seen: Any, members: list[int], *, only: int | None = None, times: int = 1) -> float:
    """The group's norm; only: with the parts of one rank; times: whole parameters counted so often."""
    case, total = seen.request.parameters, 0.0
    for name in seen.request.inputs:
        if name in case["missing"]:
            continue
        ranks = members if name in case["cut"] and only is None else [members[0] if only is None else only]
        squares = sum(float(np.square(seen.input(name, rank).astype(np.float64)).sum()) for rank in ranks)
        total += squares * (1 if name in case["cut"] else times)
    return total**0.5


def judge_norm(seen: Any) -> None:
    """The norm that every rank returns."""
    for members in groups_of(seen):
        norm, n = norm_of(seen, members), len(members)
        num_terms = sum(seen.input(name, rank).size for name in seen.request.inputs for rank in members)
        for rank in members:
            others = {"the norm with whole parameters counted once for each rank": norm_of(seen, members, times=n),
                      "the norm of this rank's own gradients": norm_of(seen, members, only=rank)}  # fmt: skip
            each, of_parts = ([norm_of(seen, members, only=member, times=times) for member in members] for times in (1, 0))
            joined = norm**2 - sum(value**2 for value in of_parts) + sum(of_parts) ** 2
            others |= {
                "the sum of the ranks' norms": sum(each),
                "the norm for which norms of parts are added, not their squares": joined**0.5,
                "the norm without its root": norm**2,
                "the root of the sum of the squares of all ranks' norms": sum(value**2 for value in each) ** 0.5,
            }
            different = {words: np.asarray(value) for words, value in others.items() if abs(value - norm) > 1e-6 * norm}
            suggestion = "Squares of parts add up over the group, those of whole parameters count once."
            if any(seen.input(name, members[0]).dtype.itemsize == 2 for name in seen.request.inputs):
                suggestion += " In 16 bits a square loses digits, vanishes or overflows: what is squared and added in float32?"
            hints = Hints(world_size=n, others=different, suggestion=suggestion)
            allowed = (num_terms + ROUNDINGS) * unit_roundoff("float32") * norm
            judge_missing(seen, rank)
            got = seen.rank(rank)["norm"]
            assert_close(got, np.asarray(norm), allowed=allowed, what=f"the gradient's norm on rank {rank}", hints=hints)


def judge_scaled(seen: Any) -> None:
    """Every gradient times the same factor; where the norm is small enough, as it was."""
    case = seen.request.parameters
    for members in groups_of(seen):
        scale = min(1.0, case["max_norm"] / (norm_of(seen, members) + 1e-6))
        for rank in members:
            for name in seen.request.inputs:
                if name in case["missing"]:
                    continue
                before, dtype = seen.input(name, rank).astype(np.float64), seen.request.return_of(name, rank).dtype
                right = before * scale
                # One rounding in its own dtype (two where the factor is rounded first), and the norm's.
                num_terms = sum(seen.input(each, 0).size for each in seen.request.inputs) * len(members) + ROUNDINGS
                allowed = (2 * unit_roundoff(dtype) + num_terms * unit_roundoff("float32")) * np.abs(right) if scale < 1 else 0.0
                own = float(np.linalg.norm(before)), norm_of(seen, members, only=rank)
                of = zip(("its own norm", "this rank's own norm"), own, strict=True)
                others = {f"the gradient scaled by {words}": before * min(1.0, case["max_norm"] / (norm + 1e-6)) for words, norm in of}
                others |= {
                    "the gradient scaled up to max_norm, which the norm is below": before
                    * case["max_norm"]
                    / (norm_of(seen, members) + 1e-6)
                }
                others = {words: value for words, value in others.items() if not np.allclose(value, right, rtol=1e-5)}
                suggestion = "One factor for all, min(1, max_norm / (norm + 1e-6))."
                hints = Hints(world_size=len(members), others=others, untouched=before, suggestion=suggestion)
                what = f"the gradient of {name} on rank {rank}, clipped to {case['max_norm']:g}"
                assert_close(seen.rank(rank)[name], right, allowed=allowed, what=what, hints=hints)
            if seen.facts(rank)["replaced"]:
                names = ", ".join(seen.facts(rank)["replaced"])
                raise broken(f"rank {rank}: the gradient of {names} is another tensor afterwards.", "Expected: it is scaled in place.",
                             "A gradient is replaced, not scaled in place: whoever holds a view of it keeps the old one.")  # fmt: skip
            judge_missing(seen, rank)


def judge_missing(seen: Any, rank: int) -> None:
    """A gradient that was None still is."""
    if names := ", ".join(seen.facts(rank)["appeared"]):
        raise broken(f"rank {rank}: {names} had no gradient, and has one now.", "Expected: None still.", "A missing gradient is filled in.")
