"""Knows FLOPs only.

law: parallel_plan.compute.products_obey_the_roofline
says: FLOPs
"""
    # region solution product_s
    return 2 * rows * inner * columns / cluster.flops_per_s
    # endregion
