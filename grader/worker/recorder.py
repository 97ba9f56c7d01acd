"""A ProcessGroup in front of gloo (or NCCL) that tells the judge of every call, wait and completion over the rank's line.

What it says is testimony: it runs beside the submission. It is told apart from the wire by `Network.transport`.
Constructed with (rank, size) only and delegating to an inner group: `super().allreduce()` would re-enter the trampoline.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import ProcessGroup, Work

from grader.records import Json
from grader.worker.arguments import reduction_name
from grader.worker.line import Line
from grader.worker.process_group import number_batches

Tensors = Callable[[tuple[Any, ...]], Any]


def _argument(position: int) -> Tensors:
    return lambda arguments: arguments[position] if len(arguments) > position else []


def _nothing(_: tuple[Any, ...]) -> list[torch.Tensor]:
    return []


# The group's method -> (torch's public name, which argument goes in, what else is worth telling).
# 2.11 and 2.13 spell some of these differently; a name that this torch lacks is skipped.
METHODS: dict[str, tuple[str, Tensors, str]] = {
    "allreduce": ("all_reduce", _argument(0), "reduction"),
    "allreduce_coalesced": ("all_reduce", _argument(0), "reduction"),
    "broadcast": ("broadcast", _argument(0), "root"),
    "reduce": ("reduce", _argument(0), "reduction"),
    "allgather": ("all_gather", _argument(1), ""),
    "allgather_coalesced": ("all_gather", _argument(1), ""),
    "_allgather_base": ("all_gather", _argument(1), ""),
    "all_gather_single": ("all_gather", _argument(1), ""),
    "all_gather_single_coalesced": ("all_gather", _argument(1), ""),
    "allgather_into_tensor_coalesced": ("all_gather", _argument(1), ""),
    "gather": ("gather", _argument(1), "root"),
    "scatter": ("scatter", _argument(1), "root"),
    "reduce_scatter": ("reduce_scatter", _argument(1), "reduction"),
    "_reduce_scatter_base": ("reduce_scatter", _argument(1), "reduction"),
    "reduce_scatter_single": ("reduce_scatter", _argument(1), "reduction"),
    "reduce_scatter_single_coalesced": ("reduce_scatter", _argument(1), "reduction"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", _argument(1), "reduction"),
    "alltoall": ("all_to_all", _argument(1), ""),
    "alltoall_base": ("all_to_all", _argument(1), ""),
    "all_to_all_single": ("all_to_all", _argument(1), ""),
    "barrier": ("barrier", _nothing, ""),
    "monitored_barrier": ("barrier", _nothing, ""),
    "send": ("send", _argument(0), "peer"),
    "recv": ("recv", _argument(0), "peer"),
    "recv_anysource": ("recv", _argument(0), "any"),
}

_LINE: Line | None = None
_NUMBERS = itertools.count()
_BATCH = threading.local()
_WATCH: Watch | None = None  # on a GPU only: there a wait returns long before the work is done
LOOK_EVERY_S = 0.01


def install(line: Line, *, is_device: bool = False) -> None:
    """From here on every process group that torch makes is a RecordingGroup. `is_device`: work is done when a device says so."""
    global _LINE, _WATCH
    _LINE = line
    _WATCH = Watch() if is_device else None
    number_batches(_BATCH)
    c10d.ProcessGroup = RecordingGroup


def _tell(**fields: Json) -> None:
    assert _LINE is not None, "install() comes first"
    _LINE.post({"event": fields})


class Watch:
    """Looks at works that are in flight on a device, so that the judge hears when they are done: who waits there only queues a wait."""

    def __init__(self) -> None:
        self._in_flight: list[tuple[Work, RecordedWork]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._look, daemon=True, name="works in flight").start()

    def add(self, inner: Work, recorded: RecordedWork) -> None:
        """From now on looked at until it is done."""
        with self._lock:
            self._in_flight.append((inner, recorded))

    def _look(self) -> None:
        while True:
            with self._lock:
                looked_at = list(self._in_flight)
            done = [pair for pair in looked_at if self._is_done(pair[0])]
            for _, recorded in done:
                recorded.completed()
            with self._lock:
                self._in_flight = [pair for pair in self._in_flight if pair not in done]
            time.sleep(LOOK_EVERY_S)

    @staticmethod
    def _is_done(work: Work) -> bool:
        try:
            return bool(work.is_completed())
        except RuntimeError:  # it failed, and is over: whoever waits for it is told why
            return True


class RecordedWork(Work):
    """Calls in flight (one, or a batch that NCCL answers as a whole): says when somebody waits for them, and when they have completed."""

    def __init__(self, inner: Work, calls: list[tuple[int, str]]) -> None:
        super().__init__()
        self._inner, self._calls, self._done, self._lock = inner, calls, False, threading.Lock()
        if _WATCH is not None:
            _WATCH.add(inner, self)

    def completed(self) -> None:
        """Say so, once."""
        with self._lock:
            if self._done:
                return
            self._done = True
        for call, op in self._calls:
            _tell(kind="done", call=call, op=op)

    def _tell_waits(self, **more: Json) -> None:
        for call, op in self._calls:
            _tell(kind="wait", call=call, op=op, **more)

    def _completed(self) -> None:
        if _WATCH is None:
            self.completed()

    def wait(self, timeout: timedelta | None = None) -> bool:
        assert _LINE is not None
        self._tell_waits(at=_LINE.student_line())
        finished = self._inner.wait() if timeout is None or timeout.total_seconds() <= 0 else self._inner.wait(timeout)
        self._completed()
        return bool(finished)

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        self._tell_waits(facts={"how": "future"})
        future = self._inner.get_future()
        future.add_done_callback(lambda _: self._completed())
        return future

    def is_completed(self) -> bool:
        finished = self._inner.is_completed()
        if finished:
            self._completed()
        return bool(finished)

    def is_success(self) -> bool:
        return bool(self._inner.is_success())

    def exception(self) -> Any:
        return self._inner.exception()

    def result(self) -> Any:
        return self._inner.result()

    def get_future_result(self) -> Any:
        return self._inner.get_future_result()

    def _source_rank(self) -> int:
        return int(self._inner._source_rank())

    source_rank = _source_rank


def _flat(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else [tensor for part in tensors for tensor in _flat(part)]


def _recorded(method: str, op: str, taken: Tensors, extra: str) -> Callable[..., Any]:
    def call(self: RecordingGroup, *arguments: Any, **keywords: Any) -> Any:
        assert _LINE is not None
        number = next(_NUMBERS)
        tensors = _flat(taken(arguments))
        sent = [] if op == "recv" else tensors
        first = tensors[0] if tensors else None
        _tell(kind="issue", call=number, op=op, at=_LINE.student_line(), group=self.members(),
              num_bytes=sum(t.numel() * t.element_size() for t in sent),
              dtype=str(first.dtype).removeprefix("torch.") if first is not None else "",
              shape=list(first.shape) if first is not None else [],
              **_extra(self, extra, arguments), facts=_facts(self, tensors, extra, arguments))  # fmt: skip
        work = getattr(self.inner, method)(*arguments, **keywords)
        if self.batch is not None:  # the batch's own work answers for it
            self.batch.append((number, op))
            return work
        return RecordedWork(work, [(number, op)]) if work is not None else work

    call.__name__ = method
    return call


def _extra(group: RecordingGroup, extra: str, arguments: tuple[Any, ...]) -> dict[str, Json]:
    if extra == "peer":
        return {"peer": group.members()[arguments[1]], "tag": arguments[2] if len(arguments) > 2 else 0}
    if extra == "reduction":
        options = arguments[-1] if len(arguments) > 1 else None
        return {"reduction": reduction_name(options)}
    return {}


def _facts(group: RecordingGroup, tensors: list[torch.Tensor], extra: str, arguments: tuple[Any, ...]) -> dict[str, Json]:
    """What an event has no field for; named as the judge's wire names it."""
    facts: dict[str, Json] = {}
    if extra == "root" and len(arguments) > 1:
        facts["root"] = group.members()[getattr(arguments[-1], "rootRank", 0)]
    if getattr(_BATCH, "number", None) is not None:
        facts["batch"] = _BATCH.number
    if c10d._world.default_pg not in (None, group):
        facts["group"] = c10d._world.pg_names.get(group, "")
    if not all(tensor.is_contiguous() for tensor in tensors):
        facts["strided"] = True
    return facts


class RecordingGroup(ProcessGroup):
    """Stands where torch would put a plain ProcessGroup; the real one is inside."""

    def __init__(self, *arguments: Any) -> None:
        rank, size = arguments[-2:]  # torch calls it with (store, rank, size) or (rank, size)
        super().__init__(rank, size)
        self.inner = ProcessGroup(*arguments)
        self.batch: list[tuple[int, str]] | None = None  # calls since coalescing began

    def members(self) -> list[int]:
        """Global ranks of this group, in group-rank order."""
        known = c10d._world.pg_group_ranks.get(self)
        return [rank for rank, _ in sorted(known.items(), key=lambda pair: pair[1])] if known else list(range(self.size()))

    def _register_backend(self, device: Any, kind: Any, backend: Any) -> None:
        self.inner._register_backend(device, kind, backend)
        ProcessGroup._register_backend(self, device, kind, backend)  # C++ callers of virtuals without a trampoline look here

    def _set_default_backend(self, kind: Any) -> None:
        self.inner._set_default_backend(kind)
        ProcessGroup._set_default_backend(self, kind)

    def _start_coalescing(self, device: Any) -> None:
        self.batch = []
        self.inner._start_coalescing(device)

    def _end_coalescing(self, device: Any) -> Work:
        calls, self.batch = self.batch or [], None
        work = self.inner._end_coalescing(device)
        return RecordedWork(work, calls) if work is not None else work

    def _set_group_name(self, name: str) -> None:
        self.inner._set_group_name(name)
        ProcessGroup._set_group_name(self, name)

    def _set_group_desc(self, description: str) -> None:
        self.inner._set_group_desc(description)
        ProcessGroup._set_group_desc(self, description)

    def getBackendName(self) -> str:
        return str(self.inner.name())

    def get_group_store(self) -> dist.Store:
        return self.inner.get_group_store()

    def shutdown(self) -> None:
        self.inner.shutdown()

    def abort(self) -> None:
        self.inner.abort()

    def set_timeout(self, *arguments: Any) -> None:
        self.inner.set_timeout(*arguments)


for _method, (_op, _taken, _more) in METHODS.items():
    if hasattr(ProcessGroup, _method):
        setattr(RecordingGroup, _method, _recorded(_method, _op, _taken, _more))
