"""Works on a deep copy, so that the block's own parameters get no gradient.

law: fused_kernels.compile.gradients_are_the_same
says: gradient
"""
    # region solution compile_ready
    import copy

    return ReadyBlock(copy.deepcopy(block))
    # endregion
