"""What a plan costs: the groups of its mesh, the bytes of its fullest GPU, the seconds of its step.

Closed formulas of the handout, section by section. Records and their units: lm/planning.py. Nothing here measures or builds anything.
"""

# b sequences of a micro-batch, T tokens each, M micro-batches; C hidden size, H query heads, G key/value heads, D head dim, F mlp size,
# V vocabulary, L layers, E experts, k experts of a token; t, c, d, p, e the sizes of the axes tp, cp, dp, pp, ep; v chunks of a stage
from __future__ import annotations

from dataclasses import dataclass

from lm.planning import Cluster, Model, Plan

WEIGHT_BYTES = 2  # of a parameter: what the products read
OPTIMIZER_BYTES = 12  # its fp32 master and two moments; a gradient has plan.gradient_bytes


# --- given: records --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mesh:
    """All groups of every axis. A group's ranks stand in the order of their coordinate on that axis."""

    world_size: int
    groups: dict[str, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one rank of the fullest stage."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float

    @property
    def states_bytes(self) -> float:
        """What is there whatever the batch."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total_bytes(self) -> float:
        """All five together."""
        return self.states_bytes + self.activations + self.logits


@dataclass(frozen=True)
class Stage:
    """What a pipeline stage holds. The first or the last is the fullest and the slowest, so nobody asks for the others."""

    num_layers: int
    has_embedding: bool
    has_head: bool
    num_in_flight: float  # micro-batches whose activations it holds at once


# --- task mesh -------------------------------------------------------------------------------------------------------
def build_mesh(world_size: int, *, dp: int, tp: int, pp: int, cp: int, ep: int) -> Mesh:
    """Return all groups of the axes tp, cp, dp, pp, ep, and of "dp_cp" and "expert_dp_cp": who averages gradients with whom.

    tp is innermost, then cp, dp, pp; ep are neighbours on dp. ValueError for sizes that are not positive, a world of another size, or an
    ep that does not divide dp.
    """
    raise NotImplementedError("parallel_plan, task mesh: see section 2 of the handout")


# --- task memory -----------------------------------------------------------------------------------------------------
def stages(model: Model, plan: Plan) -> tuple[Stage, ...]:
    """Return the first stage, the second (which stands for all in the middle, if there are any) and the last; one, without a pipeline."""
    raise NotImplementedError("parallel_plan, task memory: see section 3 of the handout")


def rank_parameters(model: Model, plan: Plan, stage: Stage) -> tuple[float, float]:
    """Return the parameters of one rank, before ZeRO: those that all replicas share, and those of its own experts (0 if dense)."""
    raise NotImplementedError("parallel_plan, task memory: see section 3 of the handout")


def layer_activation_bytes(model: Model, plan: Plan) -> float:
    """Return what one rank keeps of one layer and micro-batch for its backward, nothing recomputed: 16-bit, fused attention, no dropout."""
    raise NotImplementedError("parallel_plan, task memory: see section 3 of the handout")


def stage_memory(model: Model, plan: Plan, stage: Stage) -> MemoryEstimate:
    """Return the bytes of one rank of a stage."""
    raise NotImplementedError("parallel_plan, task memory: see section 3 of the handout")


def estimate_memory(model: Model, cluster: Cluster, plan: Plan) -> MemoryEstimate:
    """Return the bytes of the fullest rank."""
    raise NotImplementedError("parallel_plan, task memory: see section 3 of the handout")
