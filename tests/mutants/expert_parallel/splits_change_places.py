"""Gives the input's splits where the output's belong.

law: expert_parallel.exchange.rows_reach_their_rank
says: Split
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x.contiguous(), ctx.sent, ctx.received, group=group)
        return arrived
        # endregion
