"""Takes the minimum over no candidates where the shape allows none, and Python complains instead.

law: parallel_plan.choice.refuses_with_the_reason
says: shape
"""
    # region solution require_one_that_fits
    memories = [estimate_memory(model, cluster, plan) for plan in candidates]
    needed = min(memory.total_bytes for memory in memories)
    if needed <= cluster.memory_bytes:
        return
    states = min(memory.states_bytes for memory in memories)
    constraint: Constraint = "states" if states > cluster.memory_bytes else "activations"
    raise NoPlan(constraint, needed, f"{constraint}: a GPU needs {needed / 1e9:.1f} GB and has {cluster.memory_bytes / 1e9:.1f} GB")
    # endregion
