"""Runs that the laws of sharded_data_parallel look at: random inputs, declared outputs, one probe each.

Requests that are equal share one run, so laws that can look at the same run ask for it in the same words.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from grader.records import Limits

Array = np.ndarray[Any, Any]
Shapes = dict[str, tuple[int, ...]]
Steps = list[dict[str, Any]]

# Primes, a single number, a matrix, and more in one layer than in the others; `first` and `last` are in no unit.
ODD: Shapes = {
    "first": (3, 2),
    "last": (5,),
    "layers.0.weight": (7, 3),
    "layers.0.bias": (7,),
    "layers.1.weight": (2, 3, 2),
    "layers.1.single": (),
    "layers.2.weight": (13,),
}
SGD = {"optimizer": "SGD", "defaults": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}}
PLAIN_SGD = {"optimizer": "SGD", "defaults": {"lr": 1.0}}
ADAMW = {"optimizer": "AdamW", "defaults": {"lr": 0.05, "weight_decay": 0.1}}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> Array:
    """Values around ±1, never near zero: every element counts."""
    values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(values).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def run_spans(observe: Any, cases: list[tuple[list[int], int]], **words: Any) -> Any:
    """shard_spans of (sizes, world size)."""
    returns = {f"case_{number}": ("int64", (n, len(sizes), 2)) for number, (sizes, n) in enumerate(cases)}
    listed = [[list(sizes), n] for sizes, n in cases]
    return observe("spans", returns=returns, transport="none", host="it touches no device", cases=listed, **words)


def run_train(
    observe: Any,
    world_size: int,
    stage: str,
    steps: Steps,
    *,
    shapes: Shapes = ODD,
    shared: dict[str, str] | None = None,
    in_float32: tuple[str, ...] = (),
    **case: Any,
) -> Any:
    """Steps of a Toy whose gradients are known: other factors on each rank, in each step and micro-batch."""
    dtypes = {name: "float32" if name in in_float32 else "float64" for name in shapes}
    places = shapes | {alias: shapes[source] for alias, source in (shared or {}).items()}

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given: dict[str, Any] = {f"value/{name}": draw(rng, shape, dtypes[name]) for name, shape in shapes.items()}
        for number, step in enumerate(steps):
            for micro_batch in range(step.get("micro_batches", 1)):
                for name, shape in places.items():
                    given[f"factor/{number}/{micro_batch}/{name}"] = [draw(rng, shape) for _ in range(world_size)]
        return given

    returned = {name: (dtypes[(shared or {}).get(name, name)], shape) for name, shape in places.items()}
    returns: dict[str, Any] = {f"after/{number}/{name}": spec for number in range(len(steps)) for name, spec in returned.items()}
    returns |= {f"loss/{number}": ("float64", ()) for number, step in enumerate(steps) if step.get("closure")}
    words = {"shared": shared} if shared else {}
    return observe("train", world_size=world_size, inputs=inputs, returns=returns, stage=stage, steps=steps, **words, **case)


def run_precision(observe: Any, world_size: int, *, num_steps: int, **how: Any) -> Any:
    """Steps in a low compute dtype."""
    shapes = {name: shape for name, shape in ODD.items() if name != "layers.1.single"}

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given: dict[str, Any] = {f"value/{name}": draw(rng, shape, "float32") for name, shape in shapes.items()}
        for number in range(num_steps):
            for name, shape in shapes.items():
                given[f"factor/{number}/{name}"] = [draw(rng, shape, "float32") for _ in range(world_size)]
        return given

    compute = how.get("compute_dtype", "float32")
    returns = {f"master/{name}": ("float32", shape) for name, shape in shapes.items()}
    returns |= {f"seen/{name}": (compute, shape) for name, shape in shapes.items()}
    return observe("precision", world_size=world_size, inputs=inputs, returns=returns, num_steps=num_steps, **how)


def run_clip(observe: Any, sizes: list[list[int]], *, max_norm: float, dtype: str = "float32", scale: float = 1.0, **words: Any) -> Any:
    """clip_grad_norm_ on one rank for each list of sizes."""
    names = [f"gradient_{number}" for number in range(len(sizes[0]))]

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        given = [[(draw(rng, (size,)) * scale) for size in each] for each in sizes]
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        return {name: [each[place].astype(kind) for each in given] for place, name in enumerate(names)}

    returns: dict[str, Any] = {name: [(dtype, (each[place],)) for each in sizes] for place, name in enumerate(names)}
    returns["norm"] = ("float64", ())
    return observe("clip", world_size=len(sizes), inputs=inputs, returns=returns, max_norm=max_norm, names=names, **words)


def run_ordered(observe: Any, world_size: int, stage: str, *, num_layers: int, elements: int, **how: Any) -> Any:
    """A chain of equal layers with declared costs."""
    inputs = {f"value/{number}": np.ones(elements, np.float32) for number in range(num_layers)}
    is_timed = "forward_s" in how  # late: who waits in a way that nobody sees, waits for ever
    return observe("ordered", world_size=world_size, inputs=inputs, stage=stage, num_layers=num_layers, late=is_timed, **how)


def run_alone(observe: Any, stage: str, *, num_ranks: int, room_bytes: int | None = None, **how: Any) -> Any:
    """One rank of many, weighed."""
    limits = Limits(cpu_s=8, extra_bytes=room_bytes) if room_bytes else Limits(cpu_s=8)
    host = "one rank of a world that is not there, weighed by the host's memory"
    return observe("alone", transport="none", host=host, limits=limits, stage=stage, num_ranks=num_ranks, **how)
