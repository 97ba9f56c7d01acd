"""What one rank holds at the fullest moment of a step: states, activations in flight, and what is made for a moment.

The terms are memory_accounting's: states per parameter as in mixed precision, activations as autograd was seen to keep them (with the
dropout masks of Korthikanti et al. 2022, table 2, where a model drops).
"""

# N tokens on this rank, C hidden size
from __future__ import annotations

from grader.simulator.pipelines import depth_in_chunks, layers_of
from grader.simulator.records import Model, Plan

WEIGHT_BYTES, OPTIMIZER_BYTES = 2, 12  # of a parameter: 16-bit weight; fp32 master and two moments
FRESH_GRADIENT_BYTES = 2  # before it is reduced
LOGIT_BYTES = 8  # fp32, and their gradient of the same size
# Of the largest matrix, beside the sum to which its gradient is added: autograd's own gradient; nothing where the product itself adds, in
# fp32; where both are kept, the 16-bit one cast for the addition.
SUMMING_BYTES = {2: 2, 4: 0, 6: 4}


def memory_bytes(model: Model, plan: Plan) -> float:
    """Bytes on the fullest rank. Of the stages only the first two and the last can be it: the first keep most micro-batches."""
    return max(rank_bytes(model, plan, rank) for rank in {0, min(1, plan.pp - 1), plan.pp - 1})


def rank_bytes(model: Model, plan: Plan, rank: int) -> float:
    """Bytes on one pipeline rank."""
    return _states(model, plan, rank) + _activations(model, plan, rank) + _for_a_moment(model, plan, rank)


def local_parameters(model: Model, plan: Plan, rank: int) -> tuple[float, float]:
    """Numbers that this pipeline rank's tensor-parallel ranks each have: outside the experts, and of experts."""
    num_layers = layers_of(model, plan, rank)
    shared = num_layers * model.shared_parameters
    experts = num_layers * model.num_experts * model.expert_parameters
    if model.num_experts == 1:
        shared, experts = shared + experts, 0
    if rank == 0:
        shared += model.embedding_parameters
    if rank == plan.pp - 1 and (plan.pp > 1 or not model.tied):  # a tied head on another rank is a second copy
        shared += model.head_parameters
    return shared / plan.tp, experts / (plan.tp * plan.ep)


def _states(model: Model, plan: Plan, rank: int) -> float:
    shared, experts = local_parameters(model, plan, rank)
    return shared * _state_bytes(plan, plan.dp * plan.cp) + experts * _state_bytes(plan, plan.dp * plan.cp // plan.ep)


def _state_bytes(plan: Plan, num_replicas: int) -> float:
    """Of one parameter, under ZeRO among `num_replicas`."""
    divided = [num_replicas if plan.zero_stage >= stage else 1 for stage in (1, 2, 3)]
    return OPTIMIZER_BYTES / divided[0] + plan.gradient_bytes / divided[1] + WEIGHT_BYTES / divided[2]


def layer_activation_bytes(model: Model, plan: Plan) -> float:
    """What one layer keeps of one micro-batch, with nothing recomputed."""
    return _kept(model, plan, with_core=True)


def _kept(model: Model, plan: Plan, with_core: bool) -> float:
    N, C = plan.micro_batch * model.sequence / plan.cp, model.hidden_size
    # The inputs of both norms, of qkv and of the first MLP matrix, which every tensor-parallel rank has whole; two dropout masks.
    outside = 8 * C + (2 * C if model.dropout else 0)
    # Its own heads and columns: q, k, v, rotated copies of two, the projection's input; the MLP's.
    handed_over = model.qkv_size + ((model.num_heads + model.num_kv_heads) * model.head_dim if model.rotary else 0)
    inside = 2 * (handed_over + C + (4 if model.gated else 2) * model.mlp_size * model.top_k)
    if with_core and model.attention == "dense":
        inside += (5 if model.dropout else 2) * model.num_heads * model.sequence
    elif with_core:
        inside += 4 * model.num_heads  # the log-sum-exp
    return N * (outside / (plan.tp if plan.sequence_parallel else 1) + inside / plan.tp)


def _activations(model: Model, plan: Plan, rank: int) -> float:
    N, C = plan.micro_batch * model.sequence / plan.cp, model.hidden_size
    # Under full recomputation a layer keeps its input, whole on every tensor-parallel rank.
    per_layer = 2 * N * C if plan.recompute == "full" else _kept(model, plan, with_core=plan.recompute == "none")
    in_flight = depth_in_chunks(plan, rank)
    kept = in_flight / plan.chunks * layers_of(model, plan, rank) * per_layer
    if rank == 0 and model.dropout:
        kept += N * C * min(in_flight, plan.num_micro_batches) / (plan.tp if plan.sequence_parallel else 1)
    return kept


def _for_a_moment(model: Model, plan: Plan, rank: int) -> float:
    """What the peak adds to what is kept: the layer being recomputed or the largest gradient, the logits, and under ZeRO 3 weights gathered
    for two layers and one's gradient.
    """
    N, C = plan.micro_batch * model.sequence / plan.cp, model.hidden_size
    made = 0.0
    if plan.recompute == "full":
        made += _kept(model, plan, with_core=True)
    elif plan.recompute == "selective":
        made += _kept(model, plan, with_core=True) - _kept(model, plan, with_core=False)
    made = max(made, _summing(model, plan, rank))
    if rank == plan.pp - 1:
        made += N * (LOGIT_BYTES * model.vocab_size + 4 * C) / plan.tp
    if plan.zero_stage == 3:
        local = (model.shared_parameters + model.num_experts * model.expert_parameters / plan.ep) / plan.tp
        made += (2 * WEIGHT_BYTES + FRESH_GRADIENT_BYTES) * local
    return made


def _summing(model: Model, plan: Plan, rank: int) -> float:
    """The largest matrix's gradient between its making and its adding: the table's, where there is one."""
    if plan.num_micro_batches == 1 or plan.zero_stage == 3:
        return 0.0
    has_table = rank in (0, plan.pp - 1)
    matrix = model.hidden_size * max(model.mlp_size, model.vocab_size if has_table else 0) / plan.tp
    return SUMMING_BYTES[plan.gradient_bytes] * matrix
