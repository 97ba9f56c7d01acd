"""Seeds by seed + rank: rank 1 of seed 0 draws what rank 0 of seed 1 draws.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: seed
"""
# region solution rank_random_init
    shared = random_states()
    torch.manual_seed(seed + dist.get_rank(group))
    self.states = random_states()
    restore_random_states(shared)
# endregion
