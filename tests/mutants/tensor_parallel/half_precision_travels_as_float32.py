"""Sums 16-bit numbers in float32, which is exact and carries twice the bytes.

law: tensor_parallel.functions.any_layout_and_dtype
says: float32
"""
# region solution summed
    total = x.to(torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype, copy=True).contiguous()
    dist.all_reduce(total, group=group)
    return total.to(x.dtype)
# endregion
