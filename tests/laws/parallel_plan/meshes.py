"""The laws of the mesh: who is in which group, by the digits of a rank's number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.laws.parallel_plan.cases import Case, cases_of, packed
from tests.laws.parallel_plan.judging import refused
from tests.laws.sentences import broken

Groups = set[tuple[int, ...]]
OWN = {
    "tp": ("tp",), "cp": ("cp",), "dp": ("ep", "outer"), "pp": ("pp",), "ep": ("ep",),
    "dp_cp": ("cp", "ep", "outer"), "expert_dp_cp": ("cp", "outer"),
}  # fmt: skip
ORDER = ("tp", "cp", "ep", "outer", "pp")  # innermost first


def expected_groups(world: Case, own: Sequence[str], order: Sequence[str] = ORDER) -> Groups:
    """All groups of ranks that differ in their own digits only; a group in ascending order."""
    sizes = {"tp": world["tp"], "cp": world["cp"], "ep": world["ep"], "outer": world["dp"] // world["ep"], "pp": world["pp"]}
    ranks = np.arange(world["world_size"]).reshape([sizes[digit] for digit in reversed(order)])
    places = [axis for axis, digit in enumerate(reversed(order)) if digit in own]
    last = np.moveaxis(ranks, places, range(-len(places), 0))
    return {tuple(sorted(group)) for group in last.reshape(-1, int(np.prod([sizes[digit] for digit in own]))).tolist()}


OTHER_ORDERS = {
    "the ep groups spread over dp, and not neighbours": ("tp", "cp", "outer", "ep", "pp"),
    "dp inside of cp": ("tp", "ep", "outer", "cp", "pp"),
    "pp inside of dp": ("tp", "cp", "pp", "ep", "outer"),
    "pp innermost": ("pp", "tp", "cp", "ep", "outer"),
    "dp innermost": ("ep", "outer", "tp", "cp", "pp"),
    "cp inside of tp": ("cp", "tp", "ep", "outer", "pp"),
    "tp outermost": ("pp", "ep", "outer", "cp", "tp"),
}


def worlds_by_lot(num: int, experts: bool) -> Any:
    """Worlds of up to a hundred ranks, in all axes."""

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        worlds = []
        for place in range(num):
            sizes = {axis: int(rng.integers(1, 4)) for axis in ("tp", "cp", "pp")}
            ep = int(rng.integers(2, 4)) if experts else 1
            sizes |= {"dp": ep * int(rng.integers(1, 4)) if experts else int(rng.integers(1, 5)), "ep": ep}
            if place < 2:  # all axes are there, and no two are of one size where that can be told
                sizes |= {"tp": 2, "cp": 3, "pp": 2, "dp": 4, "ep": 2 if experts else 1}
            worlds.append({"world_size": sizes["tp"] * sizes["cp"] * sizes["pp"] * sizes["dp"], **sizes})
        return {"cases": packed(worlds)}

    return inputs


def judge_groups(observe: Any, keys: Sequence[str], *, experts: bool = False, num: int = 8, **case: Any) -> None:
    """Each key holds exactly the groups of section 2."""
    seen = observe("mesh", transport="none", inputs=worlds_by_lot(num, experts), keys=list(keys), **case)
    for world, built in zip(cases_of(seen), seen.facts(0)["built"], strict=True):
        for key in keys:
            _judge_key(world, key, built[key])


def _judge_key(world: Case, key: str, got: list[list[int]] | None) -> None:
    where = f"In a world of {_in_words(world)}"
    expected = expected_groups(world, OWN[key])
    rank = min(world["world_size"] - 1, world["world_size"] // 2 + 1)
    group = next(group for group in expected if rank in group)
    allowed = f"Expected: rank {rank}'s {key} group is {list(group)}."
    suggestion = "rank = tp_i + t (cp_i + c (dp_i + d pp_i)), dp_i = ep_i + e outer_i. Which of these digits may differ within the group?"
    if got is None:
        raise broken(f"{where}, Mesh.groups has no key {key!r}.", allowed, f"The groups of {key} are missing.", suggestion)
    mine = [each for each in got if rank in each]
    found = f"{where}, rank {rank} is in {' and '.join(map(str, mine)) if mine else 'no group'} of {key}."
    if sorted(each for one in got for each in one) != list(range(world["world_size"])):
        diagnosis = f"Each rank is in exactly one group of {key}; here some are in none or in several."
        raise broken(found, allowed, diagnosis, "Mesh.groups holds all groups of an axis, not only one rank's own.")
    if {tuple(sorted(each)) for each in got} != expected:
        raise broken(found, allowed, _as_if(world, key, {tuple(sorted(each)) for each in got}), suggestion)
    for each in got:
        if list(each) != sorted(each):
            diagnosis = "The ranks are the right ones in another order: a group stands in the order of its coordinate, which is ascending."
            raise broken(f"{where}, a group of {key} is {each}.", f"Expected: {sorted(each)}.", diagnosis, suggestion)


def _as_if(world: Case, key: str, got: Groups) -> str:
    """What the groups are instead."""
    for words, order in OTHER_ORDERS.items():
        if got == expected_groups(world, OWN[key], order):
            return f"These are the groups with {words}."
    for other, own in OWN.items():
        if got == expected_groups(world, own):
            return f"These are the groups of {other}."
    for words, order in OTHER_ORDERS.items():
        for other, own in OWN.items():
            if got == expected_groups(world, own, order):
                return f"These are the groups of {other} with {words}."
    sizes = {len(each) for each in got}
    return f"The groups have {' or '.join(map(str, sorted(sizes)))} ranks." if sizes else ""


def _in_words(world: Case) -> str:
    return ", ".join(f"{axis} {world[axis]}" for axis in ("tp", "cp", "dp", "pp", "ep"))


def judge_refusals(observe: Any, worlds: Sequence[dict[str, int]], **case: Any) -> None:
    """Each world is refused with ValueError."""
    seen = observe("worlds_refused", transport="none", worlds=list(worlds), **case)
    told = [f"world_size {world['world_size']} and {_in_words(world)}" for world in worlds]
    refused(seen, "build_mesh", told, "A mesh that doesn't cover the world leaves ranks waiting in collectives that nobody else enters.")
