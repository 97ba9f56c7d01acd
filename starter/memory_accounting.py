"""Where the memory goes: weights, gradients, optimizer states and activations, counted before anything is allocated.

All sizes are in bytes. Configs are those of the given GPT, `lm.gpt.GPTConfig`.
"""

# B micro-batch (sequences), T tokens of a sequence, C hidden size, H query heads, G key/value heads, D head dim, F mlp size,
# V vocabulary, L layers. In the papers' letters: b = B, s = T, h = C, a = H, v = V, t = tp, p = pp.
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from lm.gpt import GPTConfig

Precision = Literal["fp32", "autocast", "bf16", "mixed", "mixed_fp32_gradients"]
Optimizer = Literal["sgd", "momentum", "adam"]
Recompute = Literal["none", "selective", "full"]


# --- given: records, and a tool to look with -------------------------------------------------------------------------
@dataclass(frozen=True)
class ModelStateBytes:
    """What a training step holds for each weight, whatever the batch."""

    weights: float
    gradients: float
    master_weights: float
    moments: float

    @property
    def total(self) -> float:
        """All four together."""
        return self.weights + self.gradients + self.master_weights + self.moments


@dataclass(frozen=True)
class PublishedActivationBytes:
    """Activations on one rank of the first pipeline stage, as the papers count them."""

    layers: float
    embedding: float
    head: float

    @property
    def total(self) -> float:
        """All three together."""
        return self.layers + self.embedding + self.head


def saved_bytes(model: torch.nn.Module, run: Callable[[], Any], *, show: bool = False) -> int:
    """Bytes that autograd keeps for the backward pass of `run()`: each memory once, the model's own parameters left out.

    For you, to look with: predict, measure, explain the difference. show=True prints every tensor. Never called by the tests.
    """
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        # A view keeps the whole memory behind it alive, so it is the memory that is counted, and once.
        if (key := tensor.untyped_storage()._cdata) not in own and key not in kept:
            kept[key] = tensor
            if show:
                print(f"{tensor.untyped_storage().nbytes():>12} bytes  {tensor.dtype!s:>16}  {tuple(tensor.shape)}")
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


# --- task parameters -------------------------------------------------------------------------------------------------
def parameter_count(config: GPTConfig) -> int:
    """How many numbers `lm.gpt.GPT(config)` trains; exact."""
    raise NotImplementedError("memory_accounting, task parameters: see section 2 of the handout")


# --- task states -----------------------------------------------------------------------------------------------------
def model_state_bytes(config: GPTConfig, precision: Precision, optimizer: Optimizer = "adam") -> ModelStateBytes:
    """What is held between two steps of one process that trains the whole model.

    An unknown precision or optimizer is a ValueError that names those that exist.
    """
    raise NotImplementedError("memory_accounting, task states: see section 3 of the handout")


# --- task sharding ---------------------------------------------------------------------------------------------------
def sharded_state_bytes(states: ModelStateBytes, *, dp: int, stage: int, tp: int = 1, pp: int = 1) -> ModelStateBytes:
    """What one of dp · tp · pp ranks holds of `states` (those of the whole model) under ZeRO stage 0, 1, 2 or 3.

    Everything is taken to divide evenly; nothing is rounded. Another stage is a ValueError.
    """
    raise NotImplementedError("memory_accounting, task sharding: see section 4 of the handout")


# --- task published --------------------------------------------------------------------------------------------------
def published_layer_bytes(
    config: GPTConfig, micro_batch: int, sequence: int, *, tp: int = 1, sequence_parallel: bool = False, recompute: Recompute = "none"
) -> float:
    """Activations of one layer on one rank, in 16-bit training with dropout: table 2 of Korthikanti et al. 2022.

    Of the config only hidden_size and num_heads count: the papers' layer has an MLP of 4h, full attention heads and unfused attention.
    """
    raise NotImplementedError("memory_accounting, task published: see section 5 of the handout")


def published_activation_bytes(
    config: GPTConfig,
    micro_batch: int,
    sequence: int,
    *,
    tp: int = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "none",
    pp: int = 1,
    interleave: int = 1,
) -> PublishedActivationBytes:
    """Activations on one rank of the first of pp pipeline stages under 1F1B, which holds the most: Korthikanti et al. 2022, section 4.

    interleave: model chunks per stage; 1 is plain 1F1B. Every layer is held as `published_layer_bytes` says.
    """
    raise NotImplementedError("memory_accounting, task published: see section 5 of the handout")


# --- task activations ------------------------------------------------------------------------------------------------
def activation_bytes(config: GPTConfig, micro_batch: int, sequence: int, *, dtype_bytes: int, recompute: Recompute = "none") -> float:
    """What autograd keeps for the backward of GPT(config)(tokens, targets), everything computed in one dtype of `dtype_bytes`.

    recompute: "selective" recomputes what `attend` does in every layer, "full" every block. Dropout is 0, norms are fused.
    """
    raise NotImplementedError("memory_accounting, task activations: see section 6 of the handout")


# --- task fit --------------------------------------------------------------------------------------------------------
def largest_micro_batch(
    config: GPTConfig,
    sequence: int,
    device_bytes: float,
    *,
    precision: Precision,
    optimizer: Optimizer = "adam",
    recompute: Recompute = "none",
    dp: int = 1,
    stage: int = 0,
) -> int:
    """The most sequences whose step fits into `device_bytes` on each of `dp` ranks: states under ZeRO `stage` and activations.

    0 if not even one fits. Activations have the dtype of the weights; `precision` is any but "autocast".
    """
    raise NotImplementedError("memory_accounting, task fit: see section 7 of the handout")
