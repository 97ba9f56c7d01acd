"""One step of a plan: what computes, what communicates in the open, what waits."""

from __future__ import annotations

from dataclasses import dataclass

from grader.simulator import collectives as wire
from grader.simulator.kernels import BACKWARD, NUMBER_BYTES, LayerSeconds, head_seconds, layer_seconds, optimizer_seconds
from grader.simulator.memory import local_parameters, memory_bytes
from grader.simulator.pipelines import at_least_s, pipeline_s, stage_layers
from grader.simulator.records import Cluster, Model, Plan, StepEstimate


@dataclass(frozen=True, slots=True)
class Pass:
    """Forward or backward of one stage and one micro-batch, in seconds."""

    compute_s: float
    exposed_s: float

    @property
    def total_s(self) -> float:
        """Both, one after the other."""
        return self.compute_s + self.exposed_s


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one layer puts on the network, in seconds."""

    forward_s: float  # per micro-batch, of tensor, context and expert parallelism; nothing hides it
    backward_s: float  # the same, without recomputation
    busy_forward_s: float  # what arithmetic hides of it, and for so long nothing else
    busy_backward_s: float
    gather_s: float  # its weights
    reduce_s: float  # its gradient: reduce-scatter under ZeRO, else all-reduce


def estimate_step(model: Model, cluster: Cluster, plan: Plan) -> StepEstimate:
    """Simulate one step. The plan is taken as possible: `why_not` and `fits` say whether it is."""
    step = Step(model, cluster, plan)
    return step.estimate(pipeline_s(plan, step.forward_s, step.backward_s))


class Step:
    """The stages of a plan, timed; the pipeline's own time is handed in, since it costs the most to find."""

    def __init__(self, model: Model, cluster: Cluster, plan: Plan, layer: tuple[LayerSeconds, Traffic] | None = None) -> None:
        self._model, self._cluster, self._plan = model, cluster, plan
        self._layer, self._traffic = layer or layer_costs(model, cluster, plan)
        self._head_s = head_seconds(model, cluster, plan)
        self._layers = stage_layers(model, plan)
        last = len(self._layers) - 1
        kinds = [(num_layers, stage == 0, stage == last) for stage, num_layers in enumerate(self._layers)]
        timed = {kind: (self._pass(*kind, is_backward=False), self._pass(*kind, is_backward=True)) for kind in set(kinds)}
        self._forwards = [timed[kind][0] for kind in kinds]
        self._backwards = [timed[kind][1] for kind in kinds]
        self.forward_s = [one.total_s for one in self._forwards]
        self.backward_s = [one.total_s for one in self._backwards]
        self._optimizer_s = max(self._optimize_s(rank) for rank in (0, plan.pp - 1))
        self._once_s = self._reduction_s() + self._embedding_s() + self._tied_s()

    def at_least_s(self) -> float:
        """A bound below the step's time, without playing the schedule."""
        return at_least_s(self._plan, self.forward_s, self.backward_s) + self._optimizer_s + self._once_s

    def estimate(self, pipeline_seconds: float) -> StepEstimate:
        """The whole step, given what the pipeline takes from its first forward to its last backward."""
        plan = self._plan
        rank = max(range(plan.pp), key=lambda rank: sum(self.forward_s[rank :: plan.pp]) + sum(self.backward_s[rank :: plan.pp]))
        passes = [*self._forwards[rank :: plan.pp], *self._backwards[rank :: plan.pp]]
        compute_s = plan.num_micro_batches * sum(one.compute_s for one in passes)
        exposed_s = plan.num_micro_batches * sum(one.exposed_s for one in passes)
        return StepEstimate(
            compute_s=compute_s + self._optimizer_s,
            exposed_communication_s=exposed_s + self._once_s,
            # Rounding apart never less than nothing, and nothing where nobody is waited for.
            bubble_s=max(0.0, pipeline_seconds - compute_s - exposed_s) if plan.pp > 1 else 0.0,
            memory_bytes=memory_bytes(self._model, plan),
        )

    # --- one stage, one micro-batch
    def _pass(self, num_layers: int, is_first: bool, is_last: bool, is_backward: bool) -> Pass:
        plan, traffic = self._plan, self._traffic
        layer_s = self._layer_s(is_backward)
        compute_s, exposed_s = num_layers * layer_s, num_layers * (traffic.backward_s if is_backward else traffic.forward_s)
        if is_backward and plan.recompute == "full":
            exposed_s += num_layers * traffic.forward_s
        if is_last:
            compute_s += (BACKWARD if is_backward else 1) * self._head_s
        if not (is_last if is_backward else is_first):  # it begins with a message from its neighbour
            exposed_s += self._message_s()
        exposed_s += self._weights_s(num_layers, is_backward)
        return Pass(compute_s, exposed_s)

    def _layer_s(self, is_backward: bool) -> float:
        """Arithmetic of one layer, recomputation included."""
        if not is_backward:
            return self._layer.forward_s
        again_s = {"none": 0.0, "selective": self._layer.core_s, "full": self._layer.forward_s}[self._plan.recompute]
        return self._layer.backward_s + self._layer.accumulate_s + again_s

    def _cover_s(self, is_backward: bool) -> float:
        """Arithmetic of one layer behind which weights and gradients can hide: all but what keys and values already use."""
        traffic, layer_s = self._traffic, self._layer_s(is_backward)
        if not is_backward:
            return layer_s - traffic.busy_forward_s
        again_s = traffic.busy_forward_s if self._plan.recompute == "full" else 0.0
        return layer_s - traffic.busy_backward_s - again_s

    def _message_s(self) -> float:
        """Activations, or their gradients, of a micro-batch; each tensor-parallel rank sends its share.

        Unless they were divided already, those who get the shares then gather them (Narayanan et al. 2021, section 4.1, "scatter/gather").
        """
        plan, model, cluster = self._plan, self._model, self._cluster
        num_bytes = NUMBER_BYTES * plan.micro_batch * model.sequence / plan.cp * model.hidden_size
        gathered_s = 0.0 if plan.sequence_parallel else wire.all_gather_s(cluster, wire.placed(cluster, 1, plan.tp), num_bytes)
        return wire.message_s(cluster, plan.tp * plan.cp * plan.dp, num_bytes / plan.tp) + gathered_s

    def _weights_s(self, num_layers: int, is_backward: bool) -> float:
        """What ZeRO 2 and 3 move for every micro-batch and no computation hides: gathered weights, divided gradients."""
        plan, traffic = self._plan, self._traffic
        reduces_always = is_backward and (plan.zero_stage == 3 or (plan.zero_stage == 2 and plan.num_micro_batches > 1))
        traffic_s = (traffic.gather_s if plan.zero_stage == 3 else 0.0) + (traffic.reduce_s if reduces_always else 0.0)
        return exposed_s(num_layers, self._cover_s(is_backward), traffic_s, overlap=plan.overlap)

    # --- once in a step
    def _optimize_s(self, rank: int) -> float:
        plan = self._plan
        shared, experts = local_parameters(self._model, plan, rank)
        replicas = plan.dp * plan.cp if plan.zero_stage else 1
        return optimizer_seconds(self._cluster, plan, shared / replicas + experts / max(1, replicas // plan.ep))

    def _reduction_s(self) -> float:
        """What data parallelism adds behind the last backward, and before the first forward of the next step, on the longest rank.

        Only computation hides it: what other axes send would share the network.
        """
        plan, traffic = self._plan, self._traffic
        num_layers = max(sum(self._layers[rank :: plan.pp]) for rank in range(plan.pp))
        seconds = 0.0
        if plan.zero_stage < 2 or (plan.zero_stage == 2 and plan.num_micro_batches == 1):
            seconds += exposed_s(num_layers, self._cover_s(is_backward=True), traffic.reduce_s, overlap=plan.overlap)
        if plan.zero_stage in (1, 2):
            seconds += exposed_s(num_layers, self._cover_s(is_backward=False), traffic.gather_s, overlap=plan.overlap)
        return seconds

    def _embedding_s(self) -> float:
        """The embedding's gradient comes last, when nothing is left to hide it."""
        plan, model = self._plan, self._model
        group = wire.placed(self._cluster, plan.tp, plan.dp * plan.cp)
        return wire.all_reduce_s(self._cluster, group, _reduced_bytes(plan) * model.embedding_parameters / plan.tp)

    def _tied_s(self) -> float:
        """A tied embedding's gradient is summed over the first and the last stage."""
        plan, model = self._plan, self._model
        if not model.tied or plan.pp == 1:
            return 0.0
        stride = plan.tp * plan.cp * plan.dp * (plan.pp - 1)
        pair = wire.placed(self._cluster, stride, 2)
        return wire.all_reduce_s(self._cluster, pair, _reduced_bytes(plan) * model.head_parameters / plan.tp)


def exposed_s(num_layers: int, cover_s: float, traffic_s: float, overlap: bool = True) -> float:
    """How much longer `num_layers` take for their traffic, when each layer's travels beside the next one's arithmetic."""
    if not overlap:
        return num_layers * traffic_s
    return max(traffic_s, cover_s + num_layers * (traffic_s - cover_s))


def _reduced_bytes(plan: Plan) -> int:
    return min(plan.gradient_bytes, 4)


def layer_costs(model: Model, cluster: Cluster, plan: Plan) -> tuple[LayerSeconds, Traffic]:
    """One layer of one rank: its arithmetic, and what it puts on the network."""
    layer = layer_seconds(model, cluster, plan)
    return layer, _layer_traffic(model, cluster, plan, layer)


def _layer_traffic(model: Model, cluster: Cluster, plan: Plan, layer: LayerSeconds) -> Traffic:
    hidden_bytes = NUMBER_BYTES * plan.micro_batch * model.sequence / plan.cp * model.hidden_size
    tensor = wire.placed(cluster, 1, plan.tp)
    if plan.sequence_parallel:
        joined_s = wire.all_gather_s(cluster, tensor, hidden_bytes) + wire.reduce_scatter_s(cluster, tensor, hidden_bytes)
    else:
        joined_s = wire.all_reduce_s(cluster, tensor, hidden_bytes)
    expert = wire.placed(cluster, plan.tp * plan.cp, plan.ep)
    exchanged_s = 2 * wire.all_to_all_s(cluster, expert, hidden_bytes * model.top_k / plan.tp) if model.num_experts > 1 else 0.0
    both_s = 2 * joined_s + exchanged_s
    # Keys and values travel around the ring beside attention on those that have come; backward, with their gradients.
    keys_s = _keys_s(model, cluster, plan)
    busy_forward_s, busy_backward_s = min(keys_s, layer.core_s), min(2 * keys_s, layer.core_backward_s)
    forward_s, backward_s = both_s + keys_s - busy_forward_s, both_s + 2 * keys_s - busy_backward_s
    return Traffic(forward_s, backward_s, busy_forward_s, busy_backward_s, *_weights_and_gradients_s(model, cluster, plan))


def _keys_s(model: Model, cluster: Cluster, plan: Plan) -> float:
    """Context parallelism's keys and values, once around."""
    group = wire.placed(cluster, plan.tp, plan.cp)
    keys_bytes = NUMBER_BYTES * plan.micro_batch * model.sequence * 2 * model.num_kv_heads * model.head_dim / plan.tp
    return wire.all_gather_s(cluster, group, keys_bytes)


def _weights_and_gradients_s(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    shared = model.shared_parameters + (model.expert_parameters if model.num_experts == 1 else 0)
    experts = model.num_experts * model.expert_parameters / plan.ep if model.num_experts > 1 else 0.0
    gather_s = reduce_s = 0.0
    for parameters, ep in ((shared, 1), (experts, plan.ep)):
        if not parameters:
            continue
        group = wire.placed(cluster, plan.tp * plan.cp * ep if ep > 1 else plan.tp, plan.dp * plan.cp // ep)
        gradient_bytes = _reduced_bytes(plan) * parameters / plan.tp
        reduce = wire.reduce_scatter_s if plan.zero_stage else wire.all_reduce_s
        reduce_s += reduce(cluster, group, gradient_bytes)
        if plan.zero_stage:
            gather_s += wire.all_gather_s(cluster, group, NUMBER_BYTES * parameters / plan.tp)
    return gather_s, reduce_s
