"""Averages the loss's gradient over the ranks backward: the same number, and a needless message.

law: context_parallel.sequence.logits_stay_at_home
says: backward
"""
        # region solution sum_forward
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total
        # endregion
        # region solution sum_backward
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient / dist.get_world_size(ctx.group), None
        # endregion
