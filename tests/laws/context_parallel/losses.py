"""The loss of a cut sequence: the mean over all ranks' targets, its gradient, and what travels for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.errors import CourseError
from grader.numerics import Hints, assert_close, unit_roundoff
from grader.records import num_elements
from tests.laws.context_parallel.oracle import HALVES, Array, draw
from tests.laws.context_parallel.sequences import Case, members_of, place_of, spoken
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

VOCABULARY = 11


def loss_case(
    counts: list[int], *, dtype: str = "float64", num_tokens: int = 4, ignore_index: int | None = None, scale: float = 1.0,
    size: float = 1.0, is_flat: bool = False,
) -> Case:  # fmt: skip
    """counts: by rank, how many of its 2·num_tokens targets count. scale: of the gradient that arrives. size: of the logits.

    is_flat: targets have one dim and not two.
    """
    shape = [2 * num_tokens] if is_flat else [2, num_tokens]
    return {"counts": counts, "dtype": dtype, "shape": shape, "ignore_index": ignore_index, "scale": scale, "size": size}


def run_loss(observe: Any, world_size: int, cases: list[Case], *, groups: list[list[int]] | None = None, **words: Any) -> Any:
    """All cases in one run."""

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn: dict[str, list[Array]] = {}
        for number, case in enumerate(cases):
            shape, ignored = tuple(case["shape"]), -100 if case["ignore_index"] is None else case["ignore_index"]
            drawn[f"logits{number}"], drawn[f"targets{number}"] = [], []
            for count in case["counts"]:
                targets = rng.choice([word for word in range(VOCABULARY) if word != ignored], num_elements(shape))
                targets[rng.permutation(len(targets))[count:]] = ignored
                logits = draw(rng, "float64", (*shape, VOCABULARY)) * case["size"]
                drawn[f"logits{number}"].append(logits.astype(draw(rng, case["dtype"], (1,)).dtype))
                drawn[f"targets{number}"].append(targets.reshape(shape))
        return drawn

    returns: dict[str, Any] = {}
    probed: list[Case] = []
    for number, case in enumerate(cases):
        returns |= {f"loss{number}": (wide(case["dtype"]), ()), f"dlogits{number}": (case["dtype"], (*case["shape"], VOCABULARY))}
        probed.append({key: case[key] for key in ("ignore_index", "scale")})
    return observe("loss", world_size=world_size, inputs=inputs, returns=returns, cases=probed, **spoken(groups), **words)


def wide(dtype: str) -> str:
    """The dtype of the arithmetic."""
    return "float64" if dtype == "float64" else "float32"


def whole_loss(seen: Any, number: int, members: list[int]) -> tuple[float, list[float], list[Array], int]:
    """-> (mean over all counted targets of a group, each rank's own sum, each rank's gradient, how many count)."""
    ignored = seen.request.parameters["cases"][number]["ignore_index"]
    ignored = -100 if ignored is None else ignored
    sums, gradients, total = [], [], 0
    for rank in members:
        logits = np.asarray(seen.input(f"logits{number}", rank), np.float64).reshape(-1, VOCABULARY)
        targets = seen.input(f"targets{number}", rank).reshape(-1)
        counted = targets != ignored
        top = logits.max(-1, keepdims=True)
        lse = top + np.log(np.exp(logits - top).sum(-1, keepdims=True))
        one_hot = np.eye(VOCABULARY)[np.where(counted, targets, 0)]
        sums.append(float((counted * (lse[:, 0] - (logits * one_hot).sum(-1))).sum()))
        gradients.append((counted[:, None] * (np.exp(logits - lse) - one_hot)).reshape(seen.input(f"logits{number}", rank).shape))
        total += int(counted.sum())
    return (sum(sums) / total if total else float("nan")), sums, [g / max(total, 1) for g in gradients], total


def judge_loss(seen: Any, *, gradient: bool) -> None:
    """The loss on every rank; gradient: its gradient instead."""
    for number, case in enumerate(seen.request.parameters["cases"]):
        dtype = seen.request.return_of(f"dlogits{number}", 0).dtype
        unit = unit_roundoff(wide(dtype))
        for members in groups_of(seen):
            n = len(members)
            mean, sums, gradients, total = whole_loss(seen, number, members)
            if not total and gradient:
                continue
            for place, rank in enumerate(members):
                got = seen.rank(rank)
                if gradient:
                    right = gradients[place] * case["scale"]
                    # softmax, a difference, a quotient and a product: a dozen roundings of numbers below 1, and the dtype's own.
                    allowed = 64 * unit * abs(case["scale"]) / total + (
                        unit_roundoff(dtype) * np.abs(right) + 1e-7 if dtype in HALVES else 0.0
                    )
                    hints = Hints(world_size=n, factors={"what arrives": case["scale"]}, suggestion=
                                  "The derivative of the whole mean with respect to this rank's logits: (softmax - one-hot) over "
                                  "the number of all ranks' targets.")  # fmt: skip
                    what = f"sequence_cross_entropy: the gradient of the logits on rank {rank} of {n}, {total} targets in all"
                    assert_close(got[f"dlogits{number}"], right, allowed=allowed, what=what, hints=hints)
                    continue
                judge_one_loss(seen, number, rank, n, mean, sums, place, unit)


def judge_one_loss(seen: Any, number: int, rank: int, n: int, mean: float, sums: list[float], place: int, unit: float) -> None:
    """The loss of one case on one rank."""
    ignored = seen.request.parameters["cases"][number]["ignore_index"]
    targets = [seen.input(f"targets{number}", other) for other in place_of(seen, rank)[1]]
    counts = [int((t != (-100 if ignored is None else ignored)).sum()) for t in targets]
    others = {"the mean of this rank's own targets": sums[place] / max(counts[place], 1), "the sum over all targets": sum(sums)}
    others["the mean of the ranks' means"] = float(np.mean([s / max(c, 1) for s, c in zip(sums, counts, strict=True)]))
    others["the mean over all places, ignored or not"] = sum(sums) / sum(t.size for t in targets)
    hints = Hints(
        world_size=n,
        others={words: np.asarray(value) for words, value in others.items() if not np.isclose(value, mean)},
        suggestion="The sum of all ranks' losses over the number of all ranks' targets.",
    )
    what = f"sequence_cross_entropy: the loss on rank {rank}, whose group has {counts} targets"
    size = float(np.abs(np.asarray(seen.input(f"logits{number}", rank), np.float64)).max()) + 8
    allowed = (64 + sum(counts)) * unit * size  # a dozen roundings of each target's loss, and one of each addition
    assert_close(seen.rank(rank)[f"loss{number}"], np.asarray(mean), allowed=allowed, what=what, hints=hints)


MOST_LOSS_BYTES = 16  # of a call of sequence_cross_entropy: two numbers of at most eight bytes


def judge_loss_traffic(seen: Any) -> None:
    """All-reduces of a few bytes forward; nothing backward."""
    num_cases = len(seen.request.parameters["cases"])
    for rank in members_of(seen):
        n = len(place_of(seen, rank)[1])
        if n == 1:
            raise CourseError("a group of one says nothing about volume")
        forward, backward = (seen.wire.calls(rank, phase=phase) for phase in ("forward", "backward"))
        strange = [call for call in forward if call.op != "all_reduce"] + list(backward)
        if strange:
            where = f" ({strange[0].at})" if strange[0].at else ""
            raise broken(
                f"sequence_cross_entropy: rank {rank} calls {strange[0].op} of {strange[0].num_bytes} bytes in {strange[0].phase}{where}.",
                "Allowed: all_reduce forward, nothing backward.",
                "Something travels that need not: a rank's own logits and the number of all targets are enough.",
                "What follows the sum is the same on all ranks, so its backward is the identity.",
            )
        got = sum(call.num_bytes for call in forward)
        if not 0 < got <= num_cases * MOST_LOSS_BYTES:
            raise broken(
                f"sequence_cross_entropy: rank {rank} puts {got} bytes into {len(forward)} all-reduces of {num_cases} losses.",
                f"Allowed: {MOST_LOSS_BYTES} bytes a loss, and some.",
                "More travels than two numbers." if got else "Nothing travels: no rank can know the others' losses.",
                "Add up the own losses first, and count the own targets.",
            )
