"""Adds the time of the bytes to that of the FLOPs.

law: parallel_plan.compute.products_obey_the_roofline
says: product
"""
    # region solution product_s
    num_bytes = 2 * (rows * inner + inner * columns + rows * columns)
    return 2 * rows * inner * columns / cluster.flops_per_s + num_bytes / cluster.memory_bytes_per_s
    # endregion
