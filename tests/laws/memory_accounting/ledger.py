"""The accounts, item by item: every tensor under its name. What a figure lacks, or has twice, is recognised by these names."""

# B micro-batch, T tokens, C hidden size, H query heads, G key/value heads, D head dim, F MLP size, V vocabulary
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.laws.memory_accounting.models import Model

Ledger = dict[str, float]


def parameters(model: Model) -> Ledger:
    """Numbers that the given GPT trains, from the shapes of its modules (solutions/lm/gpt.py, class by class)."""
    C, F, H, G, D = model.hidden_size, model.mlp_size, model.num_heads, model.num_kv_heads, model.head_dim
    shapes = {"qkv": (C, (H + 2 * G) * D), "the output projection": (H * D, C), "the MLP's up": (C, F), "the MLP's down": (F, C)}
    if model.activation == "swiglu":
        shapes["the MLP's gate"] = (C, F)
    biased_norm = model.bias and model.norm == "layernorm"
    ledger: Ledger = {f"the weights of {name}": model.num_layers * rows * columns for name, (rows, columns) in shapes.items()}
    ledger |= {f"the biases of {name}": model.num_layers * columns * model.bias for name, (_, columns) in shapes.items()}
    ledger["the blocks' norms"] = model.num_layers * 2 * C * (1 + biased_norm)
    ledger["the final norm"] = C * (1 + biased_norm)
    ledger["the token embedding"] = model.vocab_size * C
    ledger["the learned positions"] = model.max_tokens * C * (model.positions == "learned")
    ledger["the head"] = model.vocab_size * C * (not model.tied)
    return ledger


def activations(model: Model, micro_batch: int, sequence: int, dtype_bytes: int, recompute: str) -> Ledger:
    """Bytes that autograd keeps for the given GPT's backward, as its operations were seen to keep them (torch 2.13, CPU and meta).

    Holds for LayerNorm, dropout 0 and one dtype. Rotary positions with fused attention and no recomputation are left out: there the
    layout of the output, and with it one copy, depends on the kernel.
    """
    C, V, L, T = model.hidden_size, model.vocab_size, model.num_layers, sequence
    tokens, width = micro_batch * T, dtype_bytes
    ledger: Ledger = {
        "the final norm's input": tokens * C * width,
        "the head's input": tokens * C * width,
        "log-softmax's output": tokens * V * width,
        "the blocks' inputs": L * tokens * C * width,
    }
    norms = 1 if recompute == "full" else 2 * L + 1
    ledger["the norms' means and deviations"] = 2 * tokens * norms * width
    if model.positions == "rotary":
        # One table for all layers in fp32; a rotation in a narrower dtype rounds its own, twice a layer.
        tables = 1 if dtype_bytes == 4 or recompute == "full" else 2 * L
        ledger["cosines and sines"] = tables * T * model.head_dim * (4 if recompute == "full" else width)
    if recompute == "full":
        return ledger
    gated = ("the input of silu", "silu's output", "up's output", "the input of down")
    widened = gated if model.activation == "swiglu" else ("the input of gelu", "the input of down")
    ledger |= dict.fromkeys(widened, L * tokens * model.mlp_size * width)
    for name in ("the input of qkv", "the input of the output projection", "the second norm's input", "the input of up"):
        ledger[name] = L * tokens * C * width
    return ledger | _attention(model, micro_batch, sequence, dtype_bytes, recompute)


def _attention(model: Model, micro_batch: int, sequence: int, dtype_bytes: int, recompute: str) -> Ledger:
    H, G, D, L, T = model.num_heads, model.num_kv_heads, model.head_dim, model.num_layers, sequence
    per_head = L * micro_batch * T * D * dtype_bytes  # one head's vectors in all layers
    squares = L * micro_batch * H * T * T
    if model.attention == "dense" and recompute == "none":
        copies: Ledger = {f"attention's {name}": H * per_head for name in "qkv"}
        return copies | {"the softmax": squares * dtype_bytes, "the causal mask": L * T * T}
    ledger: Ledger = {"qkv's output": (H + 2 * G) * per_head}
    if model.positions == "rotary":
        ledger |= {"the rotated q": H * per_head, "the rotated k": G * per_head}
    elif H > G:
        ledger["the copied q"] = H * per_head
    if recompute == "none":
        ledger["the log-sum-exp"] = squares / T * 4
    return ledger


@dataclass(frozen=True)
class Kept:
    """One tensor of the papers' layer: bytes in units of sbh (or of a·s·s·b), and what a tensor-parallel rank holds of it."""

    name: str
    bytes_each: int
    is_square: bool = False
    is_cut_by_tp: bool = True


# Korthikanti et al. 2022, section 4.1, paragraphs "Attention block", "MLP" and "Layer norm"; what tensor parallelism cuts: section 4.2.1.
PAPER_LAYER = (
    Kept("the norms' inputs", 2 + 2, is_cut_by_tp=False),
    Kept("the input of q, k and v", 2, is_cut_by_tp=False),
    Kept("q and k", 4),
    Kept("v", 2),
    Kept("the input of the projection", 2),
    Kept("attention's dropout mask", 1, is_cut_by_tp=False),
    Kept("the input of the first MLP matrix", 2, is_cut_by_tp=False),
    Kept("the input of GELU", 8),
    Kept("the input of the second MLP matrix", 8),
    Kept("the MLP's dropout mask", 1, is_cut_by_tp=False),
    Kept("the softmax", 2, is_square=True),
    Kept("the softmax's dropout mask", 1, is_square=True),
    Kept("the output of the softmax's dropout", 2, is_square=True),
)


def published_layer(model: Model, micro_batch: int, sequence: int, layout: dict[str, Any]) -> Ledger:
    """The papers' layer on one rank, tensor by tensor (Korthikanti et al. 2022, section 4.1 to 4.2.2 and 5)."""
    tp, recompute = layout.get("tp", 1), layout.get("recompute", "none")
    hidden = micro_batch * sequence * model.hidden_size
    square = micro_batch * sequence * sequence * model.num_heads
    if recompute == "full":
        return {"the layer's input": 2 * hidden}
    ledger: Ledger = {}
    for kept in PAPER_LAYER:
        if kept.is_square and recompute == "selective":
            continue
        ranks = tp if kept.is_cut_by_tp or layout.get("sequence_parallel") else 1
        ledger[kept.name] = kept.bytes_each * (square if kept.is_square else hidden) / ranks
    return ledger


def published_stage(model: Model, micro_batch: int, sequence: int, layout: dict[str, Any]) -> list[float]:
    """The first stage's layers, embedding and head (Korthikanti et al. 2022, sections 4.2.3 and 4.3).

    In-flight chunks are counted one by one: before its first backward, stage 0 of p has admitted p micro-batches of its one chunk;
    with m chunks of L/(p·m) layers p·m + p − 1 chunk-passes are under way (Narayanan et al. 2021, section 2.2).
    """
    tp, pp, chunks = layout.get("tp", 1), layout.get("pp", 1), layout.get("interleave", 1)
    layer = sum(published_layer(model, micro_batch, sequence, layout).values())
    num_in_flight = pp if chunks == 1 else pp * chunks + pp - 1
    layers = num_in_flight * model.num_layers / (pp * chunks) * layer
    whole = tp if layout.get("sequence_parallel") else 1
    tokens = micro_batch * sequence
    embedding = sum(tokens * model.hidden_size / whole for _ in range(pp))
    head = 2 * (2 * tokens * model.hidden_size) / whole + 4 * tokens * model.vocab_size / tp
    return [layers, embedding, head if pp == 1 else 0.0]


STATE_NAMES = ("weights", "gradients", "master weights", "moments")


def states(model: Model, precision: str, optimizer: str) -> list[float]:
    """Bytes of weights, gradients, masters and moments, each dtype by dtype.

    Sources: ZeRO (Rajbhandari et al. 2020) section 3.1 for 2 + 2 + 12; Megatron-LM's theoretical_memory_usage.py for 18 with fp32
    gradients; torch keeps moments in the dtype of what an optimizer is given, and autocast casts neither weights nor gradients.
    """
    count = sum(parameters(model).values())
    narrow = {"fp32": 4, "autocast": 4, "bf16": 2, "mixed": 2, "mixed_fp32_gradients": 2}[precision]
    gradient = 4 if precision == "mixed_fp32_gradients" else narrow
    master = 4 if precision.startswith("mixed") else 0
    moment = (master or narrow) * {"adam": 2, "momentum": 1, "sgd": 0}[optimizer]
    return [count * each for each in (narrow, gradient, master, moment)]


def zero(states_of_all: Sequence[float], *, dp: int, stage: int, tp: int = 1, pp: int = 1) -> list[float]:
    """One rank's share (ZeRO, section 5: P_os, P_os+g, P_os+g+p), of the part of the model that tp and pp leave it."""
    first_stage_that_cuts = (3, 2, 1, 1)
    return [each / (tp * pp) / (dp if stage >= cuts else 1) for each, cuts in zip(states_of_all, first_stage_that_cuts, strict=True)]


def largest(held_bytes: Callable[[int], float], device_bytes: float, limit: int = 1 << 20) -> int:
    """The largest n up to `limit` with held_bytes(n) <= device_bytes, 0 if there is none; held_bytes grows with n."""
    fitting, beyond = 0, limit + 1
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if held_bytes(middle) <= device_bytes else (fitting, middle)
    return fitting
