"""What a layer's arithmetic costs on one rank: each kernel takes the longer of its FLOPs and its bytes (the roofline).

Matrix products run at the rate that the cluster's GPU really reaches with good shapes. Others waste part of it: a product is cut into
tiles, one to a processor at a time, so its rows and columns are rounded up to tiles and the tiles to whole rounds (NVIDIA, Matrix
Multiplication Background User's Guide, "tile" and "wave" quantization; 256 x 128 is its most efficient tile). Everything between two
products reads and writes memory: the bytes are those of fused kernels, 2 per number and 1 per dropout mask.
"""

# N tokens on this rank, C hidden size, F mlp size, H heads of this rank, D head dim
from __future__ import annotations

import math
from typing import NamedTuple

from grader.simulator.records import Cluster, Model, Plan

NUMBER_BYTES = 2
TILE_ROWS, TILE_COLUMNS = 128, 256
SCORE_BYTES = 4  # softmax with scale and mask: a read and a write
DROPPED_SCORE_BYTES = 5  # dropout on it: a read, a write, a mask
NORM_BYTES = 4  # a read and a write
RESIDUAL_BYTES = 6  # two reads and a write
LOGIT_BYTES = 18  # 16-bit logits cast to fp32 (2 + 4), read for the maximum (4), exponentiated and summed (4 + 4)
FLASH_BACKWARD = 2.5  # five products for two: the scores are made again
BACKWARD = 2.0  # a product's gradient is two products
# Kernels of a layer, where a host that waits for each of them counts: two norms, six products, softmax, dropout on it, heads put side by
# side, activation, bias with dropout and residual twice, two all-reduces. Backward two for each product and norm, four bias gradients, five
# for softmax to residual, heads put apart and q, k, v together, two additions of what reaches a norm's input twice, two all-reduces, and
# twelve gradients added to their sums.
FORWARD_LAUNCHES, BACKWARD_LAUNCHES = 16, 43


class LayerSeconds(NamedTuple):
    """One layer, one micro-batch."""

    forward_s: float
    backward_s: float  # without recomputation
    core_s: float  # attention's part of the forward, between qkv and the projection
    core_backward_s: float
    accumulate_s: float  # adding the fresh gradient to that of the micro-batches before


def product_s(cluster: Cluster, rows: float, inner: float, columns: float, count: float = 1) -> float:
    """`count` products of (rows x inner) with (inner x columns)."""
    tiles = count * math.ceil(rows / TILE_ROWS) * math.ceil(columns / TILE_COLUMNS)
    rounds = math.ceil(tiles / cluster.num_processors)
    flops = 2 * inner * TILE_ROWS * TILE_COLUMNS * rounds * cluster.num_processors
    num_bytes = count * NUMBER_BYTES * (rows * inner + inner * columns + rows * columns)
    return max(flops / cluster.flops_per_s, num_bytes / cluster.memory_bytes_per_s)


def layer_seconds(model: Model, cluster: Cluster, plan: Plan) -> LayerSeconds:
    """Arithmetic of one layer on one rank."""
    N = plan.micro_batch * model.sequence / plan.cp
    C, tp = model.hidden_size, plan.tp
    core_s, core_backward_s = _core(model, cluster, plan)
    attention_s = product_s(cluster, N, C, model.qkv_size / tp) + product_s(cluster, N, C / tp, C)
    between_s = _between(model, plan, N) / cluster.memory_bytes_per_s
    rest_s = attention_s + _mlp(model, cluster, plan, N) + between_s
    local = (model.shared_parameters + model.num_experts / plan.ep * model.expert_parameters) / tp
    return LayerSeconds(
        rest_s + core_s + FORWARD_LAUNCHES * cluster.launch_s,
        BACKWARD * rest_s + core_backward_s + BACKWARD_LAUNCHES * cluster.launch_s,
        core_s, core_backward_s, accumulation_s(cluster, plan, local),
    )  # fmt: skip


def _core(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    """Attention itself, forward and backward: its query tokens are this rank's, its keys are all (context parallelism balances them)."""
    queries, keys = model.sequence / plan.cp, model.sequence
    heads, D = plan.micro_batch * model.num_heads / plan.tp, model.head_dim
    if model.attention == "flash":
        # Only the lower triangle is computed, and no score leaves the chip.
        flops = 2 * heads * queries * keys * D
        num_bytes = NUMBER_BYTES * heads * 2 * D * (queries + keys)
        forward_s = max(flops / cluster.flops_per_s, num_bytes / cluster.memory_bytes_per_s)
        return forward_s, FLASH_BACKWARD * forward_s
    products_s = product_s(cluster, queries, D, keys, heads) + product_s(cluster, queries, keys, D, heads)
    per_score = SCORE_BYTES + (DROPPED_SCORE_BYTES if model.dropout else 0)
    forward_s = products_s + per_score * heads * queries * keys / cluster.memory_bytes_per_s
    return forward_s, BACKWARD * forward_s


def _mlp(model: Model, cluster: Cluster, plan: Plan, N: float) -> float:
    C, F = model.hidden_size, model.mlp_size / plan.tp
    num_local = model.num_experts / plan.ep
    rows = N * model.top_k * plan.ep / model.num_experts  # of each expert here, with tokens from ep ranks and a perfect balance
    num_up = 2 if model.gated else 1
    return product_s(cluster, rows, C, F, num_local * num_up) + product_s(cluster, rows, F, C, num_local)


def _between(model: Model, plan: Plan, N: float) -> float:
    """Bytes of what stands between the products: norms and residuals on every tensor-parallel rank, the activation on its columns."""
    per_residual = RESIDUAL_BYTES + (1 if model.dropout else 0)
    outside = 2 * (NORM_BYTES + per_residual) * model.hidden_size / (plan.tp if plan.sequence_parallel else 1)
    per_activation = RESIDUAL_BYTES if model.gated else NORM_BYTES
    return N * (outside + per_activation * model.mlp_size * model.top_k / plan.tp)


def accumulation_s(cluster: Cluster, plan: Plan, num_parameters: float) -> float:
    """Read the fresh gradient and the sum, write the sum; nothing with a single micro-batch."""
    summed_bytes = min(plan.gradient_bytes, 4)
    is_summed = plan.num_micro_batches > 1
    return is_summed * (NUMBER_BYTES + 2 * summed_bytes) * num_parameters / cluster.memory_bytes_per_s


def head_seconds(model: Model, cluster: Cluster, plan: Plan) -> float:
    """Forward of the head and the loss, for one micro-batch; the vocabulary is divided among the tensor-parallel ranks."""
    N, V = plan.micro_batch * model.sequence / plan.cp, model.vocab_size / plan.tp
    loss_s = LOGIT_BYTES * N * V / cluster.memory_bytes_per_s
    return loss_s + product_s(cluster, N, model.hidden_size, V)


def optimizer_seconds(cluster: Cluster, plan: Plan, num_parameters: float) -> float:
    """Adam on the fp32 masters of `num_parameters`: masters and both moments read and written, gradient read, weight written."""
    return num_parameters * (3 * 8 + plan.gradient_bytes + NUMBER_BYTES) / cluster.memory_bytes_per_s
