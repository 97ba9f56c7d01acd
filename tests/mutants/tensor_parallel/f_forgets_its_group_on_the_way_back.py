"""Takes x in from the group and sums its gradient over all ranks.

law: tensor_parallel.functions.subgroups_use_their_own_ranks
says: not over its group
"""
# region solution copy_forward
    return x.view_as(x)
# endregion
# region solution copy_backward
    return summed(gradient, None), None
# endregion
