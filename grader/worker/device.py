"""A rank on a GPU of its own: what is set before CUDA begins, where the probe's new tensors go, how much memory there is.

Only a forked rank comes here; the zygote never wakes CUDA, or none of its forks could use it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from grader.records import Json, MiB
from grader.worker import limits

ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",  # 128 KiB instead of up to 32 MiB: workspaces count in the allocator's peak; also deterministic
    "CUBLASLT_WORKSPACE_SIZE": "128",  # KiB
    "NCCL_SOCKET_IFNAME": "lo",  # all ranks are on this machine, which may have no other network
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_NVLS_ENABLE": "0",  # sums in the switch: another order, and a feature that whole hosts share
    "TORCH_NCCL_ENABLE_MONITORING": "0",  # its thread would ask the judge's store without end; the judge watches for hangs himself
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}
OF_GROUPS = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_NVLS_ENABLE", "TORCH_NCCL_ENABLE_MONITORING",
             "TORCH_NCCL_DUMP_ON_TIMEOUT")  # fmt: skip
HANDLERS = ("__torch_function__", "__torch_dispatch__")
SLACK_BYTES = 64 * MiB  # the allocator takes memory from the driver in pieces of up to 20 MiB


def enter(order: Json) -> torch.device:
    """Bring up the device that the judge has chosen for this rank; the host for an order without one."""
    if order.get("device", "") != "cuda":
        return torch.device("cpu")
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(order["gpus"])
    if "race" in order:  # one GPU for each rank, and torch as everybody uses it: what makes numbers exact costs time
        if order["world_size"] > 1:
            os.environ.update({name: ENVIRONMENT[name] for name in OF_GROUPS} | order["environment"], LOCAL_RANK="0")
        device = torch.device("cuda", 0)
        torch.cuda.set_device(device)
        return device
    os.environ.update(ENVIRONMENT)
    device = torch.device("cuda", order["rank"] if len(order["gpus"]) > 1 else 0)
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # the laws' bounds are those of the dtypes
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    _warm_up(device)
    return device


def _warm_up(device: torch.device) -> None:
    """What the first product allocates for good is none of the submission's memory; nor is its time the submission's."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        a = torch.ones(16, 16, dtype=dtype, device=device, requires_grad=True)
        torch.nn.functional.linear(a, a, a[0]).sum().backward()
    torch.cuda.synchronize(device)


class NewTensors(TorchFunctionMode):
    """Tensors that the probe, or given code, makes without naming a device are made on `device`.

    Not those that the submission makes: torch.set_default_device would hide a forgotten `device=` of the student's.
    """

    def __init__(self, device: torch.device, submission_folder: str) -> None:
        super().__init__()
        self.device, self._folder = device, os.path.join(submission_folder, "")
        self._constructors = _device_constructors()
        self._torch = os.path.join(os.path.dirname(torch.__file__), "")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self._constructors and kwargs.get("device") is None and not self._is_called_by_submission():
            kwargs["device"] = self.device
        return func(*args, **kwargs)

    def _is_called_by_submission(self) -> bool:
        """Whether the innermost frame outside torch is the student's. A mode of the student's only hands on what its caller makes."""
        frame, is_mine = sys._getframe(2), False
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(self._folder):
                is_mine = frame.f_code.co_name not in HANDLERS
            elif not path.startswith(self._torch) and path != __file__:
                break
            frame = frame.f_back  # type: ignore[assignment]
        return is_mine


@contextlib.contextmanager
def new_tensors_on(device: torch.device, submission_folder: str) -> Iterator[None]:
    """For a GPU: where the probe's new tensors go. On the host nothing is between the probe and torch."""
    if device.type == "cpu":
        yield
        return
    with NewTensors(device, submission_folder):
        yield


def held_bytes(device: torch.device) -> int:
    """What this process holds of the memory that is limited on `device`."""
    return limits.data_bytes() if device.type == "cpu" else torch.cuda.memory_allocated(device)


@contextlib.contextmanager
def capped(device: torch.device, extra_bytes: int | None, imported_bytes: int) -> Iterator[None]:
    """Leave the block `extra_bytes` beyond what is held now. On a GPU both by the allocator's limit and by its peak, which is exact.

    imported_bytes  taken while the submission was imported: they count as the block's, or it could use what was put by for it
    """
    if extra_bytes is None:
        yield
        return
    if device.type == "cpu":
        if torch.backends.cuda.is_built():  # autograd then begins a thread for each device, whose stack is no tensor of the submission's
            torch.zeros(1, requires_grad=True).sum().backward()
        limits.cap_memory(extra_bytes - max(0, imported_bytes - limits.IMPORT_BYTES))
        yield
        return
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    extra_bytes -= max(0, imported_bytes)
    before_bytes, reserved_bytes = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    total_bytes = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (reserved_bytes + extra_bytes + SLACK_BYTES) / total_bytes), device)
    torch.cuda.reset_peak_memory_stats(device)
    yield
    torch.cuda.synchronize(device)
    peak_bytes = torch.cuda.max_memory_allocated(device) - before_bytes
    if peak_bytes > extra_bytes:
        raise MemoryError(f"the peak was {peak_bytes} bytes above what was held when the probe began; {extra_bytes} are allowed")
