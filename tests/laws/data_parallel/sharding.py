"""Who reads which samples: judgements on what shard_indices returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.laws.data_parallel.runs import NO_DEVICE
from tests.laws.draws import draws_after
from tests.laws.sentences import broken

Array = np.ndarray[Any, Any]
NOBODY = -1  # stands where a rank read nothing


def num_per_rank(num_samples: int, world_size: int, drop_last: bool) -> int:
    """How many samples each rank reads."""
    return num_samples // world_size if drop_last else math.ceil(num_samples / world_size)


def run_shards(observe: Any, cases: Sequence[dict[str, Any]], **case: Any) -> Any:
    """One run of shard_indices for all ranks of all cases; there is room for one sample more than anybody should read."""
    lengths = [num_per_rank(each["num_samples"], each["world_size"], each.get("drop_last", False)) + 1 for each in cases]
    return observe(
        "shards",
        transport="none",
        host=NO_DEVICE,
        inputs=lambda rng: {"seeds": rng.integers(0, 2**31, len(cases))},
        returns={f"case_{n}": ("int64", (each["world_size"], lengths[n])) for n, each in enumerate(cases)}
        | {"next": ("float64", (len(cases), 2))},
        cases=[each | {"length": length} for each, length in zip(cases, lengths, strict=True)],
        **case,
    )


def each_case(seen: Any) -> Iterator[tuple[dict[str, Any], Array, str]]:
    """(case, samples by rank with one column too many, the call in words)."""
    for number, case in enumerate(seen.request.parameters["cases"]):
        words = ", ".join(f"{name}={value}" for name, value in case.items() if name != "length")
        yield case, seen.rank(0)[f"case_{number}"], f"shard_indices({words})"


def order_of(read: Array) -> Array:
    """The order behind the ranks' samples, read round-robin; without the column too many."""
    return read[:, :-1].T.reshape(-1)


def judge_counts(seen: Any) -> None:
    """Every rank reads as many as the others, and no more."""
    for case, read, call in each_case(seen):
        expected = num_per_rank(case["num_samples"], case["world_size"], case.get("drop_last", False))
        for rank, row in enumerate(read):
            count = int((row != NOBODY).sum())
            if count != expected:
                raise broken(
                    f"{call}: rank {rank} reads {count if count <= expected else f'more than {expected}'} samples.",
                    f"Expected: {expected} on every rank.",
                    "Ranks that read different numbers of samples make different numbers of steps, and the last step never ends.",
                    "Bring the order to a multiple of N before you take every N-th place of it.",
                )


def judge_coverage(seen: Any) -> None:
    """All samples once; what fills up the last round is the beginning of the order again."""
    for case, read, call in each_case(seen):
        num_samples, order = case["num_samples"], order_of(read)
        whole = order if case.get("drop_last") else order[:num_samples]
        strangers = sorted({int(sample) for sample in order} - set(range(num_samples)))
        if strangers:
            nobody = "nothing where a sample should be" if strangers[0] == NOBODY else f"sample {strangers[0]}"
            raise broken(f"{call}: {nobody} is read.", f"Expected: samples 0 to {num_samples - 1}.", "What is read is no sample.")
        values, counts = np.unique(whole, return_counts=True)
        repeated = values[counts > 1]
        if repeated.size:
            raise broken(
                f"{call}: read round-robin, sample {repeated[0]} comes {counts.max()} times among the first {len(whole)}.",
                "Expected: each once, before the order begins anew.",
                "Some samples are read twice and others never.",
                "Do all ranks cut the same order? Does rank r take places r, r + N, r + 2N, …?",
            )


def judge_shuffling(seen: Any) -> None:
    """Plain cases are 0, 1, 2, …; shuffled ones look random, equal for equal seed and epoch, else different in most places."""
    orders: dict[tuple[int, int, int], tuple[Array, str]] = {}
    for case, read, call in each_case(seen):
        order = order_of(read)[: case["num_samples"]]
        if not case.get("shuffle", True):
            if not np.array_equal(order, np.arange(len(order))):
                raise broken(f"{call}: the order begins {order[:8].tolist()}.", "Expected: 0, 1, 2, ….", "It is shuffled unasked.")
            continue
        if np.mean(np.diff(order) == 1) > 0.5:
            seen_order = f"{call}: the order begins {order[:8].tolist()}."
            raise broken(seen_order, "Expected: an order that looks random.", "It is hardly shuffled.", "Is `shuffle` True by default?")
        key = (case["num_samples"], case.get("seed", 0), case.get("epoch", 0))
        for other, (theirs, their_call) in orders.items():
            if other[0] == key[0]:
                compare_orders(order, theirs, call, their_call, is_same=other == key)
        orders[key] = (order, call)


def compare_orders(order: Array, theirs: Array, call: str, their_call: str, *, is_same: bool) -> None:
    """Equal, or different in most places."""
    share = float(np.mean(order[: len(theirs)] == theirs[: len(order)]))
    if is_same and share < 1:
        raise broken(
            f"{call}: the order begins {order[:6].tolist()}, for {their_call} it began {theirs[:6].tolist()}.",
            "Expected: one order for one seed and epoch.",
            "The order depends on something else than seed and epoch.",
            "Does a random number come from a global generator, or from the rank?",
        )
    if not is_same and share > 0.5:
        raise broken(
            f"{call} and {their_call}: the orders agree in {share:.0%} of their places.",
            "Expected: unrelated orders.",
            "Another seed or epoch gives the same order.",
            "Do both seed and epoch go into the generator?",
        )


def judge_one_order(seen: Any) -> None:
    """For every world size the ranks read, round-robin, the same order; and it goes on with its own beginning."""
    first: dict[tuple[Any, ...], tuple[Array, str]] = {}
    for case, read, call in each_case(seen):
        num_samples, order = case["num_samples"], order_of(read)
        if num_samples == 0:
            continue
        again = order[num_samples:] if not case.get("drop_last") else order[:0]
        if not np.array_equal(again, np.resize(order[:num_samples], len(again))):
            raise broken(
                f"{call}: after all samples the order goes on with {again[:6].tolist()}; it began with {order[:6].tolist()}.",
                "Expected: its own beginning.",
                "The last round is filled up with other samples than the order's first.",
                "Repeat the order as a whole, then cut it to the world size times the number per rank.",
            )
        key = (num_samples, case.get("seed", 0), case.get("epoch", 0), case.get("shuffle", True))
        theirs, their_call = first.setdefault(key, (order[:num_samples], call))
        length = min(len(theirs), len(order))
        if not np.array_equal(order[:length], theirs[:length]):
            raise broken(
                f"{call}: read round-robin, the order begins {order[:6].tolist()}; for {their_call} it began {theirs[:6].tolist()}.",
                "Expected: the same order for every world size.",
                "The order depends on the world size, or ranks don't read it round-robin.",
                "Rank r reads places r, r + N, r + 2N, … of one order; nothing in that order may depend on N.",
            )


def judge_generator(seen: Any) -> None:
    """After the calls torch's global generator gives what it would have given without them: what follows the seed that the judge drew."""
    seeds, drawn = seen.inputs["seeds"], seen.rank(0)["next"]
    if not all(np.array_equal(drawn[n], draws_after(int(seed), 2, num_words=n + 1)) for n, seed in enumerate(seeds)):
        raise broken(
            "After shard_indices torch's global random state is another one.",
            "Expected: it is left alone.",
            "The global generator was seeded or drawn from.",
            "Make a torch.Generator() of your own, seed that, and hand it to randperm.",
        )
