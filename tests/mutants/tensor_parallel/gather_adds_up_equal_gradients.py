"""Reduce-scatters in the backward of gather_from, where all ranks have the same gradient: N times too large.

law: tensor_parallel.functions.scatter_and_gather_are_conjugate
says: gradient
"""
# region solution gather_backward
    return summed_part(gradient, gradient.dim() - 1, ctx.group), None
# endregion
