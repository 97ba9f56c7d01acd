"""Forgets the group in forward.

law: expert_parallel.exchange.subgroups_use_their_own_ranks
says: `group` handed to every call
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x.contiguous(), ctx.received, ctx.sent)
        return arrived
        # endregion
