"""What you wrote, as train.py runs it: each function imports the file of an assignment when its flag asks for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lm.gpt import GPT


def data_parallel(model: GPT, kind: str) -> nn.Module:
    """Return the module whose forward and backward keep the ranks' weights equal."""
    if kind == "ddp":
        from data_parallel import DistributedDataParallel  # yours

        return DistributedDataParallel(model)  # type: ignore[no-any-return]
    if kind == "torch_ddp":
        on_gpu = next(model.parameters()).is_cuda
        return nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()] if on_gpu else None)
    if kind == "torch_fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model


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
