"""Takes f for the identity both ways, so each rank has the gradient of its own use of x only.

law: tensor_parallel.functions.copy_and_reduce_are_conjugate
says: gradient
"""
# region solution copy_backward
    return gradient, None
# endregion
