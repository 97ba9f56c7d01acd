"""Begins the exchange asynchronously and returns the rows before they have arrived.

law: expert_parallel.exchange.rows_reach_their_rank
says: waited for
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_zeros((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x.contiguous(), ctx.received, ctx.sent, group=group, async_op=True)
        return arrived
        # endregion
