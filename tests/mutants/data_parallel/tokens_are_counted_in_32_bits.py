"""Counts tokens in an int32.

law: data_parallel.accumulation.counts_are_exact
says: billions of tokens
"""
    # region solution mean_loss_scale
    total = torch.tensor(num_tokens, dtype=torch.int32, device=device)
    dist.all_reduce(total, group=group)
    return dist.get_world_size(group) / int(total.item())
    # endregion
