"""Dispatch and combine, of routings that the judge made: rows bit by bit, sums against numpy in fp64."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, rounding_bound, sum_bound, unit_roundoff
from grader.records import ITEMSIZE, Limits, MiB
from tests.laws.expert_parallel.carrying import assert_all_took_part, judge_clean, judge_rows
from tests.laws.expert_parallel.oracle import Array, Row, counts_of, rows_of
from tests.laws.expert_parallel.routers import as_dtype
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

UNREACHED = "0: no gradient gets there, as if it were cut off by a detach"
ROUNDINGS = 3  # of a product, and of a sum that begins with 0


def choices(
    case_seed: int, tokens: list[int], num_experts: int, top_k: int, *, of: list[int] | None = None, dropped: float = 0.3
) -> tuple[list[Array], list[Array]]:
    """Each rank's experts and kept: made here, so that the numbers of rows are known before a run. of: the experts wanted at all."""
    rng = np.random.default_rng(case_seed)
    wanted = np.array(of if of is not None else range(num_experts))
    experts = [np.array([rng.permutation(wanted)[:top_k] for _ in range(t)], np.int64).reshape(t, top_k) for t in tokens]
    return experts, [rng.random(chosen.shape) >= dropped for chosen in experts]


def run_dispatch(
    observe: Any, world_size: int, num_experts: int, chosen: tuple[list[Array], list[Array]], *, channels: tuple[int, int] = (3, 3),
    dtype: str = "float32", layout: str = "plain", groups: list[list[int]] | None = None, num_calls: int = 1, **case: Any,
) -> Any:  # fmt: skip
    """chosen: of `choices`, one for each rank; channels: of x and of the outputs."""
    experts, kept = chosen
    teams = groups or [list(range(world_size))]
    num_tokens, top_k, (c, c_out) = [len(each) for each in experts], experts[0].shape[1], channels
    num_rows = [0] * world_size
    for members in teams:
        for place, rows in enumerate(rows_of([experts[rank] for rank in members], [kept[rank] for rank in members], num_experts)):
            num_rows[members[place]] = len(rows)
    wide = "float64" if dtype == "float64" else "float32"

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        def draw(counts: list[int], width: int, *, swapped: bool = False, dtype: str = dtype) -> list[Array]:
            shapes = [(width, count) if swapped else (count, width) for count in counts]
            return [as_dtype(rng.standard_normal(shape), dtype) for shape in shapes]

        is_swapped = layout == "transposed"
        return {
            "x": draw(num_tokens, c, swapped=is_swapped), "outputs": draw(num_rows, c_out, swapped=is_swapped),
            "gradient_rows": draw(num_rows, c), "gradient_y": draw(num_tokens, c_out), "weights": draw(num_tokens, top_k, dtype=wide),
            "experts": experts, "kept": kept,
        }  # fmt: skip

    def each(counts: list[int], width: int, of: str = dtype) -> list[tuple[str, tuple[int, int]]]:
        return [(of, (count, width)) for count in counts]

    returns: dict[str, Any] = {}
    for call in range(num_calls):
        returns |= {f"{name} {call}": each(num_tokens, c) for name in ("dx",)} | {f"x {call} after": each(num_tokens, c)}
        returns |= {f"rows {call}": each(num_rows, c), f"y {call}": each(num_tokens, c_out)}
        returns |= {f"doutputs {call}": each(num_rows, c_out), f"outputs {call} after": each(num_rows, c_out)}
    returns |= {"dweights": each(num_tokens, top_k, wide), "weights after": each(num_tokens, top_k, wide)}
    returns |= {"experts after": each(num_tokens, top_k, "int64"), "kept after": each(num_tokens, top_k, "bool")}
    returns |= {"gradient_y after": each(num_tokens, c_out), "gradient_rows after": each(num_rows, c)}
    words: dict[str, Any] = ({"groups": groups} if groups else {}) | ({} if layout == "plain" else {"layout": layout})
    words |= {"num_calls": num_calls} if num_calls > 1 else {}
    return observe("there_and_back", world_size=world_size, inputs=inputs, returns=returns, num_experts=num_experts, **words, **case)


def as_given(seen: Any, name: str, rank: int, call: int = 0) -> Array:
    """x or outputs of a call: the input plus the call's number, in its own dtype."""
    array = seen.input(name, rank)
    array = array.T if seen.request.parameters.get("layout") == "transposed" else array
    return array + array.dtype.type(call) if call else array


def plan(seen: Any) -> list[tuple[list[int], list[list[Row]]]]:
    """-> for each group its members and, for each place, the rows that it gets."""
    e = seen.request.parameters["num_experts"]
    return [
        (members, rows_of([seen.input("experts", rank) for rank in members], [seen.input("kept", rank) for rank in members], e))
        for members in groups_of(seen)
    ]


def num_calls(seen: Any) -> int:
    """How many dispatches there were."""
    return int(seen.request.parameters.get("num_calls", 1))


# --- values ----------------------------------------------------------------------------------------------------------
def judge_arrived(seen: Any) -> None:
    """Rows and their numbers, after every dispatch."""
    e = seen.request.parameters["num_experts"]
    for members, rows_by_place in plan(seen):
        n = len(members)
        for place, rank in enumerate(members):
            rows, per_place = rows_by_place[place], e // n
            counts = [sum(row.expert == place * per_place + own for row in rows) for own in range(per_place)]
            for call in range(num_calls(seen)):
                said, kinds = seen.facts(rank)["num_rows"][call], seen.facts(rank)["kinds"][call]
                if kinds not in ([], ["int"]):
                    raise broken(f"Dispatched.num_rows on rank {rank} is made of {' and '.join(kinds)}.", "Expected: Python ints.",
                                 "num_rows isn't made of ints: what splits rows by it reads a tensor each time.", "tolist().")  # fmt: skip
                if said != counts:
                    raise broken(f"Dispatched.num_rows on rank {rank} is {said}.", f"Expected: {counts}, of experts "
                                 f"{place * per_place} to {place * per_place + per_place - 1}.", "num_rows isn't the number of rows of "
                                 "each expert here.", "Add up the counts over the ranks that sent them, for each own expert.")  # fmt: skip
                orders = {
                    "the rows in the order in which they arrive: by rank, then by expert": lambda row: (row.place, row.expert, row.token),
                    "the rows by expert and by token, whatever rank they come from": lambda row: (row.expert, row.token, row.place),
                    "the rows by rank and by token": lambda row: (row.place, row.token, row.choice),
                    "the rows by expert, the ranks in reverse order": lambda row: (row.expert, -row.place, row.token),
                    "the rows by expert, and first choices before second ones, not by token":
                        lambda row: (row.expert, row.place, row.choice, row.token),
                }

                def gathered(rows: list[Row], call: int = call, members: list[int] = members) -> Array:
                    dtype, width = seen.request.return_of("rows 0", 0).dtype, seen.request.return_of("rows 0", 0).shape[1]
                    if not rows:
                        return np.zeros((0, width), as_dtype(np.zeros(0), dtype).dtype)
                    return np.stack([as_given(seen, "x", members[row.place], call)[row.token] for row in rows])

                right = gathered(rows)
                others = {words: gathered(sorted(rows, key=key)) for words, key in orders.items()}
                others = {words: value for words, value in others.items() if not np.array_equal(value, right)}
                suggestion = "Rows come by rank, and from each by expert; experts want them by expert: sort what arrives, stably."
                what = f"Dispatched.rows on rank {rank} of {n}, {per_place} experts there"
                assert_equal(seen.rank(rank)[f"rows {call}"], right, what=what, hints=Hints(others=others, suggestion=suggestion))


def judge_combined(seen: Any) -> None:
    """The weighted sums."""
    for members, rows_by_place in plan(seen):
        for call in range(num_calls(seen)):
            right = {rank: np.zeros(seen.request.return_of("y 0", rank).shape) for rank in members}
            size, plain, unsorted, again, crossed = ({rank: np.zeros_like(value) for rank, value in right.items()} for _ in range(5))
            as_kept = {rank: weights_as_kept(seen, rank) for rank in members}
            for place, rank in enumerate(members):
                outputs = as_given(seen, "outputs", rank, call).astype(np.float64)
                as_arrived = sorted(range(len(rows_by_place[place])), key=lambda i, rows=rows_by_place[place]: (rows[i].place, i))
                arrival = np.argsort(as_arrived)  # where, among the arrived rows, each row was
                for index, row in enumerate(rows_by_place[place]):
                    home = members[row.place]
                    weight = float(seen.input("weights", home)[row.token, row.choice])
                    right[home][row.token] += weight * outputs[index]
                    size[home][row.token] += abs(weight) * np.abs(outputs[index])
                    plain[home][row.token] += outputs[index]
                    unsorted[home][row.token] += weight * outputs[arrival[index]]
                    again[home][row.token] += weight * outputs[arrival[arrival[index]]]
                    crossed[home][row.token] += as_kept[home][row.token, row.choice] * outputs[index]
            for rank in members:
                judge_lost(seen, rank, call)
                dtype, top_k = seen.request.return_of("y 0", rank).dtype, seen.input("weights", rank).shape[1]
                wide = seen.request.return_of("dweights", rank).dtype
                allowed = sum_bound(wide, top_k + ROUNDINGS, size[rank])
                if wide != dtype:
                    allowed = allowed + rounding_bound(dtype, right[rank] * (1 + 2**-10))
                others = {
                    "the sums without weights": plain[rank],
                    "the sums with weights in the order of the tokens, of rows that are sorted by expert": crossed[rank],
                    "the sums of outputs sent home by expert, the second sort not undone": unsorted[rank],
                    "the sums of outputs of which the second sort was undone by itself, not by its inverse": again[rank],
                }
                others = {words: value for words, value in others.items() if not np.allclose(value, right[rank])}
                suggestion = "Undo the second sort by its inverse, send the rows home, weigh each by its own choice's weight, and add."
                if wide != dtype:
                    suggestion = "Is every product and sum in the weights' dtype, float32, and rounded to 16 bits once at the end?"
                hints = Hints(world_size=len(members), others=others, suggestion=suggestion)
                what = f"combine: the weighted sums on rank {rank}"
                assert_close(seen.rank(rank)[f"y {call}"], right[rank], allowed=allowed, what=what, hints=hints)


def weights_as_kept(seen: Any, rank: int) -> dict[tuple[int, int], float]:
    """A mistake: the kept weights, token by token, handed to the kept choices in the order of their experts."""
    kept, experts = seen.input("kept", rank), seen.input("experts", rank)
    by_expert = sorted(np.argwhere(kept).tolist(), key=lambda at: experts[tuple(at)])
    return {(token, choice): float(weight) for (token, choice), weight in zip(by_expert, seen.input("weights", rank)[kept], strict=True)}


def judge_lost(seen: Any, rank: int, call: int) -> None:
    """Tokens of which nothing is kept."""
    lost = ~seen.input("kept", rank).any(1)
    got = seen.rank(rank)[f"y {call}"][lost]
    if np.any(got != 0):
        raise broken(
            f"combine: on rank {rank}, {int((got != 0).any(1).sum())} of the {int(lost.sum())} tokens without a kept choice are not zeros.",
            "Expected: zeros.",
            "A token of which nothing is kept does not come out as zeros.",
            "Begin the sums with zeros, not with x: the residual connection is outside of the layer.",
        )


def judge_gradients(seen: Any) -> None:
    """Of x, outputs and weights."""
    for members, rows_by_place in plan(seen):
        d_weights = {rank: np.zeros(seen.input("weights", rank).shape) for rank in members}
        size = {rank: np.zeros(value.shape) for rank, value in d_weights.items()}
        for call in range(num_calls(seen)):
            dx = {rank: np.zeros(seen.request.return_of("dx 0", rank).shape) for rank in members}
            size_x = {rank: np.zeros_like(value) for rank, value in dx.items()}
            for place, rank in enumerate(members):
                d_rows, outputs = seen.input("gradient_rows", rank).astype(np.float64), as_given(seen, "outputs", rank, call)
                d_outputs = np.zeros(outputs.shape)
                for index, row in enumerate(rows_by_place[place]):
                    home = members[row.place]
                    dy = seen.input("gradient_y", home)[row.token].astype(np.float64)
                    dx[home][row.token] += d_rows[index]
                    size_x[home][row.token] += np.abs(d_rows[index])
                    d_outputs[index] = float(seen.input("weights", home)[row.token, row.choice]) * dy
                    product = dy * outputs[index].astype(np.float64)
                    d_weights[home][row.token, row.choice] += product.sum()
                    size[home][row.token, row.choice] += np.abs(product).sum()
                dtype = seen.request.return_of("doutputs 0", rank).dtype
                wide = seen.request.return_of("dweights", rank).dtype
                allowed = rounding_bound(dtype, d_outputs) + 2 * unit_roundoff(wide) * np.abs(d_outputs)
                hints = Hints(world_size=len(members), suggestion="Each output's gradient is its weight times that of its token.")
                what = f"combine: the gradient of the outputs on rank {rank}"
                assert_close(seen.rank(rank)[f"doutputs {call}"], d_outputs, allowed=allowed, what=what, hints=hints)
            for rank in members:
                top_k, dtype = d_weights[rank].shape[1], seen.request.return_of("dx 0", rank).dtype
                suggestion = "Each kept choice's row was a copy of its token's: their gradients add up."
                hints = Hints(world_size=len(members), others={UNREACHED: np.zeros_like(dx[rank])}, suggestion=suggestion)
                allowed = sum_bound(dtype, top_k + 1, size_x[rank])
                what = f"dispatch: the gradient of x on rank {rank}"
                assert_close(seen.rank(rank)[f"dx {call}"], dx[rank], allowed=allowed, what=what, hints=hints)
        for rank in members:
            width = seen.request.return_of("y 0", rank).shape[1]
            wide = seen.request.return_of("dweights", rank).dtype
            allowed = sum_bound(wide, num_calls(seen) * (width + ROUNDINGS), size[rank])
            suggestion = "The token's gradient times the output that it weighed, 0 if dropped: by this the router learns."
            hints = Hints(others={UNREACHED: np.zeros_like(d_weights[rank])}, suggestion=suggestion)
            what = f"combine: the gradient of the weights on rank {rank}"
            assert_close(seen.rank(rank)["dweights"], d_weights[rank], allowed=allowed, what=what, hints=hints)


def judge_untouched(seen: Any) -> None:
    """x, routing, outputs and incoming gradients afterwards."""
    for rank in range(seen.world_size):
        got = seen.rank(rank)
        befores = {name: seen.input(name, rank) for name in ("weights", "kept", "experts", "gradient_y", "gradient_rows")}
        befores |= {f"{name} {call}": as_given(seen, name, rank, call) for name in ("x", "outputs") for call in range(num_calls(seen))}
        for name, before in befores.items():
            others = {"0, in an input that is not yours to write to": np.zeros_like(before)}
            hints = Hints(others=others, suggestion="It is written to; work on a copy.")
            assert_equal(got[f"{name} after"], before, what=f"{name} of rank {rank} afterwards", hints=hints)


def judge_empty(seen: Any) -> None:
    """A run in which somebody has nothing: it ends, and all values are right."""
    assert_all_took_part(seen)
    judge_arrived(seen)
    judge_combined(seen)
    judge_gradients(seen)


# --- traffic ---------------------------------------------------------------------------------------------------------
def judge_volume(seen: Any) -> None:
    """Rows there and back in each pass, counts once. Of a run that fell, what its dispatches sent: it may be why."""
    e = seen.request.parameters["num_experts"]
    for members in groups_of(seen):
        n = len(members)
        sent = [counts_of(seen.input("experts", rank), seen.input("kept", rank), e, n) for rank in members]
        for place, rank in enumerate(members):
            there, back = sent[place], [row[place] for row in sent]
            into, out = (seen.request.return_of(f"{name} 0", rank) for name in ("dx", "y"))
            wide = {"dispatch": into, "combine": out}
            for call in range(num_calls(seen)):
                for phase, rows, counts in (("dispatch", there, e), ("combine", back, 0),
                                            ("combine backward", there, 0), ("dispatch backward", back, 0)):  # fmt: skip
                    spec = wide[phase.split()[0]]
                    row_bytes = ITEMSIZE[spec.dtype] * spec.shape[1]
                    if seen.fault and (phase != "dispatch" or len(seen.events(rank=rank, phase=f"{phase} {call}", kind="issue")) < 2):
                        continue
                    judge_rows(seen, f"{phase} {call}", rank, rows=[rows], row_bytes=row_bytes, dtype=spec.dtype, num_counts=counts,
                               num_choices=seen.input("kept", rank).size if phase == "dispatch" else None)  # fmt: skip
    seen.require()


def judge_traffic(seen: Any) -> None:
    """Contiguity, and the group."""
    names = ("dispatch", "combine", "combine backward", "dispatch backward")
    judge_clean(seen, [f"{name} {call}" for name in names for call in range(num_calls(seen))])


# --- memory ----------------------------------------------------------------------------------------------------------
LARGE = {"num_tokens": 4096, "num_experts": 128, "num_channels": 64}
ROOM = 32  # times T·K·C numbers, of section 5.8


def run_large(observe: Any, **case: Any) -> Any:
    """Room for a few copies of the rows; a tensor of T·E·C numbers takes twice as much."""
    t, e, c = LARGE["num_tokens"], LARGE["num_experts"], LARGE["num_channels"]
    rows_bytes = t * 2 * c * ITEMSIZE["float32"]
    assert ROOM * rows_bytes * 2 <= t * e * c * ITEMSIZE["float32"], "the limit would not keep a dense tensor out"
    returns = {"y": ("float32", (t,)), "dx": ("float32", (t,)), "dweights": ("float32", (t, 2))}
    return observe("large", world_size=2, returns=returns, limits=Limits(extra_bytes=ROOM * rows_bytes + 2 * MiB), **LARGE, **case)


def judge_large(seen: Any) -> None:
    """It fits; and what was computed is right, so that nothing was left out."""
    if seen.fault is not None and seen.fault.kind == "memory":
        raise broken(
            seen.fault.sentence,
            f"Allowed: {ROOM} times T·K·C numbers.",
            "Dispatch or combine holds more than rows: a mask, or all tokens for every expert; there is no memory for it.",
            "Take the kept choices' rows by their index; no product with a mask of zeros and ones.",
        )
    t, e = LARGE["num_tokens"], LARGE["num_experts"]
    token = np.arange(t)
    experts = np.stack((token % e, (7 * token + 1) % e), 1)
    kept = np.stack((np.ones(t, bool), experts[:, 1] != experts[:, 0]), 1)
    value, c = token / 256, LARGE["num_channels"]
    for rank in range(seen.world_size):
        got = seen.rank(rank)
        times = kept.sum(1).astype(np.float64)  # weights of 0.5 and outputs of 2 x: every sum is exact
        assert_equal(got["y"], value * times, what=f"many tokens: y on rank {rank}")
        assert_equal(got["dx"], times, what=f"many tokens: the gradient of x on rank {rank}")
        right = 2 * c * value[:, None] * kept
        assert_equal(got["dweights"], right, what=f"many tokens: the gradient of the weights on rank {rank}")
