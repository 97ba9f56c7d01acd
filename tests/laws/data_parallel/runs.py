"""Runs that the laws of data_parallel look at: random inputs, declared outputs, one probe each.

Requests that are equal share one run, so laws that can look at the same run ask for it in the same words.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
NO_DEVICE = "it decides on the host what goes where"
Tensors = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype and shape of the tensor's memory
Steps = list[dict[str, Any]]  # what the probe `train` says about a step

FLOATS = ("float64", "float32", "float16", "bfloat16")


def draw(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random values of a dtype: integers within ±1000, truth values, floats around ±1."""
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    values = rng.integers(-1000, 1001, shape) if dtype.startswith("int") else rng.standard_normal(shape)
    return np.asarray(values).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def on_each_rank(rng: np.random.Generator, world_size: int, tensors: Tensors) -> dict[str, list[Array]]:
    """Other values on each rank."""
    return {name: [draw(rng, dtype, shape) for _ in range(world_size)] for name, (dtype, shape) in tensors.items()}


def as_given(memory: Array, layout: str) -> Array:
    """What the submission gets of `memory`: the probe's view of it."""
    if layout == "transposed":
        return memory.swapaxes(-1, -2) if memory.ndim > 1 else memory
    return memory[::2] if layout == "every_second" and memory.ndim else memory


def given(tensors: Tensors, layout: str) -> Tensors:
    """The tensors in the shapes that the submission sees."""
    return {name: (dtype, as_given(np.zeros(shape), layout).shape) for name, (dtype, shape) in tensors.items()}


def spoken(**case: Any) -> dict[str, Any]:
    """The words of a request, without those that say what is usual."""
    usual: dict[str, Any] = {"layout": "plain", "frozen": (), "missing": None, "shared": None, "members": None, "fleeting": ()}
    return {word: value for word, value in case.items() if word not in usual or value != usual[word]}


# --- functions on gradients ------------------------------------------------------------------------------------------
def run_reduce(observe: Any, world_size: int, tensors: Tensors, *, function: str, layout: str = "plain", **case: Any) -> Any:
    """One call of all_reduce_gradients or flat_all_reduce_gradients on parameters that have `tensors` as gradients."""
    return observe(
        "reduce_gradients",
        world_size=world_size,
        inputs=lambda rng: on_each_rank(rng, world_size, tensors),
        returns=given(tensors, layout),
        function=function,
        **spoken(layout=layout, **case),
    )


def run_broadcast(observe: Any, world_size: int, values: Tensors, buffers: Tensors, *, layout: str = "plain", **case: Any) -> Any:
    """One call of broadcast_module_state on a module with these parameters and buffers."""
    state = prefixed("value", values) | prefixed("buffer", buffers)
    return observe(
        "broadcast_state",
        world_size=world_size,
        inputs=lambda rng: telling(on_each_rank(rng, world_size, state)),
        returns=given(state, layout),
        **spoken(layout=layout, **case),
    )


def telling(tensors: dict[str, list[Array]]) -> dict[str, list[Array]]:
    """The same with values that only a copy keeps: minus zero, which no sum gives back, and an int64 that no float64 can tell."""
    for array in (array for arrays in tensors.values() for array in arrays if array.size):
        if array.dtype.kind not in "biu":
            array.flat[0] = -0.0
        elif array.dtype == np.int64:
            array.flat[0] = 2**54 + 2**40 * array.flat[0] + 1
    return tensors


def prefixed(prefix: str, tensors: Tensors) -> Tensors:
    """The same tensors as <prefix>/<name>."""
    return {f"{prefix}/{name}": spec for name, spec in tensors.items()}


# --- DistributedDataParallel -----------------------------------------------------------------------------------------
def run_train(
    observe: Any,
    world_size: int,
    values: Tensors,
    steps: Steps,
    *,
    bucket_bytes: int,
    buffers: Tensors | None = None,
    shared: dict[str, str] | None = None,
    layout: str = "plain",
    **case: Any,
) -> Any:
    """Steps of a module whose gradients are inputs: other ones on each rank, in each step and in each micro-batch."""
    state = prefixed("value", values) | prefixed("buffer", buffers or {})
    trained = given(values, layout)
    used = trained | {other: trained[name] for other, name in (shared or {}).items()}
    gradients: Tensors = {}
    for number, step in enumerate(steps):
        for micro_batch in range(step.get("micro_batches", 1)):
            gradients |= prefixed(f"gradient/{number}/{micro_batch}", used)
    after = {f"gradient/{number}/{name}": spec for number in range(len(steps)) for name, spec in trained.items()}
    return observe(
        "train",
        world_size=world_size,
        inputs=lambda rng: on_each_rank(rng, world_size, state | gradients),
        returns=given(state, layout) | after,
        steps=steps,
        bucket_bytes=bucket_bytes,
        **spoken(layout=layout, shared=shared, **case),
    )


def run_chain(
    observe: Any,
    world_size: int,
    widths: Sequence[int],
    *,
    bucket_bytes: int,
    rows: list[list[int]] | None = None,
    num_rows: int = 3,
    **case: Any,
) -> Any:
    """One step of linear layers widths[0] -> widths[1] -> …; rank 0's weights count. rows: micro-batches by rank, else `num_rows` each."""
    shapes = {}
    for layer, (num_in, num_out) in enumerate(itertools.pairwise(widths)):
        shapes |= {f"weight_{layer}": (num_out, num_in), f"bias_{layer}": (num_out,)}
    counts = [sum(each) for each in rows] if rows else [num_rows] * world_size

    def batch(rng: np.random.Generator) -> dict[str, list[Array]]:
        weights = on_each_rank(rng, world_size, {name: ("float32", shape) for name, shape in shapes.items()})
        return weights | {
            "x": [draw(rng, "float32", (count, widths[0])) for count in counts],
            "y": [draw(rng, "float32", (count, widths[-1])) for count in counts],
        }

    words = {} if rows is None else {"rows": rows}
    return observe(
        "chain",
        world_size=world_size,
        inputs=batch,
        returns={name: ("float32", shape) for name, shape in shapes.items()},
        num_layers=len(widths) - 1,
        bucket_bytes=bucket_bytes,
        **words,
        **case,
    )


def run_loss_scale(observe: Any, num_tokens: list[int], **case: Any) -> Any:
    """mean_loss_scale on one rank for each number of tokens."""
    return observe("loss_scale", world_size=len(num_tokens), returns={"scale": ("float64", ())}, num_tokens=num_tokens, **spoken(**case))
