"""The seconds of a plan's step: arithmetic, the communication that nothing hides, and the pipeline's bubble.

Closed formulas of the handout, sections 4 and 5. Times are those of one rank and one micro-batch, unless said.
"""

# N tokens of a micro-batch on a rank of cp, T tokens of a sequence, M micro-batches; C hidden size, H heads, D head dim, F mlp size,
# V vocabulary, k experts of a token; t, c, d, p, e sizes of the axes tp, cp, dp, pp, ep; v chunks of a stage
from __future__ import annotations

from dataclasses import dataclass

from parallel_plan import Stage, estimate_memory, rank_parameters, stages

from lm.planning import Cluster, Model, Plan, StepEstimate


# --- given: a record -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LayerSeconds:
    """What one layer computes for one micro-batch."""

    forward_s: float
    backward_s: float  # without recomputation
    attention_s: float  # of forward: scores and weighted values alone
    attention_backward_s: float  # of backward


# --- task compute ----------------------------------------------------------------------------------------------------
def product_s(cluster: Cluster, rows: float, inner: float, columns: float) -> float:
    """Return the time of a (rows x inner) by (inner x columns) product: by its FLOPs or by its 16-bit operands, whichever takes longer."""
    # region solution product_s
    num_bytes = 2 * (rows * inner + inner * columns + rows * columns)
    return max(2 * rows * inner * columns / cluster.flops_per_s, num_bytes / cluster.memory_bytes_per_s)
    # endregion


def layer_seconds(model: Model, cluster: Cluster, plan: Plan) -> LayerSeconds:
    """Return the times of one layer."""
    # region solution layer_seconds
    N, t, e, k = plan.micro_batch * model.sequence / plan.cp, plan.tp, plan.ep, model.top_k
    C, F, HD = model.hidden_size, model.mlp_size, model.num_heads * model.head_dim

    # tp cuts columns of qkv and of the MLP's first matrices, rows of out and of its last.
    linear_s = product_s(cluster, N, C, model.qkv_size / t) + product_s(cluster, N, C / t, C)
    # Experts: each of a rank's own sees its share of the tokens of all ep ranks, evenly. A dense layer is one expert that all visit.
    own, rows = model.num_experts / e, N * k * e / model.num_experts
    num_up = 2 if model.gated else 1
    linear_s += own * (num_up * product_s(cluster, rows, C, F / t) + product_s(cluster, rows, F / t, C))

    # Scores and weighted values, 2 · 2 · D · T for each query and head; causal: half of it. cp is balanced.
    attention_s = 2 * N * model.sequence * HD / t / cluster.flops_per_s

    # In between: two norms read and write; two residuals read twice and write; the activation reads one (gated: two) and writes one.
    moved = 2 * (4 + 6) * C + (6 if model.gated else 4) * k * F
    between_s = N * moved / t / cluster.memory_bytes_per_s

    # Of several micro-batches, each adds its fresh 16-bit gradient to the sum: one read, and the sum read and written.
    parameters = (model.shared_parameters + own * model.expert_parameters) / t
    added_s = (2 + 2 * plan.gradient_bytes) * parameters / cluster.memory_bytes_per_s if plan.num_micro_batches > 1 else 0.0

    # Backward makes two products for one. Fused attention kept no scores: five for two.
    rest_s = linear_s + between_s
    return LayerSeconds(rest_s + attention_s, 2 * rest_s + 2.5 * attention_s + added_s, attention_s, 2.5 * attention_s)
    # endregion


def head_seconds(model: Model, cluster: Cluster, plan: Plan) -> float:
    """Return the forward time of the head and the loss; backward takes twice as long."""
    # region solution head_seconds
    N, V = plan.micro_batch * model.sequence / plan.cp, model.vocab_size / plan.tp
    # 16-bit logits are cast to fp32 (2 + 4), read for the maximum (4), exponentiated and summed (4 + 4).
    return product_s(cluster, N, model.hidden_size, V) + 18 * N * V / cluster.memory_bytes_per_s
    # endregion


def optimizer_seconds(cluster: Cluster, plan: Plan, num_parameters: float) -> float:
    """Return the time of Adam's step on the parameters that this rank updates."""
    # region solution optimizer_seconds
    # fp32 master and two moments, read and written; the gradient read; the 16-bit weight written.
    return num_parameters * (3 * 8 + plan.gradient_bytes + 2) / cluster.memory_bytes_per_s
    # endregion


# --- task communication ----------------------------------------------------------------------------------------------
def gather_s(cluster: Cluster, size: int, inner: int, num_bytes: float) -> float:
    """Return the time of an all-gather or a reduce-scatter of `num_bytes` in all, on `size` ranks that are `inner` ranks apart."""
    # region solution gather_s
    if size == 1:
        return 0.0
    near = min(size, max(1, cluster.gpus_per_node // inner))  # members of the group in one node
    far = -(-size // near)
    near_s = (near - 1) * cluster.intra_latency_s + (near - 1) / near * num_bytes / cluster.intra_bytes_per_s
    if far == 1:
        return near_s
    # Level by level: in the node first, then each member's share among the nodes, all members at once.
    levels_s = near_s + (far - 1) * cluster.inter_latency_s + (far - 1) / far * (num_bytes / near) / cluster.inter_bytes_per_s
    # Or one ring through all of them, which leaves the node over as many adapters as it has members there.
    leaving = near * cluster.inter_bytes_per_s
    bytes_per_s = leaving if near == 1 else min(cluster.intra_bytes_per_s, leaving)
    ring_s = (size - 1) * cluster.inter_latency_s + (size - 1) / size * num_bytes / bytes_per_s
    return min(levels_s, ring_s)
    # endregion


def all_to_all_s(cluster: Cluster, size: int, inner: int, num_bytes: float) -> float:
    """Return the time in which each rank sends an equal part of its `num_bytes` to each; node and network work side by side."""
    # region solution all_to_all_s
    if size == 1:
        return 0.0
    near = min(size, max(1, cluster.gpus_per_node // inner))
    near_s = (near - 1) * cluster.intra_latency_s + (near - 1) / size * num_bytes / cluster.intra_bytes_per_s
    others = size - near
    far_s = others * cluster.inter_latency_s + others / size * num_bytes / cluster.inter_bytes_per_s
    return max(near_s, far_s)
    # endregion


def message_s(cluster: Cluster, distance: int, num_bytes: float) -> float:
    """Return the time of one message to the rank that is `distance` further."""
    # region solution message_s
    if distance < cluster.gpus_per_node:
        return cluster.intra_latency_s + num_bytes / cluster.intra_bytes_per_s
    return cluster.inter_latency_s + num_bytes / cluster.inter_bytes_per_s
    # endregion


def layer_waits_s(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    """Return how long a layer's forward, and its backward without recomputation, wait for tp, cp and ep."""
    # region solution layer_waits_s
    t, c, e = plan.tp, plan.cp, plan.ep
    tokens_bytes = 2 * plan.micro_batch * model.sequence
    hidden_bytes = tokens_bytes / c * model.hidden_size
    # Around attention and around the MLP, the sequence is gathered before and scattered after: all others wait for it.
    tp_s = 4 * gather_s(cluster, t, 1, hidden_bytes)
    # Tokens go to their experts and come back.
    ep_s = 2 * all_to_all_s(cluster, e, t * c, hidden_bytes * model.top_k / t)
    # Keys and values of all tokens go round while attention works on those that are there; backward also brings their gradients home.
    cp_s = gather_s(cluster, c, t, tokens_bytes * 2 * model.num_kv_heads * model.head_dim / t)
    layer = layer_seconds(model, cluster, plan)
    return tp_s + ep_s + max(0.0, cp_s - layer.attention_s), tp_s + ep_s + max(0.0, 2 * cp_s - layer.attention_backward_s)
    # endregion


def layer_shards_s(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    """Return the time in which one layer's weights are gathered (0 under ZeRO 0), and in which its gradients are reduced."""
    # region solution layer_shards_s
    t, e, replicas = plan.tp, plan.ep, plan.dp * plan.cp
    # Experts are held by the ranks that stand at the same place of their ep groups: fewer, and further apart.
    if model.num_experts == 1:
        held = [(model.shared_parameters + model.expert_parameters, replicas, t)]
    else:
        experts = model.num_experts * model.expert_parameters / e
        held = [(model.shared_parameters, replicas, t), (experts, replicas // e, t * plan.cp * e if e > 1 else t)]
    weights_s = sum(gather_s(cluster, size, inner, 2 * parameters / t) for parameters, size, inner in held)
    gradients_s = sum(gather_s(cluster, size, inner, plan.gradient_bytes * parameters / t) for parameters, size, inner in held)
    # Where nothing is sharded, the sums go back to all: an all-reduce is a reduce-scatter and an all-gather.
    return (weights_s, gradients_s) if plan.zero_stage else (0.0, 2 * gradients_s)
    # endregion


def exposed_s(num_layers: int, compute_s: float, traffic_s: float) -> float:
    """Return how much longer `num_layers` take, each computing `compute_s`, if each one's traffic goes beside its neighbour's computing."""
    # region solution exposed_s
    # A pipeline of two machines: all layers through one of them, and one layer through the other.
    return max(num_layers * compute_s + traffic_s, compute_s + num_layers * traffic_s) - num_layers * compute_s
    # endregion


# --- task step -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StageSeconds:
    """One micro-batch on one stage: its arithmetic, and its waiting for tp, cp, ep, for messages, and for ZeRO 2 and 3."""

    forward_compute_s: float
    forward_waits_s: float
    backward_compute_s: float
    backward_waits_s: float

    @property
    def both_s(self) -> float:
        """Forward and backward."""
        return self.forward_compute_s + self.forward_waits_s + self.backward_compute_s + self.backward_waits_s


def stage_seconds(model: Model, cluster: Cluster, plan: Plan, stage: Stage) -> StageSeconds:
    """Return what one micro-batch takes on a stage, all its chunks together."""
    # region solution stage_seconds
    L = stage.num_layers
    layer, (forward_s, backward_s) = layer_seconds(model, cluster, plan), layer_waits_s(model, cluster, plan)
    compute_s, again = layer.backward_s, plan.recompute == "full"
    if again:  # a whole forward, with its communication
        compute_s, backward_s = compute_s + layer.forward_s, backward_s + forward_s

    # Under ZeRO 3 weights are gathered for each pass; under 2 and 3 each micro-batch's gradients are scattered, beside the arithmetic.
    weights_s, gradients_s = layer_shards_s(model, cluster, plan)
    gathered_s = weights_s if plan.zero_stage == 3 else 0.0
    scattered_s = gradients_s if plan.zero_stage == 3 or (plan.zero_stage == 2 and plan.num_micro_batches > 1) else 0.0
    forward_waits_s = L * forward_s + exposed_s(L, layer.forward_s, gathered_s)
    backward_waits_s = L * backward_s + exposed_s(L, compute_s, gathered_s + scattered_s)

    # Each chunk begins with a message from its neighbour, but for the first forward and the last chunk's backward.
    hidden_bytes = 2 * plan.micro_batch * model.sequence / plan.cp * model.hidden_size
    arrives_s = message_s(cluster, plan.tp * plan.cp * plan.dp, hidden_bytes / plan.tp)
    forward_waits_s += (plan.chunks - stage.has_embedding) * arrives_s
    backward_waits_s += (plan.chunks - stage.has_head) * arrives_s

    head_s = head_seconds(model, cluster, plan) if stage.has_head else 0.0
    return StageSeconds(L * layer.forward_s + head_s, forward_waits_s, L * compute_s + 2 * head_s, backward_waits_s)
    # endregion


def once_s(model: Model, cluster: Cluster, plan: Plan, stage: Stage, seconds: StageSeconds) -> float:
    """Return what data parallelism and tied tables add once in a step, that neither a backward nor a forward hides."""
    # region solution once_s
    weights_s, gradients_s = layer_shards_s(model, cluster, plan)
    L, once = stage.num_layers, 0.0
    backward_s = (seconds.backward_compute_s + seconds.backward_waits_s) / L
    forward_s = (seconds.forward_compute_s + seconds.forward_waits_s) / L
    if plan.zero_stage < 2 or (plan.zero_stage == 2 and plan.num_micro_batches == 1):
        once += exposed_s(L, backward_s, gradients_s)  # behind the last micro-batch's backward
    if plan.zero_stage in (1, 2):
        once += exposed_s(L, forward_s, weights_s)  # the new weights, behind the next step's first forward

    # The embedding's gradient comes last, when nothing is left to hide it: a reduce-scatter and an all-gather of it.
    table_bytes = plan.gradient_bytes * model.embedding_parameters / plan.tp
    once += 2 * gather_s(cluster, plan.dp * plan.cp, plan.tp, table_bytes)
    if model.tied and plan.pp > 1:
        # Its two copies, on the first and the last stage, are summed.
        distance = plan.tp * plan.cp * plan.dp * (plan.pp - 1)
        once += 2 * gather_s(cluster, 2, distance, plan.gradient_bytes * model.head_parameters / plan.tp)
    return once
    # endregion


def estimate_step(model: Model, cluster: Cluster, plan: Plan) -> StepEstimate:
    """Return compute, waiting and bubble of one optimizer step, as the busiest stage sees it, and the bytes of the fullest."""
    # region solution estimate_step
    kinds = stages(model, plan)
    timed = [stage_seconds(model, cluster, plan, stage) for stage in kinds]
    busiest = max(range(len(kinds)), key=lambda place: timed[place].both_s)
    seconds, M = timed[busiest], plan.num_micro_batches

    shared, experts = rank_parameters(model, plan, kinds[busiest])
    updated = (shared + experts) / (plan.dp * plan.cp if plan.zero_stage else 1)
    compute_s = M * (seconds.forward_compute_s + seconds.backward_compute_s) + optimizer_seconds(cluster, plan, updated)
    waits_s = M * (seconds.forward_waits_s + seconds.backward_waits_s) + once_s(model, cluster, plan, kinds[busiest], seconds)

    # One micro-batch passes all other stages before and after the busiest has work; chunks make each way shorter.
    num_middle = max(0, plan.pp - 2)
    all_s = sum(one.both_s * (num_middle if len(kinds) == 3 and place == 1 else 1) for place, one in enumerate(timed))
    bubble_s = (all_s - seconds.both_s) / plan.chunks
    return StepEstimate(compute_s, waits_s, bubble_s, estimate_memory(model, cluster, plan).total_bytes)
    # endregion
