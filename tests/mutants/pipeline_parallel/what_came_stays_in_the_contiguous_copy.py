"""Receives into a contiguous copy and never writes it back: a transposed weight stays as it was.

law: pipeline_parallel.tied.copies_start_equal
says: weight
"""
    # region solution broadcast_tied_weight
    dist.broadcast(weight.detach().contiguous(), group=group, group_src=0)
    # endregion
