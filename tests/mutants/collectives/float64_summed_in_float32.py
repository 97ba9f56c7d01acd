"""Brings float64 down to float32, sums there and goes back.

law: collectives.ring.all_reduce_gives_every_rank_the_reduction
says: float64
"""
# region solution ring_all_reduce
    work = tensor.float() if tensor.dtype == torch.float64 else tensor
    chunk = ring_reduce_scatter(work, op, group)
    whole = ring_all_gather(chunk, tensor.numel(), group)
    tensor.copy_(whole.view(tensor.shape))
# endregion
