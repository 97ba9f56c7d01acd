"""What the laws of `tied` mean: copies of one weight on several ranks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.numerics import Hints, assert_close, assert_equal, sum_bound, unit_roundoff
from grader.schedules import Schedule, num_stages_of, to_rows
from tests.laws.pipeline_parallel.oracle import Array, tied_model
from tests.laws.sentences import broken
from tests.laws.traffic import assert_contiguous

BROADCAST, ALL_REDUCE = "broadcast_tied_weight", "all_reduce_tied_gradient"
SHAPE = (6, 4)
NUM_TOKENS = 5
ROUNDINGS = 1000  # as in execution


def run_tied(observe: Any, function: str, world_size: int, *, dtype: str = "float32", **case: Any) -> Any:
    """One call of `function` by the members; value and gradient differ on each rank."""

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        return {name: [drawn(rng, dtype) for _ in range(world_size)] for name in ("value", "gradient")}

    words = {word: value for word, value in case.items() if value != "plain"}
    returns = {"value": (dtype, SHAPE), "gradient": (dtype, SHAPE)}
    return observe("tied", world_size=world_size, inputs=inputs, returns=returns, function=function, **words)


def drawn(rng: np.random.Generator, dtype: str) -> Array:
    """Random values of the weight's shape; one is minus zero, which no sum gives back."""
    values = rng.standard_normal(SHAPE)
    values[0, 0] = -0.0
    return values.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def owners(seen: Any) -> list[int]:
    """The ranks that hold a copy."""
    return list(seen.request.parameters.get("members") or range(seen.world_size))


def judge_contiguity(seen: Any) -> None:
    """What is handed to a collective is contiguous."""
    seen.require()
    for rank in owners(seen):
        assert_contiguous(seen, rank, "tied")


def judge_copies(seen: Any) -> None:
    """All owners have the first owner's value, in place; others have their own; gradients are as they were."""
    judge_contiguity(seen)
    first = seen.input("value", owners(seen)[0])
    for rank in range(seen.world_size):
        wanted = first if rank in owners(seen) else seen.input("value", rank)
        others = {f"rank {other}'s value": seen.input("value", other) for other in range(seen.world_size)}
        hints = Hints(untouched=seen.input("value", rank), others=others,
                      suggestion="The source is the group's rank 0 (group_src).")  # fmt: skip
        got = seen.rank(rank)["value"]
        assert_equal(got, wanted, what=f"the tied weight on rank {rank}", hints=hints)
        if got.tobytes() != wanted.tobytes():
            raise broken(f"On rank {rank} the weight has equal numbers, but other bits: a zero has lost its sign.", "Expected: bit by bit.",
                         "It came about by adding.", "broadcast copies; a sum with zeros does not.")  # fmt: skip
        if not seen.facts(rank)["is_in_place"]:
            raise broken(f"On rank {rank} the weight has other memory than before.", "Expected: overwritten in place.")


def judge_sums(seen: Any) -> None:
    """All owners have the sum of the owners' gradients, with zeros for those that have none."""
    judge_contiguity(seen)
    missing, dtype = seen.request.parameters.get("missing") or (), str(seen.input("value", 0).dtype)
    given = [np.asarray(seen.input("gradient", rank), np.float64) for rank in range(seen.world_size)]
    parts = [np.zeros(SHAPE) if rank in missing else gradient for rank, gradient in enumerate(given)]
    total = np.sum([parts[rank] for rank in owners(seen)], axis=0)
    allowed = sum_bound(dtype, len(owners(seen)), np.sum([np.abs(parts[rank]) for rank in owners(seen)], axis=0))
    for rank in owners(seen):
        hints = Hints(world_size=len(owners(seen)), untouched=parts[rank],
                      suggestion="Gradients of two uses are added, and nothing is divided.")  # fmt: skip
        assert_close(seen.rank(rank)["gradient"], total, allowed=allowed, what=f"the tied gradient on rank {rank}", hints=hints)
        assert_equal(seen.rank(rank)["value"], seen.input("value", rank), what=f"the tied weight on rank {rank}, which should not change")


def run_model(observe: Any, schedule: Schedule, **case: Any) -> Any:
    """From token numbers to logits over S stages, of which the first and the last have a copy of the table."""
    num_stages, world_size = num_stages_of(schedule), len(schedule)
    num_micro_batches = 1 + max(action.micro_batch for action in schedule[0])

    def inputs(rng: np.random.Generator) -> dict[str, list[Array]]:
        tokens = rng.integers(0, SHAPE[0], (num_micro_batches, NUM_TOKENS))
        target = rng.standard_normal((num_micro_batches, NUM_TOKENS, SHAPE[0]))
        last = (num_stages - 1) % world_size
        return {
            "table": [rng.standard_normal(SHAPE) for _ in range(world_size)],
            "tokens": [tokens if rank == 0 else np.zeros(0, np.int64) for rank in range(world_size)],
            "target": [target if rank == last else np.zeros(0) for rank in range(world_size)],
            "boundary": [np.zeros((NUM_TOKENS, SHAPE[1]))] * world_size,
        }

    returns = {"value": ("float64", SHAPE), "gradient": ("float64", SHAPE)}
    return observe("language_model", world_size=world_size, inputs=inputs, returns=returns, schedule=to_rows(schedule),
                   num_stages=num_stages, **case)  # fmt: skip


def judge_model(seen: Any) -> None:
    """Both copies have the gradient of one process that uses one table in both places."""
    num_stages = seen.request.parameters["num_stages"]
    last = (num_stages - 1) % seen.world_size
    table = seen.input("table", 0)
    wanted = tied_model(table, seen.input("tokens", 0), seen.input("target", last), num_stages - 2)
    allowed = ROUNDINGS * unit_roundoff("float64") * max(1.0, float(np.abs(wanted).max()))
    for rank in sorted({0, last}):
        assert_equal(seen.rank(rank)["value"], table, what=f"the table on rank {rank}")
        hints = Hints(factors={"owners": 2, "micro-batches": len(seen.input("tokens", 0))},
                      suggestion="Embedding and head: the sum of both uses, on both ranks.")  # fmt: skip
        assert_close(seen.rank(rank)["gradient"], wanted, allowed=allowed, what=f"the table's gradient on rank {rank}", hints=hints)
