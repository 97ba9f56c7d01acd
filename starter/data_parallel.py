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
    raise NotImplementedError("data_parallel, task sharding: see section 3 of the handout")


# --- task per_parameter ----------------------------------------------------------------------------------------------
def all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """Replace each parameter's gradient by its mean over the group, with one all-reduce for each gradient.

    Frozen parameters (requires_grad is False) are left out. A missing gradient (None) counts as zeros. Each gradient travels in its
    own dtype; gradients may have any layout. All ranks name the same parameters in the same order.
    """
    raise NotImplementedError("data_parallel, task per_parameter: see section 4 of the handout")


# --- task flat -------------------------------------------------------------------------------------------------------
def flat_all_reduce_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None = None) -> None:
    """As `all_reduce_gradients`, but with one all-reduce for all gradients of a dtype."""
    raise NotImplementedError("data_parallel, task flat: see section 5 of the handout")


def flattened_gradients(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Return the gradients one after the other in one new 1-D tensor, zeros for those that are missing. Never graded by itself."""
    raise NotImplementedError("data_parallel, task flat: see section 5 of the handout")


def hand_out(flat: torch.Tensor, parameters: list[nn.Parameter]) -> None:
    """Make each parameter's gradient the piece of `flat` that belongs to it; the inverse of the above. Never graded by itself."""
    raise NotImplementedError("data_parallel, task flat: see section 5 of the handout")


# --- task replicas ---------------------------------------------------------------------------------------------------
def broadcast_module_state(module: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Overwrite every rank's parameters and buffers by those of group rank 0, in place.

    Frozen parameters and buffers of any dtype, layout and size belong to it, also those that the state dict leaves out.
    """
    raise NotImplementedError("data_parallel, task replicas: see section 6 of the handout")


# --- task buckets ----------------------------------------------------------------------------------------------------
def assign_buckets(parameters: Iterable[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """Return the buckets in which the gradients shall travel, in the order in which they shall leave.

    Each parameter that requires a gradient is in one bucket, last parameters first, because backward comes to them first. A bucket
    holds one dtype. Without its last parameter it has less than `bucket_bytes`; two successive buckets of a dtype have more together.
    """
    raise NotImplementedError("data_parallel, task buckets: see section 7 of the handout")


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
        raise NotImplementedError("data_parallel, task overlapped: see section 8 of the handout")

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the module returns."""
        raise NotImplementedError("data_parallel, task overlapped: see section 8 of the handout")

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward adds to each rank's own gradients and nothing travels. May be nested; ends also by an exception."""
        raise NotImplementedError("data_parallel, task accumulation: see section 9 of the handout")

    def finish_gradient_synchronization(self) -> None:
        """Return when every gradient is the group's mean. Called once after each backward that synchronizes."""
        raise NotImplementedError("data_parallel, task overlapped: see section 8 of the handout")

    def _gradient_is_ready(self, parameter: nn.Parameter) -> None:
        """Count a gradient as complete, and start whichever buckets may leave now. A helper for yourself: never called by the tests."""
        raise NotImplementedError("data_parallel, task overlapped: see section 8 of the handout")

    def _launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of one bucket and return at once. A helper for yourself: never called by the tests."""
        raise NotImplementedError("data_parallel, task overlapped: see section 8 of the handout")


# --- task accumulation -----------------------------------------------------------------------------------------------
def mean_loss_scale(num_tokens: int, group: dist.ProcessGroup | None = None, device: torch.device | str = "cpu") -> float:
    """Return the factor by which every rank multiplies its *summed* losses, so that averaged gradients are those of the global mean.

    num_tokens: this rank's tokens that count, over all micro-batches of the step; ranks may have different numbers, also none.
    All ranks call it and get the same factor: N / (tokens of all ranks). Counts are exact. `device` is where the group communicates.
    """
    raise NotImplementedError("data_parallel, task accumulation: see section 9 of the handout")
