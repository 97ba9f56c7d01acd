"""Runs of ring_attention and ulysses_attention, and their values: every rank's part of the whole sequence's, in fp64."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, unit_roundoff
from tests.laws.context_parallel.oracle import HIDDEN_FROM, NAMES, Array, Whole, draw, places
from tests.laws.groups import groups_of
from tests.laws.sentences import broken

RING, ULYSSES = "ring_attention", "ulysses_attention"
WORDS = {"o": "the output", "dq": "the gradient of q", "dk": "the gradient of k", "dv": "the gradient of v"}
GRADIENTS = NAMES[1:]
SUGGESTIONS = {
    "o": "Which block does a rank hold at step s, what does it see of it, and with what weight is it merged?",
    "dq": "Does kernel.backward get the block that the step is about, and the o and lse of the whole softmax?",
    "dk": "Whose keys' sums does a rank hold after each hop? Are your own share and the last hop counted, once?",
    "dv": "Whose values' sums does a rank hold after each hop? Are your own share and the last hop counted, once?",
}


def run(
    observe: Any, world_size: int, *, function: str = RING, masks: tuple[bool, ...] = (False, True),
    zigzag: bool = False, dtype: str = "float64",
    num_tokens: int = 6, heads: tuple[int, int] = (2, 1), batch: int = 2, head_dim: int = 4, num_queries: int | None = None,
    groups: list[list[int]] | None = None, scale: float = 1.0, hidden: float = 0.0, **case: Any,
) -> Any:  # fmt: skip
    """A call for each of `masks`, in one run: causal or not. num_tokens: of one rank. heads: of queries, and of keys. scale: of q.

    hidden: this share of the keys, the first ones, is seen by nobody.
    """
    query = (batch, heads[0], num_queries or num_tokens, head_dim)
    key = (batch, heads[1], num_tokens, head_dim)

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {}
        for number in range(len(masks)):
            for name, shape in (("q", query), ("k", key), ("v", key), ("gradient", query)):
                drawn[f"{name}{number}"] = [draw(rng, dtype, shape) for _ in range(world_size)]
            drawn[f"q{number}"] = [(q * scale).astype(q.dtype) for q in drawn[f"q{number}"]]
            for members in groups or [list(range(world_size))]:
                for place, rank in enumerate(members):
                    where = places(place, len(members), num_tokens, zigzag=zigzag)
                    drawn[f"k{number}"][rank][:, :, where < hidden * num_tokens * len(members), 0] = 2 * HIDDEN_FROM
        return drawn

    returns = {}
    for number in range(len(masks)):
        for name, shape in (("q", query), ("k", key), ("v", key)):
            returns |= {f"d{name}{number}": (dtype, shape), f"{name}{number} after": (dtype, shape)}
        returns |= {f"o{number}": (dtype, query), f"gradient{number} after": (dtype, query)}
    usual = {"zigzag": False, "hides": False, "groups": None}
    words = {"zigzag": zigzag, "hides": hidden > 0, "groups": groups}
    words = {word: value for word, value in words.items() if value != usual[word]}
    return observe("attention", world_size=world_size, inputs=inputs, returns=returns, function=function, masks=list(masks), **words,
                   **case)  # fmt: skip


def whole_of(seen: Any, members: list[int], number: int) -> Whole:
    """A group's whole sequence, from its ranks' inputs."""
    case, n = seen.request.parameters, len(members)
    zigzag = bool(case.get("zigzag"))

    def joined(name: str) -> Array:
        parts = [np.asarray(seen.input(f"{name}{number}", rank), np.float64) for rank in members]
        whole = np.concatenate(parts, axis=2)
        order = np.concatenate([places(place, n, parts[0].shape[2], zigzag=zigzag) for place in range(n)])
        out = np.empty_like(whole)
        out[:, :, order] = whole
        return out

    q, k, v, gradient = map(joined, ("q", "k", "v", "gradient"))
    visible = np.ones((len(q), q.shape[1], q.shape[2], k.shape[2]), bool)
    if case["masks"][number]:
        visible &= np.tri(q.shape[2], k.shape[2], dtype=bool)
    if case.get("hides"):
        visible &= np.repeat(k[..., 0] <= HIDDEN_FROM, q.shape[1] // k.shape[1], axis=1)[:, :, None, :]
    return Whole(q, k, v, gradient, visible)


def judge_values(seen: Any, names: tuple[str, ...] = NAMES) -> None:
    """Outputs and gradients of every call on every rank."""
    if seen.fault is not None and seen.fault.kind == "changed_in_flight":
        raise broken(seen.fault.sentence, "Expected: what is being sent, keys and values or sums of gradients, is left alone until wait().",
                     "A buffer that is being sent is written to.", "Give each block's sums a tensor of their own.")  # fmt: skip
    case = seen.request.parameters
    zigzag = bool(case.get("zigzag"))
    for members in groups_of(seen):
        n = len(members)
        for number in range(len(case["masks"])):
            whole = whole_of(seen, members, number)
            for name in names:
                spec = seen.request.return_of(f"{name}{number}", members[0])
                own = [places(place, n, spec.shape[2], zigzag=zigzag) for place in range(n)]
                parts = [whole.values[name][:, :, where] for where in own]
                allowed = whole.allowed(name, spec.dtype, n)
                call = f" of call {number + 1}" if len(case["masks"]) > 1 else ""
                for place, rank in enumerate(members):
                    what = f"{words_of(seen, number)}: {WORDS[name]}{call} on rank {rank} of {n}"
                    hints = Hints(world_size=n, others=others(parts, members, place), suggestion=SUGGESTIONS[name])
                    assert_close(
                        seen.rank(rank)[f"{name}{number}"], parts[place], allowed=allowed[:, :, own[place]], what=what, hints=hints
                    )


def judge_rounded(seen: Any) -> None:
    """A kernel whose answers have the inputs' 16 bits: each block of each rank may be rounded once, and the result once more."""
    case = seen.request.parameters
    for members in groups_of(seen):
        n, whole = len(members), whole_of(seen, members, 0)
        for name in NAMES:
            spec = seen.request.return_of(f"{name}0", members[0])
            # Roundings of the blocks add up: of n shares at most, each no larger than the magnitudes of which it is made.
            allowed = whole.allowed(name, spec.dtype, n) + n * unit_roundoff(spec.dtype) * whole.sizes[name]
            for place, rank in enumerate(members):
                where = places(place, n, spec.shape[2], zigzag=bool(case.get("zigzag")))
                what = f"{words_of(seen)}, a kernel that rounds: {WORDS[name]} on rank {rank} of {n}"
                assert_close(seen.rank(rank)[f"{name}0"], whole.values[name][:, :, where], allowed=allowed[:, :, where], what=what,
                             hints=Hints(world_size=n, suggestion=SUGGESTIONS[name]))  # fmt: skip


def judge_kernel_inputs(seen: Any) -> None:
    """The kernel gets q, k and v in their own dtype, forward and backward."""
    seen.require()
    dtype = seen.request.return_of("o0", 0).dtype
    for members in groups_of(seen):
        for rank in members:
            for event in seen.events(rank=rank, kind="mark"):
                if event.name == "kernel" and event.facts["dtypes"] != [dtype]:
                    got = " and ".join(event.facts["dtypes"])
                    raise broken(f"{words_of(seen)}: kernel.{event.facts['call']} gets {got} for {dtype} q, k and v on rank {rank}.",
                                 f"Expected: {dtype}, the tensors as they came.",
                                 "What the kernel gets has been converted: a copy in another dtype.",
                                 "A kernel widens by itself what it needs.")  # fmt: skip


COUNTING_SHAPE, COUNTED = (1, 2, 4, 4), "bfloat16"  # of a rank's q, k and v; to bfloat16 256 + 1 is 256


def run_counting(observe: Any, world_size: int, **case: Any) -> Any:
    """One call whose kernel's shares of gradients are 256 of the own block and 1 of each other, in 16 bits."""

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        drawn = {name: [draw(rng, COUNTED, COUNTING_SHAPE) for _ in range(world_size)] for name in ("q", "k", "v", "gradient")}
        for rank in range(world_size):
            drawn["k"][rank][..., 0] = rank
        return drawn

    return observe("counting", world_size=world_size, inputs=inputs, returns=dict.fromkeys(GRADIENTS, (COUNTED, COUNTING_SHAPE)), **case)


def judge_counting(seen: Any) -> None:
    """Shares that have 16 bits are added up in float32, and their sum is rounded once."""
    n = seen.world_size
    for rank in range(n):
        for name in GRADIENTS:
            got = seen.rank(rank)[name]
            right, lost = (np.full(COUNTING_SHAPE, value).astype(got.dtype) for value in (256 + n - 1, 256))
            what = f"{WORDS[name]} on rank {rank} of {n}, whose shares are 256 and {n - 1} times 1 in {COUNTED}"
            hints = Hints(others={"a sum in bfloat16, to which 256 + 1 is 256": lost}, suggestion="Widen a share before you add to it.")
            assert_equal(got, right, what=what, hints=hints)


def others(parts: list[Array], members: list[int], place: int) -> dict[str, Array]:
    """What might stand here instead: another rank's part."""
    return {f"what belongs on rank {rank}": part for part, rank in zip(parts, members, strict=True) if rank != members[place]}


def words_of(seen: Any, number: int = 0) -> str:
    """A call in words."""
    case = seen.request.parameters
    said = ["causal"] * case["masks"][number] + ["zigzag"] * bool(case.get("zigzag"))
    return f"{case['function']}{' (' + ', '.join(said) + ')' if said else ''}"


def judge_untouched(seen: Any) -> None:
    """Inputs and incoming gradients after all is done."""
    for number in range(len(seen.request.parameters["masks"])):
        for name in ("q", "k", "v", "gradient"):
            for rank in range(seen.world_size):
                words, before = "incoming gradient" if name == "gradient" else name, seen.input(f"{name}{number}", rank)
                if not np.array_equal(seen.rank(rank)[f"{name}{number} after"], before):
                    raise broken(f"{words_of(seen, number)}: the {words} of rank {rank} is another one afterwards.", "Expected: as it was.",
                                 f"The caller's {words} is written to, in place.",
                                 "Receive into memory of your own, and add into sums of your own.")  # fmt: skip


# --- how much is computed --------------------------------------------------------------------------------------------
MOST_ABOVE_MEAN = 0.1  # the handout's


def pairs_of(seen: Any, rank: int, phase: str) -> int:
    """Pairs of query and key that a rank's kernel calls cover in a phase, in every batch and head."""
    marks = [event.facts for event in seen.events(rank=rank, phase=phase, kind="mark") if event.name == "kernel"]
    causal = [m["queries"] * (m["queries"] + 1) // 2 if m["causal"] else m["queries"] * m["keys"] for m in marks]
    return sum(pairs * m["heads"][0] * m["heads"][1] for pairs, m in zip(causal, marks, strict=True))


def seen_pairs(seen: Any, place: int, n: int, number: int) -> int:
    """Pairs in which a rank's query sees the key."""
    shape = seen.request.return_of("o0", 0).shape
    case = seen.request.parameters
    where = places(place, n, shape[2], zigzag=bool(case.get("zigzag")))
    return int(shape[0] * shape[1] * ((where + 1).sum() if case["masks"][number] else len(where) * n * len(where)))


def judge_work(seen: Any, *, balance: bool) -> None:
    """Kernel calls cover the pairs that are seen and no others; balance: and no rank has much more to do than the mean."""
    seen.require()
    for number in range(len(seen.request.parameters["masks"])):
        for direction in ("forward", "backward"):
            judge_pairs(seen, direction, number, balance=balance)


def judge_pairs(seen: Any, direction: str, number: int, *, balance: bool) -> None:
    """One pass of one call."""
    n = seen.world_size
    counts = [pairs_of(seen, rank, f"{direction} {number}") for rank in range(n)]
    mean, words = sum(counts) / n, f"{words_of(seen, number)}, {direction}"
    for rank, count in enumerate(counts):
        due = seen_pairs(seen, rank, n, number)
        if balance and count > (1 + MOST_ABOVE_MEAN) * mean:
            raise broken(
                f"{words}: rank {rank}'s kernel calls cover {count} pairs of query and key; the ranks': {counts}.",
                f"Allowed: 10 % above the mean, {(1 + MOST_ABOVE_MEAN) * mean:g}.",
                f"Rank {rank} has {count / mean:.3g} times the mean to do: the others wait for it, so the ranks are not balanced.",
                "Draw which chunks see which: of every other rank's block exactly half is seen.",
            )
        if count != due:
            wanted = "more than anybody sees: masked scores are computed" if count > due else "fewer than are seen"
            raise broken(
                f"{words}: rank {rank}'s kernel calls cover {count} pairs of query and key.",
                f"Expected: {due}, those that are seen (Q·K, with the kernel's mask Q(Q+1)/2).",
                f"That is {count / due:.3g} times as many: {wanted}.",
                "Skip blocks that are wholly masked, let the kernel mask your own block only, and slice the rest.",
            )
