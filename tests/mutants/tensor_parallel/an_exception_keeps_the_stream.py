"""Restores the shared states after the block, but not when an exception leaves it.

law: tensor_parallel.randomness.shared_stream_is_untouched
says: exception
"""
# region solution rank_random_fork
    shared = random_states()
    restore_random_states(self.states)
    yield
    self.states = random_states()
    restore_random_states(shared)
# endregion
