"""Streams of random numbers: which ranks share them, and what a fork leaves behind."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from grader.numerics import Hints, assert_equal
from tests.laws.groups import group_of
from tests.laws.sentences import broken
from tests.laws.tensor_parallel.functions import Array
from tests.laws.tensor_parallel.models import stream_shape

SEEDS = [0, 1, 2, 7, 1000]
DROPPED = 0.5  # a power of two: 1 / (1 - p) rounds nothing


def run_streams(
    observe: Any, world_size: int, *, seeds: list[int] | None = None, groups: list[list[int]] | None = None, **case: Any
) -> Any:
    """What each rank draws from the streams of several seeds, and from the global one around them."""
    seeds = seeds or SEEDS
    rows = ("float32", (1 + 3 * len(seeds), 8))
    returns = {"inside": ("float32", (len(seeds), 2, 8)), "again": ("float32", (len(seeds), 2, 8)), "raised": ("float32", (len(seeds), 8)),
               "outside": rows, "plain": rows}  # fmt: skip
    words = {"groups": groups} if groups else {}
    return observe("streams", world_size=world_size, returns=returns, seeds=seeds, **words, **case)


def judge_streams(seen: Any) -> None:
    """Each pair of seed and rank in the group has its own stream; it is the same again, and goes on from fork to fork."""
    seeds = seen.request.parameters["seeds"]
    drawn: dict[tuple[int, int], Array] = {}
    for rank in range(seen.world_size):
        got, place = seen.rank(rank), group_of(seen, rank).index(rank)
        for number, seed in enumerate(seeds):
            words = f"the stream of seed {seed} on rank {rank}"
            first, second = got["inside"][number]
            if np.array_equal(first, second):
                raise broken(f"{words}: a second fork draws what the first drew.", "Expected: it goes on where the last fork left it.",
                             "Each fork begins the stream anew.", "Keep the stream's state when a fork ends.")  # fmt: skip
            hints = Hints(suggestion="Does it depend on the global generator's state, or on how often it is forked?")
            assert_equal(got["again"][number], got["inside"][number], what=f"{words}, made again, in one fork instead of two", hints=hints)
            hints = Hints(suggestion="When an exception leaves the fork, the stream's state must be kept all the same: finally.")
            assert_equal(got["raised"][number], second, what=f"{words}, after a first fork that an exception left", hints=hints)
            drawn.setdefault((seed, place), first)
            hints = Hints(suggestion="The stream follows from the seed and the rank in the group, and from nothing else.")
            assert_equal(first, drawn[seed, place], what=f"{words}, rank {place} of its group", hints=hints)
    for (one, a), (other, b) in itertools.combinations(drawn.items(), 2):
        if np.array_equal(a, b):
            raise broken(f"Seed {one[0]} on rank {one[1]} of the group and seed {other[0]} on rank {other[1]} draw the same numbers.",
                         "Expected: each pair of seed and rank has a stream of its own.", "Two pairs share a stream.",
                         "A sum of seed and rank is the same for many pairs.")  # fmt: skip


def judge_same_streams(one: Any, other: Any) -> None:
    """The stream of a seed and a rank is the same in groups of other sizes."""
    for rank in range(min(one.world_size, other.world_size)):
        hints = Hints(suggestion="The stream follows from the seed and the rank, and not from the number of ranks.")
        seeds = one.request.parameters["seeds"]
        what = f"what the streams of seeds {seeds} draw on rank {rank} of {one.world_size}, and of {other.world_size}"
        assert_equal(one.rank(rank)["inside"], other.rank(rank)["inside"], what=what, hints=hints)


def judge_outside(seen: Any) -> None:
    """The global stream is what it would have been without forks."""
    for rank in range(seen.world_size):
        got = seen.rank(rank)
        hints = Hints(suggestion="Constructor and fork must put the global generators back, also when an exception leaves the block.")
        what = f"what rank {rank} draws outside of the forks, against what it draws where there are none"
        assert_equal(got["outside"], got["plain"], what=what, hints=hints)


# --- dropout in the model --------------------------------------------------------------------------------------------
def run_dropped(
    observe: Any, world_size: int, config: dict[str, Any], *, num_tokens: int = 12, sequence_parallel: bool, seed: int = 0, **case: Any
) -> Any:  # fmt: skip
    """What embed and a block drop."""
    config = config | {"dropout": DROPPED}
    shape = stream_shape(config, 1, num_tokens, world_size if sequence_parallel else 1)
    names = ("first embed", "first block", "second embed", "second block", "evaluated", "cut evaluating")
    returns = dict.fromkeys(names, ("float32", shape))
    return observe("dropped", world_size=world_size, returns=returns, config=config, num_tokens=num_tokens,
                   sequence_parallel=sequence_parallel, seed=seed, **case)  # fmt: skip


def judge_dropped(seen: Any) -> None:
    """Alike on all ranks where the stream is whole, different where it is cut; anew each time; nothing when evaluating."""
    is_cut = seen.request.parameters["sequence_parallel"]
    given = [seen.rank(rank) for rank in range(seen.world_size)]
    for rank, got in enumerate(given):
        for name in ("first embed", "first block"):
            share = float(np.mean(got[name] == 0))
            if not 0.05 < share < 0.95:
                raise broken(f"{name}: rank {rank} drops {share:.0%} of the numbers, with p = 0.5.", "Expected: some, and not all.",
                             "Dropout drops nothing, or everything.", "Is the dropout's p the model's?")  # fmt: skip
        if np.array_equal(got["first embed"] == 0, got["second embed"] == 0):
            raise broken(f"rank {rank} drops the same numbers of two embeddings.", "Expected: another mask each time.",
                         "The same mask is drawn every time.", "Is the stream begun anew for every mask?")  # fmt: skip
        if np.all((got["first embed"] == 0) >= (got["first block"] == 0)):
            raise broken(f"rank {rank}: whatever a block drops, the embedding's dropout has dropped, too.", "Expected: independent masks.",
                         "Several dropouts drop by the same numbers.", "One RankRandom for all dropouts of a model.")  # fmt: skip
        if not np.all(got["evaluated"]):
            raise broken(f"rank {rank} drops numbers when evaluating.", "Expected: none after gpt.eval().", "Evaluation drops.",
                         "Look at self.training.")  # fmt: skip
        if not np.all(got["cut evaluating"]):
            raise broken(f"rank {rank} drops numbers of a model that was evaluating before it was cut.", "Expected: none.",
                         "A model that evaluates begins to train when it is cut.", "What is new in it trains unless told.")  # fmt: skip
        kept = got["first embed"] != 0
        if not np.array_equal(got["first embed"][kept], got["evaluated"][kept] / (1 - DROPPED)):
            raise broken(f"rank {rank}: what training keeps is not 1 / (1 - p) times what evaluating gives.",
                         f"Expected: {1 / (1 - DROPPED):g} times, with p = {DROPPED:g}; evaluating returns x as it is.",
                         "Training or evaluating scales what it should not.",
                         "The scale that makes up for what is dropped belongs to training only.")  # fmt: skip
    for name in ("first embed", "first block", "second embed"):
        for (one, a), (other, b) in itertools.combinations(enumerate(got[name] == 0 for got in given), 2):
            if is_cut and np.array_equal(a, b):
                raise broken(f"{name}: under sequence parallelism ranks {one} and {other} drop the same numbers of different tokens.",
                             "Expected: different masks.", "Every rank draws the same dropout mask where the stream is cut.",
                             "Draw from RankRandom there.")  # fmt: skip
            if not is_cut and not np.array_equal(a, b):
                raise broken(f"{name}: ranks {one} and {other} drop different numbers of the same stream.", "Expected: the same mask.",
                             "Ranks draw different dropout masks where the stream is whole, so their copies drift apart.",
                             "All ranks seed the global generator alike; leave it to what is whole.")  # fmt: skip


def judge_seeds(one: Any, other: Any) -> None:
    """Models parallelized with other seeds drop other tokens."""
    for rank in range(one.world_size):
        if np.array_equal(one.rank(rank)["first embed"] == 0, other.rank(rank)["first embed"] == 0):
            raise broken(f"rank {rank} drops the same numbers with seed {one.request.parameters['seed']} "
                         f"as with seed {other.request.parameters['seed']}.", "Expected: other masks for another seed.",
                         "The seed of parallelize is not that of its dropouts' stream.", "RankRandom(seed, group).")  # fmt: skip
