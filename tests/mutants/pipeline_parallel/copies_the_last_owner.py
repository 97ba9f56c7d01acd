"""The source is the last owner.

law: pipeline_parallel.tied.copies_start_equal
says: rank 2
"""
# region solution broadcast_tied_weight
whole = weight.detach().contiguous()
dist.broadcast(whole, group=group, group_src=dist.get_world_size(group) - 1)
if not weight.is_contiguous():  # then `whole` is a copy
    weight.detach().copy_(whole)
# endregion
