"""Lets all products of the batch share the (k, n) matrix, so that it travels once in all.

law: fused_kernels.roofline.matmul_intensity_counts_each_matrix_once
says: shares one (k, n) matrix
"""
    # region solution matmul_intensity
    num_elements = batch * m * k + k * n + batch * m * n
    return arithmetic_intensity(2 * batch * m * k * n, num_elements * itemsize)
    # endregion
