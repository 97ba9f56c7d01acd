"""Multiplies the gradient by the number of ranks, as if each had a loss of its own.

law: context_parallel.sequence.loss_gradients_are_the_parts_of_the_whole
says: gradient
"""
        # region solution sum_forward
        ctx.num_ranks = dist.get_world_size(group)
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total
        # endregion
        # region solution sum_backward
        return gradient * ctx.num_ranks, None
        # endregion
