"""The pieces of a training step, apart from the program around it: precision, optimizer, schedule, step, and what to count."""

from __future__ import annotations

import dataclasses
import math
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lm.gpt import GPT, GPTConfig
from lm.pieces import accumulated_backward


def set_precision(precision: str, device: torch.device) -> None:
    """Say how float32 products are made from now on; ValueError where the device has no such arithmetic."""
    if device.type == "cuda" and precision in ("tf32", "bf16") and torch.cuda.get_device_capability(device) < (8, 0):
        raise ValueError(f"{torch.cuda.get_device_name(device)} has no {precision} (Ampere and later have): take --precision fp16 or fp32")
    if device.type == "cpu" and precision == "tf32":
        raise ValueError("a CPU has no tf32: take --precision fp32")
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")  # "high" is TF32


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return what the forward pass runs under: bf16 and fp16 cast products and keep weights, norms and losses in fp32."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype=dtype) if dtype else nullcontext()


def names_of_matrices(model: nn.Module) -> frozenset[str]:
    """Return which parameters decay; ask before a wrapper cuts them into flat shards."""
    return frozenset(name for name, parameter in model.named_parameters() if parameter.dim() >= 2)


def make_optimizer(
    parameters: Mapping[str, nn.Parameter],
    matrices: frozenset[str],
    learning_rate: float,
    weight_decay: float,
    build: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
) -> torch.optim.Optimizer:
    """Return AdamW, or what `build` makes in its place, that decays matrices and leaves biases and norms alone."""
    decayed = [parameter for name, parameter in parameters.items() if name in matrices]
    others = [parameter for name, parameter in parameters.items() if name not in matrices]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return build(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)


def scheduled_learning_rate(step: int, *, num_steps: int, warmup_steps: int, peak: float) -> float:
    """Return the rate of `step` (from 0): a linear warm-up, then half a cosine from the peak to a tenth of it at the last step."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, num_steps - 1 - warmup_steps)
    return peak * (0.55 + 0.45 * math.cos(math.pi * min(1.0, progress)))


def train_step(
    model: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    tokens_BT: Tensor,
    targets_BT: Tensor,
    *,
    precision: str,
    clip: float = 1.0,
    num_micro_batches: int = 1,
    scaler: Any = None,
    clip_grad_norm: Callable[[list[nn.Parameter], float], Tensor] = nn.utils.clip_grad_norm_,
) -> tuple[Tensor, Tensor]:
    """Do one step in place. Return this rank's loss and the gradient norm before clipping, left on the device: reading them waits.

    With more than one micro-batch the batch goes through in pieces; `scaler` is a DynamicLossScaler, needed for fp16.
    """
    scale = scaler.scale if scaler else lambda loss: loss
    with autocast(precision, tokens_BT.device):
        if num_micro_batches > 1:
            loss = accumulated_backward(model, tokens_BT, targets_BT, num_micro_batches, scale)
        else:
            loss = scale(model(tokens_BT, targets_BT))
    if num_micro_batches == 1:
        loss.backward()
    # Your DistributedDataParallel waits for its last buckets here; torch's wrappers wait inside backward.
    getattr(model, "finish_gradient_synchronization", lambda: None)()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if scaler:
        loss = loss / scaler.get_scale()
        scaler.unscale_(optimizer)  # before the norm is taken: clipping scaled gradients would clip almost all of each
    norm = clip_grad_norm(parameters, clip)  # one of your own where a rank has slices of the model only
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), norm


def counted_flops_per_token(config: GPTConfig, num_tokens: int) -> float:
    """Count one real forward and backward on the meta device: matrix products only, and attention in full, as if nothing were masked."""
    with torch.device("meta"):
        model = GPT(dataclasses.replace(config, attention="dense", dropout=0.0))
        tokens_BT = torch.zeros(1, num_tokens, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(tokens_BT, tokens_BT).backward()
    return counter.get_total_flops() / num_tokens


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory held so far: by tensors on a GPU, by the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit_bytes = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
