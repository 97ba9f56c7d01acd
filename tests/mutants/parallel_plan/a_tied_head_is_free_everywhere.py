"""Gives the last stage of a pipeline no copy of a tied table.

law: parallel_plan.memory.parameters_of_a_rank
says: copy
"""
    # region solution rank_parameters
    is_shared_table = model.tied
    tables = stage.has_embedding * model.embedding_parameters + (stage.has_head and not is_shared_table) * model.head_parameters
    if model.num_experts == 1:
        return (stage.num_layers * model.layer_parameters + tables) / plan.tp, 0.0
    shared = stage.num_layers * model.shared_parameters + tables
    experts = stage.num_layers * model.num_experts * model.expert_parameters
    return shared / plan.tp, experts / (plan.tp * plan.ep)
    # endregion
