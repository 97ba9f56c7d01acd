"""Restores what the global generator was when the stream began: everything after a fork repeats itself.

law: tensor_parallel.randomness.shared_stream_is_untouched
says: fork
"""
# region solution rank_random_init
    self.shared = random_states()
    torch.manual_seed((seed * 2**20 + dist.get_rank(group) + 1) % 2**63)
    self.states = random_states()
    restore_random_states(self.shared)
# endregion
# region solution rank_random_fork
    restore_random_states(self.states)
    try:
        yield
    finally:
        self.states = random_states()
        restore_random_states(self.shared)
# endregion
