"""Counts a multiply-add as one operation.

law: fused_kernels.roofline.matmul_intensity_counts_each_matrix_once
says: multiply-add
"""
    # region solution matmul_intensity
    num_elements = m * k + k * n + m * n
    return arithmetic_intensity(batch * m * k * n, batch * num_elements * itemsize)
    # endregion
