"""Sharded optimizers: every rank has the whole model, but keeps the optimizer's state, and then the gradients, of an N-th of it only.

ZeRO-1 is `ShardedOptimizer`, ZeRO-2 a `GradientSharder` on top of it; `clip_grad_norm_` is the global norm over shards. `group=None`
means the default group, as in torch; "rank" and "world size" count within the group.
"""

# N ranks in the group, n elements of all tensors together, w = ceil(n/N) elements in the range of one rank ("width")
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

MiB = 2**20


# --- task spans ------------------------------------------------------------------------------------------------------
def shard_spans(sizes: Iterable[int], rank: int, world_size: int) -> list[tuple[int, int]]:
    """Return for each tensor which of its elements, (start, stop), belong to `rank`.

    The tensors, of `sizes` elements each, lie end to end; rank r has the elements from r·w up to (r+1)·w, as far as there are any.
    Where nothing of a tensor belongs to `rank`, start == stop. Always 0 <= start <= stop <= size.
    """
    raise NotImplementedError("sharded_data_parallel, task spans: see section 3 of the handout")


class Bucket:
    """Parameters that travel together: flat and padded to N·w, of which every rank owns w elements. Use it, or keep your own books."""

    def __init__(self, parameters: list[nn.Parameter], group: dist.ProcessGroup | None) -> None:
        self.parameters, self.group = parameters, group
        self.world_size = dist.get_world_size(group)
        self.sizes = [parameter.numel() for parameter in parameters]
        self.width = -(-sum(self.sizes) // self.world_size)
        spans = shard_spans(self.sizes, dist.get_rank(group), self.world_size)
        # Views of the parameters' own memory: what the optimizer writes into a shard is in the parameter at once, and costs nothing.
        self.shards = [nn.Parameter(p.detach().view(-1)[start:stop]) for p, (start, stop) in zip(parameters, spans, strict=True)]
        self.gradient: Tensor | None = None  # this rank's w elements of the mean gradient; None: not reduced yet
        self.flat: Tensor | None = None  # what is travelling
        self.received: Tensor | None = None
        self.work: dist.Work | None = None

    def pieces(self, flat: Tensor) -> list[Tensor]:
        """N·w elements -> a view for each parameter, without the padding."""
        padding = flat.numel() - sum(self.sizes)
        return list(flat.split([*self.sizes, padding])[:-1])

    def start_reduction(self) -> None:
        """Begin the reduce-scatter of this rank's whole gradients; they may be dropped as soon as this returns."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def finish_reduction(self) -> None:
        """Wait, and add the mean to what earlier backward passes of this step have left in `gradient`."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def gradient_shards(self) -> list[Tensor]:
        """The mean gradient of each shard, as views of `gradient`."""
        assert self.gradient is not None
        used = [shard.numel() for shard in self.shards]
        return list(self.gradient.split([*used, self.width - sum(used)])[:-1])

    def start_gathering(self) -> None:
        """Begin the all-gather of everybody's shards."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def finish_gathering(self) -> None:
        """Wait, and put what has arrived into the parameters."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")


# --- task zero1 ------------------------------------------------------------------------------------------------------
class ShardedOptimizer(torch.optim.Optimizer):
    """ZeRO-1: any elementwise optimizer of torch, of which each rank runs, and keeps the state of, an N-th.

    loss.backward(); optimizer.step(); optimizer.zero_grad()      # no averaging beside it: step() averages the gradients itself
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        optimizer_cls: Callable[..., torch.optim.Optimizer],
        group: dist.ProcessGroup | None = None,
        *,
        bucket_bytes: int = 25 * MiB,
        **defaults: Any,
    ) -> None:
        """`params` and `defaults` as for `optimizer_cls`. Parameters are contiguous, and equal on all ranks."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take in a group of parameters, in the constructor or later; it may have settings of its own."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def reduce_gradients(self) -> list[Tensor]:
        """Average the gradients, once per step, and return this rank's shards of the means; step() goes on with these very tensors."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Between backward and step: as torch.nn.utils.clip_grad_norm_ on the whole mean gradient. Returns the norm before clipping."""
        raise NotImplementedError("sharded_data_parallel, task clip: see section 7 of the handout")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Average the gradients, update this rank's shards, gather everybody's. Returns what `closure` returned, if there is one."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, reduced ones too."""
        raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")


def cut_into_buckets(parameters: Iterable[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Return the trained parameters, last first, in lists of one dtype and at most `bucket_bytes`, or of one parameter that is larger."""
    raise NotImplementedError("sharded_data_parallel, task zero1: see section 4 of the handout")


# --- task zero2 ------------------------------------------------------------------------------------------------------
class GradientSharder:
    """ZeRO-2: buckets are reduced while backward runs, and whole gradients dropped; a rank keeps its shards of the means.

    loss.backward(); sharder.finish(); optimizer.step(); optimizer.zero_grad()      # backward and finish once for each micro-batch
    """

    def __init__(self, optimizer: ShardedOptimizer) -> None:
        """Put a hook on every trained parameter of `optimizer`, which has all its groups by now."""
        raise NotImplementedError("sharded_data_parallel, task zero2: see section 5 of the handout")

    def _gradient_is_ready(self, index: int) -> None:
        """Count a gradient of bucket `index`, and launch whichever buckets may leave. A helper: never called by the tests."""
        raise NotImplementedError("sharded_data_parallel, task zero2: see section 5 of the handout")

    def _launch(self) -> None:
        """Start the next bucket and drop its whole gradients. A helper: never called by the tests."""
        raise NotImplementedError("sharded_data_parallel, task zero2: see section 5 of the handout")

    def finish(self) -> None:
        """After each backward: return when all its gradients are reduced; parameters that it didn't use count as zeros."""
        raise NotImplementedError("sharded_data_parallel, task zero2: see section 5 of the handout")


# --- task clip -------------------------------------------------------------------------------------------------------
def clip_grad_norm_(gradients: Iterable[Tensor], max_norm: float, group: dist.ProcessGroup | None = None) -> Tensor:
    """Scale the tensors in place so that the 2-norm of all ranks' tensors together is at most `max_norm`; return the norm before.

    Together the ranks' tensors are the whole gradient, each element once. The factor is min(1, max_norm / (norm + 1e-6)), the same on all
    ranks, and what travels is one number. A rank may have empty tensors, but has at least one tensor.
    """
    raise NotImplementedError("sharded_data_parallel, task clip: see section 7 of the handout")
