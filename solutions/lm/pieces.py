"""What you wrote, as train.py runs it: each function imports the file of an assignment when its flag asks for it."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from lm.gpt import GPT, Block


def cut_into_slices(model: GPT, options: argparse.Namespace, replica: int) -> tuple[dist.ProcessGroup | None, Any]:
    """Cut the model over `--tensor` neighbours. Return the group of ranks with the same slice (None: all), and what clips gradients."""
    if options.tensor == 1:
        return None, nn.utils.clip_grad_norm_
    from tensor_parallel import clip_grad_norm_, parallelize  # yours

    neighbours, _ = dist.new_subgroups(options.tensor)
    alike = [dist.new_group(range(place, dist.get_world_size(), options.tensor)) for place in range(options.tensor)]
    parallelize(model, neighbours, sequence_parallel=options.sequence_parallel, seed=options.seed + 1 + replica)
    return alike[dist.get_rank() % options.tensor], functools.partial(clip_grad_norm_, group=neighbours)


def cut_sequences(model: GPT, num_ranks: int, num_tokens: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup, Callable[[Tensor], Tensor]]:
    """Leave each of `num_ranks` neighbours two stripes of every sequence of `num_tokens`, by your zigzag ring.

    Return the neighbours, the ranks with the same stripes, and what cuts a rank's part out of (B, T). The loss is the whole's.
    """
    from context_parallel import parallelize_context, zigzag_split  # yours

    neighbours, _ = dist.new_subgroups(num_ranks)
    alike = [dist.new_group(range(place, dist.get_world_size(), num_ranks)) for place in range(num_ranks)]
    parallelize_context(model, neighbours, zigzag=True)
    positions_T = zigzag_split(torch.arange(num_tokens, device=next(model.parameters()).device), neighbours, dim=0)
    model.forward = functools.partial(model.forward, positions_T=positions_T)  # type: ignore[method-assign]
    return neighbours, alike[dist.get_rank() % num_ranks], functools.partial(zigzag_split, group=neighbours, dim=1)


def add_up_sequences(trainee: Any, model: GPT, neighbours: dist.ProcessGroup) -> None:
    """Let the gradients of the neighbours' stripes be summed once those of the replicas are joined: train_step asks for it."""
    from context_parallel import sum_gradients  # yours

    joined = getattr(trainee, "finish_gradient_synchronization", lambda: None)

    def finish() -> None:
        joined()
        sum_gradients(model.parameters(), neighbours)

    trainee.finish_gradient_synchronization = finish


def data_parallel(model: GPT, kind: str, group: dist.ProcessGroup | None) -> nn.Module:
    """Return the module whose forward and backward keep the weights of the group's ranks equal."""
    if kind == "ddp":
        from data_parallel import DistributedDataParallel  # yours

        return DistributedDataParallel(model, group) if group else DistributedDataParallel(model)  # type: ignore[no-any-return]
    if kind == "torch_ddp":
        devices = [torch.cuda.current_device()] if next(model.parameters()).is_cuda else None
        return nn.parallel.DistributedDataParallel(model, device_ids=devices, process_group=group)
    if kind == "torch_fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model


def cut_over_replicas(
    model: GPT, kind: str, optimizer_of: Callable[..., torch.optim.Optimizer]
) -> tuple[nn.Module, torch.optim.Optimizer, Callable[..., Tensor]]:
    """Leave each rank an N-th of optimizer states (zero1), gradients (zero2) or everything (fsdp), by your sharded_data_parallel.

    `optimizer_of(named parameters, build)` makes the optimizer. Return the module to call, the optimizer, and what clips gradients.
    """
    if kind == "fsdp":
        from fsdp import FullyShardedDataParallel  # yours

        trainee = FullyShardedDataParallel(model, wrap=Block)
        return trainee, optimizer_of(trainee.named_shards()), lambda _, largest: trainee.clip_grad_norm_(largest)
    from sharded_optimizer import GradientSharder, ShardedOptimizer  # yours

    build = functools.partial(ShardedOptimizer, optimizer_cls=torch.optim.AdamW)
    optimizer: Any = optimizer_of(dict(model.named_parameters()), build=build)
    if kind == "zero2":
        model.finish_gradient_synchronization = GradientSharder(optimizer).finish  # train_step calls it after backward
    return model, optimizer, lambda _, largest: optimizer.clip_grad_norm_(largest)


def loss_scaler(precision: str) -> Any:
    """Return your DynamicLossScaler for fp16, whose gradients underflow without one; None for all else."""
    if precision != "fp16":
        return None
    from mixed_precision import DynamicLossScaler  # yours

    return DynamicLossScaler()


def recompute_blocks(model: GPT, kind: str) -> None:
    """Let every block make its activations a second time in backward: all of them (full), or all but the matrix products' (selective)."""
    if kind == "none":
        return
    from recomputation import checkpoint, selective_checkpoint  # yours

    aten = torch.ops.aten
    # A linear layer's product is dear to make and cheap to keep; attention's matrices are the other way round.
    keep = {aten.mm.default, aten.addmm.default}
    run = checkpoint if kind == "full" else functools.partial(selective_checkpoint, save=keep)
    for block in model.blocks:
        block.forward = functools.partial(run, block.forward)


def accumulated_backward(
    model: Callable[..., Any], tokens_BT: Tensor, targets_BT: Tensor, num_micro_batches: int, scale: Callable[[Tensor], Tensor]
) -> Tensor:
    """Backward through the batch in micro-batches, by your accumulate_gradients. Return the mean of `scale(loss)` over all targets.

    The ranks' gradients are joined by the last micro-batch's backward only, where the model has a no_sync to say so.
    """
    from recomputation import accumulate_gradients  # yours

    micro_batches = list(zip(tokens_BT.chunk(num_micro_batches), targets_BT.chunk(num_micro_batches), strict=True))
    left = len(micro_batches)
    with contextlib.ExitStack() as silence:
        silence.enter_context(getattr(model, "no_sync", contextlib.nullcontext)())

        def logits_of(tokens_BT: Tensor) -> Tensor:
            nonlocal left
            left -= 1
            if left == 0:
                silence.close()
            return model(tokens_BT)  # type: ignore[no-any-return]

        def loss_of(logits_BTV: Tensor, targets_BT: Tensor) -> Tensor:
            return scale(F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten()))

        return accumulate_gradients(logits_of, micro_batches, loss_of)  # type: ignore[no-any-return]
