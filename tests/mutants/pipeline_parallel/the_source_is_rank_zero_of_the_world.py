"""Broadcasts from src=0, which counts in the world: the owners' group needn't have that rank.

law: pipeline_parallel.tied.copies_start_equal
says: owners
"""
    # region solution broadcast_tied_weight
    whole = weight.detach().contiguous()
    dist.broadcast(whole, group=group, src=0)
    if not weight.is_contiguous():
        weight.detach().copy_(whole)
    # endregion
