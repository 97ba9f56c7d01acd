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
    # region solution parameter_count
    C, F, D = config.hidden_size, config.mlp_size, config.head_dim
    H, G = config.num_heads, config.num_kv_heads

    def linear(num_in: int, num_out: int) -> int:
        return num_in * num_out + (num_out if config.bias else 0)

    # LayerNorm has a gain and, like the linear layers, perhaps a bias; RMSNorm subtracts no mean and adds nothing: a gain only.
    norm = 2 * C if config.norm == "layernorm" and config.bias else C

    # Key and value heads are shared by H/G query heads each, so qkv gets narrower; the output projection does not.
    attention = linear(C, (H + 2 * G) * D) + linear(H * D, C)
    # swiglu multiplies two widened copies, which takes a third matrix.
    num_widening = 2 if config.activation == "swiglu" else 1
    mlp = num_widening * linear(C, F) + linear(F, C)
    block = attention + mlp + 2 * norm

    embeddings = config.vocab_size * C
    if config.positions == "learned":  # rotary positions are computed, not learned
        embeddings += config.max_tokens * C
    # A tied head is the token embedding under another name. The head never has a bias.
    head = 0 if config.tied else config.vocab_size * C
    return embeddings + config.num_layers * block + norm + head
    # endregion


# --- task states -----------------------------------------------------------------------------------------------------
def model_state_bytes(config: GPTConfig, precision: Precision, optimizer: Optimizer = "adam") -> ModelStateBytes:
    """What is held between two steps of one process that trains the whole model.

    An unknown precision or optimizer is a ValueError that names those that exist.
    """
    # region solution model_state_bytes
    # Bytes per parameter: weights, gradients, masters, and one moment.
    bytes_of: dict[str, tuple[int, int, int, int]] = {
        "fp32": (4, 4, 0, 4),
        # autocast casts copies for the products of one step; what is stored stays fp32, so it saves nothing here.
        "autocast": (4, 4, 0, 4),
        # An optimizer makes its moments in the dtype of what it is given: in pure bf16 these are bf16 too.
        "bf16": (2, 2, 0, 2),
        # Here it is given the fp32 masters. 16 bytes again, as in fp32: mixed precision buys activations and speed (ZeRO, section 3.1).
        "mixed": (2, 2, 4, 4),
        # Gradients summed over many micro-batches lose less in fp32: Megatron's 18 bytes.
        "mixed_fp32_gradients": (2, 4, 4, 4),
    }
    num_moments = {"sgd": 0, "momentum": 1, "adam": 2}
    if precision not in bytes_of:
        raise ValueError(f"precision must be one of {', '.join(bytes_of)}, not {precision!r}")
    if optimizer not in num_moments:
        raise ValueError(f"optimizer must be one of {', '.join(num_moments)}, not {optimizer!r}")

    weight, gradient, master, moment = bytes_of[precision]
    P = parameter_count(config)
    return ModelStateBytes(P * weight, P * gradient, P * master, P * moment * num_moments[optimizer])
    # endregion


# --- task sharding ---------------------------------------------------------------------------------------------------
def sharded_state_bytes(states: ModelStateBytes, *, dp: int, stage: int, tp: int = 1, pp: int = 1) -> ModelStateBytes:
    """What one of dp · tp · pp ranks holds of `states` (those of the whole model) under ZeRO stage 0, 1, 2 or 3.

    Everything is taken to divide evenly; nothing is rounded. Another stage is a ValueError.
    """
    # region solution sharded_state_bytes
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"ZeRO has the stages 0, 1, 2 and 3, not {stage!r}")
    # Tensor and pipeline parallelism cut the model itself: each rank has its own weights, and all that belongs to them.
    model_parallel = tp * pp
    # ZeRO cuts what the dp replicas hold in common, in the order of how seldom it is needed: the optimizer's states once per step ...
    optimizer_share = model_parallel * (dp if stage >= 1 else 1)
    # ... a gradient once it is complete, and then by the owner of its weight only ...
    gradient_share = model_parallel * (dp if stage >= 2 else 1)
    # ... and the weights in every layer's forward and backward, which is why stage 3 alone costs more communication.
    weight_share = model_parallel * (dp if stage >= 3 else 1)
    return ModelStateBytes(
        weights=states.weights / weight_share,
        gradients=states.gradients / gradient_share,
        master_weights=states.master_weights / optimizer_share,  # masters are the optimizer's: ZeRO's 12 = 4 + 4 + 4
        moments=states.moments / optimizer_share,
    )
    # endregion


# --- task published --------------------------------------------------------------------------------------------------
def published_layer_bytes(
    config: GPTConfig, micro_batch: int, sequence: int, *, tp: int = 1, sequence_parallel: bool = False, recompute: Recompute = "none"
) -> float:
    """Activations of one layer on one rank, in 16-bit training with dropout: table 2 of Korthikanti et al. 2022.

    Of the config only hidden_size and num_heads count: the papers' layer has an MLP of 4h, full attention heads and unfused attention.
    """
    # region solution published_layer_bytes
    b, s, h, a, t = micro_batch, sequence, config.hidden_size, config.num_heads, tp
    if recompute == "full":
        return 2 * s * b * h  # the layer's input; every tensor-parallel rank keeps all of it, with sequence parallelism too

    # Outside attention and MLP a tensor-parallel rank does what all do, on the whole hidden state: the inputs of both norms (4),
    # of qkv and of the first MLP matrix (2 + 2), and two dropout masks of a byte each (2).
    outside = 10 * s * b * h
    # Inside it has its own heads and columns: q, k, v (6), the input of the projection (2), the MLP's input and output of GELU (8 + 8).
    inside = 24 * s * b * h / t
    # Sequence parallelism cuts the ten along the sequence instead.
    if sequence_parallel:
        outside /= t
    # Per head the s x s softmax (2), its dropout mask (1) and its dropout output (2). Selective recomputation makes these again.
    squares = 0 if recompute == "selective" else 5 * a * s * s * b / t
    return outside + inside + squares
    # endregion


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
    # region solution published_activation_bytes
    b, s, h, v, t = micro_batch, sequence, config.hidden_size, config.vocab_size, tp
    # The first stage has L/p layers and, before its first backward, p micro-batches in flight: L layers, however deep the pipeline.
    # Interleaving lets more in: p·m + p - 1 chunks of L/(p·m) layers.
    in_flight = 1 + (pp - 1) / (pp * interleave) if interleave > 1 else 1
    layer = published_layer_bytes(config, b, s, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute)
    split = t if sequence_parallel else 1
    # The embedding's dropout mask, a byte each, for every micro-batch in flight.
    embedding = s * b * h * pp / split
    # With one stage the first is also the last: final norm's input (2), head's input (2), and logits in fp32, cut by vocabulary.
    head = 4 * s * b * h / split + 4 * s * b * v / t if pp == 1 else 0
    return PublishedActivationBytes(layers=config.num_layers * layer * in_flight, embedding=embedding, head=head)
    # endregion


# --- task activations ------------------------------------------------------------------------------------------------
def activation_bytes(config: GPTConfig, micro_batch: int, sequence: int, *, dtype_bytes: int, recompute: Recompute = "none") -> float:
    """What autograd keeps for the backward of GPT(config)(tokens, targets), everything computed in one dtype of `dtype_bytes`.

    recompute: "selective" recomputes what `attend` does in every layer, "full" every block. Dropout is 0, norms are fused.
    """
    # region solution activation_bytes
    B, T, C, F, V = micro_batch, sequence, config.hidden_size, config.mlp_size, config.vocab_size
    H, G, D = config.num_heads, config.num_kv_heads, config.head_dim

    # After the blocks, per token: the inputs of the final norm and of the head, and log_softmax's output. The logits themselves are
    # dropped: softmax needs its output only.
    head = 2 * C + V
    if recompute == "full":
        block, extra_bytes = C, 0
    else:
        qkv = (H + 2 * G) * D
        # Where query heads share a key head, q is cut out of qkv by a copy; k and v stay views, and a view keeps all of qkv.
        # Rotation makes a new q and a new k. v is still a view of the whole.
        handed_over = qkv
        if config.positions == "rotary":
            handed_over += (H + G) * D
        elif H > G:
            handed_over += H * D
        if config.attention == "dense" and recompute == "none":
            # Matrix products copy what isn't contiguous, and shared key heads are repeated: three tensors of all heads. Then the softmax,
            # T numbers per head and token, and one mask per layer, a byte each.
            inside, extra_bytes = 3 * H * D + H * T, T * T
        elif recompute == "none":
            inside, extra_bytes = handed_over, 4 * B * H * T  # the log-sum-exp, fp32 in any dtype; no T x T tensor
        else:
            inside, extra_bytes = handed_over, 0
        # The input of gelu and of down; swiglu's silu needs its input, the product both factors.
        widened = 4 * F if config.activation == "swiglu" else 2 * F
        # C each: the inputs of norm, qkv, out, norm and up.
        block = 5 * C + inside + widened
    return dtype_bytes * B * T * (config.num_layers * block + head) + config.num_layers * extra_bytes
    # endregion


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
    # region solution largest_micro_batch
    states = sharded_state_bytes(model_state_bytes(config, precision, optimizer), dp=dp, stage=stage)
    # dp cuts the states and not the activations: every rank has its own micro-batch.
    room_bytes = device_bytes - states.total
    dtype_bytes = 4 if precision == "fp32" else 2

    def fits(micro_batch: int) -> bool:
        return activation_bytes(config, micro_batch, sequence, dtype_bytes=dtype_bytes, recompute=recompute) <= room_bytes

    # Masks don't grow with the batch, so that a division would be off. Double until it doesn't fit, then halve the interval.
    if not fits(1):
        return 0
    fitting, too_many = 1, 2
    while fits(too_many):
        fitting, too_many = too_many, 2 * too_many
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
    return fitting
    # endregion
