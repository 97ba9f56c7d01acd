"""One unit of a fully sharded model: parameters that are gathered before they are used, freed after, and reduced together.

`group=None` means the default group; "rank" and "world size" count within the group.
"""

# N ranks in the group, n elements of the unit, w = ceil(n/N) of them on each rank ("width")
from __future__ import annotations

import torch
import torch.distributed as dist
from sharded_optimizer import shard_spans
from torch import Tensor, nn

Owners = list[tuple[nn.Module, str]]  # where a parameter stands: modules, and under which name in each


class Unit:
    """Parameters that are gathered, freed and reduced together. Use it, or keep your own books."""

    def __init__(
        self,
        parameters: dict[str, nn.Parameter],
        owners: dict[str, Owners],
        group: dist.ProcessGroup | None,
        compute_dtype: torch.dtype | None,
        reduce_dtype: torch.dtype | None,
    ) -> None:
        """Cut the parameters, and put this rank's shards into the modules in their place: nobody holds the whole ones any more."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def pieces(self, flat: Tensor) -> list[Tensor]:
        """N·w elements -> a view for each parameter, without the padding."""
        return list(flat.split([*self.sizes, flat.numel() - sum(self.sizes)])[:-1])

    def _put_into_modules(self, tensors: list[nn.Parameter]) -> None:
        for tensor, owners in zip(tensors, self.owners, strict=True):
            for module, name in owners:
                module._parameters[name] = tensor

    def start_gathering(self) -> None:
        """Begin the all-gather of the weights in the compute dtype, unless they are here or on their way."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def finish_gathering(self) -> None:
        """Return when the modules have their whole weights."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def free(self) -> None:
        """Give the whole weights' memory back; the modules have shards again."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def start_reduction(self) -> None:
        """Begin the reduce-scatter of the whole gradients, in the reduce dtype, and drop them."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def finish_reduction(self) -> None:
        """Wait, and add the mean, in the masters' dtype, to the gradients of the shards."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")
