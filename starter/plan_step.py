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
    raise NotImplementedError("parallel_plan, task compute: see section 4 of the handout")


def layer_seconds(model: Model, cluster: Cluster, plan: Plan) -> LayerSeconds:
    """Return the times of one layer."""
    raise NotImplementedError("parallel_plan, task compute: see section 4 of the handout")


def head_seconds(model: Model, cluster: Cluster, plan: Plan) -> float:
    """Return the forward time of the head and the loss; backward takes twice as long."""
    raise NotImplementedError("parallel_plan, task compute: see section 4 of the handout")


def optimizer_seconds(cluster: Cluster, plan: Plan, num_parameters: float) -> float:
    """Return the time of Adam's step on the parameters that this rank updates."""
    raise NotImplementedError("parallel_plan, task compute: see section 4 of the handout")


# --- task communication ----------------------------------------------------------------------------------------------
def gather_s(cluster: Cluster, size: int, inner: int, num_bytes: float) -> float:
    """Return the time of an all-gather or a reduce-scatter of `num_bytes` in all, on `size` ranks that are `inner` ranks apart."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


def all_to_all_s(cluster: Cluster, size: int, inner: int, num_bytes: float) -> float:
    """Return the time in which each rank sends an equal part of its `num_bytes` to each; node and network work side by side."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


def message_s(cluster: Cluster, distance: int, num_bytes: float) -> float:
    """Return the time of one message to the rank that is `distance` further."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


def layer_waits_s(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    """Return how long a layer's forward, and its backward without recomputation, wait for tp, cp and ep."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


def layer_shards_s(model: Model, cluster: Cluster, plan: Plan) -> tuple[float, float]:
    """Return the time in which one layer's weights are gathered (0 under ZeRO 0), and in which its gradients are reduced."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


def exposed_s(num_layers: int, compute_s: float, traffic_s: float) -> float:
    """Return how much longer `num_layers` take, each computing `compute_s`, if each one's traffic goes beside its neighbour's computing."""
    raise NotImplementedError("parallel_plan, task communication: see section 5 of the handout")


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
    raise NotImplementedError("parallel_plan, task step: see section 5 of the handout")


def once_s(model: Model, cluster: Cluster, plan: Plan, stage: Stage, seconds: StageSeconds) -> float:
    """Return what data parallelism and tied tables add once in a step, that neither a backward nor a forward hides."""
    raise NotImplementedError("parallel_plan, task step: see section 5 of the handout")


def estimate_step(model: Model, cluster: Cluster, plan: Plan) -> StepEstimate:
    """Return compute, waiting and bubble of one optimizer step, as the busiest stage sees it, and the bytes of the fullest."""
    raise NotImplementedError("parallel_plan, task step: see section 5 of the handout")
