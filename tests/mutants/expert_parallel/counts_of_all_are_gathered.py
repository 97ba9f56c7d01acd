"""Gathers the counts of all ranks for all experts and looks at its own columns.

law: expert_parallel.dispatch.sends_the_kept_rows_only
says: all_to_all_single
"""
    # region solution exchange_counts
    world_size, rank = dist.get_world_size(group), dist.get_rank(group)
    everything = [torch.empty_like(num_rows_E) for _ in range(world_size)]
    dist.all_gather(everything, num_rows_E.contiguous(), group=group)
    return torch.stack(everything).chunk(world_size, 1)[rank]
    # endregion
