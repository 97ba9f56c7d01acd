"""A `torch.distributed` process group whose every operation goes to the judge over the line.

`install` puts it where torch looks for gloo, so that the submission's own `init_process_group` uses it, whatever its arguments.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import ProcessGroup

from grader.records import Json
from grader.worker.arguments import Tensors, describe, flat, reduction_of, refuse_unequal, root_of, row_splits
from grader.worker.line import Line
from grader.worker.store import JudgeStore
from grader.worker.work import Batch, WireWork, collect_all, num_bytes, raw, wait_all


class WireProcessGroup(ProcessGroup):
    """One group. Method names and signatures are those that torch calls, in 2.11 and 2.13."""

    judges_line: ClassVar[Line]
    batch: ClassVar[threading.local]  # its `number` is set inside batch_isend_irecv

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta | None = None) -> None:
        super().__init__(rank, size)
        self._store, self._rank, self._size = store, rank, size
        self._name, self._desc = "", ""
        self._coalescing: list[WireWork] | None = None
        self.options = types.SimpleNamespace(global_ranks_in_group=[], group_name="", _timeout=timeout, backend="gloo")
        self.supports_splitting = self.supports_coalescing = False

    def _issue(
        self, op: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], value: Any, *, speaks: bool = True, **fields: Json
    ) -> WireWork:
        """The one path of every operation. `speaks`: the inputs' bytes travel to the judge."""
        tensors = list({id(tensor): tensor for tensor in (*inputs, *outputs)}.values())
        if any(tensor.layout is not torch.strided for tensor in tensors):
            raise RuntimeError("Gloo takes dense tensors only")
        work = WireWork(self.judges_line, outputs, tensors, value)
        header: dict[str, Json] = {
            "op": op,
            "group": self._name,
            "ranks": list(self.options.global_ranks_in_group) or list(range(self._size)),
            "me": self._rank,
            "ins": describe(inputs),
            "outs": describe(outputs),
            "at": self.judges_line.student_line(),
            **fields,
        }
        if self.options.global_ranks_in_group:  # the default group has none
            header["subgroup"] = True
        if not all(tensor.is_contiguous() for tensor in tensors):
            header["strided"] = True
        if self._coalescing is not None:
            self._coalescing.append(work)
        self.judges_line.post(header, [raw(tensor) for tensor in inputs] if speaks else (), work)
        return work

    # --- collectives
    def allreduce(self, tensors: Tensors, options: Any = None, timeout: Any = None) -> WireWork:
        tensors = flat(tensors)
        return self._issue("all_reduce", tensors, tensors, tensors, reduction=reduction_of(options, tensors))

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Tensors, options: Any = None, timeout: Any = None) -> WireWork:
        tensors, root = flat(tensors), root_of(options)
        is_root = root == self._rank
        return self._issue("broadcast", tensors, [] if is_root else tensors, tensors, speaks=is_root, root=root)

    def reduce(self, tensors: Tensors, options: Any = None, *_: Any) -> WireWork:
        tensors, root = flat(tensors), root_of(options)
        outputs = tensors if root == self._rank else []
        return self._issue("reduce", tensors, outputs, tensors, root=root, reduction=reduction_of(options, tensors))

    def allgather(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        if len(flat(inputs)) == 1:
            refuse_unequal("all_gather", flat(inputs)[0], flat(outputs))
        return self._issue("all_gather", flat(inputs), flat(outputs), outputs)

    def allgather_coalesced(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        by_input = [of_rank[index] for index in range(len(inputs)) for of_rank in outputs]  # torch nests them rank first
        return self._issue("all_gather", flat(inputs), by_input, outputs)

    def _allgather_base(self, output: Tensors, tensor: Tensors, options: Any = None) -> WireWork:
        for gathered, part in zip(flat(output), flat(tensor), strict=True):
            refuse_unequal("all_gather", part, gathered.chunk(self._size))
        return self._issue("all_gather", flat(tensor), flat(output), flat(output))

    all_gather_single = all_gather_single_coalesced = allgather_into_tensor_coalesced = _allgather_base

    def gather(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        return self._issue("gather", flat(inputs), flat(outputs), outputs, root=root_of(options))

    def scatter(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        return self._issue("scatter", flat(inputs), flat(outputs), outputs, root=root_of(options))

    def reduce_scatter(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        ins, outs = flat(inputs), flat(outputs)
        return self._issue("reduce_scatter", ins, outs, outputs, reduction=reduction_of(options, ins))

    def _reduce_scatter_base(self, output: Tensors, tensor: Tensors, options: Any = None) -> WireWork:
        return self.reduce_scatter(flat(output), flat(tensor), options)

    reduce_scatter_single = reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced = _reduce_scatter_base

    def alltoall(self, outputs: Tensors, inputs: Tensors, options: Any = None) -> WireWork:
        ins, outs = flat(inputs), flat(outputs)
        refuse_unequal("all_to_all", ins[0], [*ins, *outs])
        return self._issue("all_to_all", ins, outs, outs, split=[num_bytes(t) for t in ins], expect=[num_bytes(t) for t in outs])

    def alltoall_base(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_splits: Sequence[int] = (),
        input_splits: Sequence[int] = (),
        options: Any = None,
    ) -> WireWork:
        split, expect = row_splits(tensor, input_splits, self._size), row_splits(output, output_splits, self._size)
        return self._issue("all_to_all", [tensor], [output], [output], split=split, expect=expect)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None, **_: Any) -> WireWork:
        return self._issue("barrier", [], [], [])

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self._issue("barrier", [], [], []).wait()

    # --- point to point
    def _message(self, op: str, tensors: Tensors, peer: int, tag: int) -> WireWork:
        tensors = flat(tensors)
        number = getattr(self.batch, "number", None)
        fields = {} if number is None else {"batch": number}
        ins, outs = (tensors, []) if op == "send" else ([], tensors)
        return self._issue(op, ins, outs, tensors, peer=peer, tag=tag, **fields)

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> WireWork:
        return self._message("send", tensors, peer, tag)

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> WireWork:
        return self._message("recv", tensors, peer, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> WireWork:
        return self._message("recv", tensors, -1, tag)

    # --- what torch asks a group about itself
    def _start_coalescing(self, device: Any = None) -> None:
        self._coalescing = []

    def _end_coalescing(self, device: Any = None) -> Batch:
        works, self._coalescing = self._coalescing or [], None
        return Batch(works)

    def getBackendName(self) -> str:
        return "wire"  # C++ asks: after "gloo" it would look for a ProcessGroupGloo inside

    def name(self) -> str:
        return "gloo"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        self._desc = desc

    def get_group_store(self) -> Any:
        return self._store

    def _get_backend(self, device: Any) -> WireProcessGroup:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _has_hooks(self) -> bool:
        return False

    def _verify_work_timeout(self, *_: Any) -> bool:
        return True

    def _ignore(self, *_: Any) -> None:
        """Time limits and the end of a group are the judge's affair."""

    _set_sequence_number_for_group = abort = shutdown = set_timeout = _set_default_timeout = _ignore


def install(line: Line) -> None:
    """From now on `init_process_group` with "gloo", no backend, env://, tcp://, file:// or an explicit store goes over `line`."""
    batch = threading.local()
    c10d.ProcessGroupGloo = type("WireProcessGroup", (WireProcessGroup,), {"judges_line": line, "batch": batch})
    torch.futures.collect_all, torch.futures.wait_all = collect_all, wait_all
    rank, world_size = str(line.rank), str(line.world_size)
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world_size, LOCAL_WORLD_SIZE=world_size, MASTER_ADDR="judge", MASTER_PORT="1")
    _install_store(JudgeStore(line), line)
    number_batches(batch)


def _install_store(store: JudgeStore, line: Line) -> None:
    def rendezvous(*_: Any, **__: Any) -> Iterator[tuple[JudgeStore, int, int]]:
        yield store, line.rank, line.world_size

    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    handlers.update(env=rendezvous, tcp=rendezvous, file=rendezvous)
    for name in ("TCPStore", "FileStore", "HashStore"):
        for module in (dist, c10d):
            setattr(module, name, lambda *_, **__: store)


def number_batches(batch: threading.local) -> None:
    """From now on `batch.number` is set, and another one each time, while a thread is inside batch_isend_irecv."""
    plain = c10d.batch_isend_irecv

    @contextmanager
    def one_batch() -> Iterator[None]:
        batch.last = batch.number = getattr(batch, "last", -1) + 1
        try:
            yield
        finally:
            batch.number = None

    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        with one_batch():
            return plain(p2p_op_list)

    batch_isend_irecv.__doc__ = plain.__doc__
    c10d.batch_isend_irecv = dist.batch_isend_irecv = batch_isend_irecv
