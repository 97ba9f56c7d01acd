"""Hands x over with whatever strides it has.

law: expert_parallel.exchange.any_layout_and_dtype
says: contiguous
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x, ctx.received, ctx.sent, group=group)
        return arrived
        # endregion
