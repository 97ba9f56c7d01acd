"""Receives into the memory of the incoming gradient where as many rows come home as leave.

law: expert_parallel.exchange.any_layout_and_dtype
says: written
"""
        # region solution exchange_backward
        if sum(ctx.sent) == sum(ctx.received) and gradient.is_contiguous():
            home, leaving = gradient, gradient.clone()
        else:
            home, leaving = gradient.new_empty((sum(ctx.sent), *gradient.shape[1:])), gradient.contiguous()
        dist.all_to_all_single(home, leaving, ctx.sent, ctx.received, group=ctx.group)
        return home, None, None, None
        # endregion
