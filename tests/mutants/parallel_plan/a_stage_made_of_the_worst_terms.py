"""Takes the largest of each term over the stages: a sum that no GPU holds.

law: parallel_plan.memory.fullest_stage_decides
says: stage
"""
    # region solution estimate_memory
    memories = [stage_memory(model, plan, stage) for stage in stages(model, plan)]
    terms = ("weights", "gradients", "optimizer", "activations", "logits")
    return MemoryEstimate(**{term: max(getattr(memory, term) for memory in memories) for term in terms})
    # endregion
