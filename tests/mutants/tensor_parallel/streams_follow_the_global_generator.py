"""Mixes the global generator's seed into the stream, so that it isn't the same in every run.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: stream
"""
# region solution rank_random_init
    shared = random_states()
    torch.manual_seed((torch.initial_seed() + seed * 2**20 + dist.get_rank(group)) % 2**63)
    self.states = random_states()
    restore_random_states(shared)
# endregion
