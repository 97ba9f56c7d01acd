"""A program's part of a Hopper chip, as far as a test must see it: shared memory, barriers, the copy engine, and groups of warps.

Groups are threads of which one runs at a time; who goes on, and when a copy lands, is drawn by lot. What the chip allows to go wrong does.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

Tensor = torch.Tensor


class Misplayed(Exception):
    """What the kernel may not do: the sentence says what was seen."""


# --- memory ----------------------------------------------------------------------------------------------------------
@dataclass
class Shared:
    """Shared memory, or a view of it. All views share `writes`: which places threads have written to, and not fenced since."""

    data: Tensor
    writes: list[tuple[int, int, int]] = field(default_factory=list)  # first place, last place, thread

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    def index(self, place: int) -> Shared:
        if not 0 <= place < len(self.data):
            raise Misplayed(f"slot {place} of {len(self.data)}")
        return Shared(self.data[place], self.writes)

    def reshape(self, shape: Sequence[int]) -> Shared:
        return Shared(self.data.view(*shape), self.writes)

    def permute(self, dims: Sequence[int]) -> Shared:
        return Shared(self.data.permute(*dims), self.writes)

    def slice(self, first: int, length: int, dim: int) -> Shared:
        return Shared(self.data.narrow(dim, first, length), self.writes)

    def load(self, layout: Any) -> Tensor:
        return self.data.clone()

    def store(self, value: Tensor) -> None:
        if value.dtype != self.data.dtype or value.shape != self.data.shape:
            raise Misplayed(f"stores {value.dtype} {list(value.shape)} into {self.data.dtype} {list(self.data.shape)}")
        self.data.copy_(value)
        self.writes.append((*self._places(), threading.get_ident()))

    def fence(self) -> None:
        """What the calling thread has written is seen by the copy engine and by products."""
        self.writes[:] = [write for write in self.writes if write[2] != threading.get_ident()]

    @property
    def is_unfenced(self) -> bool:
        first, last = self._places()
        return any(write[0] <= last and first <= write[1] for write in self.writes)

    def _places(self) -> tuple[int, int]:
        first = self.data.storage_offset()
        return first, first + sum((extent - 1) * stride for extent, stride in zip(self.data.shape, self.data.stride(), strict=True))


class Described:
    """A tensor descriptor: tiles of a tensor, zeros outside, where nothing is written either."""

    def __init__(self, descriptor: Any) -> None:
        self.whole, self.layout = descriptor.base, descriptor.layout
        shape, dtype = list(descriptor.block_shape), descriptor.base.dtype
        self.dtype = dtype
        self.block_type = SimpleNamespace(shape=shape, nbytes=torch.empty(shape, dtype=dtype, device="meta").nbytes)

    def tile(self, place: Sequence[int]) -> tuple[Tensor, tuple[slice, ...]]:
        """The part of the tensor that the tile at `place` covers, and where in the tile it lies."""
        ranges = [
            (max(0, at), min(extent, at + size)) for at, extent, size in zip(place, self.whole.shape, self.block_type.shape, strict=True)
        ]
        inside = tuple(slice(first - at, max(first, last) - at) for (first, last), at in zip(ranges, place, strict=True))
        return self.whole[tuple(slice(first, max(first, last)) for first, last in ranges)], inside


@dataclass
class Pointer:
    """A flat tensor and an offset, or a tensor of offsets."""

    memory: Tensor
    offset: Any = 0

    @property
    def dtype(self) -> SimpleNamespace:
        return SimpleNamespace(element_ty=self.memory.dtype)

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.memory, self.offset + more)


# --- what runs beside the threads --------------------------------------------------------------------------------------
@dataclass
class Barrier:
    """An mbarrier: its phase ends when as many have arrived as it was made for, and all expected bytes are there."""

    count: int = 0
    missing: int = 0
    bytes: int = 0
    phase: int = 0

    def arrive(self, count: int) -> None:
        if count > self.missing:
            raise Misplayed(f"a barrier for {self.count} arrivals has one too many")
        self.missing -= count
        self.settle()

    def settle(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.phase, self.missing = self.phase + 1, self.count


@dataclass
class Product:
    """An asynchronous matrix product: what it read when it began, and where from."""

    operands: tuple[Tensor | Shared, ...]
    begun: tuple[Tensor, ...]
    addend: Tensor | Product | None  # products of one group of warps are made in order, so one may add to the one before
    is_done: bool = False

    def end(self) -> None:
        for operand, before in zip(self.operands, self.begun, strict=True):
            if not is_same(seen_in(operand), before):
                raise Misplayed("a tile was overwritten, or had not arrived, while a product read it")
        self.is_done = True

    @property
    def value(self) -> Tensor:
        a, b = self.begun
        product = a.float() @ b.float()
        before = self.addend.value if isinstance(self.addend, Product) else self.addend
        return product if before is None else product + before


def unfenced(*operands: Tensor | Shared) -> bool:
    """Whether the copy engine and products may not see yet what a thread has written there."""
    return any(isinstance(operand, Shared) and operand.is_unfenced for operand in operands)


def seen_in(operand: Tensor | Shared) -> Tensor:
    """A copy of what a product would read now."""
    return (operand.data if isinstance(operand, Shared) else operand).clone()


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether both hold the same numbers; a NaN is equal to a NaN."""
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


class Stage:
    """One program of the grid: its threads, of which one runs at a time, and the copies that are on their way."""

    def __init__(self, lot: random.Random) -> None:
        self.lot = lot
        self.loads: list[tuple[Shared, Tensor, tuple[slice, ...], Barrier, int]] = []
        self.turns: dict[int, tuple[threading.Semaphore, Callable[[], bool]]] = {}
        self.control = threading.Semaphore(0)
        self.here = threading.local()
        self.error: BaseException | None = None

    def play(self, parts: Sequence[Callable[[], None]]) -> None:
        """Run `parts` side by side until all have returned. Raises what one of them raised; Misplayed if none can go on."""
        threads = []
        for number, part in enumerate(parts):
            self.turns[number] = threading.Semaphore(0), lambda: True
            threads.append(threading.Thread(target=self._run, args=(number, part), daemon=True))
            threads[-1].start()
        while self.turns and self.error is None:
            ready = [number for number, (_, may_go_on) in self.turns.items() if may_go_on()]
            choices = ready + ["a copy"] * bool(self.loads)
            if not choices:
                raise Misplayed(f"{len(self.turns)} of {len(parts)} groups of warps wait for ever")
            chosen = self.lot.choice(choices)
            if chosen == "a copy":
                self._land(self.loads.pop(self.lot.randrange(len(self.loads))))
            else:
                self.turns[chosen][0].release()
                self.control.acquire()
        if self.error is not None:
            raise self.error
        for thread in threads:
            thread.join()

    def _run(self, number: int, part: Callable[[], None]) -> None:
        self.here.number, self.here.products, self.here.stores = number, [], []
        self.turns[number][0].acquire()
        try:
            part()
            if self.here.stores:
                raise Misplayed("a program ends while it stores from shared memory")
        except BaseException as error:
            self.error = error
        finally:
            del self.turns[number]
            self.control.release()

    def rest(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Let others run, and go on at some moment at which `may_go_on` says so."""
        if not self.turns:  # before the warps part
            return
        semaphore, _ = self.turns[self.here.number]
        self.turns[self.here.number] = semaphore, may_go_on
        self.control.release()
        semaphore.acquire()

    def _land(self, load: tuple[Shared, Tensor, tuple[slice, ...], Barrier, int]) -> None:
        tile, source, inside, barrier, num_bytes = load
        tile.data.zero_()
        tile.data[inside] = source
        barrier.bytes -= num_bytes
        barrier.settle()
