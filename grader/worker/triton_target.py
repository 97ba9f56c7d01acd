"""A GPU that isn't there: enough of Triton's driver for kernels to be interpreted, compiled and tuned as if it were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

WARP_SIZE = 32


class AbsentGpu:
    """Answers what Triton asks its driver about the device; launches nothing.

    capability: 75, 80, 90, 100, ...
    """

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, WARP_SIZE)

    def get_current_device(self) -> int:
        return self.capability  # Triton keeps its compiled kernels by device: one per generation

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """All configurations of an autotuned kernel take the same time here, so that the first is chosen and none is run."""
        return lambda call, quantiles=(0.5,), **_: [1.0 for _ in quantiles]

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, cache: Any) -> None:
        return None


def pretend(capability: int) -> None:
    """From now on this process has a GPU of that compute capability, as far as Triton and `torch.cuda.get_device_capability` say."""
    driver.set_active(AbsentGpu(capability))
    torch.cuda.get_device_capability = lambda *_: divmod(capability, 10)
