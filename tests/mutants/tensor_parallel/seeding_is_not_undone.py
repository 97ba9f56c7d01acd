"""Leaves the global generator seeded by the constructor.

law: tensor_parallel.randomness.shared_stream_is_untouched
says: global
"""
# region solution rank_random_init
    torch.manual_seed((seed * 2**20 + dist.get_rank(group) + 1) % 2**63)
    self.states = random_states()
# endregion
