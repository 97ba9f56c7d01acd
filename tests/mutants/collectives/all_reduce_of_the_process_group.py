"""Calls the allreduce method of the process group itself.

law: collectives.ring.uses_point_to_point_only
says: collective
"""
# region solution ring_all_reduce
    backend = dist.group.WORLD if group is None else group
    total = tensor.flatten().clone()
    backend.allreduce([total], dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM).wait()
    if op == "mean":
        divide(total, dist.get_world_size(group))
    tensor.copy_(total.view(tensor.shape))
# endregion
