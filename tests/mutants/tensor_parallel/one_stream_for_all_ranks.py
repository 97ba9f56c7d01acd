"""Seeds the stream of what is cut by the seed alone.

law: tensor_parallel.randomness.streams_are_the_ranks_own
says: rank
"""
# region solution rank_random_init
    shared = random_states()
    torch.manual_seed(seed)
    self.states = random_states()
    restore_random_states(shared)
# endregion
