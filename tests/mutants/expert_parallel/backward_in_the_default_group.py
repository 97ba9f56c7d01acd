"""Forgets the group on the way back: gradients go through the group of all ranks.

law: expert_parallel.exchange.subgroups_use_their_own_ranks
says: `group` handed to every call
"""
        # region solution exchange_backward
        home = gradient.new_empty((sum(ctx.sent), *gradient.shape[1:]))
        dist.all_to_all_single(home, gradient.contiguous(), ctx.sent, ctx.received)
        return home, None, None, None
        # endregion
