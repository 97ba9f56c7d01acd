"""Data parallelism: the same model on every rank, another part of the batch on each, gradients averaged before anybody steps.

First one all-reduce per gradient, then one for all, then buckets that leave while backward still runs. `group=None` means the default
group, as in torch; "rank" and "world size" count within the group.
"""

# N ranks in the group, S samples in the data set, D elements of a gradient
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

MiB = 2**20


# --- task sharding ---------------------------------------------------------------------------------------------------
def shard_indices(
    num_samples: int,
    rank: int,
    world_size: int,
    *,
    epoch: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
) -> list[int]:
    """Return the samples that `rank` reads in this epoch: every N-th of an order that all ranks share, beginning with the rank-th.

    The order is 0 … S-1, or a permutation of it that follows from `seed` and `epoch` alone. All ranks get equally many: the order is
    continued from its own beginning up to a multiple of N or, with `drop_last`, cut to one. No communication, no global generator.
    """
    # region solution shard_indices
    order = list(range(num_samples))
    if shuffle:
        # A generator of its own: torch's global one differs between ranks (dropout), and drawing from it would change the training.
        # Seeded by the pair: with seed + epoch, epoch 1 of seed 0 would repeat epoch 0 of seed 1. Hashed, because of what
        # manual_seed gets the CPU's generator keeps the low 32 bits only: in seed * 2**20 + epoch, seeds 0 and 4096 would be one.
        pair = hashlib.sha256(f"{seed} {epoch}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(pair[:4], "little"))
        order = torch.randperm(num_samples, generator=generator).tolist()

    # Ranks must make equally many steps: one that makes a step more waits for ever in an all-reduce that nobody else joins.
    per_rank = num_samples // world_size if drop_last else -(-num_samples // world_size)
    total = per_rank * world_size
    # Fewer samples than ranks: once around may not be enough.
    repeats = -(-total // num_samples) if num_samples else 0
    return (order * repeats)[:total][rank::world_size]
    # endregion


# --- task per_parameter ----------------------------------------------------------------------------------------------
def all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """Replace each parameter's gradient by its mean over the group, with one all-reduce for each gradient.

    Frozen parameters (requires_grad is False) are left out. A missing gradient (None) counts as zeros. Each gradient travels in its
    own dtype; gradients may have any layout. All ranks name the same parameters in the same order.
    """
    # region solution all_reduce_gradients
    world_size = dist.get_world_size(group)
    for parameter in parameters:
        if not parameter.requires_grad:
            continue
        # Whether this rank has a gradient is its own affair; whether it calls all_reduce is everybody's: collectives match by order.
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        # A collective reads memory from the first element on. Of a transposed tensor NCCL refuses, and others may take the wrong bytes.
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=group)
        parameter.grad = gradient.div_(world_size)
    # endregion


# --- task flat -------------------------------------------------------------------------------------------------------
def flat_all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """As `all_reduce_gradients`, but with one all-reduce for all gradients of a dtype."""
    # region solution flat_all_reduce_gradients
    world_size = dist.get_world_size(group)
    by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            by_dtype.setdefault(parameter.dtype, []).append(parameter)

    # An all-reduce costs 2(N-1) latencies whatever its size. Hundreds of small ones cost hundreds of times that; one long one, once.
    for alike in by_dtype.values():
        flat = flattened_gradients(alike)
        dist.all_reduce(flat, group=group)
        hand_out(flat.div_(world_size), alike)
    # endregion


def flattened_gradients(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Return the gradients one after the other in one new 1-D tensor, zeros for those that are missing. Never graded by itself."""
    # region solution flattened_gradients
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])
    # endregion


def hand_out(flat: torch.Tensor, parameters: list[nn.Parameter]) -> None:
    """Make each parameter's gradient the piece of `flat` that belongs to it; the inverse of the above. Never graded by itself."""
    # region solution hand_out
    # Views, not copies: `flat` was made for this step, nobody else writes to it, and the old gradients' memory becomes free.
    for parameter, piece in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = piece.view(parameter.shape)
    # endregion


# --- task replicas ---------------------------------------------------------------------------------------------------
def broadcast_module_state(module: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Overwrite every rank's parameters and buffers by those of group rank 0, in place.

    Frozen parameters and buffers of any dtype, layout and size belong to it, also those that the state dict leaves out.
    """
    # region solution broadcast_module_state
    # `group_src` counts within the group. Plain `src` is a global rank: rank 0 of the group [1, 3] is global rank 1.
    # detach(): a parameter that requires a gradient may not be written to in place, but its memory may.
    for tensor in [*module.parameters(), *module.buffers()]:
        state = tensor.detach()
        whole = state.contiguous()
        dist.broadcast(whole, group=group, group_src=0)
        if not state.is_contiguous():  # then `whole` is a copy, and what has arrived in it must still go home
            state.copy_(whole)
    # endregion


# --- task buckets ----------------------------------------------------------------------------------------------------
def assign_buckets(parameters: Iterable[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Return the buckets in which the gradients shall travel, in the order in which they shall leave.

    Each parameter that requires a gradient is in one bucket, last parameters first, because backward comes to them first. A bucket
    holds one dtype. Without its last parameter it has less than `bucket_bytes`; two successive buckets of a dtype have more together.
    """
    # region solution assign_buckets
    # Autograd begins at the loss, so the last layer's gradients are ready first. Nobody knows the exact order before a backward has
    # run; the reverse of the registration is a good guess, and the same guess on every rank.
    expected_order = [parameter for parameter in reversed(list(parameters)) if parameter.requires_grad]
    buckets: list[list[nn.Parameter]] = []
    filling: dict[torch.dtype, list[nn.Parameter]] = {}  # the bucket of each dtype that still takes parameters
    for parameter in expected_order:
        bucket = filling.get(parameter.dtype, [])
        if not bucket or sum(p.numel() * p.element_size() for p in [*bucket, parameter]) > bucket_bytes:
            bucket = filling[parameter.dtype] = []
            buckets.append(bucket)
        bucket.append(parameter)

    # With several dtypes a bucket may begin early and fill up late. It can leave when its last gradient is there, so that decides.
    position = {parameter: index for index, parameter in enumerate(expected_order)}
    return sorted(buckets, key=lambda bucket: position[bucket[-1]])
    # endregion


# --- tasks overlapped and accumulation -------------------------------------------------------------------------------
@dataclass
class Bucket:
    """Some parameters whose gradients travel together, and where they are on their way. Use it, or keep your own books."""

    parameters: list[nn.Parameter]
    num_ready: int = 0  # gradients that this backward has completed
    flat: torch.Tensor | None = None  # what travels; None: nothing is under way
    work: dist.Work | None = None


class DistributedDataParallel(nn.Module):
    """A module whose gradients are averaged over the group in buckets, each of which leaves as soon as backward has completed it.

    loss = loss_of(ddp(inputs)); loss.backward(); ddp.finish_gradient_synchronization(); optimizer.step()
    """

    def __init__(self, module: nn.Module, group: dist.ProcessGroup | None = None, bucket_bytes: int = 25 * MiB) -> None:
        """Make all replicas equal to group rank 0's, and prepare: buckets, and a hook on every parameter that requires a gradient."""
        super().__init__()
        self.module = module
        # region solution ddp_init
        self.group = group
        self.is_synchronizing = True  # False inside no_sync
        broadcast_module_state(module, group)

        self.buckets = [Bucket(parameters) for parameters in assign_buckets(module.parameters(), bucket_bytes)]
        self.bucket_of = {parameter: bucket for bucket in self.buckets for parameter in bucket.parameters}
        self.num_launched = 0
        # Called when a gradient is complete: all uses of a shared parameter added up, and added to what was there already.
        for parameter in self.bucket_of:
            parameter.register_post_accumulate_grad_hook(self._gradient_is_ready)
        # endregion

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the module returns."""
        # region solution ddp_forward
        return self.module(*inputs, **named)
        # endregion

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward adds to each rank's own gradients and nothing travels. May be nested; ends also by an exception."""
        # region solution no_sync
        before, self.is_synchronizing = self.is_synchronizing, False
        try:
            yield
        finally:
            self.is_synchronizing = before
        # endregion

    def finish_gradient_synchronization(self) -> None:
        """Return when every gradient is the group's mean. Called once after each backward that synchronizes."""
        # region solution finish_gradient_synchronization
        # A parameter that this backward did not use never called its hook, and its bucket still stands here, and with it all later ones.
        for bucket in self.buckets[self.num_launched :]:
            self._launch(bucket)
        for bucket in self.buckets:
            assert bucket.work is not None and bucket.flat is not None
            bucket.work.wait()
            hand_out(bucket.flat, bucket.parameters)
            bucket.num_ready, bucket.flat, bucket.work = 0, None, None
        self.num_launched = 0
        # endregion

    def _gradient_is_ready(self, parameter: nn.Parameter) -> None:
        """Count a gradient as complete, and start whichever buckets may leave now. A helper for yourself: never called by the tests."""
        # region solution gradient_is_ready
        if not self.is_synchronizing:
            return
        self.bucket_of[parameter].num_ready += 1
        # In the list's order, never in the order of completion: that may differ between ranks, and collectives match by order.
        while self.num_launched < len(self.buckets):
            bucket = self.buckets[self.num_launched]
            if bucket.num_ready < len(bucket.parameters):
                break
            self._launch(bucket)
        # endregion

    def _launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of one bucket and return at once. A helper for yourself: never called by the tests."""
        # region solution launch
        # Divided before it travels: in float16 a sum over many ranks may overflow where the mean does not. Divided while it is copied:
        # concatenating first and dividing then would move every byte twice, while backward wants the same memory.
        world_size = dist.get_world_size(self.group)
        sizes = [parameter.numel() for parameter in bucket.parameters]
        bucket.flat = bucket.parameters[0].detach().new_empty(sum(sizes))
        for parameter, piece in zip(bucket.parameters, bucket.flat.split(sizes), strict=True):
            if parameter.grad is None:
                piece.zero_()  # others may have one, and they expect ours in its place
            else:
                torch.div(parameter.grad, world_size, out=piece.view(parameter.shape))
        # Waiting here would stop backward; the work is kept, and waited for when there is nothing left to compute.
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
        self.num_launched += 1
        # endregion


# --- task accumulation -----------------------------------------------------------------------------------------------
def mean_loss_scale(num_tokens: int, group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu") -> float:
    """Return the factor by which every rank multiplies its *summed* losses, so that averaged gradients are those of the global mean.

    num_tokens: this rank's tokens that count, over all micro-batches of the step; ranks may have different numbers, also none.
    All ranks call it and get the same factor: N / (tokens of all ranks). Counts are exact. `device` is where the group communicates.
    """
    # region solution mean_loss_scale
    # Integers: a float32 can't tell 2^24 + 1 tokens from 2^24, and a global batch has millions.
    total = torch.tensor(num_tokens, dtype=torch.int64, device=device)
    dist.all_reduce(total, group=group)
    # The averaging divides by N what should only be added up; so N is multiplied in here.
    return dist.get_world_size(group) / int(total.item())
    # endregion
