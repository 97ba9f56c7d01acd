"""Counts in int64 and divides as tensors, which torch does in float32.

law: data_parallel.accumulation.counts_are_exact
says: exact
"""
# region solution mean_loss_scale
    total = torch.tensor(num_tokens, dtype=torch.int64, device=device)
    dist.all_reduce(total, group=group)
    return float(dist.get_world_size(group) / total)
# endregion
