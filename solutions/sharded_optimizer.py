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
    # region solution shard_spans
    sizes = list(sizes)
    width = -(-sum(sizes) // world_size)
    spans, begins_at = [], 0
    for size in sizes:
        # The rank's range, seen from this tensor's first element, and cut to what the tensor has.
        start, stop = (min(max(edge - begins_at, 0), size) for edge in (rank * width, (rank + 1) * width))
        spans.append((start, stop))
        begins_at += size
    return spans
    # endregion


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
        # region solution start_reduction
        # Zeros: for parameters without a gradient, which keep their place, and for the padding.
        self.flat = self.parameters[0].new_zeros(self.world_size * self.width)
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            if parameter.grad is not None:
                piece.view(parameter.shape).copy_(parameter.grad)
        self.received = self.flat.new_empty(self.width)
        self.work = dist.reduce_scatter_tensor(self.received, self.flat, group=self.group, async_op=True)
        # endregion

    def finish_reduction(self) -> None:
        """Wait, and add the mean to what earlier backward passes of this step have left in `gradient`."""
        # region solution finish_reduction
        assert self.work is not None and self.received is not None
        self.work.wait()
        mean = self.received.div_(self.world_size)
        self.gradient = mean if self.gradient is None else self.gradient.add_(mean)
        self.work, self.flat, self.received = None, None, None
        # endregion

    def gradient_shards(self) -> list[Tensor]:
        """The mean gradient of each shard, as views of `gradient`."""
        assert self.gradient is not None
        used = [shard.numel() for shard in self.shards]
        return list(self.gradient.split([*used, self.width - sum(used)])[:-1])

    def start_gathering(self) -> None:
        """Begin the all-gather of everybody's shards."""
        # region solution start_gathering
        mine = self.parameters[0].new_zeros(self.width)
        torch.cat([shard.detach() for shard in self.shards], out=mine[: sum(shard.numel() for shard in self.shards)])
        self.flat = mine.new_empty(self.world_size * self.width)
        self.work = dist.all_gather_into_tensor(self.flat, mine, group=self.group, async_op=True)
        self.received = mine  # belongs to the network until it is waited for
        # endregion

    def finish_gathering(self) -> None:
        """Wait, and put what has arrived into the parameters."""
        # region solution finish_gathering
        assert self.work is not None and self.flat is not None
        self.work.wait()
        for parameter, piece in zip(self.parameters, self.pieces(self.flat), strict=True):
            parameter.detach().copy_(piece.view(parameter.shape))
        self.work, self.flat, self.received = None, None, None
        # endregion


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
        # region solution sharded_init
        self.group, self.bucket_bytes, self.optimizer_cls = group, bucket_bytes, optimizer_cls
        self.local: torch.optim.Optimizer | None = None  # the optimizer of this rank's shards
        self.buckets: list[Bucket] = []
        super().__init__(params, defaults)  # calls add_param_group for every group
        # endregion

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take in a group of parameters, in the constructor or later; it may have settings of its own."""
        # region solution add_param_group
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        buckets = [Bucket(parameters, self.group) for parameters in cut_into_buckets(added["params"], self.bucket_bytes)]
        self.buckets += buckets
        settings = {name: value for name, value in added.items() if name != "params"}
        mine = settings | {"params": [shard for bucket in buckets for shard in bucket.shards]}
        if self.local is None:
            self.local = self.optimizer_cls([mine], **self.defaults)
        else:
            self.local.add_param_group(mine)
        # What the optimizer has filled in itself (betas, momentum, ...) shows here too: schedulers look for it.
        for name, value in self.local.param_groups[-1].items():
            added.setdefault(name, value)
        # endregion

    def reduce_gradients(self) -> list[Tensor]:
        """Average the gradients, once per step, and return this rank's shards of the means; step() goes on with these very tensors."""
        # region solution reduce_gradients
        # A bucket has its gradient already if this was called before (for clipping), or if a GradientSharder was faster.
        for bucket in self.buckets:
            if bucket.gradient is None:
                bucket.start_reduction()
                bucket.finish_reduction()
        return [gradient for bucket in self.buckets for gradient in bucket.gradient_shards()]
        # endregion

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Between backward and step: as torch.nn.utils.clip_grad_norm_ on the whole mean gradient. Returns the norm before clipping."""
        # region solution sharded_clip
        return clip_grad_norm_(self.reduce_gradients(), max_norm, self.group)
        # endregion

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Average the gradients, update this rank's shards, gather everybody's. Returns what `closure` returned, if there is one."""
        # region solution sharded_step
        assert self.local is not None
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        for bucket in self.buckets:
            for shard, gradient in zip(bucket.shards, bucket.gradient_shards(), strict=True):
                shard.grad = gradient

        # A scheduler, or the user, writes into this object's groups; the local optimizer has copies of them.
        for seen, local in zip(self.param_groups, self.local.param_groups, strict=True):
            local.update({name: value for name, value in seen.items() if name != "params"})
        self.local.step()

        for bucket in self.buckets:
            bucket.gradient = None
            for shard in bucket.shards:
                shard.grad = None
        # The next bucket is under way while this one is put in place.
        if self.buckets:
            self.buckets[0].start_gathering()
        for bucket, following in itertools.zip_longest(self.buckets, self.buckets[1:]):
            if following is not None:
                following.start_gathering()
            bucket.finish_gathering()
        return loss
        # endregion

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, reduced ones too."""
        # region solution sharded_zero_grad
        super().zero_grad(set_to_none)
        for bucket in self.buckets:
            bucket.gradient = None
        # endregion


def cut_into_buckets(parameters: Iterable[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Return the trained parameters, last first, in lists of one dtype and at most `bucket_bytes`, or of one parameter that is larger."""
    # region solution cut_into_buckets
    buckets: list[list[nn.Parameter]] = []
    num_bytes = 0
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        if not buckets or num_bytes + size > bucket_bytes or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            num_bytes = 0
        buckets[-1].append(parameter)
        num_bytes += size
    return buckets
    # endregion


# --- task zero2 ------------------------------------------------------------------------------------------------------
class GradientSharder:
    """ZeRO-2: buckets are reduced while backward runs, and whole gradients dropped; a rank keeps its shards of the means.

    loss.backward(); sharder.finish(); optimizer.step(); optimizer.zero_grad()      # backward and finish once for each micro-batch
    """

    def __init__(self, optimizer: ShardedOptimizer) -> None:
        """Put a hook on every trained parameter of `optimizer`, which has all its groups by now."""
        # region solution sharder_init
        self.buckets = optimizer.buckets
        self.num_ready = [0] * len(self.buckets)
        self.num_launched = 0
        for index, bucket in enumerate(self.buckets):
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, index=index: self._gradient_is_ready(index))
        # endregion

    def _gradient_is_ready(self, index: int) -> None:
        """Count a gradient of bucket `index`, and launch whichever buckets may leave. A helper: never called by the tests."""
        # region solution sharder_gradient_is_ready
        self.num_ready[index] += 1
        # In the list's order, never in that of completion: ranks may differ, and collectives are matched by order.
        while self.num_launched < len(self.buckets):
            if self.num_ready[self.num_launched] < len(self.buckets[self.num_launched].parameters):
                break
            self._launch()
        # endregion

    def _launch(self) -> None:
        """Start the next bucket and drop its whole gradients. A helper: never called by the tests."""
        # region solution sharder_launch
        # The one before has had a bucket's time to arrive. Waiting for it keeps two flat buckets in memory at most, instead of all.
        if self.num_launched:
            self.buckets[self.num_launched - 1].finish_reduction()
        bucket = self.buckets[self.num_launched]
        bucket.start_reduction()
        for parameter in bucket.parameters:
            parameter.grad = None
        self.num_launched += 1
        # endregion

    def finish(self) -> None:
        """After each backward: return when all its gradients are reduced; parameters that it didn't use count as zeros."""
        # region solution sharder_finish
        while self.num_launched < len(self.buckets):
            self._launch()
        if self.buckets:
            self.buckets[-1].finish_reduction()
        self.num_ready, self.num_launched = [0] * len(self.buckets), 0
        # endregion


# --- task clip -------------------------------------------------------------------------------------------------------
def clip_grad_norm_(gradients: Iterable[Tensor], max_norm: float, group: dist.ProcessGroup | None = None) -> Tensor:
    """Scale the tensors in place so that the 2-norm of all ranks' tensors together is at most `max_norm`; return the norm before.

    Together the ranks' tensors are the whole gradient, each element once. The factor is min(1, max_norm / (norm + 1e-6)), the same on all
    ranks, and what travels is one number. A rank may have empty tensors, but has at least one tensor.
    """
    # region solution clip_grad_norm
    gradients = list(gradients)
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    # Squares add up; norms don't. float64, because float32 overflows from 1.8e19 on when it is squared.
    total = norms.square().sum()
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    # A tensor and no float(): the device need not be waited for.
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    return norm
    # endregion
