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
        # region solution fsdp_init
        self.group, self.compute_dtype = group, compute_dtype
        self.reshard_after_forward, self.prefetch = reshard_after_forward, prefetch
        wrapped = [each for each in module.modules() if isinstance(each, wrap) and each is not module]
        parameters = dict(module.named_parameters())  # each once, under its first name
        name_of = {parameter: name for name, parameter in parameters.items()}
        self.order = list(parameters)
        owners: dict[str, Owners] = {name: [] for name in parameters}
        for each in module.modules():
            for attribute, parameter in each._parameters.items():
                if parameter is not None:
                    owners[name_of[parameter]].append((each, attribute))

        # A parameter that stands in several units must be whole in all of them: it goes to the root, which is gathered throughout.
        home = {inner: number for number, unit in enumerate(wrapped, 1) for inner in unit.modules()}
        members: list[dict[str, nn.Parameter]] = [{} for _ in range(len(wrapped) + 1)]
        for name, parameter in parameters.items():
            homes = {home.get(owner, 0) for owner, _ in owners[name]}
            members[homes.pop() if len(homes) == 1 else 0][name] = parameter
        self.units = [Unit(part, owners, group, compute_dtype, reduce_dtype) if part else None for part in members]

        # Hooks: on a unit's forward, on its outputs' gradients (registered by each forward), and on its weights' gradients.
        self.in_backward = False
        for number, inner in enumerate(wrapped, 1):
            inner.register_forward_pre_hook(lambda *_, number=number: self._before_forward(number))
            inner.register_forward_hook(lambda _, __, outputs, number=number: self._after_forward(number, outputs))
        for number, unit in enumerate(self.units):
            for whole in unit.wholes if unit else ():
                if whole.requires_grad:
                    whole.register_post_accumulate_grad_hook(lambda _, number=number: self._gradient_is_ready(number))
        # endregion

    # --- task forward
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return what the module returns; floating-point inputs are cast to the compute dtype first."""
        # region solution fsdp_forward
        if self.compute_dtype is not None:
            inputs, named = tree_map(self._cast, (inputs, named))
        if not self.in_backward:
            # Whatever a forward without a backward has left gathered may be older than the last step.
            self._free_all()
        self._before_forward(0)
        outputs = self.module(*inputs, **named)
        self._after_forward(0, outputs)
        return outputs
        # endregion

    def _cast(self, value: Any) -> Any:
        is_floating = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.compute_dtype) if is_floating else value

    def _free_all(self) -> None:
        for unit in self.units:
            if unit is not None:
                unit.free()

    def _fetch(self, number: int, ahead: range) -> None:
        """Return when unit `number` has its weights; those of the units in `ahead` are then on their way."""
        # region solution fsdp_fetch
        unit = self.units[number]
        if unit is not None:
            unit.finish_gathering()
        # Begun before this unit's arithmetic, so that the network works meanwhile.
        for other in ahead:
            following = self.units[other] if 1 <= other < len(self.units) else None
            if following is not None:
                following.start_gathering()
        # endregion

    def _before_forward(self, number: int) -> None:
        """Gather a unit that is about to compute, and begin to gather those after it."""
        # region solution before_forward
        # A checkpoint runs forward once more inside of backward, where the way leads down.
        ahead = range(0) if self.in_backward else range(number + 1, number + 1 + self.prefetch)
        self._fetch(number, ahead)
        # endregion

    def _after_forward(self, number: int, outputs: Any) -> None:
        """Free the unit, and see that it is gathered again when backward reaches its outputs."""
        # region solution after_forward
        differentiable = [each for each in tree_leaves(outputs) if isinstance(each, Tensor) and each.requires_grad]
        for output in differentiable:
            output.register_hook(lambda _: self._before_backward(number))
        if self.in_backward:
            return
        # The root stays: backward begins with it. But where there will be no backward, nobody else frees what is left.
        if number == 0 and not differentiable:
            self._free_all()
        unit = self.units[number]
        if unit is not None and number > 0 and self.reshard_after_forward:
            unit.free()
        # endregion

    # --- task backward
    def _before_backward(self, number: int) -> None:
        """Gather a unit whose outputs have got a gradient, and begin to gather those that come next."""
        # region solution before_backward
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._after_backward)
        # The units behind have given their inputs' gradients: a unit with frozen weights is no longer needed, either.
        for later in self.units[number + 1 :] if number else ():
            if later is not None and later.num_ready == 0:
                later.free()
        begin = number or len(self.units)  # the root's own backward is followed by the last unit's
        self._fetch(number, range(begin - 1, begin - 1 - self.prefetch, -1))
        # endregion

    def _gradient_is_ready(self, number: int) -> None:
        """Count a unit's whole gradients; with the last of them, reduce and free."""
        # region solution fsdp_gradient_is_ready
        unit = self.units[number]
        assert unit is not None
        unit.num_ready += 1
        if unit.num_ready == unit.num_trained:
            self._reduce(unit)
            # Frozen weights may still be needed for the gradient of the unit's inputs: they stay until backward leaves the unit.
            if unit.num_trained == len(unit.wholes):
                unit.free()
        # endregion

    def _reduce(self, unit: Unit) -> None:
        """Begin a unit's reduction when the one before has ended: more flat gradients than one need not be in memory."""
        # region solution fsdp_reduce
        for other in self.units:
            if other is not None:
                other.finish_reduction()
        unit.start_reduction()
        # endregion

    def _after_backward(self) -> None:
        """At the end of backward: reduce what has not been complete, wait for everything, free everything."""
        # region solution after_backward
        for unit in reversed(self.units):
            if unit is not None and unit.num_ready:
                self._reduce(unit)
        for unit in self.units:
            if unit is not None:
                unit.finish_reduction()
        self._free_all()
        self.in_backward = False
        # endregion

    # --- tasks clip and checkpoint
    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """As torch.nn.utils.clip_grad_norm_ on the whole mean gradient. Returns the norm before clipping."""
        # region solution fsdp_clip
        return clip_grad_norm_([shard.grad for shard in self.named_shards().values() if shard.grad is not None], max_norm, self.group)
        # endregion

    def named_shards(self) -> dict[str, nn.Parameter]:
        """This rank's shards under the names that the parameters had in `module`, in the module's order."""
        # region solution named_shards
        shards = {name: shard for unit in self.units if unit is not None for name, shard in zip(unit.names, unit.shards, strict=True)}
        return {name: shards[name] for name in self.order}
        # endregion

    def gather_whole(self, pieces: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, whole tensor) from all ranks' pieces, which have the shards' sizes: weights, gradients or moments, of one dtype.

        Every rank gives pieces of the same names and takes all that is yielded. No more than one unit is whole at a time.
        """
        # region solution gather_whole
        for unit in self.units:
            if unit is None or not any(name in pieces for name in unit.names):
                continue
            mine = next(iter(pieces.values())).new_zeros(unit.width)
            for name, place in zip(unit.names, unit.places, strict=True):
                if name in pieces:
                    mine[place] = pieces[name].detach()
            flat = mine.new_empty(unit.world_size * unit.width)
            dist.all_gather_into_tensor(flat, mine, group=self.group)
            for name, whole, shape in zip(unit.names, unit.pieces(flat), unit.shapes, strict=True):
                if name in pieces:
                    yield name, whole.view(shape)
        # endregion

    def cut(self, name: str, whole: Tensor) -> Tensor:
        """Return this rank's piece of a whole tensor of the parameter `name`: a copy, on `whole`'s device. No communication."""
        # region solution cut
        unit = next(unit for unit in self.units if unit is not None and name in unit.names)
        start, stop = unit.spans[unit.names.index(name)]
        return whole.reshape(-1)[start:stop].clone()
        # endregion
