"""What the programs of one kernel launch do to memory: is every address inside a tensor, how many bytes, and does anybody race.

Addresses are numpy arrays of uint64. Programs run one after another here, so a race leaves no wrong number behind; it is found by
remembering who read and wrote each place.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Addresses = NDArray[np.uint64]
NOBODY, SEVERAL = -1, -2
GRANULE_BYTES = 2  # the smallest element that kernels here work on; an element is known by the granule that it starts in
NUM_RACES_TOLD = 3


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor argument of a kernel, and the addresses from its first element to behind its last."""

    name: str
    start: int
    stop: int
    words: str  # dtype and shape, for messages


@dataclass(slots=True)
class Storage:
    """The memory behind one or several arguments. The marks are made when somebody first touches it."""

    start: int
    stop: int
    arguments: list[Argument] = field(default_factory=list)
    writers: NDArray[np.int32] | None = None
    readers: NDArray[np.int32] | None = None
    is_atomic: NDArray[np.bool_] | None = None

    def marks(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Per granule: the program that wrote it, the program that read it (or SEVERAL), and whether atomics changed it."""
        if self.writers is None or self.readers is None or self.is_atomic is None:
            size = -(-(self.stop - self.start) // GRANULE_BYTES)
            self.writers, self.readers = np.full(size, NOBODY, np.int32), np.full(size, NOBODY, np.int32)
            self.is_atomic = np.zeros(size, np.bool_)
        return self.writers, self.readers, self.is_atomic

    def argument_at(self, first: int, last: int) -> Argument:
        """The narrowest argument that holds both addresses; views may share a storage."""
        holding = [a for a in self.arguments if a.start <= first and last < a.stop] or self.arguments
        return min(holding, key=lambda argument: argument.stop - argument.start)


class OutsideMemory(Exception):
    """A kernel touched an address that is in none of its tensors."""


class Memory:
    """All tensors of one launch. `tracks_races` costs eight bytes for every two that are touched."""

    def __init__(self, tensors: list[tuple[str, torch.Tensor]], *, tracks_races: bool) -> None:
        by_start: dict[int, Storage] = {}
        for name, tensor in tensors:
            raw = tensor.untyped_storage()
            if not raw.nbytes():
                continue
            start = raw.data_ptr()
            storage = by_start.setdefault(start, Storage(start, start + raw.nbytes()))
            extent = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1 if tensor.numel() else 0
            words = f"{str(tensor.dtype).removeprefix('torch.')}, shape {list(tensor.shape)}"
            storage.arguments.append(Argument(name, tensor.data_ptr(), tensor.data_ptr() + extent * tensor.element_size(), words))
        self.storages = sorted(by_start.values(), key=lambda storage: storage.start)
        self._starts = [storage.start for storage in self.storages]
        self._tracks_races = tracks_races
        self.races: list[str] = []
        self.loaded_bytes: dict[tuple[int, str], int] = defaultdict(int)  # by program and argument
        self.stored_bytes: dict[tuple[int, str], int] = defaultdict(int)
        self._is_ordered = False  # this program has done an atomic, which may order it behind the others

    def begin(self) -> None:
        """Another program starts."""
        self._is_ordered = False

    def load(self, program: int, addresses: Addresses, itemsize: int) -> None:
        """`program` loads these elements. OutsideMemory before anything is touched."""
        for storage, places in self._checked("load", addresses, itemsize):
            self.loaded_bytes[program, self._name(storage, places)] += places.size * itemsize
            if self._tracks_races:
                self._mark_load(storage, places, program)

    def store(self, program: int, addresses: Addresses, itemsize: int, values: NDArray[Any] | None = None) -> None:
        """`program` stores these elements; writing the bits that are there already is no race."""
        for storage, places in self._checked("store", addresses, itemsize):
            self.stored_bytes[program, self._name(storage, places)] += places.size * itemsize
            if self._tracks_races:
                self._mark_store(storage, addresses, program, values)

    def atomic(self, program: int, addresses: Addresses, itemsize: int) -> None:
        """`program` changes these elements atomically: a load and a store for every lane, also where several change the same element."""
        self._is_ordered = True
        for storage, places in self._checked("atomic operation", addresses, itemsize):
            name = self._name(storage, places)
            num_bytes = int(((addresses >= storage.start) & (addresses < storage.stop)).sum()) * itemsize
            self.loaded_bytes[program, name] += num_bytes
            self.stored_bytes[program, name] += num_bytes
            if self._tracks_races:
                writers, readers, is_atomic = storage.marks()
                at = self._granules(storage, places)
                marked = _foreign(writers[at], program) | _foreign(readers[at], program)
                self._tell(storage, places, marked, program, "atomically changes what others read or write without an atomic")
                is_atomic[at] = True

    # --- bounds ---
    def _checked(self, deed: str, addresses: Addresses, itemsize: int) -> list[tuple[Storage, Addresses]]:
        """The distinct addresses by storage."""
        if not addresses.size:
            return []
        distinct = np.unique(addresses)
        first, last = int(distinct[0]), int(distinct[-1])
        index = bisect.bisect_right(self._starts, first) - 1
        if index >= 0 and last + itemsize <= self.storages[index].stop:
            return [(self.storages[index], distinct)]
        return self._spread(deed, distinct, itemsize)

    def _spread(self, deed: str, distinct: Addresses, itemsize: int) -> list[tuple[Storage, Addresses]]:
        """As `_checked`, for addresses that are not all in one storage."""
        inside = np.zeros(distinct.size, np.bool_)
        found = []
        for storage in self.storages:
            here = (distinct >= storage.start) & (distinct + np.uint64(itemsize) <= storage.stop)
            if here.any():
                found.append((storage, distinct[here]))
                inside |= here
        if inside.all():
            return found
        outside = distinct[~inside]
        raise OutsideMemory(self._sentence(deed, outside, distinct.size, found))

    def _sentence(self, deed: str, outside: Addresses, num_all: int, found: list[tuple[Storage, Addresses]]) -> str:
        arguments = [a for storage in (s for s, _ in found) for a in storage.arguments] or [a for s in self.storages for a in s.arguments]
        if not arguments:
            return f"a {deed} goes to memory although the kernel has no tensor argument"
        wild = int(outside[0])

        def distance(argument: Argument) -> int:
            return max(argument.start - wild, wild - argument.stop + 1, 0)

        nearest = min(arguments, key=distance)
        behind = f"{wild - nearest.stop} bytes behind its end" if wild > nearest.stop else "right behind its end"
        side = behind if wild >= nearest.stop else f"{nearest.start - wild} bytes before its start"
        return (
            f"a {deed} leaves {nearest.name} ({nearest.words}): {outside.size} of {num_all} addresses are in no tensor, the first {side}; "
            "is there a mask, and are these the tensor's own strides?"
        )

    # --- races ---
    def _mark_load(self, storage: Storage, places: Addresses, program: int) -> None:
        writers, readers, is_atomic = storage.marks()
        at = self._granules(storage, places)
        if not self._is_ordered:
            marked = _foreign(writers[at], program) | is_atomic[at]
            self._tell(storage, places, marked, program, "reads what others of the same launch write")
        readers[at] = np.where((readers[at] == NOBODY) | (readers[at] == program), program, SEVERAL)

    def _mark_store(self, storage: Storage, addresses: Addresses, program: int, values: NDArray[Any] | None) -> None:
        writers, readers, is_atomic = storage.marks()
        at = self._granules(storage, addresses[(addresses >= storage.start) & (addresses < storage.stop)])
        changes = _changes(storage, addresses, values)
        if changes.shape == at.shape and not self._is_ordered:
            marked = changes & (_foreign(writers[at], program) | _foreign(readers[at], program) | is_atomic[at])
            self._tell(storage, addresses, marked, program, "overwrites what others of the same launch read or write")
        writers[at] = program

    def _tell(self, storage: Storage, places: Addresses, marked: NDArray[np.bool_], program: int, deed: str) -> None:
        if marked.any() and len(self.races) < NUM_RACES_TOLD:
            first = int(places[int(np.argmax(marked))])
            name = storage.argument_at(first, first).name
            self.races.append(f"program {program} {deed}: {int(marked.sum())} elements of {name}")

    @staticmethod
    def _granules(storage: Storage, places: Addresses) -> NDArray[np.int64]:
        return ((places - np.uint64(storage.start)) // np.uint64(GRANULE_BYTES)).astype(np.int64)

    @staticmethod
    def _name(storage: Storage, places: Addresses) -> str:
        return storage.argument_at(int(places[0]), int(places[-1])).name


def _foreign(marks: NDArray[np.int32], program: int) -> NDArray[np.bool_]:
    """Where somebody else has been."""
    return (marks != NOBODY) & (marks != program)


def _changes(storage: Storage, addresses: Addresses, values: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which of these stores would change a bit."""
    if values is None or addresses[0] < storage.start or int(addresses.max()) >= storage.stop:
        return np.ones(addresses.shape, np.bool_)
    whole = np.ctypeslib.as_array((ctypes.c_uint8 * (storage.stop - storage.start)).from_address(storage.start))
    itemsize = values.dtype.itemsize
    offsets = (addresses - np.uint64(storage.start)).astype(np.int64)
    there = whole[offsets[:, None] + np.arange(itemsize)]
    new = np.ascontiguousarray(values).view(np.uint8).reshape(-1, itemsize)
    return np.asarray((there != new).any(1))
