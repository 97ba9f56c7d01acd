"""Memory that one process owns and another maps: what travels is a name or a handle, never a tensor.

A lane is what one racer gets: for each input and each output a tensor of as many slots as fit, a slot for a call.
"""

from __future__ import annotations

import base64
import math
import pickle
from pathlib import Path

import torch

from grader.records import ITEMSIZE, Json, num_elements

Specs = dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype, shape of one slot
SHARED = Path("..") / "shared"  # on the host: the folder that the ranks of a run share


def slot_bytes(specs: Specs) -> int:
    """Bytes of one slot."""
    return sum(ITEMSIZE[dtype] * num_elements(shape) for dtype, shape in specs.values())


def made(name: str, specs: Specs, num_slots: int, device: torch.device) -> tuple[dict[str, torch.Tensor], Json]:
    """-> the tensors, [num_slots, *shape] each, and what another process needs to map them."""
    tensors, told = {}, []
    for key, (dtype, shape) in specs.items():
        full = (num_slots, *shape)
        if device.type == "cuda":
            from torch.multiprocessing.reductions import reduce_tensor

            tensor = torch.empty(full, dtype=getattr(torch, dtype), device=device)
            handle = base64.b64encode(pickle.dumps(reduce_tensor(tensor)[1])).decode()
        else:
            SHARED.mkdir(exist_ok=True)
            handle = str((SHARED / f"{name}-{key}").resolve())
            tensor = _mapped(handle, dtype, full)
        tensors[key] = tensor
        told.append([key, dtype, list(full), handle])
    return tensors, told


def opened(told: Json, device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors of `made`, in a process that they don't belong to. The handle is the keeper's word, which no submission has touched."""
    tensors = {}
    for key, dtype, shape, handle in told:
        if device.type == "cuda":
            from torch.multiprocessing.reductions import rebuild_cuda_tensor

            torch.cuda.init()
            tensors[key] = rebuild_cuda_tensor(*pickle.loads(base64.b64decode(handle)))
        else:
            tensors[key] = _mapped(handle, dtype, tuple(shape))
    return tensors


def _mapped(path: str, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_file(path, shared=True, size=math.prod(shape), dtype=getattr(torch, dtype)).view(shape)
