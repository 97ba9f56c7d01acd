"""The handout's formulas of memory, arithmetic and network, once more: each as right, or under one misreading that has a name.

A misreading is a word in `Truth(slip)`; SLIPS says it in a sentence that completes "Every wrong figure is as if ...".
"""

# letters as in section 1 of the handout
from __future__ import annotations

import math
from typing import Any

from grader.simulator import Cluster, Model, Plan
from tests.laws.parallel_plan.slips import Slipping

Stage = tuple[float, float, float, float]  # layers, has embedding, has head, micro-batches in flight
Figures = list[float]


class Memory(Slipping):
    """Section 3."""

    def stages(self, model: Model, plan: Plan) -> list[Stage]:
        """First, second and last of p stages."""
        L, p, v, M = model.num_layers, plan.pp, plan.chunks, plan.num_micro_batches
        if p == 1:
            return [(L, 1, 1, 1)]
        ranks = sorted({0, 1, p - 1})
        each, over = divmod(L, p)

        def layers(rank: int) -> int:
            if self.slip == "first_takes_the_rest":
                return each + (rank < over)
            if self.slip == "every_stage_rounds_up":
                return each + (over > 0)
            if self.slip == "every_stage_rounds_down":
                return each
            if rank == 0:
                return each + (over == p - 1 and self.slip != "first_never_takes_more")
            return each + (rank <= over and rank < p - 1)

        def in_flight(rank: int) -> float:
            if v > 1 and self.slip != "interleaving_holds_no_more":
                if self.slip == "chunks_are_whole_micro_batches":
                    return min(M * v, 2 * (p - 1 - rank) + (v - 1) * p + 1)
                depth = 2 * (p - 1 - rank) + (v - 1) * p + 1
                return (depth if self.slip == "more_in_flight_than_there_are" else min(M * v, depth)) / v
            if self.slip == "all_stages_hold_p":
                return min(M, p)
            if self.slip == "all_micro_batches_at_once":
                return M
            if self.slip == "one_less_in_flight":
                return max(1, min(M, p - rank - 1))
            return p - rank if self.slip == "more_in_flight_than_there_are" else min(M, p - rank)

        return [(layers(rank), rank == 0, rank == p - 1, in_flight(rank)) for rank in ranks]

    def rank_parameters(self, model: Model, plan: Plan, stage: Stage) -> Figures:
        """Shared, own experts'."""
        layers, embedding, head, _ = stage
        one_table = embedding and head and model.tied and self.slip != "tied_table_twice"
        if self.slip == "no_copy_of_a_tied_table":
            one_table = one_table or model.tied
        tables = embedding * model.embedding_parameters + (head and not one_table) * model.head_parameters
        tables *= plan.tp if self.slip == "tp_does_not_cut_tables" else 1
        if self.slip == "no_tables":
            tables = 0
        mixture = model.num_experts > 1
        shared = layers * (model.shared_parameters + (0 if mixture else model.expert_parameters)) + tables
        experts = layers * model.num_experts * model.expert_parameters if mixture else 0
        if self.slip == "one_expert_only":
            experts /= model.num_experts
        share = plan.tp * (1 if self.slip == "ep_does_not_cut_experts" else plan.ep)
        return [shared / plan.tp / (plan.ep if self.slip == "ep_cuts_all" else 1), experts / share]

    def kept(self, model: Model, plan: Plan) -> Figures:
        """One layer's activations of one micro-batch."""
        C, F, H, G, D = model.hidden_size, model.mlp_size, model.num_heads, model.num_kv_heads, model.head_dim
        rotated = (H + G) * D if model.rotary and self.slip != "rotation_is_free" else 0
        widened = (4 if model.gated else 2) * F
        if self.slip == "gate_is_free":
            widened = 2 * F
        qkv = 3 * H * D if self.slip == "keys_are_not_shared" else (H + 2 * G) * D
        k = 1 if self.slip == "one_expert_of_a_token" else model.num_experts if self.slip == "all_experts_keep" else model.top_k
        outside, inside = 4 * C, C + qkv + rotated + k * widened
        t = plan.tp
        if self.slip == "tp_leaves_norms_whole":
            outside *= t
        log_sum = 0 if self.slip == "no_log_sum_exp" else 4 * H
        tokens = plan.micro_batch * model.sequence / (1 if self.slip == "cp_does_not_cut_tokens" else plan.cp)
        per_token = 2 * (outside + inside) + log_sum
        return [tokens * per_token / (1 if self.slip == "tp_does_not_cut_activations" else t)]

    def memory(self, model: Model, plan: Plan, stage: Stage) -> Figures:
        """Weights, gradients, optimizer, activations, logits."""
        layers, _, has_head, in_flight = stage
        shared, experts = self.rank_parameters(model, plan, stage)
        z = plan.dp * (1 if self.slip == "zero_over_dp_alone" else plan.cp)
        z_experts = z if self.slip == "experts_over_all_replicas" else z / plan.ep

        def states(size: float, from_stage: int) -> float:
            cut = plan.zero_stage >= from_stage
            return size * (shared / (z if cut else 1) + experts / (z_experts if cut else 1))

        first_cut = {"zero_1_cuts_gradients": (1, 1, 3), "zero_2_cuts_weights": (1, 2, 2), "zero_cuts_nothing": (9, 9, 9)}
        of_optimizer, of_gradients, of_weights = first_cut.get(self.slip, (1, 2, 3))
        weights, gradients = states(2, of_weights), states(plan.gradient_bytes, of_gradients)
        if plan.zero_stage == 3 and self.slip != "nothing_is_gathered":
            layer = (model.shared_parameters + model.num_experts * model.expert_parameters / plan.ep) / plan.tp
            weights += (1 if self.slip == "one_layer_gathered" else 2) * 2 * layer
            gradients += 0 if self.slip == "no_fresh_gradient" else 2 * layer
        N = plan.micro_batch * model.sequence / plan.cp
        kept = self.kept(model, plan)[0]
        if plan.recompute == "full":
            waiting = 2 * N * model.hidden_size / (plan.tp if self.slip == "tp_cuts_kept_inputs" else 1)
            activations = in_flight * layers * waiting + (0 if self.slip == "recomputed_layer_is_free" else kept)
        else:
            activations = in_flight * layers * kept
        activations /= plan.pp if self.slip == "pp_cuts_activations" else 1
        activations /= in_flight if self.slip == "one_in_flight" else 1
        per_logit = {"logits_without_gradient": 4, "logits_in_16_bits": 2}.get(self.slip, 8)
        logits = N * (per_logit * model.vocab_size + (0 if self.slip == "head_inputs_are_free" else 4 * model.hidden_size))
        logits /= 1 if self.slip == "tp_does_not_cut_logits" else plan.tp
        return [weights, gradients, states(12, of_optimizer), activations, logits * has_head]

    def fullest(self, model: Model, plan: Plan) -> Figures:
        """The five of the stage that has most in all."""
        kinds = self.stages(model, plan)
        every = [self.memory(model, plan, stage) for stage in kinds]
        if self.slip == "first_stage_is_the_fullest":
            return every[0]
        if self.slip == "last_stage_is_the_fullest":
            return every[-1]
        if self.slip == "no_stage_between":
            every = [every[0], every[-1]]
        if self.slip == "fullest_of_each":
            return [max(column) for column in zip(*every, strict=True)]
        return max(every, key=sum)


class Arithmetic(Memory):
    """Section 4."""

    def product(self, cluster: Cluster, rows: float, inner: float, columns: float) -> Figures:
        """The roofline."""
        flops_s = 2 * rows * inner * columns / cluster.flops_per_s
        bytes_s = 2 * (rows * inner + inner * columns + rows * columns) / cluster.memory_bytes_per_s
        if self.slip == "flops_only":
            return [flops_s]
        if self.slip == "one_flop_a_weight":
            return [max(flops_s / 2, bytes_s)]
        if self.slip == "flops_and_bytes_add_up":
            return [flops_s + bytes_s]
        if self.slip == "result_is_not_written":
            return [max(flops_s, bytes_s - 2 * rows * columns / cluster.memory_bytes_per_s)]
        return [max(flops_s, bytes_s * (2 if self.slip == "fp32_operands" else 1))]

    def layer(self, model: Model, cluster: Cluster, plan: Plan) -> Figures:
        """Forward, backward, attention forward, attention backward."""
        C, F, t, e, k, E = model.hidden_size, model.mlp_size, plan.tp, plan.ep, model.top_k, model.num_experts
        N = plan.micro_batch * model.sequence / plan.cp

        def product(rows: float, inner: float, columns: float) -> float:
            return self.product(cluster, rows, inner, columns)[0]

        rows, own = N * k * e / E, E / e
        if self.slip == "own_tokens_only":
            rows = N * k / E
        if self.slip == "k_is_forgotten":
            rows = N * e / E
        if self.slip == "experts_as_one_product":
            rows, own = N * k, 1
        qkv = 3 * C if self.slip == "keys_are_not_shared" else model.qkv_size
        num_up = 2 if model.gated and self.slip != "gate_is_free" else 1
        products_s = product(N, C, qkv / t) + product(N, C / t, C) + own * (num_up * product(rows, C, F / t) + product(rows, F / t, C))
        keys = model.sequence / plan.cp if self.slip == "keys_of_one_rank" else model.sequence
        pairs = 2 if self.slip == "all_pairs" else 0.5 if self.slip == "one_product_of_attention" else 1
        attention_s = 2 * pairs * N * keys * model.num_heads * model.head_dim / t / cluster.flops_per_s
        moved = 20 * C / (1 if self.slip != "norms_on_every_rank" else 1 / t)
        moved += (6 if model.gated else 4) * (1 if self.slip == "k_is_forgotten" else k) * F
        between_s = 0 if self.slip == "nothing_between" else N * moved / t / cluster.memory_bytes_per_s
        parameters = (model.shared_parameters + own * model.expert_parameters) / t
        if self.slip == "experts_as_one_product":
            parameters = (model.shared_parameters + E / e * model.expert_parameters) / t
        summed = plan.num_micro_batches > 1 or self.slip == "a_single_gradient_is_added"
        added_s = summed * (2 + 2 * plan.gradient_bytes) * parameters / cluster.memory_bytes_per_s
        if self.slip == "gradients_add_up_for_free":
            added_s = 0
        again = 2 if self.slip == "attention_backward_is_twice" else 2.5
        rest_s = products_s + between_s
        return [rest_s + attention_s, 2 * rest_s + again * attention_s + added_s, attention_s, again * attention_s]

    def head(self, model: Model, cluster: Cluster, plan: Plan) -> Figures:
        """Forward."""
        N, V = plan.micro_batch * model.sequence / plan.cp, model.vocab_size / plan.tp
        if self.slip == "vocabulary_is_whole":
            V = model.vocab_size
        loss_s = 0 if self.slip == "loss_is_free" else 18 * N * V / cluster.memory_bytes_per_s
        return [self.product(cluster, N, model.hidden_size, V)[0] + loss_s]

    def optimizer(self, cluster: Cluster, plan: Plan, num_parameters: float) -> Figures:
        """One update."""
        num_bytes = {"states_are_read_only": 14 + plan.gradient_bytes, "gradient_is_not_read": 26}.get(self.slip, 26 + plan.gradient_bytes)
        return [num_parameters * num_bytes / cluster.memory_bytes_per_s]


class Network(Arithmetic):
    """Section 5, up to what one layer puts on it."""

    def gather(self, cluster: Cluster, size: int, inner: int, num_bytes: float) -> Figures:
        """All-gather or reduce-scatter of num_bytes in all."""
        if size == 1:
            return [0.0]
        S = num_bytes * (size if self.slip == "bytes_of_one_rank" else 1)
        near = min(size, max(1, cluster.gpus_per_node // (1 if self.slip == "placed_by_size_alone" else inner)))
        far = math.ceil(size / near)
        a, b, a_far, b_far = cluster.intra_latency_s, cluster.intra_bytes_per_s, cluster.inter_latency_s, cluster.inter_bytes_per_s

        def hops(ranks: int) -> int:
            return 1 if self.slip == "one_latency" else ranks if self.slip == "a_hop_too_many" else ranks - 1

        def part(ranks: int) -> float:
            return 1.0 if self.slip == "whole_message" else (ranks - 1) / ranks

        near_s = hops(near) * a + part(near) * S / b if near > 1 else 0.0
        if far == 1:
            return [near_s]
        levels_s = near_s + hops(far) * a_far + part(far) * (S if self.slip == "no_share_between_nodes" else S / near) / b_far
        through = b_far if near == 1 else min(b, (1 if self.slip == "one_adapter" else near) * b_far)
        if self.slip == "adapters_without_limit":
            through = near * b_far
        ring_s = hops(size) * a_far + part(size) * S / through
        return [{"levels_only": levels_s, "ring_only": ring_s, "dearer_way": max(levels_s, ring_s)}.get(self.slip, min(levels_s, ring_s))]

    def exchange(self, cluster: Cluster, size: int, inner: int, num_bytes: float) -> Figures:
        """All-to-all."""
        if size == 1:
            return [0.0]
        near = min(size, max(1, cluster.gpus_per_node // (1 if self.slip == "placed_by_size_alone" else inner)))
        others = size - near
        own = 1 if self.slip != "own_part_travels" else 0
        near_s = (near - own) * cluster.intra_latency_s + (near - own) / size * num_bytes / cluster.intra_bytes_per_s
        far_s = others * cluster.inter_latency_s + others / size * num_bytes / cluster.inter_bytes_per_s
        if self.slip == "all_to_all_gathers":
            return self.gather(cluster, size, inner, num_bytes)
        return [near_s + far_s if self.slip == "parts_add_up" else max(near_s, far_s)]

    def message(self, cluster: Cluster, distance: int, num_bytes: float) -> Figures:
        """To one other rank."""
        inside = distance < cluster.gpus_per_node
        if self.slip == "always_on_the_network":
            inside = False
        if self.slip == "always_in_the_node":
            inside = True
        if self.slip == "a_node_away_is_in_the_node":
            inside = distance <= cluster.gpus_per_node
        if inside:
            return [cluster.intra_latency_s + num_bytes / cluster.intra_bytes_per_s]
        return [cluster.inter_latency_s + num_bytes / cluster.inter_bytes_per_s]

    def waits(self, model: Model, cluster: Cluster, plan: Plan) -> Figures:
        """A layer's forward and backward."""
        t, c, e, b, T = plan.tp, plan.cp, plan.ep, plan.micro_batch, model.sequence
        hidden = 2 * b * T / c * model.hidden_size
        num_gathers = {"two_gathers": 2, "tp_waits_for_all_reduces": 8, "tp_is_hidden": 0}.get(self.slip, 4)
        tp_s = num_gathers * self.gather(cluster, t, 1, hidden)[0]
        k = 1 if self.slip == "k_is_forgotten" else model.top_k
        whole = 1 if self.slip == "tp_does_not_cut_exchanged" else t
        ep_s = (1 if self.slip == "tokens_do_not_come_back" else 2) * self.exchange(cluster, e, t * c, hidden * k / whole)[0]
        key_heads = model.num_heads if self.slip == "keys_are_not_shared" else model.num_kv_heads
        keys = 2 * b * T * (1 if self.slip == "keys_without_values" else 2) * key_heads * model.head_dim / t
        keys /= c if self.slip == "keys_of_one_rank" else 1
        cp_s = self.gather(cluster, c, 1 if self.slip == "cp_is_innermost" else t, keys)[0]
        _, _, attention_s, attention_backward_s = self.layer(model, cluster, plan)
        if self.slip == "nothing_hides_cp":
            attention_s = attention_backward_s = 0.0
        home = 1 if self.slip == "key_gradients_stay" else 2
        exposed = [max(0.0, cp_s - attention_s), max(0.0, home * cp_s - attention_backward_s)]
        if self.slip == "cp_is_hidden":
            exposed = [0.0, 0.0]
        return [tp_s + ep_s + exposed[0], tp_s + ep_s + exposed[1]]

    def shards(self, model: Model, cluster: Cluster, plan: Plan) -> Figures:
        """A layer's weights gathered, its gradients reduced."""
        t, c, d, e, E = plan.tp, plan.cp, plan.dp, plan.ep, model.num_experts
        z = d * (1 if self.slip == "zero_over_dp_alone" else c)
        inner = t * (c if self.slip == "zero_over_dp_alone" else 1)
        held = [((model.shared_parameters + (model.expert_parameters if E == 1 else 0)) / t, z, inner)]
        if E > 1:
            z_experts = z if self.slip == "experts_over_all_replicas" else z // e
            apart = t if e == 1 or self.slip == "expert_replicas_are_neighbours" else t * c * e
            held.append((E * model.expert_parameters / (e * t), z_experts, apart))
        seconds = []
        for num_bytes in (2, 2 if self.slip == "gradients_in_16_bits" else plan.gradient_bytes):
            seconds.append(sum(self.gather(cluster, size, apart, num_bytes * count)[0] for count, size, apart in held))
        weights_s, gradients_s = seconds
        if plan.zero_stage == 0 and self.slip != "ddp_reduces_only":
            return [0.0, 2 * gradients_s]
        return [weights_s if plan.zero_stage else 0.0, gradients_s]

    def exposed(self, num_layers: float, compute_s: float, traffic_s: float) -> Figures:
        """What the arithmetic of num_layers doesn't hide."""
        L = num_layers
        if self.slip == "first_and_last_hide_too":
            return [max(0.0, L * (traffic_s - compute_s))]
        if self.slip == "nothing_is_hidden":
            return [L * traffic_s]
        return [max(L * compute_s + traffic_s, compute_s + L * traffic_s) - L * compute_s]


def rows(function: Any, cases: list[Any]) -> list[Figures]:
    """One row of figures for each case."""
    return [function(*case) for case in cases]
