"""Gathers everybody's rows on every rank and picks its own.

law: expert_parallel.exchange.carries_each_row_once
says: all_to_all_single
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        arrived = x.new_empty((sum(received), *x.shape[1:]))
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        splits = [None] * world_size
        dist.all_gather_object(splits, ctx.sent, group=group)
        most = max(map(sum, splits))
        padded = torch.cat((x, x.new_zeros((most - len(x), *x.shape[1:]))))
        gathered = [torch.empty_like(padded) for _ in range(world_size)]
        dist.all_gather(gathered, padded, group=group)
        parts = [rows[sum(split[:rank]) : sum(split[: rank + 1])] for rows, split in zip(gathered, splits, strict=True)]
        arrived = torch.cat(parts)
        return arrived
        # endregion
