"""Keeps all experts on each rank.

law: parallel_plan.memory.parameters_of_a_rank
says: ep did not cut
"""
    # region solution rank_parameters
    is_shared_table = stage.has_embedding and stage.has_head and model.tied
    tables = stage.has_embedding * model.embedding_parameters + (stage.has_head and not is_shared_table) * model.head_parameters
    if model.num_experts == 1:
        return (stage.num_layers * model.layer_parameters + tables) / plan.tp, 0.0
    shared = stage.num_layers * model.shared_parameters + tables
    experts = stage.num_layers * model.num_experts * model.expert_parameters
    return shared / plan.tp, experts / plan.tp
    # endregion
