"""A ProcessGroup in front of gloo (or NCCL) that tells the judge of every call, wait and completion over the rank's line.

What it says is testimony: it runs beside the submission. It is told apart from the wire by `Network.transport`.
Constructed with (rank, size) only and delegating to an inner group: `super().allreduce()` would re-enter the trampoline.
"""

from __future__ import annotations

import itertools
import threading
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


def install(line: Line) -> None:
    """From here on every process group that torch makes is a RecordingGroup."""
    global _LINE
    _LINE = line
    number_batches(_BATCH)
    c10d.ProcessGroup = RecordingGroup


def _tell(**fields: Json) -> None:
    assert _LINE is not None, "install() comes first"
    _LINE.post({"event": fields})


class RecordedWork(Work):
    """A call in flight: says when somebody waits for it, and when it has completed."""

    def __init__(self, inner: Work, call: int, op: str) -> None:
        super().__init__()
        self._inner, self._call, self._op, self._done, self._lock = inner, call, op, False, threading.Lock()

    def _completed(self) -> None:
        with self._lock:
            if self._done:
                return
            self._done = True
        _tell(kind="done", call=self._call, op=self._op)

    def wait(self, timeout: timedelta | None = None) -> bool:
        assert _LINE is not None
        _tell(kind="wait", call=self._call, op=self._op, at=_LINE.student_line())
        finished = self._inner.wait() if timeout is None or timeout.total_seconds() <= 0 else self._inner.wait(timeout)
        self._completed()
        return bool(finished)

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        _tell(kind="wait", call=self._call, op=self._op, facts={"how": "future"})
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
        return RecordedWork(work, number, op) if work is not None else work

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
