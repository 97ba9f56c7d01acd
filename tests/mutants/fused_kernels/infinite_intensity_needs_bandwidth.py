"""Multiplies an infinite intensity by the bandwidth as well: without bandwidth that is NaN and not the peak.

law: fused_kernels.roofline.the_lower_of_two_roofs
says: no bandwidth
"""
    # region solution attainable_flops
    return min(intensity * memory_bytes_per_s, peak_flops_per_s)
    # endregion
