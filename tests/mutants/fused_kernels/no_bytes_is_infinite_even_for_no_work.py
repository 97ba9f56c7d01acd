"""Gives an infinite intensity wherever no byte moves, also to work without operations.

law: fused_kernels.roofline.the_lower_of_two_roofs
says: without any work
"""
    # region solution arithmetic_intensity
    return num_flops / num_bytes if num_bytes else float("inf")
    # endregion
