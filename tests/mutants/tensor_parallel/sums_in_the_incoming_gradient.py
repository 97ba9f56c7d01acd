"""All-reduces the incoming gradient in place, which another branch may still read.

law: tensor_parallel.functions.inputs_stay_as_they_were
says: gradient
"""
# region solution copy_backward
    gradient = gradient.contiguous()
    dist.all_reduce(gradient, group=ctx.group)
    return gradient, None
# endregion
