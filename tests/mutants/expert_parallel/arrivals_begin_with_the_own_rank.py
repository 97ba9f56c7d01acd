"""Returns what arrived in the order of a ring: from itself first, then from the next ranks.

law: expert_parallel.exchange.rows_reach_their_rank
says: order of a ring
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(arrived, x.contiguous(), ctx.received, ctx.sent, group=group)
        parts, rank = arrived.split(ctx.received), dist.get_rank(group)
        return torch.cat(parts[rank:] + parts[:rank])
        # endregion
