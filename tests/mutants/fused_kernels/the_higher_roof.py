"""Takes the larger of peak and bandwidth times intensity.

law: fused_kernels.roofline.the_lower_of_two_roofs
says: higher
"""
    # region solution attainable_flops
    if intensity == float("inf"):  # inf · 0 would be NaN on a machine without memory
        return peak_flops_per_s
    return max(peak_flops_per_s, intensity * memory_bytes_per_s)
    # endregion
