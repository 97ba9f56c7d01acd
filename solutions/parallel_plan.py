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
    # region solution build_mesh
    sizes = {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep}
    for axis, size in sizes.items():
        if size < 1:
            raise ValueError(f"{axis} must be at least 1, not {size}")
    if world_size != tp * cp * dp * pp:
        raise ValueError(f"tp x cp x dp x pp = {tp * cp * dp * pp} ranks are not the {world_size} of the world")
    if dp % ep:
        raise ValueError(f"ep = {ep} does not divide dp = {dp}: experts are spread over the data-parallel ranks")

    # A rank's coordinates are the digits of its number, tp the last: what talks most sits closest. dp has two digits, the position within
    # the expert group being the inner one.
    def coordinates(rank: int) -> dict[str, int]:
        place = {}
        for digit, size in (("tp", tp), ("cp", cp), ("ep", ep), ("outer_dp", dp // ep), ("pp", pp)):
            rank, place[digit] = divmod(rank, size)
        return place

    # A group holds the ranks that differ in its own digits only.
    own_digits = {
        "tp": {"tp"},
        "cp": {"cp"},
        "dp": {"ep", "outer_dp"},
        "pp": {"pp"},
        "ep": {"ep"},
        # Ranks of a cp group hold the same weights and see other tokens, as in a dp group: gradients are averaged over both.
        "dp_cp": {"cp", "ep", "outer_dp"},
        # An expert's weights are held by those ranks only that stand at the same place of their ep groups.
        "expert_dp_cp": {"cp", "outer_dp"},
    }
    groups = {}
    for axis, own in own_digits.items():
        members: dict[tuple[int, ...], list[int]] = {}
        for rank in range(world_size):  # in ascending order, which is the order of the coordinates
            shared = tuple(position for digit, position in coordinates(rank).items() if digit not in own)
            members.setdefault(shared, []).append(rank)
        groups[axis] = tuple(tuple(ranks) for ranks in members.values())
    return Mesh(world_size, groups)
    # endregion


# --- task memory -----------------------------------------------------------------------------------------------------
def stages(model: Model, plan: Plan) -> tuple[Stage, ...]:
    """Return the first stage, the second (which stands for all in the middle, if there are any) and the last; one, without a pipeline."""
    # region solution stages
    L, p, v, M = model.num_layers, plan.pp, plan.chunks, plan.num_micro_batches
    if p == 1:
        return (Stage(L, has_embedding=True, has_head=True, num_in_flight=1),)

    def in_flight(rank: int) -> float:
        if v == 1:
            return float(min(M, p - rank))  # one forward more than the next stage before the first backward
        # Interleaved, in chunks of 1/v stage: a warm-up of 2 (p - 1 - rank) + (v - 1) p, and the one that computes.
        return min(M * v, 2 * (p - 1 - rank) + (v - 1) * p + 1) / v

    # Layers that don't divide go to the middle, as the ends have embedding and head; the first stage takes one when the middle is full.
    least, rest = divmod(L, p)
    first = Stage(least + (rest == p - 1), True, False, in_flight(0))
    middle = Stage(least + (rest > 0), False, False, in_flight(1))
    last = Stage(least, False, True, in_flight(p - 1))
    return (first, middle, last) if p > 2 else (first, last)
    # endregion


def rank_parameters(model: Model, plan: Plan, stage: Stage) -> tuple[float, float]:
    """Return the parameters of one rank, before ZeRO: those that all replicas share, and those of its own experts (0 if dense)."""
    # region solution rank_parameters
    # A tied head is the embedding where both are on one stage. At the two ends of a pipeline there are two copies.
    is_shared_table = stage.has_embedding and stage.has_head and model.tied
    tables = stage.has_embedding * model.embedding_parameters + (stage.has_head and not is_shared_table) * model.head_parameters
    if model.num_experts == 1:
        return (stage.num_layers * model.layer_parameters + tables) / plan.tp, 0.0
    shared = stage.num_layers * model.shared_parameters + tables
    experts = stage.num_layers * model.num_experts * model.expert_parameters
    return shared / plan.tp, experts / (plan.tp * plan.ep)
    # endregion


def layer_activation_bytes(model: Model, plan: Plan) -> float:
    """Return what one rank keeps of one layer and micro-batch for its backward, nothing recomputed: 16-bit, fused attention, no dropout."""
    # region solution layer_activation_bytes
    C, F, H, k = model.hidden_size, model.mlp_size, model.num_heads, model.top_k
    # The inputs of norm, qkv, out, norm, up; then q, k, v, and what rotation makes of q and k.
    attention = 5 * C + model.qkv_size + ((H + model.num_kv_heads) * model.head_dim if model.rotary else 0)
    # Each of a token's experts keeps what an MLP keeps.
    mlp = k * (4 if model.gated else 2) * F
    # 16 bits a number, and attention's log-sum-exp: one in fp32 for each head.
    per_token = 2 * (attention + mlp) + 4 * H
    # Sequence parallelism goes with tp, so that tp cuts all of it; cp cuts the tokens.
    return plan.micro_batch * model.sequence * per_token / (plan.tp * plan.cp)
    # endregion


def stage_memory(model: Model, plan: Plan, stage: Stage) -> MemoryEstimate:
    """Return the bytes of one rank of a stage."""
    # region solution stage_memory
    shared, experts = rank_parameters(model, plan, stage)
    # cp ranks hold the same weights, so ZeRO shards over dp and cp together; an expert's over those that hold it.
    replicas = plan.dp * plan.cp

    def held(bytes_per_parameter: int, is_sharded: bool) -> float:
        if is_sharded:
            return bytes_per_parameter * (shared / replicas + experts / (replicas / plan.ep))
        return bytes_per_parameter * (shared + experts)

    weights = held(WEIGHT_BYTES, plan.zero_stage >= 3)
    gradients = held(plan.gradient_bytes, plan.zero_stage >= 2)
    if plan.zero_stage == 3:
        # The layer that computes is whole, the next is being gathered, and one layer's 16-bit gradient waits to be scattered.
        layer = (model.shared_parameters + model.num_experts * model.expert_parameters / plan.ep) / plan.tp
        weights += 2 * WEIGHT_BYTES * layer
        gradients += 2 * layer

    tokens = plan.micro_batch * model.sequence / plan.cp
    kept = layer_activation_bytes(model, plan)
    if plan.recompute == "full":
        # Only each layer's input waits, whole on every tp rank; one layer at a time is there in full, while its backward runs.
        activations = stage.num_in_flight * stage.num_layers * 2 * tokens * model.hidden_size + kept
    else:
        activations = stage.num_in_flight * stage.num_layers * kept
    # The logits and their gradient in fp32, cut by vocabulary; the inputs of the final norm and of the head.
    logits = tokens * (8 * model.vocab_size + 4 * model.hidden_size) / plan.tp if stage.has_head else 0.0
    return MemoryEstimate(weights, gradients, held(OPTIMIZER_BYTES, plan.zero_stage >= 1), activations, logits)
    # endregion


def estimate_memory(model: Model, cluster: Cluster, plan: Plan) -> MemoryEstimate:
    """Return the bytes of the fullest rank."""
    # region solution estimate_memory
    # The first stage has most in flight, the last has the logits, and one in the middle may have a layer more.
    return max((stage_memory(model, plan, stage) for stage in stages(model, plan)), key=lambda memory: memory.total_bytes)
    # endregion
