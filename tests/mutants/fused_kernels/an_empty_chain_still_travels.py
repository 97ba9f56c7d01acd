"""Lets a fused chain of no operations still read its input and write its result.

law: fused_kernels.roofline.fusion_saves_what_lay_between
says: chain without operations
"""
    # region solution chain_bytes
    travels = 2 if fused else 2 * len(others)
    return (sum(others) + travels) * num_elements * itemsize
    # endregion
