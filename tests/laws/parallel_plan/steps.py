"""The handout's formulas of a step (the end of section 5), as right or under one misreading that has a name."""

from __future__ import annotations

from grader.simulator import Cluster, Model, Plan
from tests.laws.parallel_plan.oracle import Figures, Network, Stage
from tests.laws.parallel_plan.slips import SLIPS

STEP_SLIPS = SLIPS | {
    "recomputation_is_free": "recomputation took no time",
    "recomputes_without_network": "the recomputed forward had no communication",
    "head_is_recomputed": "the head were recomputed too",
    "head_backward_is_once": "the head's backward took as long as its forward",
    "head_on_every_stage": "every stage had a head",
    "no_head": "no stage had a head",
    "no_messages": "stages sent no messages",
    "first_waits_for_a_message": "the first stage waited for a message too",
    "one_message_for_all_chunks": "chunks on one rank sent each other nothing",
    "messages_are_whole": "tp did not cut the messages",
    "messages_go_next_door": "the next stage were the next rank: it is tp x cp x dp away",
    "zero_2_reduces_once": "ZeRO 2 reduced once in a step, and not for every micro-batch",
    "zero_1_reduces_always": "ZeRO 1 reduced for every micro-batch",
    "zero_3_gathers_once": "ZeRO 3 gathered for the forward only",
    "zero_3_is_not_hidden": "ZeRO 3's traffic had no arithmetic beside it",
    "new_weights_are_not_gathered": "ZeRO 1 and 2 never gathered the new weights",
    "reduction_is_not_hidden": "no backward hid the gradients' reduction",
    "embedding_is_hidden": "the embedding's gradient were hidden",
    "embedding_is_scattered": "the embedding's gradient were only scattered: an all-reduce is two gathers",
    "table_in_16_bits": "the tables' gradients travelled in 16 bits",
    "tied_tables_stay_apart": "the two copies of a tied table were never summed",
    "one_micro_batch": "a step had one micro-batch",
    "first_stage_is_the_busiest": "the first stage were the busiest",
    "last_stage_is_the_busiest": "the last stage were the busiest",
    "no_optimizer": "the optimizer took no time",
    "optimizer_is_not_sharded": "every rank updated all its parameters, also under ZeRO",
    "optimizer_updates_no_experts": "experts were not updated",
    "no_bubble": "there were no bubble",
    "chunks_leave_the_bubble": "chunks did not shorten the bubble",
    "bubble_of_the_busiest": "all stages took as long as the busiest in the bubble",
    "bubble_of_three": "there were no more stages than `stages` returns: the second stands for all in the middle",
    "bubble_with_the_busiest": "the busiest stage were in its own bubble",
    "bubble_of_arithmetic": "the bubble had arithmetic only, and no waiting",
    "memory_of_states": "memory_bytes were the states alone",
}


class Truth(Network):
    """All sections."""

    def stage(self, model: Model, cluster: Cluster, plan: Plan, stage: Stage) -> Figures:
        """Forward computes, waits; backward computes, waits."""
        L, is_first, is_last, _ = stage
        forward_s, backward_s, _, _ = self.layer(model, cluster, plan)
        waits_s, waits_back_s = self.waits(model, cluster, plan)
        if plan.recompute == "full" and self.slip != "recomputation_is_free":
            backward_s += forward_s
            waits_back_s += 0 if self.slip == "recomputes_without_network" else waits_s
        weights_s, gradients_s = self.shards(model, cluster, plan)
        zero, M = plan.zero_stage, plan.num_micro_batches
        gathered_s = weights_s if zero == 3 else 0.0
        always = zero == 3 or (zero == 2 and M > 1 and self.slip != "zero_2_reduces_once")
        always = always or (zero == 1 and self.slip == "zero_1_reduces_always")
        reduced_s = gradients_s if always else 0.0
        back_s = reduced_s + (0 if self.slip == "zero_3_gathers_once" else gathered_s)
        beside = 0 if self.slip == "zero_3_is_not_hidden" else 1
        shards_s = self.exposed(L, beside * forward_s, gathered_s)[0] if gathered_s else 0.0
        shards_back_s = self.exposed(L, beside * backward_s, back_s)[0] if back_s else 0.0

        size = 2 * plan.micro_batch * model.sequence / plan.cp * model.hidden_size / (1 if self.slip == "messages_are_whole" else plan.tp)
        away = 1 if self.slip == "messages_go_next_door" else plan.tp * plan.cp * plan.dp
        message_s = 0.0 if self.slip == "no_messages" else self.message(cluster, away, size)[0]
        v = 1 if self.slip == "one_message_for_all_chunks" else plan.chunks
        arriving, arriving_back = v - is_first, v - is_last
        if self.slip == "first_waits_for_a_message":
            arriving, arriving_back = v, v

        has_head = {"head_on_every_stage": 1.0, "no_head": 0.0}.get(self.slip, is_last)
        head_s = has_head * self.head(model, cluster, plan)[0]
        head_back_s = head_s * (1 if self.slip == "head_backward_is_once" else 2)
        head_back_s += head_s if self.slip == "head_is_recomputed" and plan.recompute == "full" else 0
        return [
            L * forward_s + head_s,
            L * waits_s + shards_s + arriving * message_s,
            L * backward_s + head_back_s,
            L * waits_back_s + shards_back_s + arriving_back * message_s,
        ]

    def once(self, model: Model, cluster: Cluster, plan: Plan, stage: Stage, seconds: Figures) -> Figures:
        """What is in the open once in a step."""
        L, zero = stage[0], plan.zero_stage
        weights_s, gradients_s = self.shards(model, cluster, plan)
        forward_s, backward_s = (seconds[0] + seconds[1]) / L, (seconds[2] + seconds[3]) / L
        total = 0.0
        if zero < 2 or (zero == 2 and plan.num_micro_batches == 1):
            total += L * gradients_s if self.slip == "reduction_is_not_hidden" else self.exposed(L, backward_s, gradients_s)[0]
        if zero in (1, 2) and self.slip != "new_weights_are_not_gathered":
            total += self.exposed(L, forward_s, weights_s)[0]
        size = 2 if self.slip == "table_in_16_bits" else plan.gradient_bytes
        table_s = self.gather(cluster, plan.dp * plan.cp, plan.tp, size * model.embedding_parameters / plan.tp)[0]
        total += {"embedding_is_hidden": 0, "embedding_is_scattered": 1}.get(self.slip, 2) * table_s
        if model.tied and plan.pp > 1 and self.slip != "tied_tables_stay_apart":
            away = plan.tp * plan.cp * plan.dp * (plan.pp - 1)
            total += 2 * self.gather(cluster, 2, away, size * model.head_parameters / plan.tp)[0]
        return [total]

    def step(self, model: Model, cluster: Cluster, plan: Plan) -> Figures:
        """Compute, waiting, bubble, bytes."""
        kinds = self.stages(model, plan)
        timed = [self.stage(model, cluster, plan, stage) for stage in kinds]
        both = [sum(one) for one in timed]
        busiest = both.index(max(both))
        busiest = {"first_stage_is_the_busiest": 0, "last_stage_is_the_busiest": len(kinds) - 1}.get(self.slip, busiest)
        M = 1 if self.slip == "one_micro_batch" else plan.num_micro_batches
        forward_s, waits_s, backward_s, waits_back_s = timed[busiest]

        shared, experts = self.rank_parameters(model, plan, kinds[busiest])
        updated = shared + (0 if self.slip == "optimizer_updates_no_experts" else experts)
        if plan.zero_stage and self.slip != "optimizer_is_not_sharded":
            updated /= plan.dp * (1 if self.slip == "zero_over_dp_alone" else plan.cp)
        optimizer_s = 0.0 if self.slip == "no_optimizer" else self.optimizer(cluster, plan, updated)[0]
        once_s = self.once(model, cluster, plan, kinds[busiest], timed[busiest])[0]

        if self.slip == "bubble_of_arithmetic":
            both = [one[0] + one[2] for one in timed]
        middle = 1 if self.slip == "bubble_of_three" else max(0, plan.pp - 2)
        everything = sum(seconds * (middle if len(both) == 3 and place == 1 else 1) for place, seconds in enumerate(both))
        bubble_s = everything - (0 if self.slip == "bubble_with_the_busiest" else both[busiest])
        if self.slip == "bubble_of_the_busiest":
            bubble_s = (plan.pp - 1) * both[busiest]
        bubble_s /= 1 if self.slip == "chunks_leave_the_bubble" else plan.chunks
        bubble_s *= self.slip != "no_bubble"
        held = self.fullest(model, plan)
        in_all = sum(held[:3] if self.slip == "memory_of_states" else held)
        return [M * (forward_s + backward_s) + optimizer_s, M * (waits_s + waits_back_s) + once_s, bubble_s, in_all]
