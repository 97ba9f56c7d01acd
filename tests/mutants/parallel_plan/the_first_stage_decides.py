"""Looks at the first stage only.

law: parallel_plan.memory.fullest_stage_decides
says: first stage
"""
    # region solution estimate_memory
    return stage_memory(model, plan, stages(model, plan)[0])
    # endregion
