"""Calls the library's all_reduce under a name that is put together at run time.

law: collectives.ring.uses_point_to_point_only
says: all_reduce
"""
# region solution ring_all_reduce
    reduction = dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM
    total = tensor.flatten().clone()
    getattr(dist, "all" + "_" + "reduce")(total, op=reduction, group=group)
    if op == "mean":
        divide(total, dist.get_world_size(group))
    tensor.copy_(total.view(tensor.shape))
# endregion
