"""A whole file in another style: constants and small functions of its own at module level, a record of letters, weight and bias counts
apart, one vector of multiplicities instead of branches, and a search by bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from lm.gpt import GPTConfig

Precision = Literal["fp32", "autocast", "bf16", "mixed", "mixed_fp32_gradients"]
Optimizer = Literal["sgd", "momentum", "adam"]
Recompute = Literal["none", "selective", "full"]


BYTES = {"fp32": (4, 4, 0, 4), "bf16": (2, 2, 0, 2), "mixed": (2, 2, 4, 4), "mixed_fp32_gradients": (2, 4, 4, 4)}
BYTES["autocast"] = BYTES["fp32"]
MOMENTS = {"sgd": 0, "momentum": 1, "adam": 2}


@dataclass(frozen=True)
class Letters:
    """A config in the letters of the papers and of the model."""

    C: int
    F: int
    V: int
    L: int
    H: int
    G: int
    D: int

    @classmethod
    def of(cls, config: Any) -> Letters:
        D = config.hidden_size // config.num_heads
        return cls(config.hidden_size, config.mlp_size, config.vocab_size, config.num_layers, config.num_heads, config.num_kv_heads, D)


def one_of(name: Any, names: Any, what: str) -> Any:
    """The value of `name`, and a ValueError with all names where there is none."""
    try:
        return names[name]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{what} {name!r} does not exist; there are {list(names)}") from error


def ceiling(fits: Callable[[int], bool]) -> int:
    """The largest n >= 0 with fits(n), for a predicate that holds up to some n: bits from the highest down."""
    bit = 1
    while fits(bit):
        bit <<= 1
    best = 0
    while bit := bit >> 1:
        best += bit if fits(best + bit) else 0
    return best


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


def parameter_count(config: GPTConfig) -> int:
    x = Letters.of(config)
    gated, learned = config.activation == "swiglu", config.positions == "learned"
    in_matrices = x.L * (2 * x.C * x.D * (x.H + x.G) + (2 + gated) * x.C * x.F)
    in_tables = x.C * (x.V * (2 - config.tied) + learned * config.max_tokens)
    gains = (2 * x.L + 1) * x.C
    biases = x.L * (x.D * (x.H + 2 * x.G) + x.C + (1 + gated) * x.F + x.C)
    if config.norm == "layernorm":
        biases += gains
    return in_matrices + in_tables + gains + (biases if config.bias else 0)


def model_state_bytes(config: GPTConfig, precision: Precision, optimizer: Optimizer = "adam") -> ModelStateBytes:
    weight, gradient, master, moment = one_of(precision, BYTES, "precision")
    psi = parameter_count(config)
    per_weight = weight, gradient, master, moment * one_of(optimizer, MOMENTS, "optimizer")
    return ModelStateBytes(*[psi * each for each in per_weight])


def sharded_state_bytes(states: ModelStateBytes, *, dp: int, stage: int, tp: int = 1, pp: int = 1) -> ModelStateBytes:
    # weights, gradients, masters, moments: is it cut?
    cuts = one_of(stage, {0: (0, 0, 0, 0), 1: (0, 0, 1, 1), 2: (0, 1, 1, 1), 3: (1, 1, 1, 1)}, "ZeRO stage")
    whole = states.weights, states.gradients, states.master_weights, states.moments
    return ModelStateBytes(*(figure / (tp * pp * dp**cut) for figure, cut in zip(whole, cuts, strict=True)))


def published_layer_bytes(
    config: GPTConfig, micro_batch: int, sequence: int, *, tp: int = 1, sequence_parallel: bool = False, recompute: Recompute = "none"
) -> float:
    around, inside, square = {"none": (10, 24, 5), "selective": (10, 24, 0), "full": (2, 0, 0)}[recompute]
    around_by = tp if sequence_parallel and recompute != "full" else 1
    s, b, h, a = sequence, micro_batch, config.hidden_size, config.num_heads
    return s * b * (around * h / around_by + (inside * h + square * a * s) / tp)


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
    layer = published_layer_bytes(config, micro_batch, sequence, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute)
    layers_under_way: float = config.num_layers
    if interleave != 1:
        layers_under_way += config.num_layers * (pp - 1) / pp / interleave
    stream = sequence * micro_batch * config.hidden_size / (tp if sequence_parallel else 1)
    logits = 4 * sequence * micro_batch * config.vocab_size / tp
    return PublishedActivationBytes(layers_under_way * layer, pp * stream, 0 if pp > 1 else 4 * stream + logits)


def activation_bytes(config: GPTConfig, micro_batch: int, sequence: int, *, dtype_bytes: int, recompute: Recompute = "none") -> float:
    x, dense, rotary = Letters.of(config), config.attention == "dense", config.positions == "rotary"
    tokens = micro_batch * sequence

    def block() -> float:
        if recompute == "full":
            return tokens * dtype_bytes * x.C
        numbers = 5 * x.C + x.F * (2 + 2 * (config.activation == "swiglu"))
        if recompute == "none" and dense:
            return tokens * dtype_bytes * (numbers + 3 * x.C + x.H * sequence) + sequence**2
        numbers += x.D * (x.H + 2 * x.G) + x.C * (rotary or x.G != x.H) + x.G * x.D * rotary
        return tokens * (dtype_bytes * numbers + (4 * x.H if recompute == "none" else 0))

    return x.L * block() + tokens * dtype_bytes * (x.C + x.C + x.V)


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
    weight_bytes = BYTES[precision][0]
    room = device_bytes - sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage).total
    return ceiling(lambda n: activation_bytes(config, n, sequence, dtype_bytes=weight_bytes, recompute=recompute) <= room)
