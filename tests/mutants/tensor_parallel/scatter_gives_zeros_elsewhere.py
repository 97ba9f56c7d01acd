"""The gradient of scatter is this rank's part with zeros around it.

law: tensor_parallel.functions.scatter_and_gather_are_conjugate
says: scatter
"""
# region solution scatter_backward
        whole = gradient.new_zeros((*gradient.shape[:-1], gradient.shape[-1] * dist.get_world_size(ctx.group)))
        own_part(whole, -1, ctx.group).copy_(gradient)
        return whole, None
# endregion
