"""Numbers the streams seed · N + rank, which another N gives to another pair.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: seed
"""
# region solution rank_random_init
    shared = random_states()
    torch.manual_seed(seed * dist.get_world_size(group) + dist.get_rank(group))
    self.states = random_states()
    restore_random_states(shared)
# endregion
