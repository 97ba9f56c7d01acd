"""Misreadings of sections 5 and 6 that single items don't tell apart: by how much a figure is off under each, and the sentence for it.

Every name completes "Every wrong value ...". Which of them explains all figures is judging.py's to find.
"""

# B micro-batch, T tokens, C hidden size, H query heads, G key/value heads, D head dim, F MLP size, V vocabulary
from __future__ import annotations

from typing import Any

from tests.laws.memory_accounting import ledger
from tests.laws.memory_accounting.ledger import Ledger
from tests.laws.memory_accounting.models import Model


def of_parameters(model: Model) -> Ledger:
    """Numbers too few in `parameter_count` where all of a kind are left out."""
    kept = ledger.parameters(model)
    blocks = sum(size for name, size in kept.items() if name.startswith(("the weights", "the biases", "the blocks")))
    return {
        "lacks the linear layers' biases": -sum(size for name, size in kept.items() if name.startswith("the biases")),
        "counts the blocks alone, without embeddings, final norm and head": blocks - sum(kept.values()),
    }


def of_activations(model: Model, micro_batch: int, sequence: int, dtype_bytes: int, recompute: str) -> Ledger:
    """Bytes too many (or, negative, too few) in `activation_bytes` under each misreading."""
    kept, L = ledger.activations(model, micro_batch, sequence, dtype_bytes, recompute), model.num_layers
    off: Ledger = {
        "counts the logits beside log-softmax's output": kept["log-softmax's output"],
        "counts log-softmax's output in fp32, where it has the dtype of the logits": (4 / dtype_bytes - 1) * kept["log-softmax's output"],
    }
    behind = ("the final norm's input", "the head's input", "log-softmax's output")
    off["counts the blocks alone, and nothing of final norm, head and loss"] = -sum(kept[name] for name in behind)
    if recompute == "full":
        kept_blocks = round(L**0.5)
        return off | {
            "keeps the inputs of √L blocks, where full recomputation keeps those of every block": (kept_blocks / L - 1)
            * kept["the blocks' inputs"]
        }
    if model.attention == "dense" and recompute == "none":
        return off | _in_dense_attention(model, micro_batch, sequence, dtype_bytes, kept)
    return off | _where_views_are_kept(model, micro_batch, sequence, dtype_bytes, recompute)


def _in_dense_attention(model: Model, micro_batch: int, sequence: int, dtype_bytes: int, kept: Ledger) -> Ledger:
    H, G = model.num_heads, model.num_kv_heads
    per_head = model.num_layers * micro_batch * sequence * model.head_dim * dtype_bytes
    return {
        "counts qkv's output beside the copies of q, k and v that the products make": (H + 2 * G) * per_head,
        "lacks the repeated heads: shared key/value heads are repeated to H heads before the products": -2 * (H - G) * per_head,
        "counts what rotation makes beside the products' copies of it": (H + G) * per_head * (model.positions == "rotary"),
        "counts a mask for every head and sequence, where a layer makes one": (micro_batch * H - 1) * kept["the causal mask"],
    }


def _where_views_are_kept(model: Model, micro_batch: int, sequence: int, dtype_bytes: int, recompute: str) -> Ledger:
    H, G, is_rotary = model.num_heads, model.num_kv_heads, model.positions == "rotary"
    per_head = model.num_layers * micro_batch * sequence * model.head_dim * dtype_bytes
    given = H + 2 * G + ((H + G) if is_rotary else H * (H > G))
    off: Ledger = {
        "counts q, k and v beside qkv's output, of which they are views": (H + 2 * G) * per_head,
        "takes the rotated q and k for views of qkv's output": -(H + G) * per_head * is_rotary,
        "counts only v's own numbers, where v is a view that keeps all of qkv's output": -(H + G) * per_head * is_rotary,
    }
    if recompute == "selective":
        return off | {
            "lacks q, k and v, which are given to attention and not made in it": -given * per_head,
            "counts the products' copies, which selective recomputation makes again, and not what attention is given": (3 * H - given)
            * per_head
            * (model.attention == "dense"),
        }
    squares = model.num_layers * micro_batch * H * sequence**2 * dtype_bytes
    return off | {
        "counts the softmax, a square for each head, which fused attention never holds": squares,
        "counts fused attention's output beside the input of the output projection, which is the same memory": H * per_head,
    }


def of_published_layer(model: Model, micro_batch: int, sequence: int, layout: dict[str, Any]) -> Ledger:
    """Bytes too many or too few in `published_layer_bytes` under each misreading."""
    tp, recompute = layout.get("tp", 1), layout.get("recompute", "none")
    tokens, h = micro_batch * sequence, model.hidden_size
    if recompute == "full":
        return {"divides the layer's input by tp, which every rank keeps whole": (1 / tp - 1) * 2 * tokens * h}
    per_head = 5 * tokens * sequence * (recompute == "none")
    return {
        "lacks both dropout masks, attention's and the MLP's": -2 * tokens * h / (tp if layout.get("sequence_parallel") else 1),
        "has the scores' squares undivided by tp": (1 - 1 / tp) * per_head * model.num_heads,
        "counts the scores of num_kv_heads heads, where the papers' layer has full heads": per_head
        * (model.num_kv_heads - model.num_heads)
        / tp,
        "takes mlp_size for the MLP's width, where the papers' layer has 4h": 4 * tokens * (model.mlp_size - 4 * h) / tp,
    }


def of_published_stage(model: Model, micro_batch: int, sequence: int, layout: dict[str, Any]) -> tuple[Ledger, Ledger, Ledger]:
    """Bytes too many or too few in layers, embedding and head of `published_activation_bytes` under each misreading."""
    tp, pp, chunks = layout.get("tp", 1), layout.get("pp", 1), layout.get("interleave", 1)
    is_cut = layout.get("sequence_parallel", False)
    layers, embedding, _ = ledger.published_stage(model, micro_batch, sequence, layout)
    logits = 4 * micro_batch * sequence * model.vocab_size * (pp == 1)
    return (
        {"counts one micro-batch, where p are under way": (1 / pp - 1) * layers},
        {
            "multiplies the embedding's mask by the factor of interleaving": (pp - 1) / (pp * chunks) * embedding * (chunks > 1),
            "counts the embedding's mask of one micro-batch, where p are under way": (1 / pp - 1) * embedding,
            "has the embedding's mask whole under sequence parallelism": (tp - 1) * embedding * is_cut,
        },
        {
            "divides the logits by tp under sequence parallelism only": (1 - 1 / tp) * logits * (not is_cut),
            "counts the logits in 16 bits, where they are fp32": -logits / 2 / tp,
            "has the logits undivided by tp": (1 - 1 / tp) * logits,
        },
    )
