"""Triton without a GPU: kernels run in Triton's interpreter, watched.

In the flavour "interpreter" every launch is checked (an address outside the kernel's tensors is a sentence instead of a crash), outputs
start as NaN, and arithmetic is repaired (triton_numbers). Inside `watch` programs run in an order drawn by lot, bytes are counted by
tensor, kernel and program, and races are found. All of it is testimony: the submission runs in this process.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.records import Json
from grader.worker import triton_numbers
from grader.worker.triton_memory import Addresses, Memory
from grader.worker.triton_target import pretend

NUM_PROGRAMS_TOLD = 4096
PRETENDED_CAPABILITY = 90


class KernelError(Exception):
    """Something went wrong inside a kernel: which kernel, which program, and what."""


class Launch:
    """One kernel launch: its tensors, its grid, and the order in which its programs run."""

    def __init__(self, kernel: str, tensors: list[tuple[str, torch.Tensor]], watch: Watch | None) -> None:
        self.kernel, self.tensors, self._watch = kernel, tensors, watch
        self.memory = Memory(tensors, tracks_races=watch is not None)
        self.grid: tuple[int, int, int] = (0, 0, 0)
        self.program = -1
        self.patched: frozenset[int] = frozenset()  # modules of Triton that are the interpreter's own while this launch runs
        self._order: list[int] = []

    def set_grid(self, grid: Sequence[int]) -> None:
        """The grid is known: draw the order of its programs."""
        self.grid = (int(grid[0]), int(grid[1]), int(grid[2]))
        self._order = list(range(self.grid[0] * self.grid[1] * self.grid[2]))
        if self._watch is not None:
            self._watch.lot.shuffle(self._order)

    def next_program(self, x: int, y: int, z: int) -> tuple[int, int, int]:
        """Which program runs when the interpreter has come to (x, y, z)."""
        _, height, depth = self.grid
        self.program = self._order[(x * height + y) * depth + z]
        self.memory.begin()
        return self.place()

    def place(self) -> tuple[int, int, int]:
        """The running program's position in the grid."""
        _, height, depth = self.grid
        return self.program // (height * depth), self.program // depth % height, self.program % depth


class Watch:
    """What the kernels launched inside did."""

    def __init__(self, seed: int, names: dict[str, torch.Tensor]) -> None:
        self.lot = random.Random(seed)
        self.launches: list[Launch] = []  # keeps their tensors alive, so that no later one gets an earlier one's address
        self._names = dict(names)

    def name(self, **tensors: torch.Tensor) -> None:
        """More tensors that the facts shall call by these names; all others are called as the kernel calls them."""
        self._names |= tensors

    def facts(self) -> Json:
        """Per launch: kernel, grid, bytes loaded and stored by tensor and by program, races."""
        return [self._facts_of(launch) for launch in self.launches]

    def _facts_of(self, launch: Launch) -> Json:
        told = {tensor.untyped_storage().data_ptr(): name for name, tensor in self._names.items() if isinstance(tensor, torch.Tensor)}
        called = {argument: told.get(tensor.untyped_storage().data_ptr(), argument) for argument, tensor in launch.tensors}
        num_programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
        facts: dict[str, Json] = {"kernel": launch.kernel, "grid": list(launch.grid), "races": launch.memory.races}
        for deed, counts in (("loaded_bytes", launch.memory.loaded_bytes), ("stored_bytes", launch.memory.stored_bytes)):
            by_tensor: dict[str, int] = defaultdict(int)
            by_program = [0] * num_programs
            for (program, argument), num_bytes in counts.items():
                by_tensor[called[argument]] += num_bytes
                by_program[program] += num_bytes
            facts |= {deed: dict(by_tensor), f"{deed}_by_program": by_program[:NUM_PROGRAMS_TOLD]}
        return facts


_current: Launch | None = None
_watch: Watch | None = None


@contextlib.contextmanager
def watch(seed: int, names: dict[str, torch.Tensor]) -> Iterator[Watch]:
    """Watch the kernels that are launched inside; tensors in `names` are called so in the facts."""
    global _watch
    before, _watch = _watch, Watch(seed, names)
    try:
        yield _watch
    finally:
        _watch = before


def install() -> None:
    """Once per process, after Triton was imported with TRITON_INTERPRET=1. No tensor operation happens here."""
    triton_numbers.repair(_touch)
    pretend(PRETENDED_CAPABILITY)  # else nothing that asks for the GPU, autotuning included, gets an answer
    # Fills what torch.empty returns with NaN. Its public name, torch.use_deterministic_algorithms, imports Inductor as well: 4 s.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    builder = interpreter.InterpreterBuilder
    set_grid_dim, set_grid_idx, call = builder.set_grid_dim, builder.set_grid_idx, interpreter.GridExecutor.__call__

    def set_dim(self: Any, *grid: int) -> None:
        if _current is not None:
            _current.set_grid(grid)
        set_grid_dim(self, *grid)

    def set_idx(self: Any, *place: int) -> None:
        set_grid_idx(self, *(place if _current is None else _current.next_program(*place)))

    def launched(self: Any, *arguments: Any, **options: Any) -> None:
        _run(call, self, arguments, options)

    builder.set_grid_dim, builder.set_grid_idx = set_dim, set_idx
    interpreter.GridExecutor.__call__ = launched
    _make_calls_cheap()


def _make_calls_cheap() -> None:
    """Leave out what takes half of the interpreter's time: patching Triton's modules again in each call of one kernel function by
    another, checking integers for overflow (an address that comes of one is caught), and parsing Triton's own functions in every rank.
    """
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    patch_lang = interpreter._patch_lang

    def patch_once(function: Any) -> Any:
        if _current is None:
            return patch_lang(function)
        modules = frozenset(id(value) for value in function.__globals__.values() if value is tl or value is tl.core)
        if modules <= _current.patched:
            return interpreter._LangPatchScope()
        _current.patched |= modules
        return patch_lang(function)

    interpreter._patch_lang = patch_once
    for function in list(vars(tl.standard).values()):
        if isinstance(function, interpreter.InterpretedFunction):
            function.rewrite()


def _run(call: Any, executor: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Run one launch; whatever its programs raise leaves as a KernelError with the submission's own lines in its traceback."""
    global _current
    _current = Launch(executor.fn.__name__, _tensors_of(executor.fn, arguments, options), _watch)
    if _watch is not None:
        _watch.launches.append(_current)
    names = executor.fn.__globals__
    before = names.get("range", range)
    try:
        names["range"] = triton_numbers.range_of_kernels
        with np.errstate(all="ignore"):  # inf - inf and the like are the kernel's business, as on a GPU
            call(executor, *arguments, **options)
    except InterpreterError as wrapped:
        cause: BaseException = wrapped
        while isinstance(cause, InterpreterError) and cause.__cause__ is not None:  # wrapped once for every function on the way
            cause = cause.__cause__
        words = str(cause) or "an assertion without words failed"
        kind = "" if type(cause).__name__ == "OutsideMemory" else f"{type(cause).__name__}: "
        told = KernelError(f"in kernel {_current.kernel}, program {_current.place()}: {kind}{words}")
        raise told.with_traceback(cause.__traceback__) from None
    finally:
        _current = None
        names["range"] = before


def _touch(deed: str, addresses: Addresses, itemsize: int, values: Any) -> None:
    if _current is None:
        return
    if deed == "load":
        _current.memory.load(_current.program, addresses, itemsize)
    elif deed == "store":
        _current.memory.store(_current.program, addresses, itemsize, values)
    else:
        _current.memory.atomic(_current.program, addresses, itemsize)


def _tensors_of(kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensor arguments by the kernel's own names; of a descriptor, the tensor that it describes."""
    signature = inspect.signature(kernel)
    known = {name: value for name, value in options.items() if name in signature.parameters}
    bound = signature.bind_partial(*arguments, **known).arguments
    return [pair for name, value in bound.items() for pair in _flattened(name, value)]


def _flattened(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, TensorDescriptor):
        return _flattened(name, value.base)
    if isinstance(value, tuple | list):
        return [pair for index, item in enumerate(value) for pair in _flattened(f"{name}[{index}]", item)]
    tensor = getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value
    return [(name, tensor)] if isinstance(tensor, torch.Tensor) else []
