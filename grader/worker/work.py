"""What an operation over the wire gives back: torch's `Work`, with the answer copied into the caller's tensors when it lands."""

from __future__ import annotations

import ctypes
import sys
import threading
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from grader.frames import Bytes
from grader.records import MANY_LOOKS, Json, KiB
from grader.worker.line import Landing, Line

SUMMED_ANYWAY_BYTES = 64 * KiB  # takes less time than the operation does
POLLS_PER_WORD = 1000  # a rank that spins on is_completed() tells the judge this seldom


def raw(tensor: torch.Tensor) -> Bytes:
    """The tensor's bytes in row-major order. Of a contiguous one it is the memory itself: keep the tensor alive beside it."""
    if not tensor.numel():
        return b""
    if tensor.is_contiguous():
        return _memory(tensor)
    copy = tensor.detach().contiguous()
    return bytes(_memory(copy))


def num_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the tensor's elements, whatever its strides."""
    return int(tensor.numel() * tensor.element_size())


def fill(tensor: torch.Tensor, body: memoryview) -> None:
    """Copy raw bytes into a tensor. As with gloo, no version counter moves and autograd doesn't notice."""
    if not body or _is_freed(tensor):
        return
    if tensor.is_contiguous():
        _memory(tensor)[:] = body
        return
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.detach().copy_(torch.frombuffer(bytearray(body), dtype=torch.uint8).view(tensor.dtype).view(tensor.shape))


def _memory(tensor: torch.Tensor) -> memoryview:
    # not through numpy(): it makes the storage unresizable for good, and FSDP resizes its storages
    return memoryview((ctypes.c_ubyte * num_bytes(tensor)).from_address(tensor.data_ptr())).cast("B")


def _is_freed(tensor: torch.Tensor) -> bool:
    """Its storage was resized to nothing while the operation was under way."""
    storage_bytes: int = tensor.untyped_storage().nbytes()
    return storage_bytes < num_bytes(tensor)


def fingerprint(tensor: torch.Tensor) -> int:
    """A number that changes when somebody writes into the tensor.

    Views share one version counter with their base, so that a write into the next chunk would count, even an empty one; bytes are summed
    instead, but of a large tensor that has its storage to itself.
    """
    if _is_freed(tensor):
        return -1
    is_small = num_bytes(tensor) <= SUMMED_ANYWAY_BYTES
    if is_small or tensor.is_inference() or tensor.untyped_storage().nbytes() != num_bytes(tensor):
        return zlib.crc32(raw(tensor))
    return int(tensor._version)


class WireFuture(torch.futures.Future[Any]):
    """Works' future, or what follows from one: who waits for it is seen to wait for them, and who looks at it to look."""

    def __init__(self, *works: WireWork) -> None:
        super().__init__()
        self.works = works

    def wait(self) -> Any:
        self._tell_wait()
        return super().wait()

    def value(self) -> Any:
        value = super().value()
        self._tell_wait()
        return value

    def done(self) -> bool:
        if not super().done():
            for work in self.works:
                work.tell_poll()
            return False
        self._tell_wait()
        return True

    def then(self, callback: Any) -> Any:
        """As torch's own; what it gives knows its works too."""
        following = WireFuture(*self.works)

        def follow(future: torch.futures.Future[Any]) -> None:
            try:
                following.set_result(callback(future))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(follow)
        return following

    def _tell_wait(self) -> None:
        for work in self.works:
            work.tell_wait()


def collect_all(futures: Sequence[torch.futures.Future[Any]]) -> torch.futures.Future[Any]:
    """As torch's own, of futures that may be works'."""
    together = WireFuture(*(work for each in futures if isinstance(each, WireFuture) for work in each.works))
    torch._C._collect_all(list(futures)).add_done_callback(lambda _: together.set_result(list(futures)))
    return together


def wait_all(futures: Sequence[torch.futures.Future[Any]]) -> list[Any]:
    """As torch's own."""
    return [future.wait() for future in collect_all(futures).wait()]


class WireWork(Work, Landing):
    """One operation in flight."""

    def __init__(self, line: Line, outputs: Sequence[torch.Tensor], watched: Sequence[torch.Tensor], value: Any) -> None:
        """`outputs` are filled from the answer, in order; `value` is what the future gives; `watched` must not change before the wait."""
        Work.__init__(self)
        Landing.__init__(self)
        self.judges_line, self._outputs, self._value = line, outputs, value
        self._guard = threading.Lock()
        self._future: WireFuture | None = None
        self._watched = dict(enumerate(watched))
        self._fingerprints = {index: fingerprint(tensor) for index, tensor in self._watched.items()}
        self._changed: set[int] = set()
        self._is_asked = self._is_future_asked = self._is_told = False
        self._num_polls = 0

    # --- landing
    def land(self, header: dict[str, Json], body: Bytes) -> None:
        with self._guard:
            self._note_changes()
            if "error" not in header:
                view, start = memoryview(body), 0
                for tensor in self._outputs:
                    end = start + num_bytes(tensor)
                    fill(tensor, view[start:end])
                    start = end
            self._fingerprints = {index: fingerprint(tensor) for index, tensor in self._watched.items()}
            super().land(header, b"")
            future = self._future
        if future is not None:  # its callbacks may wait for other operations, which land on this very thread
            threading.Thread(target=self._settle, args=(future,), daemon=True).start()

    def _note_changes(self) -> None:
        self._changed |= {index for index, tensor in self._watched.items() if fingerprint(tensor) != self._fingerprints[index]}

    def _settle(self, future: torch.futures.Future[Any]) -> None:
        error = self.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(self._value)

    # --- waiting
    def _ask(self, how: str, *, by_engine: bool = False) -> None:
        """Tell the judge, once, that somebody now depends on this operation."""
        if self._is_asked:
            if self._is_future_asked and how != "future":
                self.tell_wait()
            return
        self._is_asked, self._is_future_asked = True, how == "future"
        with self._guard:
            self._note_changes()
            self._watched = {}
        header: dict[str, Json] = {"wait": self.id, "how": how, "at": self.judges_line.student_line()}
        if by_engine:
            header["by_engine"] = True
        if self._changed:
            header["changed"] = sorted(self._changed)
        self.judges_line.post(header)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Sleep until the answer has landed. The judge knows what can never come, so `timeout` is not used."""
        self._ask("wait")
        self.landed.wait()
        error = self.exception()
        if error is not None:
            raise error
        return True

    def synchronize(self) -> None:
        self.wait()

    def tell_wait(self) -> None:
        """Somebody waits for the future that was asked for, or has seen that it is there; said once."""
        if not self._is_told:
            self._is_told = True
            self.judges_line.post({"wait": self.id, "how": "wait", "at": self.judges_line.student_line()})

    def get_future(self) -> torch.futures.Future[Any]:
        caller = sys._getframe(1)  # C++ has no frame: below it is who called the engine
        self._ask("future", by_engine=caller.f_code.co_filename == torch.autograd.graph.__file__)
        with self._guard:
            if self._future is None:
                self._future = WireFuture(self)
                if self.landed.is_set():
                    self._settle(self._future)
            return self._future

    def tell_poll(self) -> None:
        """Somebody has looked whether it is there."""
        self._num_polls += 1
        if self._num_polls in (1, MANY_LOOKS) or self._num_polls % POLLS_PER_WORD == 0:
            self.judges_line.post({"poll": self.id, "times": self._num_polls})

    def is_completed(self) -> bool:
        self.tell_poll()
        if not self.landed.is_set():
            return False
        self._ask("poll")  # what comes next comes after the answer, as behind a wait
        return True

    # --- what is known afterwards
    def is_success(self) -> bool:
        return self.landed.is_set() and "error" not in self.header

    def exception(self) -> RuntimeError | None:
        return RuntimeError(self.header["error"]) if "error" in self.header else None

    def result(self) -> Any:
        return self._value

    def source_rank(self) -> int:
        """Group rank of a message's sender, for a receive from any source."""
        return int(self.header.get("source", -1))

    _source_rank = source_rank


class Batch(Work):
    """What a coalescing block returns: all of its operations as one."""

    def __init__(self, works: Sequence[WireWork]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        return collect_all([work.get_future() for work in self._works])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)
