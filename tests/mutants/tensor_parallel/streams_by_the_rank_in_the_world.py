"""Numbers the streams by the rank in the world instead of that in the group.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: group
"""
# region solution rank_random_init
    shared = random_states()
    torch.manual_seed((seed * 2**20 + dist.get_rank() + 1) % 2**63)
    self.states = random_states()
    restore_random_states(shared)
# endregion
