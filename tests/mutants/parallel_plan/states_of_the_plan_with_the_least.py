"""Looks at the states of the plan that needs the least in all: another has fewer, and more activations.

law: parallel_plan.choice.refuses_with_the_reason
says: constraint
"""
    # region solution require_one_that_fits
    memories = [estimate_memory(model, cluster, plan) for plan in candidates]
    if not memories:
        raise NoPlan("shape", None, f"no plan cuts this model and {model.global_batch} sequences into {cluster.num_gpus} equal parts")
    needed = min(memory.total_bytes for memory in memories)
    if needed <= cluster.memory_bytes:
        return
    states = min(memories, key=lambda memory: memory.total_bytes).states_bytes
    constraint: Constraint = "states" if states > cluster.memory_bytes else "activations"
    raise NoPlan(constraint, needed, f"{constraint}: a GPU needs {needed / 1e9:.1f} GB and has {cluster.memory_bytes / 1e9:.1f} GB")
    # endregion
