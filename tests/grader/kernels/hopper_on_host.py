"""Plays a Gluon kernel for Hopper on the host: values, barriers, and what copies and asynchronous products may do at the worst moment.

A kernel's Python is run as it stands, with other meanings for `gl`, `tma`, `mbarrier` and products. A tile that is being loaded is NaN
until it lands; a product, or a store, must find at its end what it found at its beginning; a result that was not waited for can't be used.
Layouts, registers and instructions are the compiler's business and mean nothing here.
"""

from __future__ import annotations

import contextlib
import random
import types
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from triton.runtime.jit import JITCallable

from tests.grader.kernels.hopper_machine import (
    Barrier,
    Described,
    Misplayed,
    Pointer,
    Product,
    Shared,
    Stage,
    Tensor,
    is_same,
    seen_in,
    unfenced,
)


# --- the language ----------------------------------------------------------------------------------------------------
class Mbarrier:
    """`mbarrier`: on lists of barriers that stand where shared memory of theirs would."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    MBarrierLayout = staticmethod(lambda: None)

    def init(self, barrier: Barrier, count: int) -> None:
        barrier.count = barrier.missing = count

    def expect(self, barrier: Barrier, num_bytes: int) -> None:
        barrier.bytes += num_bytes
        barrier.arrive(1)

    def arrive(self, barrier: Barrier, count: int = 1) -> None:
        barrier.arrive(count)
        self.stage.rest()

    def wait(self, barrier: Barrier, phase: int) -> None:
        self.stage.rest(lambda: barrier.phase % 2 != phase)


class Tma:
    """`tma`: the copy engine."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def async_copy_global_to_shared(self, described: Described, place: Sequence[int], barrier: Barrier, tile: Shared) -> None:
        if tile.shape != tuple(described.block_type.shape):
            raise Misplayed(f"loads a tile of {described.block_type.shape} into {tile.shape}")
        source, inside = described.tile(place)
        tile.data.fill_(torch.nan)
        self.stage.loads.append((tile, source, inside, barrier, described.block_type.nbytes))
        self.stage.rest()

    def async_copy_shared_to_global(self, described: Described, place: Sequence[int], tile: Shared) -> None:
        if unfenced(tile):
            raise Misplayed("stores from shared memory that was written to, without a fence between")
        self.stage.here.stores.append((described, place, tile, seen_in(tile)))
        self.stage.rest()

    def store_wait(self, pending: int) -> None:
        stores = self.stage.here.stores
        while len(stores) > pending:
            described, place, tile, before = stores.pop(0)
            if not is_same(seen_in(tile), before):
                raise Misplayed("a tile was overwritten while it was stored")
            target, inside = described.tile(place)
            target.copy_(tile.data[inside])


class Gl:
    """`gl`, as far as kernels here use it. Layouts are nothing."""

    float32, int32, int64, constexpr = torch.float32, torch.int32, torch.int64, int

    def __init__(self, stage: Stage, program: int, num_programs: int) -> None:
        self.stage, self.program, self.programs, self.allocated = stage, program, num_programs, list[Shared]()
        for layout in ("NVMMADistributedLayout", "DotOperandLayout", "SliceLayout", "BlockedLayout", "NVMMASharedLayout"):
            setattr(self, layout, lambda *_, **named: None)
        self.static_range, self.maximum, self.minimum = range, _either(torch.maximum, max), _either(torch.minimum, min)
        self.exp2, self.log2 = torch.exp2, torch.log2
        self.max, self.sum = lambda x, axis: x.amax(axis), lambda x, axis: x.sum(axis)
        self.convert_layout = lambda x, layout: x

    def program_id(self, axis: int) -> int:
        return self.program

    def allocate_shared_memory(self, dtype: Any, shape: Sequence[int], layout: Any) -> Any:
        if dtype is self.int64:
            barriers = [Barrier() for _ in range(shape[0])]
            return SimpleNamespace(index=barriers.__getitem__, shape=tuple(shape))
        self.allocated.append(Shared(torch.full(tuple(shape), torch.nan, dtype=dtype)))
        return self.allocated[-1]

    def warp_specialize(self, parts: Sequence[tuple[Callable[..., None], Sequence[Any]]], num_warps: Any, num_registers: Any) -> None:
        self.stage.play([lambda run=run, given=given: run(*given) for run, given in parts])

    def num_programs(self, axis: int) -> int:
        return self.programs

    def arange(self, first: int, last: int, layout: Any) -> Tensor:
        return torch.arange(first, last)

    def zeros(self, shape: Sequence[int], dtype: torch.dtype, layout: Any) -> Tensor:
        return torch.zeros(shape, dtype=dtype)

    def full(self, shape: Sequence[int], value: float, dtype: torch.dtype, layout: Any) -> Tensor:
        return torch.full(shape, value, dtype=dtype)

    def where(self, mask: Tensor, one: Any, other: Any) -> Tensor:
        return torch.where(mask, one, other)

    def atomic_add(self, pointer: Pointer, value: Tensor, sem: str) -> None:
        pointer.memory.index_put_((pointer.offset,), value, accumulate=True)

    def load(self, pointer: Pointer, mask: Tensor | None = None, other: float = 0.0) -> Any:
        if not isinstance(pointer.offset, Tensor):
            return int(pointer.memory[pointer.offset])
        return pointer.memory[pointer.offset] if mask is None else torch.where(mask, pointer.memory[pointer.offset * mask], other)

    def store(self, pointer: Pointer, value: Tensor, mask: Tensor | None = None) -> None:
        places, values = (pointer.offset, value) if mask is None else (pointer.offset[mask], value[mask])
        pointer.memory[places] = values


def _either(of_tensors: Callable[..., Any], of_numbers: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: of_tensors(a, b) if isinstance(a, Tensor) else of_numbers(a, b)


def _language(stage: Stage, program: int, num_programs: int) -> dict[str, Any]:
    def warpgroup_mma(a: Any, b: Shared, acc: Tensor, *, use_acc: bool = True, is_async: bool = False) -> Product | Tensor:
        if unfenced(a, b):
            raise Misplayed("a product reads shared memory that was written to, without a fence between")
        product = Product((a, b), (seen_in(a), seen_in(b)), acc if use_acc else None)
        if not is_async:
            return product.value
        stage.here.products.append(product)
        stage.rest()
        return product

    def warpgroup_mma_wait(pending: int, deps: Sequence[Any]) -> Any:
        products = stage.here.products
        while len(products) > pending:
            products.pop(0).end()
        if any(isinstance(each, Product) and not each.is_done for each in deps):
            raise Misplayed("a product is used before it was waited for")
        values = [each.value if isinstance(each, Product) else each for each in deps]
        return values[0] if len(values) == 1 else tuple(values)

    def fence_async_shared() -> None:
        for memory in gl.allocated:
            memory.fence()

    gl = Gl(stage, program, num_programs)
    return {
        "gl": gl, "mbarrier": Mbarrier(stage), "tma": Tma(stage), "warpgroup_mma": warpgroup_mma, "warpgroup_mma_wait": warpgroup_mma_wait,
        "fence_async_shared": fence_async_shared,
    }  # fmt: skip


# --- launching -------------------------------------------------------------------------------------------------------
class Played:
    """Stands where a kernel of `module` stands: `played[(num_programs,)](arguments)` plays all programs, one after the other."""

    def __init__(self, module: ModuleType, name: str, lot: int) -> None:
        self.name, self.names, self.lot = name, dict(vars(module)), random.Random(lot)

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        return lambda *given, **options: self._launch(grid[0], given, options)

    def _launch(self, num_programs: int, given: Sequence[Any], options: dict[str, Any]) -> None:
        options = {name: value for name, value in options.items() if name not in ("num_warps", "maxnreg")}
        arguments = [_argument(each) for each in given]
        for program in range(num_programs):
            kernel = self._functions(Stage(self.lot), program, num_programs)[self.name]
            kernel(*arguments, **options)

    def _functions(self, stage: Stage, program: int, num_programs: int) -> dict[str, Any]:
        """The module's names, its jitted functions plain ones, which see the played language."""
        seen = self.names | _language(stage, program, num_programs)
        for name, value in self.names.items():
            if isinstance(value, JITCallable):
                seen[name] = types.FunctionType(value.fn.__code__, seen, name, value.fn.__defaults__)
        return seen


def _argument(given: Any) -> Any:
    if isinstance(given, Tensor):
        return Pointer(given.as_strided((given.untyped_storage().nbytes() // given.itemsize - given.storage_offset(),), (1,)))
    return Described(given) if hasattr(given, "block_shape") else given


@contextlib.contextmanager
def on_host(module: ModuleType, kernels: Sequence[str], *, num_processors: int, lot: int) -> Iterator[None]:
    """`module` with `kernels` played, on a device with `num_processors`, which its `is_served`, if it has one, takes for a Hopper."""
    before = {name: getattr(module, name) for name in [*kernels, "is_served"] if hasattr(module, name)}
    properties = torch.cuda.get_device_properties
    try:
        for name in kernels:
            setattr(module, name, Played(module, name, lot))
        module.is_served = lambda *_: True  # type: ignore[attr-defined]
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=num_processors)  # type: ignore[assignment]
        yield
    finally:
        torch.cuda.get_device_properties = properties
        for name, value in before.items():
            setattr(module, name, value)
