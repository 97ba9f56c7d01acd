"""Fully sharded data parallelism (ZeRO-3): a rank keeps an N-th of the weights, and has whole layers only while it computes with them.

The model is cut into units. A unit's weights are all-gathered before its forward and again before its backward, and freed after; its
gradients are reduce-scattered. `group=None` means the default group; "rank" and "world size" count within the group.
"""

# N ranks in the group, U units, numbered 1 to U in the order of module.modules(); 0 is the root: what is in no unit
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from sharded_optimizer import clip_grad_norm_
from sharded_unit import Owners, Unit
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map


class FullyShardedDataParallel(nn.Module):
    """A module of which every rank keeps an N-th.

    loss_of(fsdp(inputs)).backward(); optimizer.step(); optimizer.zero_grad()        # optimizer = AdamW(fsdp.parameters(), ...)
    """

    def __init__(
        self,
        module: nn.Module,
        group: dist.ProcessGroup | None = None,
        *,
        wrap: type[nn.Module] | tuple[type[nn.Module], ...],
        compute_dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        reshard_after_forward: bool = True,
        prefetch: int = 1,
    ) -> None:
        """Shard `module` in place: every submodule that is a `wrap` is a unit; what is left, and what several units share, is the root's.

        compute_dtype: of gathered weights, inputs and gradients (None: the parameters' own); reduce_dtype: of what is reduced (None: the
        compute dtype); prefetch: how many units may be gathered ahead of the one that computes.
        """
        super().__init__()
        self.module = module
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    # --- task forward
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the module returns; floating-point inputs are cast to the compute dtype first."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _cast(self, value: Any) -> Any:
        is_floating = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.compute_dtype) if is_floating else value

    def _free_all(self) -> None:
        for unit in self.units:
            if unit is not None:
                unit.free()

    def _fetch(self, number: int, ahead: range) -> None:
        """Return when unit `number` has its weights; those of the units in `ahead` are then on their way."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _before_forward(self, number: int) -> None:
        """Gather a unit that is about to compute, and begin to gather those after it."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _after_forward(self, number: int, outputs: Any) -> None:
        """Free the unit, and see that it is gathered again when backward reaches its outputs."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    # --- task backward
    def _before_backward(self, number: int) -> None:
        """Gather a unit whose outputs have got a gradient, and begin to gather those that come next."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _gradient_is_ready(self, number: int) -> None:
        """Count a unit's whole gradients; with the last of them, reduce and free."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _reduce(self, unit: Unit) -> None:
        """Begin a unit's reduction when the one before has ended: more flat gradients than one need not be in memory."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def _after_backward(self) -> None:
        """At the end of backward: reduce what has not been complete, wait for everything, free everything."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    # --- tasks clip and checkpoint
    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """As torch.nn.utils.clip_grad_norm_ on the whole mean gradient. Returns the norm before clipping."""
        raise NotImplementedError("sharded_data_parallel, task clip: see section 7 of the handout")

    def named_shards(self) -> dict[str, nn.Parameter]:
        """This rank's shards under the names that the parameters had in `module`, in the module's order."""
        raise NotImplementedError("sharded_data_parallel, task fsdp: see section 6 of the handout")

    def gather_whole(self, pieces: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, whole tensor) from all ranks' pieces, which have the shards' sizes: weights, gradients or moments, of one dtype.

        Every rank gives pieces of the same names and takes all that is yielded. No more than one unit is whole at a time.
        """
        raise NotImplementedError("sharded_data_parallel, task whole: see section 8 of the handout")

    def cut(self, name: str, whole: Tensor) -> Tensor:
        """Return this rank's piece of a whole tensor of the parameter `name`: a copy, on `whole`'s device. No communication."""
        raise NotImplementedError("sharded_data_parallel, task whole: see section 8 of the handout")
