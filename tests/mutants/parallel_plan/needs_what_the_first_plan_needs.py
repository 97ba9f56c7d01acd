"""Tells the bytes of the first candidate, not of the most frugal.

law: parallel_plan.choice.refuses_with_the_reason
says: least
"""
    # region solution require_one_that_fits
    memories = [estimate_memory(model, cluster, plan) for plan in candidates]
    if not memories:
        raise NoPlan("shape", None, f"no plan cuts this model and {model.global_batch} sequences into {cluster.num_gpus} equal parts")
    needed = min(memory.total_bytes for memory in memories)
    if needed <= cluster.memory_bytes:
        return
    states = min(memory.states_bytes for memory in memories)
    constraint: Constraint = "states" if states > cluster.memory_bytes else "activations"
    raise NoPlan(constraint, memories[0].total_bytes, f"{constraint}: a GPU needs {needed / 1e9:.1f} GB and has {cluster.memory_bytes / 1e9:.1f} GB")
    # endregion
