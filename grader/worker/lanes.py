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


def made(name: str, specs: Specs, num_slots: int, device: torch.device) -> dict[str, torch.Tensor]:
    """A lane's tensors, [num_slots, *shape] each; on the host in files that begin with `name`."""
    SHARED.mkdir(exist_ok=True)
    return {
        key: torch.empty((num_slots, *shape), dtype=getattr(torch, dtype), device=device)
        if device.type == "cuda"
        else _mapped(_file(name, key), dtype, (num_slots, *shape))
        for key, (dtype, shape) in specs.items()
    }


def told_of(name: str, tensors: dict[str, torch.Tensor]) -> Json:
    """What one other process needs to map them. On a GPU a handle is good for one process: torch counts who holds it."""
    told = []
    for key, tensor in tensors.items():
        handle = _file(name, key)
        if tensor.is_cuda:
            from torch.multiprocessing.reductions import reduce_tensor

            handle = base64.b64encode(pickle.dumps(reduce_tensor(tensor)[1])).decode()
        told.append([key, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), handle])
    return told


def opened(told: Json, device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors, in a process that they don't belong to. The handle is the keeper's word, which no submission has touched."""
    tensors = {}
    for key, dtype, shape, handle in told:
        if device.type == "cuda":
            from torch.multiprocessing.reductions import rebuild_cuda_tensor

            torch.cuda.init()
            tensors[key] = rebuild_cuda_tensor(*pickle.loads(base64.b64decode(handle)))
        else:
            tensors[key] = _mapped(handle, dtype, tuple(shape))
    return tensors


def _file(name: str, key: str) -> str:
    return str((SHARED / f"{name}-{key}").resolve())


def _mapped(path: str, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_file(path, shared=True, size=math.prod(shape), dtype=getattr(torch, dtype)).view(shape)
