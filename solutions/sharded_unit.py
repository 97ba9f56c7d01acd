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
        # region solution unit_init
        self.names, self.owners, self.group = list(parameters), [owners[name] for name in parameters], group
        self.world_size = dist.get_world_size(group)
        self.shapes = [parameter.shape for parameter in parameters.values()]
        self.sizes = [parameter.numel() for parameter in parameters.values()]
        self.width = -(-sum(self.sizes) // self.world_size)
        self.spans = shard_spans(self.sizes, dist.get_rank(group), self.world_size)

        first = next(iter(parameters.values()))
        self.master_dtype, self.compute_dtype = first.dtype, compute_dtype or first.dtype
        self.reduce_dtype = reduce_dtype or self.compute_dtype
        # One flat tensor for all masters, so that a gather is one cast and one call. Zeros: the padding travels, too.
        self.flat_shard = torch.zeros(self.width, dtype=first.dtype, device=first.device)
        self.shards, self.places = [], []
        begins_at = 0
        for parameter, (start, stop) in zip(parameters.values(), self.spans, strict=True):
            place = slice(begins_at, begins_at + stop - start)
            self.flat_shard[place] = parameter.detach().reshape(-1)[start:stop]
            self.shards.append(nn.Parameter(self.flat_shard[place], requires_grad=parameter.requires_grad))
            self.places.append(place)
            begins_at = place.stop

        # The gathered weights always live in the same tensors, because autograd keeps hold of them between forward and backward; only
        # their memory comes and goes.
        self.flat_whole = torch.empty(self.world_size * self.width, dtype=self.compute_dtype, device=first.device)
        self.whole_bytes = self.flat_whole.untyped_storage().nbytes()
        trained = [parameter.requires_grad for parameter in parameters.values()]
        pieces = self.pieces(self.flat_whole)
        self.wholes = [
            nn.Parameter(piece.view(shape), is_trained) for piece, shape, is_trained in zip(pieces, self.shapes, trained, strict=True)
        ]
        self.flat_whole.untyped_storage().resize_(0)
        self.num_trained, self.num_ready = sum(trained), 0
        self.is_gathered = False  # memory is there, but may still be arriving
        self.gathering: tuple[dist.Work, Tensor] | None = None
        self.reduction: tuple[dist.Work, Tensor, Tensor] | None = None
        self._put_into_modules(self.shards)
        # endregion

    def pieces(self, flat: Tensor) -> list[Tensor]:
        """N·w elements -> a view for each parameter, without the padding."""
        return list(flat.split([*self.sizes, flat.numel() - sum(self.sizes)])[:-1])

    def _put_into_modules(self, tensors: list[nn.Parameter]) -> None:
        for tensor, owners in zip(tensors, self.owners, strict=True):
            for module, name in owners:
                module._parameters[name] = tensor

    def start_gathering(self) -> None:
        """Begin the all-gather of the weights in the compute dtype, unless they are here or on their way."""
        # region solution unit_gather
        if self.is_gathered:
            return
        self.is_gathered = True
        self.flat_whole.untyped_storage().resize_(self.whole_bytes)
        mine = self.flat_shard.to(self.compute_dtype)
        # .data: the weights are the same ones that autograd has saved, so their version must not count this as a change.
        work = dist.all_gather_into_tensor(self.flat_whole.data, mine, group=self.group, async_op=True)
        self.gathering = (work, mine)  # `mine` belongs to the network until it is waited for
        # endregion

    def finish_gathering(self) -> None:
        """Return when the modules have their whole weights."""
        # region solution unit_wait
        self.start_gathering()
        if self.gathering is not None:
            self.gathering[0].wait()
            self.gathering = None
            self._put_into_modules(self.wholes)
        # endregion

    def free(self) -> None:
        """Give the whole weights' memory back; the modules have shards again."""
        # region solution unit_free
        if not self.is_gathered:
            return
        self.finish_gathering()  # memory that the network still writes to can't be given back
        self._put_into_modules(self.shards)
        self.flat_whole.untyped_storage().resize_(0)
        self.is_gathered = False
        # endregion

    def start_reduction(self) -> None:
        """Begin the reduce-scatter of the whole gradients, in the reduce dtype, and drop them."""
        # region solution unit_reduce
        flat = torch.empty(self.world_size * self.width, dtype=self.reduce_dtype, device=self.flat_shard.device)
        flat[sum(self.sizes) :].zero_()
        gradients, targets = [], []
        for whole, piece in zip(self.wholes, self.pieces(flat), strict=True):
            if whole.grad is None:  # frozen or unused
                piece.zero_()
            else:
                gradients.append(whole.grad)
                targets.append(piece.view(whole.shape))
            whole.grad = None
        if gradients:
            torch._foreach_copy_(targets, gradients)  # one kernel that copies and casts, instead of one for each parameter
        received = flat.new_empty(self.width)
        work = dist.reduce_scatter_tensor(received, flat, group=self.group, async_op=True)
        self.reduction = (work, received, flat)
        self.num_ready = 0
        # endregion

    def finish_reduction(self) -> None:
        """Wait, and add the mean, in the masters' dtype, to the gradients of the shards."""
        # region solution unit_mean
        if self.reduction is None:
            return
        work, received, _ = self.reduction
        self.reduction = None
        work.wait()
        mean = received.to(self.master_dtype).div_(self.world_size)
        for shard, place in zip(self.shards, self.places, strict=True):
            if shard.requires_grad:
                shard.grad = mean[place] if shard.grad is None else shard.grad.add_(mean[place])
        # endregion
