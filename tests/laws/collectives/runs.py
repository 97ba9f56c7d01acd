"""Runs of the collectives that the laws look at: random inputs, declared outputs, one probe.

Requests that are equal share one run, so laws that can look at the same tensors ask for them in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from grader.errors import LawBroken, SubmissionError
from grader.records import Message

Array = np.ndarray[Any, Any]
Tensors = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape of the tensor's memory

LARGE_BITS = {"int64": 59, "int32": 27}  # more than the next float keeps exactly; sixteen of them still fit
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32")


def sizes(*num_elements: int, dtype: str = "float32") -> Tensors:
    """One flat tensor for each size."""
    return {f"{n}_elements": (dtype, (n,)) for n in num_elements}


def dtypes(num_elements: int, names: Sequence[str] = DTYPES) -> Tensors:
    """One flat tensor for each dtype."""
    return {name: (name, (num_elements,)) for name in names}


def draw(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], *, is_negative: bool = False) -> Array:
    """Random values of a dtype: floats around ±1, integers within ±1000 and, here and there, too large for the next float.

    is_negative: all of them below zero.
    """
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if not dtype.startswith("int"):
        values = rng.standard_normal(shape)
        return np.asarray(-np.abs(values) - 1 if is_negative else values).astype(kind)
    numbers = rng.integers(-1000, 1001, shape)
    large = rng.integers(-(2 ** (LARGE_BITS[dtype])), 2 ** LARGE_BITS[dtype], shape)
    numbers = np.where(np.arange(numbers.size).reshape(shape) % 8 == 7, large, numbers)
    return np.asarray(-np.abs(numbers) - 1 if is_negative else numbers).astype(kind)


Draw = Callable[[np.random.Generator, str, tuple[int, ...]], Array]


def draw_negative(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Values below zero only: a maximum that starts from zeros is wrong."""
    return draw(rng, dtype, shape, is_negative=True)


def draw_with_negative_zeros(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Values with a −0 here and there, which a copy keeps and an addition to 0 does not."""
    values = draw(rng, dtype, shape)
    if not dtype.startswith("int"):
        values.reshape(-1)[::5] = -0.0
    return values


def drawn(tensors: Tensors, world_size: int, value: Draw = draw) -> Callable[[np.random.Generator], dict[str, list[Array]]]:
    """Inputs for `observe`: other values on each rank."""
    return lambda rng: {name: [value(rng, dtype, shape) for _ in range(world_size)] for name, (dtype, shape) in tensors.items()}


def as_given(memory: Array, layout: str) -> Array:
    """What the submission gets of `memory`: the probe's view of it."""
    return {"plain": memory, "transposed": memory.swapaxes(-1, -2) if memory.ndim > 1 else memory, "every_second": memory[::2]}[layout]


def settled(case: dict[str, Any], *, rendezvous: bool) -> dict[str, Any]:
    """The words of a request: sends buffered or not unless the case says so, and no word for a layout that is the usual one."""
    return {"rendezvous": rendezvous} | {word: value for word, value in case.items() if (word, value) != ("layout", "plain")}


def told(seen: Any, function: str) -> Any:
    """`seen` if every rank answered; otherwise the submission's blame, with the function and the tensor at which the rank was.

    LawBroken if something was sent in none of the calls, each of which is a phase of its input's name: no law would count it.
    """
    try:
        refuse_strays(seen.require())
        return seen
    except SubmissionError as blame:
        fault = blame.fault
        marks = seen.events(rank=fault.rank, kind="mark") if fault and fault.rank >= 0 else ()
        # Of an answer that is refused, and of a tensor that was changed on its way, the probe is past the one that is meant.
        at = f", at {marks[-1].phase}" if marks and fault and fault.kind not in ("malformed", "changed_in_flight") else ""
        ranks = "1 rank" if seen.world_size == 1 else f"{seen.world_size} ranks"
        message = replace(blame.message, seen=f"{function} on {ranks}{at}: {blame.message.seen}")
        raise SubmissionError(message, fault) from None


def refuse_strays(seen: Any) -> None:
    """Every operation belongs to a call that is looked at."""
    for event in seen.events(kind="issue"):
        if event.phase not in seen.request.inputs:
            where = f" ({event.at})" if event.at else ""
            raise LawBroken(
                Message(
                    seen=f"rank {event.rank} calls {event.op} of {event.dtype}{list(event.shape)}{where} outside of every call.",
                    allowed="Allowed: what a call needs is sent while it runs.",
                    diagnosis="Something is sent before or after the call that it is for.",
                    suggestion="Does a thread, a hook or an import of yours send something? Send in the function, and wait for it there.",
                )
            )


def run_all_reduce(
    observe: Any, world_size: int, tensors: Tensors, *, function: str = "ring_all_reduce", op: str = "sum", **case: Any
) -> Any:
    """One run of an all-reduce on each of `tensors`. A maximum is taken of negative numbers only."""
    seen = observe(
        "in_place",
        world_size=world_size,
        inputs=drawn(tensors, world_size, draw_negative if op == "max" else draw),
        returns=dict(tensors),
        function=function,
        op=op,
        **settled(case, rendezvous=False),
    )
    return told(seen, function)


def run_broadcast(observe: Any, world_size: int, tensors: Tensors, *, src: int, num_chunks: int, **case: Any) -> Any:
    """One run of broadcast on each of `tensors`, from global rank `src`."""
    seen = observe(
        "in_place",
        world_size=world_size,
        inputs=drawn(tensors, world_size, draw_with_negative_zeros),
        returns=dict(tensors),
        function="broadcast",
        src=src,
        num_chunks=num_chunks,
        **settled(case, rendezvous=True),
    )
    return told(seen, "broadcast")


def run_reduce_scatter(observe: Any, world_size: int, tensors: Tensors, *, op: str = "sum", **case: Any) -> Any:
    """One run of ring_reduce_scatter on each of `tensors`."""
    members, layout = case.get("members") or list(range(world_size)), case.get("layout", "plain")
    returns: dict[str, Any] = {}
    for name, (dtype, shape) in tensors.items():
        lengths = [len(chunk) for chunk in np.array_split(as_given(np.zeros(shape), layout).reshape(-1), len(members))]
        returns[name] = [(dtype, (lengths[members.index(rank)] if rank in members else 0,)) for rank in range(world_size)]
        returns[f"{name}.input"] = (dtype, shape)
    seen = observe(
        "reduce_scatter",
        world_size=world_size,
        inputs=drawn(tensors, world_size, draw_negative if op == "max" else draw),
        returns=returns,
        op=op,
        **settled(case, rendezvous=False),
    )
    return told(seen, "ring_reduce_scatter, a chunk for each rank,")


def run_all_gather(observe: Any, world_size: int, tensors: Tensors, **case: Any) -> Any:
    """One run of ring_all_gather that rebuilds each of `tensors`; layout "every_second": a chunk is half of its memory."""
    members, stride = case.get("members") or list(range(world_size)), 2 if case.get("layout") == "every_second" else 1
    returns: dict[str, Any] = {}
    chunks: dict[str, list[tuple[int, ...]]] = {}
    for name, (dtype, shape) in tensors.items():
        lengths = [stride * len(chunk) for chunk in np.array_split(np.zeros(shape), len(members))]
        chunks[name] = [(lengths[members.index(rank)] if rank in members else 0,) for rank in range(world_size)]
        returns[name] = [(dtype, shape if rank in members else (0,)) for rank in range(world_size)]
        returns[f"{name}.input"] = [(dtype, chunk) for chunk in chunks[name]]
    seen = observe(
        "all_gather",
        world_size=world_size,
        returns=returns,
        num_elements={name: shape[0] for name, (_, shape) in tensors.items()},
        inputs=lambda rng: {name: [draw(rng, tensors[name][0], chunk) for chunk in each] for name, each in chunks.items()},
        **settled(case, rendezvous=False),
    )
    return told(seen, "ring_all_gather")


Rows = dict[str, list[list[int]]]  # name -> rows[i][j]: how many go from group rank i to group rank j


def run_all_to_all(
    observe: Any,
    world_size: int,
    rows: Rows,
    *,
    trailing: tuple[int, ...] = (),
    dtype: str = "float32",
    has_splits: bool = True,
    **case: Any,
) -> Any:
    """One run of all_to_all for each table of rows, whose rows have the shape `trailing`."""
    members = case.get("members") or list(range(world_size))
    place = [members.index(rank) if rank in members else -1 for rank in range(world_size)]
    given = {name: [(sum(table[p]) if p >= 0 else 0, *trailing) for p in place] for name, table in rows.items()}
    returns: dict[str, Any] = {}
    for name, table in rows.items():
        returns[name] = [(dtype, (sum(row[p] for row in table), *trailing) if p >= 0 else (0,)) for p in place]
        returns[f"{name}.input"] = [(dtype, shape) for shape in given[name]]
    seen = observe(
        "all_to_all",
        world_size=world_size,
        returns=returns,
        rows=rows if has_splits else None,
        inputs=lambda rng: {name: [draw(rng, dtype, shape) for shape in each] for name, each in given.items()},
        **settled(case, rendezvous=False),
    )
    return told(seen, "all_to_all of rows")


def run_large(observe: Any, world_size: int, function: str, *, dtype: str, num_elements: int, repeat: int, **arguments: Any) -> Any:
    """One collective on gloo, on each rank's pattern of `num_elements`, repeated `repeat` times (a multiple of the world size)."""
    seen = observe(
        "large",
        world_size=world_size,
        inputs=drawn({"x": (dtype, (num_elements,))}, world_size),
        transport="gloo",
        function=function,
        repeat=repeat,
        returns=dict.fromkeys(("smallest", "largest"), (dtype, (num_elements,))),
        **arguments,
    )
    return told(seen, function)
